"""Slack's message markup as plain text: entities resolved, escapes undone once, the bot's mention removed."""

import re
from collections.abc import Callable

from trunkline.adapters.inline import named

NameOf = Callable[[str], str | None]
"""The name of a user id where it is known without asking Slack."""

_ENTITY = re.compile(r"<([^<>]*)>|&(amp|lt|gt);")
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">"}
_COMMAND = re.compile(r"[!/]([a-z][a-z0-9_-]*)(?:\s+(.*))?\Z", re.IGNORECASE | re.DOTALL)
# What Slack would turn into a notification: people, user groups, and everybody in a channel.
_PING = re.compile(r"<([!@][^<>]*)>")
_CODE_OR_MENTION = r"```.*?```|`[^`\n]*`|&lt;@{user}&gt;"


def plain_text(text: str, bot_user: str, name_of: NameOf) -> str:
    """The text as a reader sees it. A person whose name isn't known stays `@U123`.

    One pass, so that what a person typed as `&lt;` comes back as these four characters.
    """

    def replace(match: re.Match[str]) -> str:
        if match[2] is not None:
            return _ESCAPES[match[2]]
        return _entity(match[1], name_of)

    return _ENTITY.sub(replace, without_mention(text, bot_user)).strip()


def mentions(text: str, user: str) -> bool:
    return re.search(rf"<@{re.escape(user)}(?:\|[^<>]*)?>", text) is not None


def mentions_anybody(text: str) -> bool:
    return re.search(r"<@[UWB][A-Z0-9]+(?:\|[^<>]*)?>", text) is not None


def without_mention(text: str, user: str) -> str:
    """The text without `<@user>`, and without the gap or the comma it leaves."""
    mention = rf"<@{re.escape(user)}(?:\|[^<>]*)?>"
    return re.sub(rf"\A\s*{mention}[,:]?\s*|[ \t]?{mention}", "", text)


def command_in(text: str, names: frozenset[str], *, marked: bool, addressed: bool) -> tuple[str, str] | None:
    """The command and its argument that a plain text means, or None for ordinary talk.

    `marked` allows `!name words` and `/name words`; `addressed`, that is a mention of the bot, allows the
    bare name too, but only when nothing follows: '@bot help me with this' is a question, '@bot help' is not.
    """
    found = _COMMAND.match(text.strip()) if marked or addressed else None
    if found is not None and found[1].casefold() in names:
        return found[1].casefold(), (found[2] or "").strip()
    bare = text.strip().casefold()
    return (bare, "") if addressed and bare in names else None


def without_pings(text: str, mention: str | None) -> str:
    """Rendered text that can notify nobody but `mention`.

    The renderer escapes already; this holds where a text did not come from it. A person whom the model named
    as `<@id>` (escaped by the renderer) is mentioned in earnest when it is `mention`, but never inside code.
    """

    def escape(match: re.Match[str]) -> str:
        inner = match[1]
        allowed = inner == f"@{mention}" or inner.startswith("!date^")
        return match[0] if allowed else f"&lt;{inner}&gt;"

    safe = _PING.sub(escape, text)
    if mention is None:
        return safe
    pattern = re.compile(_CODE_OR_MENTION.format(user=re.escape(mention)), re.DOTALL)
    return pattern.sub(lambda match: match[0] if match[0].startswith("`") else f"<@{mention}>", safe)


def _entity(inner: str, name_of: NameOf) -> str:
    target, _, label = (_unescape(part) for part in inner.partition("|"))
    if target.startswith("@"):
        return f"@{named(label or name_of(target[1:]), target[1:])}"
    if target.startswith("#"):
        return f"#{named(label, target[1:])}"
    if target.startswith("!"):
        return label or f"@{target[1:].partition('^')[0]}"
    return _link(target, label)


def _link(target: str, label: str) -> str:
    bare = re.sub(r"\A(?:https?://|mailto:|tel:)", "", target)
    if label in {"", target}:
        return bare if target.startswith(("mailto:", "tel:")) else target
    if label.rstrip("/") == bare.rstrip("/"):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"{label} ({target})"


def _unescape(text: str) -> str:
    return re.sub("&(amp|lt|gt);", lambda match: _ESCAPES[match[1]], text)
