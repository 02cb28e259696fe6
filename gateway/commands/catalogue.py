"""The commands there are."""

from sqlalchemy import Connection

from trunkline.agent.ports import SearchFailed, SearchQuery, SessionCard
from trunkline.gateway import identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import Command, CommandContext
from trunkline.gateway.sentences import describe_command, describe_role, say
from trunkline.gateway.state import codes, people, sessions, usage
from trunkline.gateway.state.records import scope_of

LISTED = 10


async def start(context: CommandContext) -> str:
    person = context.account.person
    name = person.name if person is not None and person.name else context.account.label
    return say("welcome", context.language, name=name or "there")


async def show_help(context: CommandContext) -> str:
    lines = [
        f"/{command.name}{' ' + command.argument if command.argument else ''} — "
        f"{describe_command(command.name, context.language)}"
        for command in COMMANDS
        if command.allows(context.account) and not (command.private and context.room is not None)
    ]
    return "\n".join([say("help", context.language), "", *(f"- {line}" for line in lines)])


async def begin_anew(context: CommandContext) -> str:
    await context.house.database.write(lambda c: sessions.end(c, context.key, "new", now_ms()))
    return say("new", context.language)


async def stop(context: CommandContext) -> str:
    author = context.house.turns.running_for(context.key)
    if author is None:
        return say("nothing_to_stop", context.language)
    person = context.account.person
    may_stop = author.id == context.account.id or (person is not None and person.role in ("owner", "admin"))
    if not may_stop:
        return say("stop_not_yours", context.language)
    context.house.turns.stop(context.key)
    return say("stopped", context.language)


async def status(context: CommandContext) -> str:
    house = context.house
    busy = "status_busy" if house.turns.running_for(context.key) else "status_idle"
    return say(
        "status",
        context.language,
        version=house.version,
        model=house.model or "-",
        platforms=", ".join(house.platforms()),
        busy=say(busy, context.language),
    )


async def whoami(context: CommandContext) -> str:
    person = context.account.person
    if person is None:
        label, role = context.account.label or context.account.user_id, "guest"
        accounts = [context.account]
    else:
        label, role = person.name or person.slug, person.role
        accounts = list(await context.house.database.read(lambda c: people.accounts_of(c, person.id)))
    places = ", ".join(f"{account.platform} {account.user_id}" for account in accounts)
    return say(
        "whoami",
        context.language,
        name=label,
        role=describe_role(role, context.language),
        accounts=places,
    )


async def show_usage(context: CommandContext) -> str:
    since_ms = now_ms() - 30 * 86_400_000
    account = context.account
    ids = [account.id]
    if account.person is not None:
        person_id = account.person.id
        owned = await context.house.database.read(lambda c: people.accounts_of(c, person_id))
        ids = [own.id for own in owned]
    spent = await context.house.database.read(lambda c: usage.total(c, ids, since_ms))
    return say(
        "usage",
        context.language,
        calls=spent.calls,
        prompt=f"{spent.tokens.prompt_tokens:,}",
        cached=f"{spent.tokens.cached_tokens:,}",
        completion=f"{spent.tokens.completion_tokens:,}",
    )


async def show_memory(context: CommandContext) -> str:
    known = await context.house.memory.read(scope_of(context.account, context.room))
    parts = [say("memory_unreadable", context.language)] if known.unreadable else []
    for heading, entries in (("memory_user", known.user), ("memory_notes", known.memory)):
        if entries:
            listed = "\n".join(f"- {entry}" for entry in entries)
            parts.append(f"{say(heading, context.language)}\n\n{listed}")
    return "\n\n".join(parts) or say("memory_empty", context.language)


async def list_sessions(context: CommandContext) -> str:
    scope = scope_of(context.account, context.room)
    cards = await context.house.search.browse(scope, LISTED)
    if not cards:
        return say("sessions_none", context.language)
    return "\n".join([say("sessions", context.language), "", *(f"- {_line(card)}" for card in cards)])


async def search(context: CommandContext) -> str:
    if not context.argument.strip():
        return say("search_what", context.language)
    try:
        found = await context.house.search.search(
            scope_of(context.account, context.room), SearchQuery(context.argument, limit=5)
        )
    except SearchFailed:
        return say("search_failed", context.language)
    if not found.hits:
        return say("search_none", context.language, query=context.argument)
    parts = []
    for hit in found.hits:
        lines = [f"> {line.author}: {_short(line.text)}" for line in hit.excerpt if line.matched]
        parts.append("\n".join([f"**{_line(hit.card)}**", *lines[:2]]))
    return "\n\n".join(parts)


async def approve(context: CommandContext) -> str:
    found = await context.house.database.write(
        lambda c: identity.approve(c, context.argument, now_ms(), typed_by=context.account.id)
    )
    if isinstance(found, codes.Refused):
        return say("code_locked" if found.locked_until_ms else "code_wrong", context.language)
    return say("approved", context.language, name=found.person.name or found.person.slug)


async def allow(context: CommandContext) -> str:
    room = context.room
    if room is None:
        return say("room_allow_where", context.language)

    def work(connection: Connection) -> None:
        people.change_room(connection, room.id, allowed=True, source="command")

    await context.house.database.write(work)
    return say("room_allowed", context.language)


def _line(card: SessionCard) -> str:
    title = card.title or card.preview or "…"
    return f"{_short(title)} ({card.platform}, {card.last:%Y-%m-%d})"


def _short(text: str, max_chars: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


COMMANDS: tuple[Command, ...] = (
    Command("start", start),
    Command("help", show_help, control=True),
    Command("new", begin_anew),
    Command("stop", stop, control=True),
    Command("status", status, control=True),
    Command("whoami", whoami, private=True, control=True),
    Command("usage", show_usage, private=True, control=True),
    Command("memory", show_memory, role="member", private=True),
    Command("sessions", list_sessions, role="member", private=True),
    Command("search", search, argument="words", role="member", private=True),
    Command("approve", approve, argument="code", role="owner", private=True),
    Command("allow", allow, argument="here", role="owner", everywhere=True),
)

BY_NAME = {command.name: command for command in COMMANDS}
