"""The sentences about people: linking accounts, roles, budgets, one's own copy, and leaving for good."""

PEOPLE_SENTENCES: dict[str, tuple[str, str]] = {
    "account": ("{label} on {place} ({id})", "{place} 上的 {label}（{id}）"),
    # Linking
    "link_code": (
        "Your code is {code}, good for ten minutes and for one account. Write `/link {code}` to me in a "
        "direct message on the other platform. Never give it to anybody else.",
        "你的验证码是 {code}，十分钟内有效，只能用于一个账号。请在另一个平台私信我 `/link {code}`。不要把"
        "它给别人。",
    ),
    "link_usage": (
        "`/link` gives you a code, `/link CODE` takes one from your other account, `/link yes` or `/link "
        "no` answers, `/link undo` takes the last joining of two memories back.",
        "`/link` 会给你验证码，`/link 验证码` 用来输入另一个账号的验证码，`/link yes` 或 `/link no` 用来回"
        "答，`/link undo` 撤销最近一次合并。",
    ),
    "link_code_wrong": (
        "That code isn't valid: it may be mistyped, used or older than ten minutes. `/link` on your other "
        "account gives a new one.",
        "这个验证码无效：可能输错了、已经用过，或超过十分钟了。请在另一个账号用 `/link` 重新获取。",
    ),
    "link_confirm": (
        "This code belongs to {who}. If that is you, write `/link yes` here, and in the other chat too. "
        "If it isn't, write `/link no`.",
        "这个验证码属于 {who}。如果那是你本人，请在这里和另一个聊天里都写 `/link yes`；如果不是，请写 "
        "`/link no`。",
    ),
    "link_asked": (
        "{who} typed your code and would become you, with your memory and your rights. If that is you, "
        "write `/link yes`. If it isn't, write `/link no`.",
        "{who} 输入了你的验证码，将会成为你，拥有你的记忆和权限。如果那是你本人，请写 `/link yes`；如果不"
        "是，请写 `/link no`。",
    ),
    "link_waiting": (
        "Noted. Now write `/link yes` as {who}, too.",
        "好的。请再用 {who} 写一次 `/link yes`。",
    ),
    "link_refused": ("Nothing was linked.", "没有关联任何账号。"),
    "link_nothing": (
        "There is nothing to answer. `/link` gives you a code for your other account.",
        "没有需要回答的。用 `/link` 可以获取给另一个账号的验证码。",
    ),
    "link_same": ("Both accounts are yours already.", "这两个账号本来就都是你的。"),
    "link_nobody": (
        "That account can't be linked now. `/link` on your other account gives a new code.",
        "现在不能关联那个账号。请在另一个账号用 `/link` 重新获取验证码。",
    ),
    "link_fixed": (
        "The owner's settings (`people` in config.yaml) say whose accounts these are, so a command can't "
        "change it. Ask the owner to put both under one name there.",
        "这些账号属于谁由主人的设置（config.yaml 的 `people`）决定，命令无法更改。请让主人在那里把它们放到"
        "同一个人名下。",
    ),
    "linked": (
        "Linked: {who} and this account are both {name} now, with one memory.",
        "已关联：{who} 和这个账号现在都是 {name}，共用同一份记忆。",
    ),
    "link_failed": (
        "The two memories couldn't be joined just now, so nothing was linked. Write `/link yes` to try "
        "again.",
        "现在无法合并两份记忆，所以没有关联。写 `/link yes` 可以再试。",
    ),
    "link_choose": (
        "What I know in both places is too long to keep all of it. Choose one: `/link keep 1` or `/link "
        "keep 2`. `/link undo` takes that back later.\n\n**1**\n\n{one}\n\n**2**\n\n{two}",
        "两边记下的内容合起来太长了，请选择保留哪一份：`/link keep 1` 或 `/link keep 2`。以后可以用 "
        "`/link undo` 撤销。\n\n**1**\n\n{one}\n\n**2**\n\n{two}",
    ),
    "joined": (
        "Done: {gone} and {name} are one person now, with one memory and one history. `/link undo` parts "
        "them.",
        "完成：{gone} 和 {name} 现在是同一个人，共用一份记忆和历史。用 `/link undo` 可以分开。",
    ),
    "joined_left_out": (
        "{count} entries that read like instructions were left out.",
        "有 {count} 条看起来像指令的内容没有带过来。",
    ),
    "link_undo_none": ("There is nothing to take back.", "没有可以撤销的合并。"),
    "parted": (
        "Taken back: {name} is a person apart again, with their own accounts and memory.",
        "已撤销：{name} 又是单独的一个人，有自己的账号和记忆。",
    ),
    "parted_lost": ("{count} entries could not be put back.", "有 {count} 条没能放回去。"),
    "unlink_which": ("Which one? Write `/unlink` and its number:", "要取消哪一个？请写 `/unlink` 加编号："),
    "unlink_alone": ("You have no other account linked.", "你没有关联其他账号。"),
    "unlinked": (
        "{who} is no longer yours: it starts afresh, with what was said there and nothing else. If "
        "somebody else has it, tell the owner to block it.",
        "{who} 不再是你的账号：它会重新开始，只保留在那里说过的话。如果它在别人手里，请让主人拉黑它。",
    ),
    "unlinked_you": (
        "This account was unlinked. We start afresh here; what was said here stays.",
        "这个账号已取消关联。我们在这里重新开始；这里说过的话都还在。",
    ),
    "fixed_account": (
        "The owner's settings (`people` in config.yaml) give you this account, so a command can't take it "
        "away.",
        "这个账号由主人的设置（config.yaml 的 `people`）指定，命令无法取消。",
    ),
    # People and roles
    "denied": ("{who} gets no answer from me any more.", "{who} 以后不会再收到我的回复。"),
    "people": ("Whom I know:", "我认识的人："),
    "people_waiting": ("waits with a code", "持有验证码，等待批准"),
    "people_suspended": ("no access now", "目前没有权限"),
    "role_usage": (
        "Write `/role name role`, the name as /people shows it. Roles: {roles}.",
        "请写 `/role 名字 角色`，名字以 /people 显示的为准。角色：{roles}。",
    ),
    "role_set": ("{name} is now {role}.", "{name} 现在是{role}。"),
    "block_usage": (
        "Write `/block name`, the name as /people shows it; `/block name off` takes it back.",
        "请写 `/block 名字`，名字以 /people 显示的为准；`/block 名字 off` 可以解除。",
    ),
    "blocked": (
        "{name} gets no answer from me any more. Nothing was deleted; `/block … off` takes it back.",
        "{name} 以后不会再收到我的回复。没有删除任何内容；`/block … off` 可以解除。",
    ),
    "unblocked": ("{name} may talk to me again.", "{name} 又可以和我聊天了。"),
    "no_such_person": (
        "I know nobody of that name. /people lists everybody.",
        "我不认识这个名字的人。/people 会列出所有人。",
    ),
    "fixed_person": (
        "{name} is set in config.yaml (`people`), so a command can't change that. The owner can, there.",
        "{name} 由 config.yaml 的 `people` 指定，命令无法更改，主人可以在那里改。",
    ),
    "not_this_person": ("You can't do that to this person.", "你不能对这个人这样做。"),
    # Budgets
    "room_budget_spent": (
        "This group has used today's share of the model. Write again tomorrow.",
        "这个群今天的模型用量已经用完，请明天再来。",
    ),
    "usage_today": ("Today: {tokens} tokens{of_tokens}{cost}.", "今天：{tokens} token{of_tokens}{cost}。"),
    "usage_of": (" of {budget}", "（上限 {budget}）"),
    "usage_cost": (", ${cost}", "，{cost} 美元"),
    # Data rights
    "export_ready": (
        "The file is everything I keep of you: memory, conversations, skills, files.",
        "文件里是我保存的关于你的全部内容：记忆、对话、技能、文件。",
    ),
    "export_no_files": (
        "The file is everything I keep of you but the files that you sent and got, which are only listed: "
        "with them it is too large to be sent. The owner can make the whole copy: `trunkline people export`.",
        "文件里是我保存的关于你的全部内容，但你收发的文件只列出了名称：加上它们就太大，无法发送。"
        "主人可以用 `trunkline people export` 导出完整的副本。",
    ),
    "export_file": (
        "Your copy is too large to be sent. It is on the machine that I run on: {path}",
        "你的副本太大，无法发送。它在我运行的机器上：{path}",
    ),
    "export_ask": (
        "Your copy is too large to be sent. The owner finds it as {name} in my folder `exports`.",
        "你的副本太大，无法发送。主人可以在我的 `exports` 文件夹里找到 {name}。",
    ),
    "delete_ask": (
        "This deletes everything I keep of you, on every platform and for good: our conversations, what I "
        "remember, your words in groups, your files, your accounts. `/export` gives you a copy first. If "
        "you are sure, write `/delete-me {word}` within ten minutes.",
        "这会永久删除我保存的关于你的一切，包括所有平台上的对话、记忆、你在群里说过的话、文件和账号。可以"
        "先用 `/export` 拿一份副本。如果确定，请在十分钟内写 `/delete-me {word}`。",
    ),
    "delete_owner": (
        "You are the owner, and I can't be without one. Name another owner in config.yaml first.",
        "你是主人，我不能没有主人。请先在 config.yaml 里指定另一位主人。",
    ),
    "deleted_me": (
        "Everything of yours is deleted here. What stands in the chats themselves you can delete on each "
        "platform; copies in backups end within 30 days. Farewell.",
        "你在我这里的一切都已删除。聊天应用里的内容可以在各平台上自行删除；备份里的副本会在 30 天内清除。"
        "再见。",
    ),
    "deleted_me_fixed": (
        "Everything of yours is deleted here. The owner's settings (`people` in config.yaml) still name "
        "you, so you may write to me as before; ask the owner to take you out. Copies in backups end "
        "within 30 days.",
        "你在我这里的一切都已删除。主人的设置（config.yaml 的 `people`）里仍有你，所以你还可以像以前一样给"
        "我写；如需去掉请联系主人。备份里的副本会在 30 天内清除。",
    ),
    "deleted_counts": (
        "Deleted for good: entries of memory: {entries}, conversations: {conversations}, "
        "messages: {messages}.",
        "已永久删除：记忆 {entries} 条，对话 {conversations} 个，消息 {messages} 条。",
    ),
}

PEOPLE_HELP: dict[str, tuple[str, str]] = {
    "link": ("bring your accounts on several platforms together", "关联你在多个平台上的账号"),
    "unlink": ("take one of your accounts out again", "取消关联一个账号"),
    "people": ("list everybody I know", "列出我认识的人"),
    "deny": ("turn somebody away by their code", "凭验证码拒绝某人"),
    "role": ("give somebody a role", "设置某人的角色"),
    "block": ("silence somebody, or lift it", "拉黑某人或解除"),
    "export": ("get a copy of all that is yours", "获取你的全部内容的副本"),
    "delete-me": ("delete all that is yours, for good", "永久删除你的全部内容"),
}
