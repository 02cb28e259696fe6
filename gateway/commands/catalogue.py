"""The commands there are."""

from sqlalchemy import Connection

from trunkline.gateway import budgets, identity, private_mode
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands import compress, linking, memory, private, rights, skills, turns
from trunkline.gateway.commands import people as commands_people
from trunkline.gateway.commands.registry import Command, CommandContext
from trunkline.gateway.commands.reminders import list_reminders, remind, set_home
from trunkline.gateway.commands.sessions import list_sessions, name_session, resume, search
from trunkline.gateway.labels import plain_label
from trunkline.gateway.roles import ACTS, may
from trunkline.gateway.sentences import describe_command, describe_purpose, describe_role, say
from trunkline.gateway.state import codes, inbox, people, usage


async def start(context: CommandContext) -> str:
    """Greets. A link of Telegram's (`?start=CODE`) brings a code along, which counts like `/link CODE`."""
    if context.room is None and codes.looks_like_code(context.argument):
        told = await linking.take_code(context)
        if told is not None:
            return told
    person = context.account.person
    name = person.name if person is not None and person.name else context.account.label
    shown = plain_label(name) or say("nameless", context.language)
    return say("welcome", context.language, name=shown)


async def show_help(context: CommandContext) -> str:
    """All commands that the asker may use where they are, or one of them."""
    name = context.argument.strip().removeprefix("/").lower()
    if name:
        return _help_of(name, context)
    lines = [
        f"{_usage(command)} — {describe_command(command.name, context.language)}"
        for command in COMMANDS
        if command.allows(context.account) and not (command.private and context.room is not None)
    ]
    return "\n".join([say("help", context.language), "", *(f"- {line}" for line in lines)])


def _help_of(name: str, context: CommandContext) -> str:
    command = BY_NAME.get(name)
    if command is None or not command.allows(context.account):
        return say("help_unknown", context.language, name=name[:32])
    where = say("help_direct", context.language) if command.private else ""
    what = describe_command(name, context.language).rstrip(".。")
    return say("help_one", context.language, usage=_usage(command), what=what, where=where)


def _usage(command: Command) -> str:
    return f"/{command.name} {command.argument}".rstrip()


async def begin_anew(context: CommandContext) -> str:
    if context.room is not None and not may(context.account, "new_in_room"):
        return say("not_yours", context.language, role=describe_role(ACTS["new_in_room"], context.language))
    was_private = await private_mode.end(context.house.database, context.key, "new")
    return say("private_off" if was_private else "new", context.language)


async def stop(context: CommandContext) -> str:
    author = context.house.turns.running_for(context.key)
    if author is None:
        return say("nothing_to_stop", context.language)
    if author != context.account.id and not may(context.account, "stop_others"):
        return say("stop_not_yours", context.language)
    waiting = await context.house.database.read(lambda c: inbox.count_waiting(c, context.key))
    gathered = context.house.turns.stop_gathering(context.key)
    if not gathered and not context.house.turns.stop(context.key):
        return say("nothing_to_stop", context.language)
    waiting = max(waiting - gathered, 0)
    told = "stopped" if not waiting else "stopped_one_waits" if waiting == 1 else "stopped_some_wait"
    return say(told, context.language, count=waiting)


async def status(context: CommandContext) -> str:
    house = context.house
    busy = "status_busy" if house.turns.running_for(context.key) else "status_idle"
    return say(
        "status",
        context.language,
        version=house.version,
        model=house.model or say("model_none", context.language),
        platforms=house.platforms(context.language),
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
        name=plain_label(label) or "?",
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
    today = await context.house.database.read(
        lambda c: budgets.look(c, account, None, context.house.settings, now_ms(), count_always=True)
    )
    lines = [
        say(
            "usage_line",
            context.language,
            purpose=describe_purpose(one.purpose, context.language),
            calls=say("calls_one" if one.calls == 1 else "calls", context.language, count=one.calls),
            prompt=f"{one.tokens.prompt_tokens:,}",
            cached=f"{one.tokens.cached_tokens:,}",
            completion=f"{one.tokens.completion_tokens:,}",
        )
        + _cost(one.cost_micros, context.language)
        for one in spent
    ]
    return "\n".join([say("usage", context.language), "", *lines, "", _today(today, context.language)])


def _today(today: budgets.Today, language: str) -> str:
    """What was used since midnight, and of how much."""
    budget = today.budget
    parts = {"of_tokens": "", "cost": _cost(today.used.cost_micros, language)}
    if budget.daily_tokens is not None:
        parts["of_tokens"] = say("usage_of", language, budget=f"{budget.daily_tokens:,}")
    if budget.daily_cost is not None:
        cost = say("usage_cost", language, cost=f"{today.used.cost_micros / 1e6:.2f}")
        parts["cost"] = cost + say("usage_of", language, budget=f"${budget.daily_cost:.2f}")
    return say("usage_today", language, tokens=f"{today.used.tokens:,}", **parts)


def _cost(micros: int, language: str) -> str:
    return say("usage_cost", language, cost=f"{micros / 1e6:.4f}") if micros else ""


async def approve(context: CommandContext) -> str:
    found = await context.house.database.write(
        lambda c: identity.approve(c, context.argument, now_ms(), typed_by=context.account.id)
    )
    if isinstance(found, codes.Refused):
        return say("code_locked" if found.locked_until_ms else "code_wrong", context.language)
    return say("approved", context.language, name=plain_label(found.person.name) or found.person.slug)


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
    Command("help", show_help, argument="[command]", control=True),
    Command("new", begin_anew),
    Command("stop", stop, control=True),
    Command("status", status, control=True),
    Command("whoami", whoami, private=True, control=True, asker_only=True),
    Command("usage", show_usage, private=True, control=True, asker_only=True),
    Command(
        "memory",
        memory.run,
        argument="[add|edit|forget|search|undo|pause|export] …",
        role="member",
        private=True,
        asker_only=True,
    ),
    Command(
        "skills",
        skills.run,
        argument="[show|undo|archive|restore|pin|unpin] …",
        role="member",
        private=True,
    ),
    Command("private", private.run, argument="[off]", private=True),
    Command("sessions", list_sessions, role="member", private=True, asker_only=True),
    Command("resume", resume, argument="<number or title>", role="member", private=True),
    Command("title", name_session, argument="<words>", role="member"),
    Command("search", search, argument="<words>", role="member", private=True, asker_only=True),
    Command("link", linking.link, argument="[code|yes|no|undo]", private=True),
    Command("unlink", linking.unlink, argument="[which]", private=True),
    Command("export", rights.export, private=True),
    Command("delete-me", rights.delete_me, argument="[word]", private=True),
    Command("people", commands_people.list_people, role="admin", private=True),
    Command("retry", turns.retry, argument="[model]"),
    Command("undo", turns.undo, argument="[how many]"),
    Command("queue", turns.show_queue, argument="[words]"),
    Command("branch", turns.branch),
    Command("compress", compress.run, argument="[focus]", role="member"),
    Command("remind", remind, argument="<when> <what>"),
    Command("reminders", list_reminders, argument="[cancel <number>]"),
    Command("sethome", set_home, argument="[off]", private=True),
    Command("model", turns.choose_model, argument="[name]", role="member"),
    Command("approve", approve, argument="<code>", role="owner", private=True),
    Command("deny", commands_people.deny, argument="<code>", role="owner", private=True),
    Command("role", commands_people.set_role, argument="<name> <role>", role="owner", private=True),
    Command("block", commands_people.block, argument="<name> [off]", role="admin", private=True),
    Command("allow", allow, argument="here", role="owner", everywhere=True),
)

BY_NAME = {command.name: command for command in COMMANDS}
