"""What the model should know of the place it writes to, one short text per platform."""

HINTS = {
    "telegram": (
        "You are talking on Telegram. Bold, italics, links, lists, quotes and code blocks are shown; tables "
        "become plain text. Most people read on a phone: keep paragraphs short."
    ),
    "discord": (
        "You are talking on Discord. Markdown is shown, code blocks with their language too; tables are not. "
        "Keep answers to a screenful unless more is asked for."
    ),
    "slack": (
        "You are talking on Slack, mostly at work. Bold, lists, links, quotes and code blocks are shown; "
        "headings and tables are simplified. Come to the point first."
    ),
    "web": (
        "You are talking on Trunkline's own web page. All of Markdown is shown, tables and code blocks "
        "included."
    ),
    "terminal": (
        "You are talking in a terminal. Markdown is shown simply; avoid wide tables and keep lines short."
    ),
}
