"""Queries on persons, accounts, rooms and the streams that are the units of scope."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, Scope
from trunkline.gateway.state.kv import get_value, put_value
from trunkline.gateway.state.records import Account, Person, Room
from trunkline.gateway.state.schema import (
    account,
    heard,
    inbox,
    kv,
    outbox,
    person,
    reminder,
    room,
    room_member,
    session,
    stream,
    turn,
)
from trunkline.gateway.state.spent_today import hand_over

SLUG_CHARS = 28
RESERVED_SLUGS = frozenset({"rooms", "shared", "local"})

CHANGED = "person changed"
"""Why a turn or a session of an account ended that became somebody else's."""

LEFT = "account.left."
"""Begins the key under which it is kept which accounts were a person's."""

_NOW, _BEFORE = "room.now.", "room.before."
"""Begin the keys under which it is kept what other id a chat that moved has now, and had before."""


def slugify(name: str, taken: Iterable[str] = ()) -> PersonId:
    """A short ASCII slug for a name in any script, different from every one in `taken`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    base = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_CHARS].strip("-") or "person"
    base = base if base[0].isalpha() else f"p-{base}"
    used = RESERVED_SLUGS.union(taken)
    candidate, n = base, 2
    while candidate in used:
        candidate, n = f"{base}-{n}", n + 1
    return PersonId(candidate)


def room_slug(platform: str, realm: str, chat: str) -> RoomId:
    """A folder-safe name for a room, different for every (platform, realm, chat)."""
    plain = "-".join(part for part in (platform, realm, chat) if part)
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", plain)[:60]
    if safe == plain and "-" not in realm + chat.removeprefix("-"):
        return RoomId(safe)
    digest = hashlib.sha256("\0".join((platform, realm, chat)).encode()).hexdigest()[:10]
    return RoomId(f"{safe}-{digest}")


# Persons


def list_people(connection: Connection) -> tuple[Person, ...]:
    return tuple(_person(row) for row in connection.execute(select(person).order_by(person.c.slug)))


def find_person(connection: Connection, slug: str) -> Person | None:
    row = connection.execute(select(person).where(person.c.slug == slug)).first()
    return None if row is None else _person(row)


def person_of(connection: Connection, scope: Scope) -> Person | None:
    """Whose a scope is, or who asks in a room."""
    if isinstance(scope, PersonScope):
        return find_person(connection, scope.person)
    return load_account(connection, scope.asker).person


def add_person(
    connection: Connection, slug: str, *, name: str, role: str, source: str, now_ms: int, language: str = ""
) -> Person:
    connection.execute(
        insert(person).values(
            slug=slug, name=name, role=role, source=source, language=language, created_ms=now_ms
        )
    )
    found = find_person(connection, slug)
    assert found is not None
    return found


def change_person(connection: Connection, person_id: int, **values: object) -> None:
    connection.execute(update(person).where(person.c.id == person_id).values(**values))


def owners(connection: Connection) -> tuple[Person, ...]:
    """Those whom config.yaml names first."""
    query = (
        select(person)
        .where(person.c.role == "owner", ~person.c.suspended)
        .order_by(person.c.source != "config", person.c.id)
    )
    return tuple(_person(row) for row in connection.execute(query))


# Accounts


def _accounts() -> Select[Any]:
    return select(
        account,
        person.c.id.label("p_id"),
        person.c.slug,
        person.c.name,
        person.c.role,
        person.c.timezone,
        person.c.language,
        person.c.source.label("p_source"),
        person.c.suspended,
    ).select_from(account.outerjoin(person, account.c.person_id == person.c.id))


def find_account(connection: Connection, platform: str, realm: str, user_id: str) -> Account | None:
    query = _accounts().where(
        account.c.platform == platform, account.c.realm == realm, account.c.user_id == user_id
    )
    row = connection.execute(query).first()
    return None if row is None else _account(row)


def load_account(connection: Connection, account_id: AccountId) -> Account:
    return _account(connection.execute(_accounts().where(account.c.id == account_id)).one())


def accounts_of(connection: Connection, person_id: int) -> tuple[Account, ...]:
    query = _accounts().where(account.c.person_id == person_id).order_by(account.c.id)
    return tuple(_account(row) for row in connection.execute(query))


def ensure_account(
    connection: Connection, platform: str, realm: str, user_id: str, *, label: str, now_ms: int
) -> Account:
    """The account's row, made when it is new; its label follows what the platform shows now."""
    found = find_account(connection, platform, realm, user_id)
    if found is None:
        values = {"platform": platform, "realm": realm, "user_id": user_id, "label": label}
        made = insert(account).values(**values, created_ms=now_ms).returning(account.c.id)
        hand_over(connection, platform, realm, user_id, AccountId(connection.execute(made).scalar_one()))
    elif label and found.label != label:
        connection.execute(update(account).where(account.c.id == found.id).values(label=label))
    else:
        return found
    found = find_account(connection, platform, realm, user_id)
    assert found is not None
    return found


def give_account(connection: Connection, account_id: AccountId, person_id: int | None, source: str) -> None:
    """Makes an account a person's own, or nobody's.

    When the person changes, what is open in its direct chats ends: prompts there hold what is known of the
    person before. A message whose answer was under way waits to be answered anew.
    """
    before = connection.execute(select(account.c.person_id).where(account.c.id == account_id)).scalar()
    if before is not None and before != person_id:
        _end_direct_sessions(connection, account_id)
        _note_left(connection, account_id, before)
    connection.execute(
        update(account).where(account.c.id == account_id).values(person_id=person_id, source=source)
    )


def accounts_left(connection: Connection, slug: PersonId) -> tuple[tuple[AccountId, int], ...]:
    """The accounts that were a person's once, each with the last session row it had when it ceased to be."""
    query = select(kv.c.key, kv.c.value).where(kv.c.key.startswith(f"{LEFT}{slug}/", autoescape=True))
    return tuple(
        (AccountId(int(row.key.rpartition("/")[2])), int(row.value)) for row in connection.execute(query)
    )


def _note_left(connection: Connection, account_id: AccountId, person_id: int) -> None:
    slug = connection.execute(select(person.c.slug).where(person.c.id == person_id)).scalar_one()
    last = (
        select(func.max(session.c.id))
        .join(stream, stream.c.id == session.c.stream_id)
        .where(stream.c.account_id == account_id)
    )
    put_value(connection, f"{LEFT}{slug}/{account_id}", str(connection.execute(last).scalar() or 0))


def _end_direct_sessions(connection: Connection, account_id: AccountId) -> None:
    streams = select(stream.c.id).where(stream.c.account_id == account_id)
    of_theirs = select(session.c.id).where(session.c.stream_id.in_(streams))
    running = select(turn.c.id).where(turn.c.session_id.in_(of_theirs), turn.c.state == "running")
    connection.execute(update(inbox).where(inbox.c.turn_id.in_(running)).values(turn_id=None))
    connection.execute(update(turn).where(turn.c.id.in_(running)).values(state="stopped", reason=CHANGED))
    connection.execute(
        update(session)
        .where(session.c.stream_id.in_(streams), session.c.ended_ms.is_(None))
        .values(ended_ms=session.c.last_ms, end_reason=CHANGED)
    )


def block_account(connection: Connection, account_id: AccountId, *, blocked: bool) -> None:
    """A blocked account is answered nowhere, whoever's it is."""
    connection.execute(update(account).where(account.c.id == account_id).values(blocked=blocked))


def accounts_from(connection: Connection, source: str) -> tuple[Account, ...]:
    query = _accounts().where(account.c.source == source)
    return tuple(_account(row) for row in connection.execute(query))


# Rooms


def find_room(connection: Connection, platform: str, realm: str, chat: str) -> Room | None:
    query = select(room).where(room.c.platform == platform, room.c.realm == realm, room.c.chat == chat)
    row = connection.execute(query).first()
    return None if row is None else _room(row)


def list_rooms(connection: Connection) -> tuple[Room, ...]:
    return tuple(_room(row) for row in connection.execute(select(room).order_by(room.c.id)))


def load_room(connection: Connection, room_id: int) -> Room:
    return _room(connection.execute(select(room).where(room.c.id == room_id)).one())


def ensure_room(
    connection: Connection, platform: str, realm: str, chat: str, *, title: str, now_ms: int
) -> Room:
    found = find_room(connection, platform, realm, chat)
    if found is None:
        slug = room_slug(platform, realm, chat)
        connection.execute(
            insert(room).values(
                slug=slug, platform=platform, realm=realm, chat=chat, title=title, created_ms=now_ms
            )
        )
    elif title and found.title != title:
        connection.execute(update(room).where(room.c.id == found.id).values(title=title))
    else:
        return found
    found = find_room(connection, platform, realm, chat)
    assert found is not None
    return found


def room_ids(connection: Connection, places: Iterable[tuple[str, str, str]]) -> tuple[int, ...]:
    """The rows of those rooms (platform, realm, chat) that are known, wherever they moved."""
    found = (find_room(connection, *place[:2], chat_now(connection, *place)) for place in places)
    return tuple(one.id for one in found if one is not None)


def change_room(connection: Connection, room_id: int, **values: object) -> None:
    connection.execute(update(room).where(room.c.id == room_id).values(**values))


def rooms_from(connection: Connection, source: str) -> tuple[Room, ...]:
    return tuple(_room(row) for row in connection.execute(select(room).where(room.c.source == source)))


def move_room(connection: Connection, platform: str, realm: str, old_chat: str, new_chat: str) -> None:
    """A chat has a new id (a Telegram group became a supergroup): everything that names the old one follows.

    The room keeps its slug, so its memory stays where it is. Does nothing when the new id is known already,
    unless as that of a room that nobody allowed.
    """
    found, there = (find_room(connection, platform, realm, chat) for chat in (old_chat, new_chat))
    if found is None or (there is not None and there.allowed):
        return
    if there is not None:
        change_room(connection, there.id, chat=f"before {new_chat}", source="")
    put_value(connection, f"{_NOW}{platform}:{realm}:{old_chat}", new_chat)
    put_value(connection, f"{_BEFORE}{platform}:{realm}:{new_chat}", old_chat)
    change_room(connection, found.id, chat=new_chat)
    for table in (session, inbox, outbox, heard, reminder):
        connection.execute(
            update(table).where(table.c.platform == platform, table.c.chat == old_chat).values(chat=new_chat)
        )


def chat_now(connection: Connection, platform: str, realm: str, chat: str) -> str:
    """The id that a chat has now, if it moved."""
    return get_value(connection, f"{_NOW}{platform}:{realm}:{chat}") or chat


def chat_before(connection: Connection, platform: str, realm: str, chat: str) -> str:
    """The id that a chat had before it moved, if it did."""
    return get_value(connection, f"{_BEFORE}{platform}:{realm}:{chat}") or chat


def note_member(connection: Connection, room_id: int, account_id: AccountId, now_ms: int) -> None:
    """Records that an account wrote in a room; one that had left is in again."""
    where = (room_member.c.room_id == room_id, room_member.c.account_id == account_id)
    row = connection.execute(select(room_member.c.left_ms).where(*where)).first()
    if row is None:
        connection.execute(
            insert(room_member).values(room_id=room_id, account_id=account_id, first_ms=now_ms)
        )
    elif row.left_ms is not None:
        connection.execute(update(room_member).where(*where).values(left_ms=None))


def members_on(connection: Connection, platform: str) -> tuple[tuple[Room, Account], ...]:
    """Who takes part in which room of a platform, as far as we know."""
    query = (
        select(room_member.c.room_id, room_member.c.account_id)
        .join(room, room.c.id == room_member.c.room_id)
        .where(room.c.platform == platform, room_member.c.left_ms.is_(None))
        .order_by(room_member.c.room_id, room_member.c.account_id)
    )
    return tuple(
        (load_room(connection, row.room_id), load_account(connection, row.account_id))
        for row in connection.execute(query).all()
    )


def has_left(connection: Connection, room_id: int, account_id: AccountId) -> bool:
    query = select(room_member.c.left_ms).where(
        room_member.c.room_id == room_id, room_member.c.account_id == account_id
    )
    return connection.execute(query).scalar() is not None


def note_left(connection: Connection, room_id: int, account_id: AccountId, now_ms: int) -> None:
    """Ends an account's access to a room's history."""
    connection.execute(
        update(room_member)
        .where(room_member.c.room_id == room_id, room_member.c.account_id == account_id)
        .values(left_ms=now_ms)
    )


# Streams


def stream_of(connection: Connection, *, account_id: AccountId, room_id: int | None) -> int:
    """The stream of a room, or of an account's direct chats when `room_id` is None; made when new."""
    column, value = (stream.c.account_id, account_id) if room_id is None else (stream.c.room_id, room_id)
    found = connection.execute(select(stream.c.id).where(column == value)).scalar()
    if found is None:
        found = connection.execute(
            insert(stream).values({column.name: value}).returning(stream.c.id)
        ).scalar_one()
    return int(found)


def _person(row: Row[Any]) -> Person:
    return Person(
        row.id,
        PersonId(row.slug),
        row.name,
        row.role,
        row.timezone,
        row.language,
        row.source,
        row.suspended,
    )


def _account(row: Row[Any]) -> Account:
    owner = None
    if row.p_id is not None:
        owner = Person(
            row.p_id,
            PersonId(row.slug),
            row.name,
            row.role,
            row.timezone,
            row.language,
            row.p_source,
            row.suspended,
        )
    return Account(
        AccountId(row.id), row.platform, row.realm, row.user_id, row.label, row.blocked, owner, row.source
    )


def _room(row: Row[Any]) -> Room:
    return Room(
        row.id, RoomId(row.slug), row.platform, row.realm, row.chat, row.title, row.allowed, row.reported
    )
