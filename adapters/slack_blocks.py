"""What Slack shows beside a message's text, in words: blocks and cards of apps, files it holds back."""

from collections.abc import Iterator, Mapping, Sequence

from trunkline.adapters.inline import inline
from trunkline.adapters.slack_wire import WireAttachment, WireFile

_UNREADABLE = {
    "canvas": "canvas",
    "quip": "canvas",
    "list": "list",
    "hidden_by_limit": "file hidden by the workspace's plan",
}
"""Modes of files that no bot can fetch as what people see."""


def text_of_blocks(blocks: Sequence[object]) -> str:
    """The words of Block Kit, in Slack's markup, a block for each line."""
    lines = (" ".join(_words(block)) for block in blocks)
    return "\n".join(line for line in lines if line.strip())


def text_of_card(card: WireAttachment) -> str:
    """The words of a card that an app has put under its message."""
    fields = (f"{field.title}: {field.value}".strip(": ") for field in card.fields)
    said = [card.pretext, card.author_name, card.title, card.text or text_of_blocks(card.blocks), *fields]
    return "\n".join(filter(None, said)) or card.fallback


def is_readable(file: WireFile) -> bool:
    """Whether a file is one that can be fetched, or at least be asked for."""
    return file.mode != "tombstone" and _held_back(file) is None


def notes_of(files: Sequence[WireFile]) -> list[str]:
    """A line for each file that nobody but Slack can show."""
    named = ((_held_back(file), inline(file.title or file.name)) for file in files)
    return [f"[{what}{f': {name}' if name else ''}: can't be read here]" for what, name in named if what]


def _held_back(file: WireFile) -> str | None:
    return _UNREADABLE.get(file.mode) or _UNREADABLE.get(file.filetype)


def _words(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        yield from _own_words(part)
        for key in ("text", "elements", "fields", "title", "rows", "accessory"):
            inner = part.get(key)
            if isinstance(inner, Mapping):
                yield from _words(inner)
            elif isinstance(inner, list):
                for one in inner:
                    yield from _words(one)
    elif isinstance(part, list):
        for one in part:
            yield from _words(one)


def _own_words(part: Mapping[str, object]) -> Iterator[str]:
    match part.get("type"):
        case "link":
            yield (
                f"<{part.get('url', '')}>" if not part.get("text") else f"<{part.get('url')}|{part['text']}>"
            )
        case "user":
            yield f"<@{part.get('user_id', '')}>"
        case "channel":
            yield f"<#{part.get('channel_id', '')}>"
        case "emoji":
            yield f":{part.get('name', '')}:"
        case "image":
            yield f"[picture: {inline(str(part.get('alt_text') or 'no name'))}]"
        case _:
            text = part.get("text")
            if isinstance(text, str) and text.strip():
                yield text.strip()
