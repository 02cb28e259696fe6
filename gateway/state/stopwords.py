"""Words that carry a question, not its topic. A query of nothing else keeps them."""

_ENGLISH = """
a about after again all also am an and any anyone anything are as at be because been before being both
but by can could did do does doing done don't down during each either else ever every few for from
further get gets getting give given go goes going gone got had has have having he her here hers herself
him himself his how i if in into is isn't it its itself just let me mention mentioned might mine more
most much must my myself no nor not now of off on once one only or other our ours ourselves out over own
please remember said same say says she should so some such tell than that the their theirs them
themselves then there these they thing things this those through to told too under until up us very was
we were what what's when where which while who whom whose why will with would you your yours yourself
"""

_CHINESE = """
的 地 得 了 着 过 吗 呢 吧 啊 呀 嘛 哦 哪 哪些 哪个 哪里 哪儿 什么 怎么 怎样
怎么样 为什么 多少 几 谁 何 何时 是 不是 是否 有 没有 没 不 在 和 与 及 或 跟 同
也 都 就 还 又 再 很 最 更 太 把 被 给 对 对于 关于 向 从 到 让 使 用 以 为
为了 因为 所以 但 但是 而 而且 如果 那么 那 那个 那些 这 这个 这些 这样 那样 我 你
您 他 她 它 我们 你们 他们 她们 自己 咱们 一 一个 一些 一下 一种 个 些 种 次 曾
曾经 已经 正在 之前 以前 上次 当时 时候 记得 还记得 记不记得 告诉 告诉我 说 说过 提到
提过 提 讲 问 会 能 可以 可 要 想 应该 请 请问 其 名字 叫 哪部 哪本 去 来 做
"""

ENGLISH = frozenset(_ENGLISH.split())
CHINESE = frozenset(_CHINESE.split())
WORDS = ENGLISH | CHINESE
