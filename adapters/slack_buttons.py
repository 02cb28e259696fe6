"""Slack's buttons under a message, and the names by which Slack knows emoji."""

from collections.abc import Sequence

from trunkline.adapters.base import Button

EMOJI = {
    "👍": "+1",
    "👎": "-1",
    "❤": "heart",
    "👀": "eyes",
    "✅": "white_check_mark",
    "❌": "x",
    "🎉": "tada",
    "🔥": "fire",
    "🙏": "pray",
    "👏": "clap",
    "👌": "ok_hand",
    "💯": "100",
    "😂": "joy",
    "😄": "smile",
    "😢": "cry",
    "😮": "open_mouth",
    "😍": "heart_eyes",
    "🤔": "thinking_face",
    "🤷": "shrug",
    "🚀": "rocket",
    "✍": "writing_hand",
    "⏳": "hourglass_flowing_sand",
    "👋": "wave",
    "💡": "bulb",
    "⚠": "warning",
}
"""Those that a bot may want, out of some two thousand."""

_OF_NAME = {name: emoji for emoji, name in EMOJI.items()} | {"thumbsup": "👍", "thumbsdown": "👎"}
_LABEL_CHARS = 75


def attachments(buttons: Sequence[Button]) -> list[dict[str, object]]:
    """Beside the text, not in blocks with it: a section holds less than a message does.

    An empty list takes away what stood there.
    """
    if not buttons:
        return []
    elements = [
        {
            "type": "button",
            "action_id": button.payload,
            "value": button.payload,
            "text": {"type": "plain_text", "text": button.label[:_LABEL_CHARS], "emoji": True},
        }
        for button in buttons
    ]
    labels = " · ".join(button.label for button in buttons)
    return [{"fallback": labels, "blocks": [{"type": "actions", "elements": elements}]}]


def emoji_of(name: str) -> str:
    """The emoji by Slack's name, a skin tone left out; `:name:` for the workspace's own and rare ones."""
    plain = name.partition("::")[0]
    return _OF_NAME.get(plain, f":{plain}:")


def name_of_emoji(emoji: str) -> str | None:
    return EMOJI.get(emoji.replace("\ufe0f", ""))
