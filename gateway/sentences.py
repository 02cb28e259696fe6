"""Every sentence the house itself says to a person, in English and Simplified Chinese."""

from datetime import date

from trunkline.agent.model import FailureKind
from trunkline.gateway.sentences_compaction import COMPACTION_SENTENCES
from trunkline.gateway.sentences_files import FILE_SENTENCES
from trunkline.gateway.sentences_help import HELP_SENTENCES
from trunkline.gateway.sentences_memory import MEMORY_SENTENCES
from trunkline.gateway.sentences_people import PEOPLE_HELP, PEOPLE_SENTENCES
from trunkline.gateway.sentences_providers import PROVIDER_SENTENCES
from trunkline.gateway.sentences_reminders import REMINDER_HELP, REMINDER_SENTENCES
from trunkline.gateway.sentences_skills import SKILL_SENTENCES
from trunkline.gateway.sentences_surfaces import SURFACE_SENTENCES
from trunkline.gateway.sentences_turns import TURN_HELP, TURN_SENTENCES

CATALOGUE: dict[str, tuple[str, str]] = {
    # Access
    "pair": (
        "Hello! I only talk to people my owner knows. Your code is {code}. Pass it to the owner, who can let "
        "you in with `trunkline people approve {code}` or `/approve {code}`. It is good for one hour.",
        "你好！我只和主人认识的人聊天。你的验证码是 {code}。请把它交给主人，"
        "主人用 `trunkline people approve {code}` 或 `/approve {code}` 就能让你加入。一小时内有效。",
    ),
    "approved_you": (
        "You're in. Write to me whenever you like; /help shows what I can do.",
        "你已经通过了，随时给我发消息吧；/help 会列出我能做的事。",
    ),
    "approved": ("{name} may talk to me now.", "{name} 现在可以和我聊天了。"),
    "code_wrong": (
        "That code isn't valid: it may be mistyped, used or older than an hour. Ask for a new one.",
        "这个验证码无效：可能输错了、已经用过，或超过一小时了。请重新要一个。",
    ),
    "code_locked": (
        "Too many wrong codes. Try again in an hour.",
        "输错的次数太多了，请一小时后再试。",
    ),
    "setup_done": (
        "Welcome, {name}. This account is now yours, and I remember you here as everywhere else.",
        "欢迎，{name}。这个账号现在归你了，我在这里和在别处一样认得你。",
    ),
    "room_found": (
        "I was added to “{title}” on {platform}. I stay silent there until you write `/allow here` in it.",
        "我被拉进了 {platform} 上的“{title}”。在你到那里写下 `/allow here` 之前，我不会说话。",
    ),
    "room_allowed": (
        "From now on I answer here when somebody mentions me or replies to me.",
        "从现在起，有人提到我或回复我时，我就会在这里回答。",
    ),
    "room_allow_where": (
        "Write `/allow here` in the group you mean.",
        "请到要开放的群里写 `/allow here`。",
    ),
    "not_yours": ("Only {role} can do that.", "只有{role}可以这样做。"),
    "private_elsewhere": (
        "That is private: ask me in a direct message.",
        "这是私人内容：请私信我。",
    ),
    # Commands
    "welcome": (
        "Hello {name}, I'm your assistant here and on every other platform you link. Just write to me; "
        "/help lists the commands.",
        "你好 {name}，不管在这里还是你关联的其他平台，我都是你的助手。直接给我写就行；/help 会列出命令。",
    ),
    "nameless": ("there", "朋友"),
    "help": ("What you can type:", "可以输入："),
    "unknown_command": (
        "I don't know /{name}. /help lists what I understand.",
        "我不认识 /{name}。/help 会列出我能听懂的命令。",
    ),
    "new": (
        "A fresh conversation. What I know about you stays.",
        "已开始新的对话。我对你的了解都还在。",
    ),
    "stopped": ("Stopped.", "已停止。"),
    "nothing_to_stop": ("Nothing is running.", "现在没有在运行的回答。"),
    "stop_not_yours": (
        "Only the person I'm answering, an admin or the owner can stop this.",
        "只有我正在回答的人、管理员或主人可以停止。",
    ),
    "status": (
        "Running version {version}. Model: {model}. Platforms: {platforms}. {busy}",
        "版本 {version} 运行中。模型：{model}。平台：{platforms}。{busy}",
    ),
    "status_busy": ("I'm working on an answer here.", "我正在这里写回答。"),
    "status_idle": ("Nothing is waiting here.", "这里没有等待处理的消息。"),
    "whoami": (
        "You are {name} ({role}). Your accounts: {accounts}.",
        "你是 {name}（{role}）。你的账号：{accounts}。",
    ),
    "usage": ("What you used in the last 30 days:", "最近 30 天的用量："),
    "usage_none": ("You used nothing in the last 30 days.", "最近 30 天没有用量。"),
    "usage_line": (
        "- {purpose}: {calls}, {prompt} prompt tokens ({cached} cached), {completion} answer tokens",
        "- {purpose}：{calls}，提示词 {prompt} token（缓存 {cached}），回答 {completion} token",
    ),
    "budget_spent": (
        "You have used today's share of the model. Write again tomorrow.",
        "你今天的模型用量已经用完，请明天再来。",
    ),
    **HELP_SENTENCES,
    **COMPACTION_SENTENCES,
    **MEMORY_SENTENCES,
    **PROVIDER_SENTENCES,
    **REMINDER_SENTENCES,
    **SKILL_SENTENCES,
    **SURFACE_SENTENCES,
    **TURN_SENTENCES,
    **PEOPLE_SENTENCES,
    "sessions_none": ("No conversations yet.", "还没有对话。"),
    "sessions": ("Your latest conversations:", "最近的对话："),
    "sessions_here": ("this one", "当前对话"),
    "sessions_resume": (
        "`/resume 2` goes on with the second one, here.",
        "`/resume 2` 可以在这里继续第二个对话。",
    ),
    "resume_what": (
        "Write which one: `/resume 2` for the second of /sessions, or `/resume` and words of its title.",
        "请写明是哪一个：`/resume 2` 是 /sessions 里的第二个，也可以写标题里的词。",
    ),
    "resume_none": (
        "I find no conversation “{what}” of yours. /sessions lists the latest.",
        "没有找到你的对话“{what}”。/sessions 会列出最近的对话。",
    ),
    "resume_which": ("Several fit. Write more of the title:", "有好几个符合，请把标题写得更完整些："),
    "resume_here": ("We are in that conversation already.", "我们已经在这个对话里了。"),
    "resume_room": (
        "That was said in a group, so it goes on there, where everybody can read along.",
        "那是群里的对话，请到群里继续，那里大家都能看到。",
    ),
    "resumed": (
        "We go on with {session}. I have its last part before me: just write.",
        "接着聊：{session}。最后一部分内容我都看得到，直接写就行。",
    ),
    "title_is": ("This conversation is called “{title}”.", "这个对话的标题是“{title}”。"),
    "title_none": (
        "This conversation has no title yet. `/title words` gives it one.",
        "这个对话还没有标题。用 `/title 文字` 可以起一个。",
    ),
    "title_set": ("This conversation is called “{title}” now.", "这个对话现在叫“{title}”。"),
    "title_nothing": (
        "There is no conversation here that could have a title.",
        "这里没有可以起标题的对话。",
    ),
    "search_degraded": (
        "The search index is incomplete, so there may be more. The owner can mend it with "
        "`trunkline db reindex`.",
        "搜索索引不完整，可能还有没列出的内容。主人可以用 `trunkline db reindex` 修复。",
    ),
    "search_relaxed": (
        "Not all of the words were found together; these are the best for some of them.",
        "没有同时包含所有关键词的对话；以上是只含部分关键词的最接近结果。",
    ),
    "search_what": ("Write what to look for: `/search words`.", "请写上要找的内容：`/search 关键词`。"),
    "search_none": ("Nothing found for “{query}”.", "没有找到“{query}”。"),
    "search_failed": (
        "The search failed; nothing is lost. `trunkline db check` shows what is wrong.",
        "搜索失败了；内容没有丢失。`trunkline db check` 会显示原因。",
    ),
    # Turns
    **FILE_SENTENCES,
    "answer_in_doubt": (
        "A part of my last answer may not have arrived. Ask me again if you miss it.",
        "我上一条回答可能有一部分没有送到。如果没看到，请再问我一次。",
    ),
    "answer_refused": (
        "A part of my answer could not be sent here, and the log says why. Ask me to put it differently.",
        "我的回答有一部分没能发到这里，日志里有原因。可以请我换个说法。",
    ),
    "reply_refused": (
        "A reply of mine could not be sent here. The log says why.",
        "我有一条回复没能发到这里，日志里有原因。",
    ),
    "answer_cut": (
        "This answer is too long for a chat, so I leave the rest out here. All of it is in the transcript.",
        "这个回答太长，剩下的就不发到聊天里了；全文保存在对话记录中。",
    ),
    "interrupted_note": ("(stopped here)", "（到此停止）"),
    "rounds": (
        "I stopped after {rounds} steps without finishing. Tell me to go on if you like.",
        "我做了 {rounds} 步还没完成，先停在这里。需要的话让我继续。",
    ),
    "tools_done": (
        "Before that I had already used: {tools}.",
        "在那之前我已经用过：{tools}。",
    ),
    "poison": (
        "Something in that message made me fail three times, so I set it aside. It is kept, and "
        "the owner's log says what it was.",
        "那条消息让我连续失败了三次，我先把它放到一边。它没有丢，主人的日志里有原因。",
    ),
    "too_old": (
        "You wrote this while I was away, and it is too long ago for me to answer it now. Send it again if "
        "it still matters.",
        "这是我不在的时候发来的，时间太久，我就不再逐条回答了。如果还需要，请再发一次。",
    ),
    # The background review
    "review_noted": ("Noted: {entries}", "记下了：{entries}"),
    "review_updated": ("Updated: {entries}", "更新了：{entries}"),
    "review_removed": ("Removed: {entries}", "删去了：{entries}"),
    "review_more": ("and {count} more", "另有 {count} 条"),
    "review_undo": ("`/memory undo` takes it back.", "用 `/memory undo` 可以撤销。"),
    "review_undo_several": (
        "`/memory undo {count}` takes it back.",
        "用 `/memory undo {count}` 可以撤销。",
    ),
    "review_undo_room": ("Tell me if that is wrong.", "如果不对，请告诉我。"),
    "review_held": (
        "Waiting for your yes, so not saved yet: {count}. `/memory approve` saves, `/memory reject` drops.",
        "等你同意后才会保存的有 {count} 条：`/memory approve` 保存，`/memory reject` 放弃。",
    ),
    # Why a model call gave no answer
    f"model_{FailureKind.NOT_CONFIGURED}": (
        "I have no language model yet, so I can't answer. The owner can set one with `trunkline setup`, or "
        "try a small one with `trunkline model try`. Your message is kept: `/retry` answers it then.",
        "我还没有语言模型，所以无法回答。主人可以用 `trunkline setup` 设置，或用 `trunkline model try` "
        "试一个小模型。你的消息已保存：之后发送 `/retry` 就会回答。",
    ),
    f"model_{FailureKind.BAD_KEY}": (
        "The model refused my key. The owner can put a valid one in with `trunkline setup`.",
        "模型拒绝了我的密钥。主人可以用 `trunkline setup` 换一个有效的。",
    ),
    f"model_{FailureKind.NO_CREDIT}": (
        "The model's account has no credit left. The owner can top it up; then send your message again.",
        "模型账户余额不足。主人充值后，请再发一次消息。",
    ),
    f"model_{FailureKind.RATE_LIMITED}": (
        "The model is getting too many requests. Please try again in {wait}.",
        "模型的请求太多了，请在{wait}后再试。",
    ),
    f"model_{FailureKind.UNKNOWN_MODEL}": (
        "The endpoint doesn't know the model I am set to. The owner can choose one with `trunkline setup`.",
        "服务端不认识设置里的模型。主人可以用 `trunkline setup` 重新选择。",
    ),
    f"model_{FailureKind.CONTEXT_TOO_LONG}": (
        "This conversation has grown too long for the model. Start afresh with /new; I keep what I know.",
        "这段对话对模型来说太长了。用 /new 重新开始吧，我记得的内容都还在。",
    ),
    f"model_{FailureKind.REFUSED}": (
        "The model declined to answer that. Putting it in other words may help.",
        "模型拒绝回答这个问题，换个说法也许可以。",
    ),
    f"model_{FailureKind.DOWN}": (
        "I can't reach the model just now. Please try again in a few minutes.",
        "现在连不上模型，请过几分钟再试。",
    ),
    f"model_{FailureKind.TIMED_OUT}": (
        "The model took too long. Please try again.",
        "模型用的时间太长了，请再试一次。",
    ),
    f"model_{FailureKind.BROKEN_STREAM}": (
        "The model broke off in the middle of the answer. Please ask again.",
        "模型回答到一半中断了，请再问一次。",
    ),
    f"model_{FailureKind.BAD_REQUEST}": (
        "The model didn't accept my request. `trunkline doctor` shows why; /new may help meanwhile.",
        "模型没有接受我的请求。`trunkline doctor` 会显示原因；也可以先试试 /new。",
    ),
    f"model_{FailureKind.EMPTY}": (
        "The model gave an empty answer twice. Please ask in other words.",
        "模型连续两次给出空回答，请换个说法再问。",
    ),
}

ROLES = {
    "owner": ("the owner", "主人"),
    "admin": ("the owner or an admin", "主人或管理员"),
    "member": ("a member", "成员"),
    "guest": ("a guest", "访客"),
}

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)

PURPOSES = {
    "turn": ("answers", "回答"),
    "title": ("titles", "标题"),
    "session_search": ("summaries of what was found", "搜索摘要"),
    "review": ("review of your memory", "记忆整理"),
    "compaction": ("shortening of long conversations", "长对话压缩"),
}

HELP: dict[str, tuple[str, str]] = {
    "compress": (
        "put the older part of a long conversation into a summary",
        "把较长对话的前面部分变成摘要",
    ),
    **TURN_HELP,
    "skills": ("ways of working that I keep; look after them", "查看和管理我记下的做法（技能）"),
    "start": ("say hello", "打个招呼"),
    "help": ("list the commands", "列出命令"),
    "new": ("start a fresh conversation", "开始新的对话"),
    "stop": ("stop the answer that is running", "停止正在写的回答"),
    "status": ("what is running", "运行状态"),
    "whoami": ("who I think you are", "我认为你是谁"),
    "usage": ("what your questions used", "你的用量"),
    "memory": ("what I remember about you, and what to forget", "查看、修改或忘掉我记得的内容"),
    "private": ("a conversation that leaves nothing behind", "不留痕迹的私密对话"),
    "sessions": ("your latest conversations", "最近的对话"),
    "resume": ("go on with an earlier conversation here", "在这里继续以前的对话"),
    "title": ("name this conversation", "给这个对话起标题"),
    "search": ("find something said before", "查找以前说过的话"),
    "approve": ("let somebody in by their code", "凭验证码让某人加入"),
    "allow": ("let me talk in this group", "让我在这个群里说话"),
    **PEOPLE_HELP,
    **REMINDER_HELP,
}


def is_chinese(language: str) -> bool:
    return language.lower().startswith("zh")


def say(key: str, language: str = "", **fields: object) -> str:
    """The sentence of this key in Chinese for a `zh` language tag, in English for every other."""
    english, chinese = CATALOGUE[key]
    return (chinese if is_chinese(language) else english).format(**fields)


def describe_command(name: str, language: str = "") -> str:
    english, chinese = HELP[name]
    return chinese if is_chinese(language) else english


PLACES = {
    "telegram": ("Telegram", "Telegram"),
    "discord": ("Discord", "Discord"),
    "slack": ("Slack", "Slack"),
    "web": ("web chat", "网页"),
    "terminal": ("terminal", "终端"),
}


def describe_place(platform: str, language: str = "") -> str:
    """A platform as people call it."""
    english, chinese = PLACES.get(platform, (platform, platform))
    return chinese if is_chinese(language) else english


def describe_day(day: date, today: date, language: str = "") -> str:
    """`3 May`, with the year where it is another one."""
    same_year = day.year == today.year
    if is_chinese(language):
        return f"{'' if same_year else f'{day.year}年'}{day.month}月{day.day}日"
    return f"{day.day} {MONTHS[day.month - 1]}{'' if same_year else f' {day.year}'}"


def describe_purpose(purpose: str, language: str = "") -> str:
    english, chinese = PURPOSES.get(purpose, (purpose, purpose))
    return chinese if is_chinese(language) else english


def describe_role(role: str, language: str = "") -> str:
    english, chinese = ROLES[role]
    return chinese if is_chinese(language) else english


def describe_wait(seconds: float | None, language: str = "") -> str:
    """`about 2 minutes`; `a minute` when the server did not say."""
    whole = 60 if seconds is None else max(1, round(seconds))
    if is_chinese(language):
        return f" {whole} 秒" if whole < 100 else f"大约 {round(whole / 60)} 分钟"
    if whole < 100:
        return "a minute" if 55 <= whole <= 65 else f"{whole} seconds"
    return f"about {round(whole / 60)} minutes"
