"""`/link` and `/unlink`: a person brings their own accounts together, and takes one out again."""

from collections.abc import Sequence

from sqlalchemy import Connection

from trunkline.agent.memory.outcomes import Failed
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.scope import AccountId
from trunkline.gateway import joining, linking
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.identity import LOCAL_PLATFORMS, tell
from trunkline.gateway.joining import Choice, TooLong
from trunkline.gateway.linking import NO, YES, Join, describe_account, shown_name
from trunkline.gateway.memory_control import number_in
from trunkline.gateway.sentences import say
from trunkline.gateway.sentences_memory import as_written
from trunkline.gateway.state import codes, erasure, links, people
from trunkline.gateway.state.records import Account, Person, SessionKey

HERE = frozenset({"here", "this", "这里"})
CHOICES: dict[str, Choice] = {"keep 1": "1", "keep 2": "2"}


async def link(context: CommandContext) -> str:
    """Gives a code; takes one; hears yes, no, a choice between two memories, or undo."""
    word = " ".join(context.argument.split()).casefold()
    language, database = context.language, context.house.database
    if not word:
        code = await database.write(lambda c: linking.issue_code(c, context.account, now_ms()))
        return say("link_code", language, code=code)
    if word == "undo":
        return await _undo(context)
    if word in YES | NO or word in CHOICES:
        return await _answer(context, word not in NO, CHOICES.get(word, ""))
    if not codes.looks_like_code(context.argument):
        return say("link_usage", language)
    return await take_code(context) or say("link_code_wrong", language)


async def take_code(context: CommandContext) -> str | None:
    """What somebody known is told for another account's code; None when it is nobody's."""
    return await context.house.database.write(
        lambda c: linking.take_code(c, context.account, context.argument, context.language, now_ms())
    )


async def _answer(context: CommandContext, yes: bool, choice: Choice) -> str:
    house, language = context.house, context.language
    told = await house.database.write(
        lambda c: linking.answer(c, context.account, yes=yes, language=language, now_ms=now_ms())
    )
    if not isinstance(told, Join):
        return told or say("link_nothing", language)
    under_way = await _under_way(context, told.gone)
    joined = await joining.join(house.database, house.memory, house.belongings, told, choice)
    await _stop_lost(context, told.gone, under_way)
    match joined:
        case Failed():
            return say("link_failed", language)
        case TooLong(kept, gone):
            return say("link_choose", language, one=_listed(kept), two=_listed(gone))
        case joining.Joined(left_out):
            parts = [say("joined", language, name=shown_name(told.kept), gone=shown_name(told.gone))]
            parts += [say("joined_left_out", language, count=left_out)] if left_out else []
            return " ".join(parts)


def _listed(known: MemorySnapshot) -> str:
    return "\n".join(f"- {as_written(entry)}" for entry in (*known.user, *known.memory)) or "-"


async def _undo(context: CommandContext) -> str:
    person, house = context.account.person, context.house
    if person is None:
        return say("link_undo_none", context.language)
    latest = await house.database.read(lambda c: links.latest_alias(c, person.id))
    if latest is None:
        return say("link_undo_none", context.language)
    under_way = await _under_way(context, person)
    parted = await joining.part(
        house.database, house.memory, house.belongings, latest.slug, context.account.id
    )
    if parted is None:
        return say("link_undo_none", context.language)
    await _stop_lost(context, person, under_way)
    parts = [say("parted", context.language, name=shown_name(parted.person))]
    parts += [say("parted_lost", context.language, count=parted.lost)] if parted.lost else []
    return " ".join(parts)


async def unlink(context: CommandContext) -> str:
    """Takes one account away from its person; without a name, says which there are."""
    person = context.account.person
    if person is None:
        return say("unlink_alone", context.language)
    under_way = await _under_way(context, person)
    told = await context.house.database.write(lambda c: _unlink(c, context, person))
    await _stop_lost(context, person, under_way)
    return told


async def _under_way(context: CommandContext, person: Person) -> Sequence[tuple[AccountId, SessionKey]]:
    """The answers being written in a person's direct chats, by account."""

    def find(connection: Connection) -> list[tuple[AccountId, SessionKey]]:
        return [
            (one.id, key)
            for one in people.accounts_of(connection, person.id)
            for key in erasure.running(connection, [one], direct_only=True)
        ]

    return await context.house.database.read(find)


async def _stop_lost(
    context: CommandContext, person: Person, under_way: Sequence[tuple[AccountId, SessionKey]]
) -> None:
    """Ends the answers to accounts that are the person's no more; what they were to is answered anew."""
    owned = await context.house.database.read(lambda c: people.accounts_of(c, person.id))
    left = {account for account, _ in under_way}.difference(one.id for one in owned)
    for account, key in under_way:
        if account in left:
            context.house.turns.stop(key)


def _unlink(connection: Connection, context: CommandContext, person: Person) -> str:
    language = context.language
    owned = [one for one in people.accounts_of(connection, person.id) if one.platform not in LOCAL_PLATFORMS]
    chosen = _chosen(owned, context)
    if len(chosen) != 1:
        shown = chosen or owned
        lines = [f"{owned.index(one) + 1}. {describe_account(one, language)}" for one in shown]
        return "\n".join([say("unlink_which", language), "", *lines])
    (account,) = chosen
    if account.source == "config":
        return say("fixed_account", language)
    if len(owned) == 1:
        return say("unlink_alone", language)
    linking.unlink(connection, account, now_ms())
    if account.id != context.account.id:
        tell(connection, account, say("unlinked_you", language), now_ms())
    return say("unlinked", language, who=describe_account(account, language))


def _chosen(owned: list[Account], context: CommandContext) -> list[Account]:
    """The accounts meant by a number of the list, a platform, an id, or `here`."""
    word = context.argument.strip().casefold()
    if word in HERE:
        return [one for one in owned if one.id == context.account.id]
    if 0 < (number := number_in(word) or 0) <= len(owned):
        return [owned[number - 1]]
    return [one for one in owned if word and word in (one.platform, one.user_id.casefold())]
