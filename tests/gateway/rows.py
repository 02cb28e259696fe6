"""Rows that store tests begin with: people with accounts, rooms, sessions, messages."""

from sqlalchemy import Connection, insert, select, update

from trunkline.agent.ports import Role
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.schema import account, person, room, room_member, session, stream

START_MS = 1_750_000_000_000
MINUTE_MS = 60_000


def add_person(connection: Connection, slug: str, platform: str = "telegram") -> int:
    """A person with one account; returns the account."""
    connection.execute(insert(person).values(slug=slug, name=slug.title()))
    return link_account(connection, slug, platform)


def link_account(connection: Connection, slug: str, platform: str) -> int:
    owner = connection.execute(select(person.c.id).where(person.c.slug == slug)).scalar_one()
    made = insert(account).values(
        platform=platform, user_id=f"{slug}@{platform}", person_id=owner, label=slug
    )
    account_id = connection.execute(made.returning(account.c.id)).scalar_one()
    connection.execute(insert(stream).values(account_id=account_id))
    return int(account_id)


def add_room(connection: Connection, slug: str, *members: int, platform: str = "discord") -> int:
    """A room in which these accounts take part; returns its stream."""
    made = insert(room).values(slug=slug, platform=platform, chat=slug, allowed=True).returning(room.c.id)
    room_id = connection.execute(made).scalar_one()
    for member in members:
        connection.execute(insert(room_member).values(room_id=room_id, account_id=member))
    return int(connection.execute(insert(stream).values(room_id=room_id).returning(stream.c.id)).scalar_one())


def leave(connection: Connection, account_id: int) -> None:
    connection.execute(update(room_member).where(room_member.c.account_id == account_id).values(left_ms=1))


def direct_stream(connection: Connection, account_id: int) -> int:
    return int(connection.execute(select(stream.c.id).where(stream.c.account_id == account_id)).scalar_one())


def add_session(connection: Connection, stream_id: int, public_id: str, **values: object) -> int:
    row = {"platform": "telegram", "tenant": "bot", "chat": public_id, "started_ms": START_MS, **values}
    made = insert(session).values(public_id=public_id, stream_id=stream_id, **row).returning(session.c.id)
    return int(connection.execute(made).scalar_one())


def say(
    connection: Connection, session_id: int, *texts: str, role: Role = "user", at_ms: int = START_MS
) -> list[int]:
    """Messages of one role, a minute apart; returns their ids."""
    return add_messages(
        connection,
        [NewMessage(session_id, role, text, at_ms + place * MINUTE_MS) for place, text in enumerate(texts)],
    )


def person_scope(slug: str) -> PersonScope:
    return PersonScope(PersonId(slug))


def room_scope(slug: str, asker: int) -> RoomScope:
    return RoomScope(RoomId(slug), AccountId(asker))
