"""What the house says about running, waiting, repeated and taken back turns, in English and Chinese."""

TURN_SENTENCES: dict[str, tuple[str, str]] = {
    "busy_steer": (
        "Got it. I'll work that in as I go, or answer it right after.",
        "收到。我会边写边考虑进去，或者紧接着回答。",
    ),
    "busy_queue": (
        "Got it. I'll answer that when I'm done with this.",
        "收到。我先把手上这个写完，再回答它。",
    ),
    "queued": (
        "Queued: I'll answer it in its turn.",
        "已排队，轮到时我会回答。",
    ),
    "queue_empty": (
        "Nothing is waiting. `/queue words` keeps words until I'm done with the answer before.",
        "没有在等待的消息。用 `/queue 文字` 可以让一条消息等前面的回答写完再处理。",
    ),
    "queue_waiting": ("{count} waiting here.", "这里有 {count} 条在等待。"),
    "rate_limited": (
        "Those were {limit} messages within a minute. Nothing is lost: I answer what comes now together, "
        "in about a minute.",
        "一分钟内已经有 {limit} 条消息了。不会丢：接下来的我大约一分钟后一起回答。",
    ),
    "stopped_one_waits": (
        "Stopped. I go on with the message that came meanwhile.",
        "已停止。接下来回答这期间收到的那条消息。",
    ),
    "stopped_some_wait": (
        "Stopped. I go on with the {count} messages that came meanwhile.",
        "已停止。接下来回答这期间收到的 {count} 条消息。",
    ),
    "answer_too_long": (
        "That is as long as an answer gets, and it isn't finished. Tell me to go on if you like.",
        "一次回答只能写到这里，还没有写完。需要的话让我继续。",
    ),
    "retrying": ("Trying again.", "再试一次。"),
    "retry_nothing": ("There is no answer here that I could try again.", "这里没有可以重试的回答。"),
    "retry_not_yours": (
        "Only the person who asked can have that answer tried again.",
        "只有提问的人可以让我重试那个回答。",
    ),
    "undo_turns_what": (
        "Write how many: `/undo` or `/undo 3`, at most {most}.",
        "请写次数：`/undo` 或 `/undo 3`，最多 {most} 次。",
    ),
    "undo_turns_none": ("There is nothing here to take back.", "这里没有可以撤回的内容。"),
    "undo_turns_not_yours": (
        "That was somebody else's question: only they, an admin or the owner can take it back.",
        "那是别人的提问：只有本人、管理员或主人可以撤回。",
    ),
    "undone_one": (
        "Taken back: “{what}”. It is as if it had not been said.",
        "已撤回：“{what}”，就当没说过。",
    ),
    "undone_many": (
        "Taken back: {count} exchanges, from “{what}” on. It is as if they had not been said.",
        "已撤回从“{what}”开始的 {count} 次问答，就当没说过。",
    ),
    "undone_memory": (
        "What I had noted from it is taken back, too.",
        "我从中记下的内容也一并撤回了。",
    ),
    "undone_memory_kept": (
        "Something I noted from it was changed since, so I left that as it is: /memory shows it.",
        "我从中记下的内容后来又改过，所以保留原样：用 /memory 可以查看。",
    ),
    "branched": (
        "From here on this is a second branch. The conversation so far stays as it is: /sessions lists it.",
        "从现在起这是一个新的分支。之前的对话保持原样，/sessions 里可以找到。",
    ),
    "branch_nothing": ("There is no conversation here to branch off.", "这里没有可以分出来的对话。"),
    "model_none": ("none yet", "尚未设置"),
    "model_missing": (
        "There is no model yet. The owner can set one with `trunkline setup`.",
        "还没有语言模型。主人可以用 `trunkline setup` 设置。",
    ),
    "model_is": ("This conversation is answered by {model}.", "这个对话由 {model} 回答。"),
    "model_choices": ("`/model name` changes that: {models}.", "用 `/model 名称` 可以切换：{models}。"),
    "model_set": ("From now on {model} answers here.", "从现在起这里由 {model} 回答。"),
    "model_unknown": (
        "I have no model “{name}”. There are: {models}.",
        "没有叫“{name}”的模型。可选：{models}。",
    ),
    "idle_reset": (
        "It has been a while, so this is a fresh conversation. The one before, {title}, is in /sessions.",
        "隔了一段时间，所以这是新的对话。之前的{title}可以在 /sessions 里找到。",
    ),
}

TURN_HELP: dict[str, tuple[str, str]] = {
    "retry": ("answer the last question again", "重新回答上一个问题"),
    "undo": ("take back the last exchanges", "撤回最近的问答"),
    "queue": ("say something for after this answer", "留到这个回答之后再说"),
    "branch": ("go on in a second branch", "从这里分出一个新对话"),
    "model": ("which model answers here", "这里由哪个模型回答"),
}
