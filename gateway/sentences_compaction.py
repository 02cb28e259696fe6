"""What the house says about long conversations that were made shorter, in English and Chinese."""

COMPACTION_SENTENCES: dict[str, tuple[str, str]] = {
    "compressed": (
        "Done. {messages} messages are now a summary: about {before} tokens before, {after} now. Nothing is "
        "lost: the messages stay in the transcript, and I can search them.",
        "好了。{messages} 条消息已经变成摘要：之前大约 {before} 个 token，现在 {after} 个。"
        "什么都没丢：原消息仍在记录里，我也能搜到。",
    ),
    "compress_nothing": (
        "There is nothing to shorten here yet.",
        "这里还没有可以压缩的内容。",
    ),
    "compress_changed": (
        "The conversation changed while I was summing it up, so I left it as it is. Try `/compress` again.",
        "总结的时候对话有了变化，所以我没有改动它。请再试一次 `/compress`。",
    ),
    "compress_failed": (
        "I couldn't sum this conversation up, so it stays as it is. Try `/compress` again later, or `/new` "
        "to begin afresh.",
        "这段对话没能总结出来，所以保持原样。请稍后再试 `/compress`，或用 `/new` 重新开始。",
    ),
    "compaction_failed": (
        "This conversation has become long, and summing up its older part didn't work. Nothing is lost, and "
        "we can go on; `/compress` tries again, `/new` begins afresh.",
        "这段对话已经很长了，前面部分的总结没有成功。什么都没丢，可以继续聊；"
        "`/compress` 会再试一次，`/new` 重新开始。",
    ),
}
