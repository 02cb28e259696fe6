"""What /help says of one command, and how /usage counts calls."""

HELP_SENTENCES: dict[str, tuple[str, str]] = {
    "help_one": ("`{usage}`\n\n{what}.{where}", "`{usage}`\n\n{what}。{where}"),
    "help_direct": ("\n\nIn direct chats only.", "\n\n只能在私聊中使用。"),
    "help_unknown": (
        "There is no command /{name} for you here. `/help` lists those there are.",
        "这里没有可供你使用的命令 /{name}。`/help` 会列出现有的命令。",
    ),
    "calls_one": ("1 call", "1 次调用"),
    "calls": ("{count} calls", "{count} 次调用"),
}
