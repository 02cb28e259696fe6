"""The words of a Discord message as people read them: names beside ids, and what isn't text said in words."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import discord

from trunkline.adapters.inline import TEXT_CHARS, inline, named

_TOKEN = re.compile(
    r"<(?:@!?(?P<user>\d+)|@&(?P<role>\d+)|#(?P<channel>\d+)|a?:(?P<emoji>\w+):\d+"
    r"|/(?P<command>[^:<>]+):\d+|t:(?P<time>\d{1,11})(?::[a-zA-Z])?)>"
)
_COMMAND = re.compile(r"[/!](?P<name>[A-Za-z0-9_-]+)(?:\s+(?P<argument>.*))?", re.DOTALL)


def plain_text(message: discord.Message, own_id: int) -> str:
    """The whole message: its words, the bot's own mention removed, then what else it carries."""
    parts = [_resolved(_without_own(message.content, message.guild, own_id), message)]
    if not message.content or message.author.bot:
        # Under a person's own words an embed is only the preview of a link.
        parts += _embeds(message.embeds)
    parts += [_resolved(line, message) for line in _laid_out(message.components)]
    parts += [f"[sticker: {inline(sticker.name)}]" for sticker in message.stickers]
    if message.poll is not None:
        answers = "; ".join(inline(answer.text, TEXT_CHARS) for answer in message.poll.answers)
        question = inline(str(message.poll.question), TEXT_CHARS)
        parts.append(f"[poll: {question} ({answers})]")
    if message.activity is not None:
        parts.append("[invitation to an activity]")
    for snapshot in message.message_snapshots:
        words = [_resolved(snapshot.content, message), *_embeds(snapshot.embeds)]
        words += [_resolved(line, message) for line in _laid_out(snapshot.components)]
        words += [f"[sticker: {inline(sticker.name)}]" for sticker in snapshot.stickers]
        parts.append("\n".join(["[forwarded message]", *filter(None, words)]))
    return "\n".join(part for part in parts if part)


def split_command(text: str, commands: frozenset[str]) -> tuple[str, str] | None:
    """The name and argument of a text that begins with `/name` or `!name` of a known command."""
    match = _COMMAND.fullmatch(text)
    if match is None or match["name"].lower() not in commands:
        return None
    return match["name"].lower(), (match["argument"] or "").strip()


def _without_own(text: str, guild: discord.Guild | None, own_id: int) -> str:
    own_role = guild.self_role if guild is not None else None
    marks = rf"<@!?{own_id}>" if own_role is None else rf"<@!?{own_id}>|<@&{own_role.id}>"
    return re.sub(rf"(?:{marks})[ \t]?", "", text).strip()


def _resolved(text: str, message: discord.Message) -> str:
    return _TOKEN.sub(lambda token: _name(token, message), text)


def _name(token: re.Match[str], message: discord.Message) -> str:
    value = token[token.lastgroup or 0]
    match token.lastgroup:
        case "user":
            return f"@{named(_user(int(value), message), value)}"
        case "role":
            role = message.guild.get_role(int(value)) if message.guild else None
            return f"@{inline(role.name.removeprefix('@')) if role else value}"
        case "channel":
            channel = message.guild.get_channel_or_thread(int(value)) if message.guild else None
            return f"#{named(channel.name if channel else '', value)}"
        case "emoji":
            return f":{value}:"
        case "command":
            return f"/{value}"
    return datetime.fromtimestamp(int(value), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _user(user_id: int, message: discord.Message) -> str | None:
    for user in message.mentions:
        if user.id == user_id:
            return user.display_name
    member = message.guild.get_member(user_id) if message.guild else None
    return member.display_name if member else None


def _embeds(embeds: Sequence[discord.Embed]) -> Iterator[str]:
    for embed in embeds:
        lines = [embed.author.name, embed.title, embed.description]
        lines += [f"{entry.name}: {entry.value}" for entry in embed.fields]
        lines.append(embed.footer.text)
        shown = embed.image.url or embed.thumbnail.url or embed.video.url
        if shown is not None and not any(lines):
            lines.append(f"[picture: {inline(embed.url or shown, TEXT_CHARS)}]")
        yield "\n".join(line for line in lines if line)


def _laid_out(components: Sequence[object]) -> Iterator[str]:
    """The words and pictures of a message that is laid out in components and has no content."""
    for component in components:
        match component:
            case discord.Container() | discord.SectionComponent():
                yield from _laid_out(component.children)
            case discord.TextDisplay():
                yield component.content
            case discord.MediaGalleryComponent():
                names = (item.description or item.media.url for item in component.items)
                yield from (f"[picture: {inline(name, TEXT_CHARS)}]" for name in names)
