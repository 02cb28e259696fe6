"""The commands there are."""

from sqlalchemy import Connection

from trunkline.gateway import identity, private_mode
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands import memory, private
from trunkline.gateway.commands.registry import Command, CommandContext
from trunkline.gateway.commands.sessions import list_sessions, name_session, resume, search
from trunkline.gateway.sentences import describe_command, describe_purpose, describe_role, say
from trunkline.gateway.state import codes, people, usage


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
    was_private = await private_mode.end(context.house.database, context.key, "new")
    return say("private_off" if was_private else "new", context.language)


async def stop(context: CommandContext) -> str:
    author = context.house.turns.running_for(context.key)
    if author is None:
        return say("nothing_to_stop", context.language)
    person = context.account.person
    may_stop = author == context.account.id or (person is not None and person.role in ("owner", "admin"))
    if not may_stop:
        return say("stop_not_yours", context.language)
    is_stopped = context.house.turns.stop(context.key)
    return say("stopped" if is_stopped else "nothing_to_stop", context.language)


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
    spent = await context.house.database.read(lambda c: usage.by_purpose(c, ids, since_ms))
    if not spent:
        return say("usage_none", context.language)
    lines = [
        say(
            "usage_line",
            context.language,
            purpose=describe_purpose(one.purpose, context.language),
            calls=one.calls,
            prompt=f"{one.tokens.prompt_tokens:,}",
            cached=f"{one.tokens.cached_tokens:,}",
            completion=f"{one.tokens.completion_tokens:,}",
        )
        for one in spent
    ]
    return "\n".join([say("usage", context.language), "", *lines])


async def approve(context: CommandContext) -> str:
    found = await context.house.database.write(
        lambda c: identity.approve(c, context.argument, now_ms(), typed_by=context.account.id)
    )
    if isinstance(found, codes.Refused):
        return say("code_locked" if found.locked_until_ms else "code_wrong", context.language)
    return say("approved", context.language, name=found.person.name or found.person.slug)


async def allow(context: CommandContext) -> str:
    room = context.room
    if room is None or context.argument.strip().lower() != "here":
        return say("room_allow_where", context.language)

    def work(connection: Connection) -> None:
        people.change_room(connection, room.id, allowed=True, source="command")

    await context.house.database.write(work)
    return say("room_allowed", context.language)


COMMANDS: tuple[Command, ...] = (
    Command("start", start),
    Command("help", show_help, control=True),
    Command("new", begin_anew),
    Command("stop", stop, control=True),
    Command("status", status, control=True),
    Command("whoami", whoami, private=True, control=True),
    Command("usage", show_usage, private=True, control=True),
    Command(
        "memory",
        memory.run,
        argument="[add|edit|forget|search|undo|pause|export] …",
        role="member",
        private=True,
    ),
    Command("private", private.run, argument="[off]", private=True),
    Command("sessions", list_sessions, role="member", private=True),
    Command("resume", resume, argument="<number or title>", role="member", private=True),
    Command("title", name_session, argument="<words>", role="member"),
    Command("search", search, argument="<words>", role="member", private=True),
    Command("approve", approve, argument="<code>", role="owner", private=True),
    Command("allow", allow, argument="here", role="owner", everywhere=True),
)

BY_NAME = {command.name: command for command in COMMANDS}
