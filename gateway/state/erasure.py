"""Removes one person from state.db: their conversations whole, their words in rooms, and all that names them.

What is outside of state.db, and the order of it all, is erasing's.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from trunkline.agent.memory.entries import normalise
from trunkline.agent.scope import AccountId, PersonId, RoomId, RoomScope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import BadPayload, load_outbound
from trunkline.gateway.state import (
    codes,
    deletion,
    files,
    forgetting,
    fulltext,
    gone,
    links,
    people,
    provider_rows,
    reminders,
    spent_today,
)
from trunkline.gateway.state.forgetting import Fact
from trunkline.gateway.state.heard import erase_author
from trunkline.gateway.state.messages import set_message_state
from trunkline.gateway.state.outbox import is_private_answer_to
from trunkline.gateway.state.records import Account, Person, SessionKey
from trunkline.gateway.state.schema import (
    account,
    attachment,
    code,
    dropped_file,
    home,
    inbox,
    indexed_message,
    kv,
    link_request,
    memory_journal,
    message,
    metadata,
    outbox,
    person,
    person_alias,
    room,
    room_member,
    session,
    stream,
    turn,
    usage,
)

_LINES_AT_ONCE = 500

ERASED = "erased"
"""The platform of an account of which only the row is left, since rows of rooms refer to it."""


OWN_FACTS = ("memory.numbers.", "memory.paused.", "delete-me.")
"""Beginnings of the keys of small facts that end with a person's slug; others end with `.person:<slug>`."""


@dataclass(frozen=True, slots=True)
class RoomFact:
    """An entry of a room's memory that this person brought."""

    scope: RoomScope
    text: str


def running(
    connection: Connection, accounts: Sequence[Account], *, direct_only: bool = False
) -> tuple[SessionKey, ...]:
    """The keys under which turns of these accounts run, in rooms as well unless `direct_only`."""
    ids = [one.id for one in accounts]
    own = select(stream.c.id).where(stream.c.account_id.in_(ids))
    query = (
        select(session.c.platform, session.c.tenant, session.c.chat, session.c.thread, session.c.member)
        .join(turn, turn.c.session_id == session.c.id)
        .where(
            turn.c.account_id.in_(ids),
            turn.c.state == "running",
            session.c.stream_id.in_(own) if direct_only else true(),
        )
        .distinct()
    )
    return tuple(SessionKey(*row) for row in connection.execute(query))


def facts_in_rooms(connection: Connection, accounts: Sequence[Account]) -> tuple[RoomFact, ...]:
    """What these accounts brought into memories of rooms, by the journal: entries that their writes added."""
    ids = [one.id for one in accounts]
    rows = connection.execute(
        select(memory_journal)
        .where(memory_journal.c.account_id.in_(ids), memory_journal.c.owner.startswith("room:"))
        .order_by(memory_journal.c.id)
    )
    found: dict[tuple[str, str], RoomFact] = {}
    for row in rows:
        before = {normalise(entry) for entry in json.loads(row.before or "[]")}
        scope = RoomScope(RoomId(row.owner.removeprefix("room:")), AccountId(row.account_id))
        for entry in json.loads(row.after or "[]"):
            if normalise(entry) not in before:
                found[row.owner, normalise(entry)] = RoomFact(scope, entry)
    return tuple(found.values())


def count(connection: Connection, who: Person) -> tuple[int, int]:
    """How many conversations are a person's own, and how many messages are in them or are theirs in rooms."""
    ids = [one.id for one in people.accounts_of(connection, who.id)]
    own = (
        select(session.c.id)
        .join(stream, stream.c.id == session.c.stream_id)
        .where(stream.c.account_id.in_(ids))
    )
    theirs = or_(message.c.session_id.in_(own), message.c.account_id.in_(ids))
    conversations = connection.execute(select(func.count()).select_from(own.subquery())).scalar_one()
    messages = connection.execute(select(func.count()).select_from(message).where(theirs)).scalar_one()
    return conversations, messages


def erase(
    connection: Connection,
    who: Person,
    facts: Sequence[RoomFact],
    command_row: int | None,
    *,
    keeps_entry: bool,
) -> None:
    """Everything in one transaction. `keeps_entry`: config.yaml names them, so person and accounts stay.

    `command_row` is the inbox row of the command that asked for it, which is yet to be answered.
    """
    accounts = people.accounts_of(connection, who.id)
    ids = [one.id for one in accounts]
    slugs = (who.slug, *links.former_slugs(connection, who.slug))
    _erase_conversations(connection, ids)
    _erase_from_rooms(connection, ids, facts)
    erase_author(connection, ids)
    _erase_from_queues(connection, ids, command_row)
    for slug in slugs:
        _erase_owned(connection, slug)
    reminders.erase(connection, ids, slugs)
    those = select(person.c.id).where(person.c.slug.in_(slugs))
    connection.execute(delete(home).where(home.c.person_id.in_(those)))
    _erase_usage(connection, ids)
    for table in (code, room_member):
        connection.execute(delete(table).where(table.c.account_id.in_(ids)))
    _erase_small_facts(connection, ids, those)
    asked = or_(link_request.c.asker_id.in_(ids), link_request.c.other_id.in_(ids))
    connection.execute(delete(link_request).where(asked))
    connection.execute(delete(person_alias).where(person_alias.c.person_id == who.id))
    connection.execute(delete(person).where(person.c.slug.in_(slugs[1:])))
    if not keeps_entry:
        spent_today.keep(connection, accounts, now_ms())
        _erase_accounts(connection, ids)
        connection.execute(delete(person).where(person.c.id == who.id))
    fulltext.forget_removed(connection)


def _erase_conversations(connection: Connection, ids: Sequence[int]) -> None:
    own = tuple(connection.execute(select(stream.c.id).where(stream.c.account_id.in_(ids))).scalars())
    found = connection.execute(select(session.c.public_id).where(session.c.stream_id.in_(own)))
    for public_id in found.scalars().all():
        deletion.delete_session(connection, own, public_id)
    files.drop(connection, attachment.c.stream_id.in_(own))


def _erase_from_rooms(connection: Connection, ids: Sequence[int], facts: Sequence[RoomFact]) -> None:
    """Blanks what they said in rooms, and every copy of what they brought into rooms' memories."""
    said = connection.execute(
        select(message.c.id, message.c.account_id, room.c.slug)
        .join(session, session.c.id == message.c.session_id)
        .join(stream, stream.c.id == session.c.stream_id)
        .join(room, room.c.id == stream.c.room_id)
        .where(message.c.account_id.in_(ids))
    ).all()
    for slug in {row.slug for row in said}:
        lines = [row.id for row in said if row.slug == slug]
        for start in range(0, len(lines), _LINES_AT_ONCE):
            some = lines[start : start + _LINES_AT_ONCE]
            files.drop_of_messages(connection, some)
            _blank_titles(connection, some)
            set_message_state(connection, RoomScope(RoomId(slug), AccountId(ids[0])), some, "redacted")
    for table in (message, indexed_message):
        connection.execute(update(table).where(table.c.account_id.in_(ids)).values(account_id=None))
    for one in facts:
        forgetting.erase_copies(connection, one.scope, Fact((one.text,)))
    connection.execute(delete(memory_journal).where(memory_journal.c.account_id.in_(ids)))


def _blank_titles(connection: Connection, lines: Sequence[int]) -> None:
    """Takes the titles away that were made from one of these messages, the first of its session."""
    earlier = message.alias()
    one_before = exists().where(
        earlier.c.session_id == message.c.session_id, earlier.c.role == "user", earlier.c.seq < message.c.seq
    )
    begun = select(message.c.session_id).where(
        message.c.id.in_(lines), message.c.role == "user", ~one_before.correlate(message)
    )
    connection.execute(update(session).where(session.c.id.in_(begun)).values(title=""))


def _erase_from_queues(connection: Connection, ids: Sequence[int], command_row: int | None) -> None:
    """The inbox and the outbox of their direct chats; what others were sent in rooms stays."""
    theirs = select(inbox.c.platform, inbox.c.chat).where(inbox.c.account_id.in_(ids)).distinct().subquery()
    is_room = exists().where(room.c.platform == outbox.c.platform, room.c.chat == outbox.c.chat)
    direct = exists().where(theirs.c.platform == outbox.c.platform, theirs.c.chat == outbox.c.chat)
    own = and_(direct, ~is_room)
    _drop_files_sent(connection, own)
    connection.execute(delete(outbox).where(or_(own, is_private_answer_to(ids))))
    mine = inbox.c.account_id.in_(ids)
    places = select(inbox.c.platform, inbox.c.tenant, inbox.c.chat, inbox.c.thread).where(mine).distinct()
    for place in connection.execute(places).all():
        gone.clear(connection, *place)
    files.drop(connection, attachment.c.inbox_id.in_(select(inbox.c.id).where(mine)))
    # Their names go as well: SQLite gives the newest row's id to the next message, whose reply is another.
    replies = outbox.c.source.in_(select(literal("i:") + cast(inbox.c.id, Text)).where(mine))
    unnamed = literal("e:") + cast(outbox.c.id, Text)
    connection.execute(update(outbox).where(replies).values(payload="", source=unnamed))
    keeps = inbox.c.id == command_row
    connection.execute(delete(inbox).where(mine, ~keeps) if command_row else delete(inbox).where(mine))


def _drop_files_sent(connection: Connection, own: ColumnElement[bool]) -> None:
    """Notes contents that no row but the outbox's refers to, such as the person's own copy."""
    query = select(outbox.c.payload).where(own, outbox.c.kind == "file", outbox.c.payload != "")
    hashes: set[str] = set()
    for payload in connection.execute(query).scalars():
        with suppress(BadPayload):
            hashes.update(file.sha256 for file in load_outbound(payload).files if file.sha256)
    for sha256 in hashes.difference(files.dropped(connection)):
        connection.execute(insert(dropped_file).values(sha256=sha256))


def _erase_usage(connection: Connection, ids: Sequence[int]) -> None:
    """The last day's stays, as numbers: nobody who comes back has a second share of the day."""
    own = usage.c.account_id.in_(ids)
    connection.execute(update(usage).where(own).values(session_id=None, turn_id=None))
    connection.execute(delete(usage).where(own, usage.c.created_ms <= now_ms() - spent_today.DAY_MS))


def _erase_owned(connection: Connection, slug: PersonId) -> None:
    """Rows that name the person as their owner, in whatever table, and small facts kept under the slug.

    What memory providers hold is erased there; the rows that have it done go when it is.
    """
    providers = provider_rows.holders(connection, f"person:{slug}")
    for table in reversed(metadata.sorted_tables):
        if "owner" in table.c and table not in (inbox, turn):  # there it is a process
            connection.execute(delete(table).where(table.c.owner == f"person:{slug}"))
    provider_rows.forget_all(connection, f"person:{slug}", providers, now_ms())
    connection.execute(delete(kv).where(kv.c.key.in_([f"{prefix}{slug}" for prefix in OWN_FACTS])))
    connection.execute(delete(kv).where(kv.c.key.endswith(f".person:{slug}", autoescape=True)))
    connection.execute(delete(kv).where(kv.c.key.startswith(f"{people.LEFT}{slug}/", autoescape=True)))


def _erase_small_facts(connection: Connection, ids: Sequence[int], those: Select[Any]) -> None:
    """The small facts kept by the number of a person or an account; those by a slug go with what is owned."""
    persons = connection.execute(those).scalars()
    keys = [f"greeted.{one}" for one in persons]
    keys += [f"language.{one}" for one in ids]
    keys += [f"wrong_codes:{purpose}:{one}" for purpose in codes.PURPOSES for one in ids]
    connection.execute(delete(kv).where(kv.c.key.in_(keys)))
    for one in ids:
        connection.execute(delete(kv).where(kv.c.key.startswith(f"vision.told.{one}:", autoescape=True)))


def _erase_accounts(connection: Connection, ids: Sequence[int]) -> None:
    """Turns in rooms refer to accounts, so the rows stay, without anything in them that names somebody."""
    for one in ids:
        values = {"platform": ERASED, "realm": "", "user_id": str(one), "label": "", "source": ""}
        connection.execute(
            update(account).where(account.c.id == one).values(**values, person_id=None, blocked=False)
        )
