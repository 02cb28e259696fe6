"""The chat commands on what was just said: queue, retry, take back, branch off, choose the model."""

from sqlalchemy import Connection

from trunkline.agent.memory.entries import preview
from trunkline.gateway import undoing
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.memory_control import number_in
from trunkline.gateway.roles import may
from trunkline.gateway.sentences import say
from trunkline.gateway.state import inbox, resuming, sessions
from trunkline.gateway.state.records import scope_of

SHOWN_CHARS = 60


async def show_queue(context: CommandContext) -> str:
    """`/queue` alone; with words it never comes here, since the router stores them as a message."""
    count = await context.house.database.read(lambda c: inbox.count_waiting(c, context.key))
    return say("queue_waiting" if count else "queue_empty", context.language, count=count)


async def retry(context: CommandContext) -> str:
    """Never comes here where there is something to try again: the router stores it as a turn."""
    return say("retry_nothing", context.language)


async def undo(context: CommandContext) -> str:
    words, house = context.argument.strip(), context.house
    count = (number_in(words) or 0) if words else 1
    if not 1 <= count <= undoing.MOST:
        return say("undo_turns_what", context.language, most=undoing.MOST)
    found = await undoing.take_back(
        house.database,
        house.memory,
        scope_of(context.account, context.room),
        context.key,
        count,
        by=context.account.id,
        may_all=context.room is None or may(context.account, "undo_others"),
    )
    if found is None:
        return say("undo_turns_not_yours", context.language)
    if not found.turns:
        return say("undo_turns_none", context.language)
    for platform, chat in found.chats:
        house.kick(platform, chat)
    what = preview(found.turns[-1].text, SHOWN_CHARS)
    many = "undone_one" if len(found.turns) == 1 else "undone_many"
    told = [say(many, context.language, what=what, count=len(found.turns))]
    if found.memory:
        told.append(say(found.memory, context.language))
    return " ".join(told)


async def branch(context: CommandContext) -> str:
    def work(connection: Connection) -> bool:
        return resuming.branch(connection, context.key, now_ms()) is not None

    branched = await context.house.database.write(work)
    return say("branched" if branched else "branch_nothing", context.language)


async def choose_model(context: CommandContext) -> str:
    """The model that answers in this conversation, or another one in its place."""
    house, wanted = context.house, context.argument.strip()
    named = ", ".join(f"`{name}`" for name in house.models)
    if not house.model:
        return say("model_missing", context.language)
    if not wanted:
        current = await house.database.read(lambda c: sessions.find_open(c, context.key))
        name = current.model if current is not None and current.model in house.models else house.model
        told = [say("model_is", context.language, model=f"`{name}`")]
        if len(house.models) > 1:
            told.append(say("model_choices", context.language, models=named))
        return " ".join(told)
    chosen = find_model(wanted, house.models)
    if chosen is None:
        return say("model_unknown", context.language, name=preview(wanted, SHOWN_CHARS), models=named)
    await house.database.write(lambda c: sessions.choose_model(c, context.key, chosen))
    return say("model_set", context.language, model=f"`{chosen}`")


def find_model(wanted: str, models: tuple[str, ...]) -> str | None:
    """The configured model of that name, or the only one whose name begins with it."""
    if wanted in models:
        return wanted
    near = [name for name in models if name.casefold().startswith(wanted.casefold())]
    return near[0] if len(near) == 1 else None
