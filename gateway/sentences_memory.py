"""The sentences about memory: `/memory`, changes that wait for a yes, private conversations."""

import re

_MARKUP = re.compile(r"[\\`*_\[\]<>#~|&]|^\s*(?:[-+]|\d+[.)])(?=\s)")


def as_written(text: str) -> str:
    """Somebody's text for a place in our Markdown, so that it shows as it was written, on one line."""
    return _MARKUP.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", " ".join(text.split()))


MEMORY_SENTENCES: dict[str, tuple[str, str]] = {
    "memory_empty": (
        "I have nothing noted about you yet.",
        "我还没有记下关于你的任何内容。",
    ),
    "memory_hint": (
        "`/memory forget 1` removes an entry for good; `edit`, `undo`, `search`, `pause` and `export` work "
        "likewise.",
        "`/memory forget 1` 会彻底删除一条；`edit`、`undo`、`search`、`pause`、`export` 也这样用。",
    ),
    "memory_usage": (
        "I understand `/memory`, `/memory search words`, `/memory add text`, `/memory edit number text`, "
        "`/memory forget number`, `/memory undo`, `/memory export`, `/memory pause`, `/memory resume`, "
        "`/memory approve number` and `/memory reject number`.",
        "可以用：`/memory`、`/memory search 关键词`、`/memory add 内容`、`/memory edit 编号 内容`、"
        "`/memory forget 编号`、`/memory undo`、`/memory export`、`/memory pause`、`/memory resume`、"
        "`/memory approve 编号`、`/memory reject 编号`。",
    ),
    "memory_by_hand": ("by hand", "手动写入"),
    "memory_imported": ("imported, {day}", "导入，{day}"),
    "memory_search_what": (
        "Write what to look for: `/memory search words`.",
        "请写上要找的内容：`/memory search 关键词`。",
    ),
    "memory_search_none": ("Nothing that I remember holds “{words}”.", "记忆里没有“{words}”。"),
    "memory_add_what": (
        "Write what to remember: `/memory add I prefer tea`, or `/memory add notes text` for my own notes.",
        "请写上要记的内容：`/memory add 我喜欢喝茶`；`/memory add notes 内容` 会记到我的笔记里。",
    ),
    "memory_edit_what": (
        "Write the number from /memory and the new text: `/memory edit 2 I prefer green tea`.",
        "请写上 /memory 里的编号和新内容：`/memory edit 2 我喜欢绿茶`。",
    ),
    "memory_no_number": (
        "There is no entry {number}. /memory shows the numbers.",
        "没有第 {number} 条。/memory 会列出编号。",
    ),
    "memory_added": ("Remembered: {text}", "记住了：{text}"),
    "memory_edited": ("Now it reads: {text}", "改成了：{text}"),
    "memory_unchanged": ("I know that already; nothing changed.", "这个我已经记着了，没有改动。"),
    "memory_forget_what": (
        "Write which entry: `/memory forget 2`, or some of its words. It can't be undone.",
        "请写上要忘掉哪一条：`/memory forget 2`，或其中的几个词。忘掉后无法恢复。",
    ),
    "memory_forget_which": (
        "Several entries hold that; nothing was forgotten. Say which by its number, as in "
        "`/memory forget 2`:",
        "有好几条都符合，什么也没有删。请用编号指明，例如 `/memory forget 2`：",
    ),
    "memory_forget_none": (
        "No entry like that; nothing was forgotten. /memory shows what there is.",
        "没有这样的条目，什么也没有删。/memory 会列出现有的内容。",
    ),
    "memory_forgotten": (
        "Forgotten for good: the entry and every copy I had of it.",
        "已彻底忘掉：这一条以及我留有的所有副本。",
    ),
    "memory_forget_offer": (
        "The conversation it came from still says it ({count} messages); "
        "`/memory forget {number} transcript` removes those too.",
        "当时的对话里还有它（{count} 条消息）；`/memory forget {number} transcript` 可以一并删除。",
    ),
    "memory_forget_reminders": (
        "It still stands in reminders that wait ({numbers}); they come as you asked, unless you end them: "
        "`/reminders cancel {first}`.",
        "等待中的提醒里还有它（编号 {numbers}）；到时仍会提醒，除非你取消：`/reminders cancel {first}`。",
    ),
    "memory_forget_left_accounts": (
        "What you said from an account that was unlinked later stays in that account's own conversations.",
        "你用后来解除关联的账号说过的话，还留在那个账号自己的对话里。",
    ),
    "memory_forget_skills": (
        "It still stands in ways of working that I keep for you ({names}): ask me to take it out there.",
        "我为你记下的做法（{names}）里还有它：可以让我在那里也删掉。",
    ),
    "memory_redacted": (
        "Removed from the conversation: {count} messages.",
        "已从对话中删除 {count} 条消息。",
    ),
    "memory_undo_what": (
        "Write how many changes to take back, 1 to {most}: `/memory undo 2`. Without a number it is the "
        "latest one.",
        "请写上要撤销几次改动（1 到 {most}）：`/memory undo 2`。不写数字就只撤销最近一次。",
    ),
    "memory_undo_none": ("There is no change left to take back.", "没有可以撤销的改动了。"),
    "memory_undo_as_before": ("It was as before that change already.", "已经是那次改动之前的样子了。"),
    "memory_restored": ("Back again: {text}", "已恢复：{text}"),
    "memory_removed": ("Taken out again: {text}", "已移除：{text}"),
    "memory_conflict": (
        "Left as it is, since it was changed later: {text}",
        "之后又改过，所以没有动：{text}",
    ),
    "memory_paused": (
        "Paused: I save nothing more about you until `/memory resume`. What I know stays.",
        "已暂停：在你输入 `/memory resume` 之前，我不会再记下关于你的内容。已有的都还在。",
    ),
    "memory_is_paused": (
        "Memory is paused; `/memory resume` switches it on again.",
        "记忆已暂停；`/memory resume` 可以重新打开。",
    ),
    "memory_resumed": ("I remember again from now on.", "从现在起我会重新记住内容。"),
    "memory_waiting": (
        "Waiting for your yes (`/memory approve number` or `all`, `/memory reject number` or `all`):",
        "等你同意（`/memory approve 编号` 或 `all`，`/memory reject 编号` 或 `all`）：",
    ),
    "memory_nothing_waits": ("Nothing waits for your yes.", "没有等你同意的改动。"),
    "memory_which_waiting": (
        "Nothing waits under that number. Write `/memory {word}` with one of these, or `all`:",
        "没有这个编号。请在 `/memory {word}` 后面写下面的编号，或 `all`：",
    ),
    "memory_approved": ("Saved: {change}", "已保存：{change}"),
    "memory_approve_failed": ("Not saved ({change}): {why}", "没有保存（{change}）：{why}"),
    "memory_rejected": ("Dropped: {count}.", "已放弃 {count} 条。"),
    "memory_full": (
        "There is no room for that ({usage}). Forget or shorten something first; nothing changed.",
        "放不下了（{usage}）。请先删除或缩短一些内容；没有改动。",
    ),
    "memory_threat": (
        "I don't store that: it would be read as an instruction later. Word it as a plain fact.",
        "这个我不能存：以后会被当成指令。请写成普通的事实。",
    ),
    "memory_threat_override": (
        "I don't store that: it reads like an order to ignore my instructions. Word it as a plain fact.",
        "这个我不能存：它读起来像是让我忽略指令。请写成普通的事实。",
    ),
    "memory_threat_role": (
        "I don't store that: it reads like a new role for me. Word it as a plain fact about you.",
        "这个我不能存：它读起来像是给我换角色。请写成关于你的普通事实。",
    ),
    "memory_threat_conceal": (
        "I don't store that: it reads like an order to hide something from people. Word it as a plain fact.",
        "这个我不能存：它读起来像是要我隐瞒什么。请写成普通的事实。",
    ),
    "memory_threat_exfiltration": (
        "I don't store that: it reads like sending data away. Leave the command or address out.",
        "这个我不能存：它读起来像是要把数据发出去。请去掉其中的命令或地址。",
    ),
    "memory_threat_persistence": (
        "I don't store that: it reads like a way to get into a machine. Leave the command out.",
        "这个我不能存：它读起来像是入侵机器的手段。请去掉其中的命令。",
    ),
    "memory_threat_hidden_text": (
        "I don't store that: it holds characters that can't be seen. Type it anew.",
        "这个我不能存：里面有看不见的字符。请重新输入。",
    ),
    "memory_threat_credential": (
        "I don't store passwords, keys or tokens. Tell me where it is kept instead.",
        "密码、密钥和令牌我不存。请只告诉我它放在哪里。",
    ),
    "memory_failed_invalid": (
        "That can't be an entry: it is empty, or has a line that is only “§”. Write it without that line.",
        "这不能作为一条记忆：它是空的，或者有一行只有“§”。请去掉那一行。",
    ),
    "memory_failed_no_match": (
        "That entry isn't there any more; nothing changed. /memory shows what there is.",
        "那一条已经不在了，没有改动。/memory 会列出现有的内容。",
    ),
    "memory_failed_ambiguous": (
        "Several entries hold that; nothing changed. Use a number from /memory.",
        "有好几条都符合，没有改动。请用 /memory 里的编号。",
    ),
    "memory_failed_not_here": (
        "That store is switched off in the settings, so nothing can be saved there.",
        "设置里关闭了这部分记忆，所以无法保存。",
    ),
    "memory_failed_unreadable": (
        "I can't read your memory file just now, so I changed nothing. The log says what is wrong.",
        "现在读不了你的记忆文件，所以没有改动。日志里有原因。",
    ),
    "memory_failed_locked": (
        "Somebody else is writing to your memory just now; nothing changed. Please try again.",
        "现在有别的写入正在进行，没有改动。请再试一次。",
    ),
    "memory_failed_write_failed": (
        "Your memory file can't be written; the old content is intact. The log says what is wrong.",
        "记忆文件写不进去，原来的内容完好。日志里有原因。",
    ),
    # A change that waits for its person (`memory.write_approval`)
    "held": (
        "I'd like to save this: {change}. `/memory approve {number}` saves it, `/memory reject {number}` "
        "drops it.",
        "我想记下：{change}。`/memory approve {number}` 保存，`/memory reject {number}` 放弃。",
    ),
    "held_add": ("“{content}”", "“{content}”"),
    "held_replace": ("“{content}” in place of “{old}”", "把“{old}”改成“{content}”"),
    "held_remove": ("remove “{old}”", "删去“{old}”"),
    # Private conversations
    "private_on": (
        "This conversation is private now: I save nothing of it and it can't be found later. It is erased at "
        "`/private off` or `/new`, and after 24 hours at the latest.",
        "现在是私密对话：我不会记下任何内容，以后也搜不到。"
        "输入 `/private off` 或 `/new` 就会清除，最迟 24 小时后清除。",
    ),
    "private_already": (
        "This conversation is private already. `/private off` ends and erases it.",
        "现在已经是私密对话了。`/private off` 会结束并清除它。",
    ),
    "private_off": (
        "The private conversation is erased. From here on it is an ordinary one.",
        "私密对话已清除。接下来是普通对话。",
    ),
    "private_not_on": (
        "This conversation isn't private. `/private` begins one that is.",
        "现在不是私密对话。`/private` 会开始一个。",
    ),
    "private_usage": (
        "Write `/private` to begin a private conversation, or `/private off` to end and erase it.",
        "输入 `/private` 开始私密对话，输入 `/private off` 结束并清除。",
    ),
    "private_expired": (
        "24 hours are over: the private conversation is erased. From here on it is an ordinary one.",
        "24 小时到了：私密对话已清除。接下来是普通对话。",
    ),
    "memory_user": ("About you:", "关于你："),
    "memory_notes": ("My notes:", "我的笔记："),
    "memory_unreadable": (
        "I can't read your memory file just now, so I left it as it is. The log says what is wrong.",
        "现在读不了你的记忆文件，我没有动它。日志里有原因。",
    ),
}
