"""What the house says on and about buttons, private answers in rooms and requests to be let in."""

SURFACE_SENTENCES: dict[str, tuple[str, str]] = {
    "button_stop": ("■ Stop", "■ 停止"),
    "button_retry": ("↻ Retry", "↻ 重试"),
    "button_admit": ("Approve", "同意"),
    "button_refuse": ("Deny", "拒绝"),
    "button_keep": ("Save", "保存"),
    "button_drop": ("Don't save", "不保存"),
    "button_over": ("That button has served its time.", "这个按钮已经失效了。"),
    "button_not_yours": (
        "Only the person I answered there can press that.",
        "只有我在那里回答的人可以按这个按钮。",
    ),
    "request": (
        "{name} on {platform} would like to talk to me. I gave them a code; you can decide here, too.",
        "{platform} 上的 {name} 想和我聊天。我给了对方一个验证码，你也可以在这里直接决定。",
    ),
    "platform_heard": ("{name} (heard from {ago} ago)", "{name}（{ago}前有消息）"),
    "platform_deaf": (
        "{name} (nothing heard from for {ago}: messages may not reach me)",
        "{name}（{ago}没有任何消息，我可能收不到新消息）",
    ),
    "platform_lost": ("{name} (not connected)", "{name}（未连接）"),
    "platforms_join": (", ", "、"),
    "age_seconds": ("{count} s", "{count} 秒"),
    "age_minutes": ("{count} min", "{count} 分钟"),
    "salvaged": (
        "My database was damaged, so I saved what could be read of it and put the old file aside as {file}.",
        "我的数据库损坏了，我已经把能读出的内容救了出来，旧文件保存在 {file}。",
    ),
    "salvaged_whole": ("Nothing is lost as far as I can see.", "就我所见，没有丢失任何内容。"),
    "salvaged_holes": ("Something is lost of: {tables}.", "以下部分有内容丢失：{tables}。"),
    "salvaged_unsure": (
        "What I was just answering is set aside, lest it be answered twice; `trunkline inbox list` shows it.",
        "我当时正在回答的消息先搁置了，以免重复回答；可以用 `trunkline inbox list` 查看。",
    ),
    "request_nameless": ("Somebody", "有人"),
    "request_decided": ("That is decided already.", "这件事已经处理过了。"),
    "request_refused": (
        "{name} stays out, and is not answered any more.",
        "{name} 没有通过，我不会再回复对方。",
    ),
    "private_link": (
        "That is private: ask me in a direct message, {link}.",
        "这是私人内容：请私信我，{link}",
    ),
    "private_too_late": (
        "My private answer came too late to be shown to you alone. Ask again, or in a direct message.",
        "我的私密回答来晚了，已经无法只显示给你。请再问一次，或者私信我。",
    ),
    "answered_privately": (
        "I answered you in a direct message.",
        "我已经私信回答你了。",
    ),
}

SUGGESTIONS = (
    "What can you do for me?",
    "What do you remember about me?",
    "What did we talk about last week?",
)
"""What Slack's assistant pane offers; who opens it is not known yet, nor their language."""
