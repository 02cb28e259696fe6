"""Queries on sessions: finding the open one of a key, starting, ending, and its frozen prompt."""

import hashlib
import secrets
import time
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, insert, select, update

from trunkline.agent.scope import PersonId
from trunkline.gateway.state import homes
from trunkline.gateway.state.records import Session, SessionKey
from trunkline.gateway.state.schema import account, person, session, stream, system_prompt


def new_public_id() -> str:
    """A UUIDv7: sortable by the time it was made."""
    stamp = int(time.time() * 1000)
    number = (stamp << 80) | (0x7 << 76) | (secrets.randbits(12) << 64) | (0b10 << 62) | secrets.randbits(62)
    return str(uuid.UUID(int=number))


def find_open(connection: Connection, key: SessionKey) -> Session | None:
    """The session that goes on under this key, if there is one."""
    query = _sessions().where(*_is(key), session.c.ended_ms.is_(None))
    row = connection.execute(query).first()
    return None if row is None else _session(row)


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a conversation decides whether something of it may be kept, and where one is told of it.

    `forgotten`: a fact that stands in it was, and its model has yet to be given a new prompt.
    """

    key: SessionKey
    stream: int
    private: bool
    forgotten: bool
    origin: str


def standing(connection: Connection, public_id: str | None) -> Standing | None:
    """Of the conversation of that id; None where there is none."""
    row = connection.execute(select(session).where(session.c.public_id == public_id)).first()
    if row is None:
        return None
    return Standing(_key(row), row.stream_id, row.private, row.prompt_hash is None, row.origin)


def load(connection: Connection, session_id: int) -> Session:
    return _session(connection.execute(_sessions().where(session.c.id == session_id)).one())


def start(
    connection: Connection,
    key: SessionKey,
    stream: int,
    *,
    prompt: str,
    snapshot: str,
    model: str,
    now_ms: int,
    kind: Literal["", "private", "scheduled"] = "",
) -> Session:
    """Opens a session under a key that has none open; stores its prompt once per distinct text.

    An empty prompt is one that the session's next turn has to make. A `private` one is erased
    some day. A `scheduled` one is for one turn beside what is open, so it has ended for everything else.
    """
    session_id = connection.execute(
        insert(session)
        .values(
            public_id=new_public_id(),
            stream_id=stream,
            platform=key.platform,
            tenant=key.tenant,
            chat=key.chat,
            thread=key.thread,
            member=key.member,
            model=model,
            prompt_hash=_store_prompt(connection, prompt) if prompt else None,
            snapshot=snapshot,
            private=kind == "private",
            origin=kind if kind == "scheduled" else "",
            started_ms=now_ms,
            last_ms=now_ms,
            ended_ms=now_ms if kind == "scheduled" else None,
            end_reason=kind if kind == "scheduled" else "",
        )
        .returning(session.c.id)
    ).scalar_one()
    return load(connection, session_id)


def end(connection: Connection, key: SessionKey, reason: str, now_ms: int) -> bool:
    """Ends the open session of a key; false when there is none."""
    result = connection.execute(
        update(session)
        .where(*_is(key), session.c.ended_ms.is_(None))
        .values(ended_ms=now_ms, end_reason=reason)
    )
    return result.rowcount > 0


def follow(connection: Connection, session_id: int, earlier_id: int, origin: str) -> None:
    """Notes which conversation a new one follows, and why."""
    connection.execute(
        update(session).where(session.c.id == session_id).values(parent_id=earlier_id, origin=origin)
    )


def set_snapshot(connection: Connection, session_id: int, snapshot: str) -> None:
    connection.execute(update(session).where(session.c.id == session_id).values(snapshot=snapshot))


def set_prompt(connection: Connection, session_id: int, prompt: str, snapshot: str) -> Session:
    """Freezes a new prompt for a session that has none, with what its model knows by it."""
    connection.execute(
        update(session)
        .where(session.c.id == session_id)
        .values(prompt_hash=_store_prompt(connection, prompt), snapshot=snapshot)
    )
    return load(connection, session_id)


def choose_model(connection: Connection, key: SessionKey, model: str) -> bool:
    """Another model answers in the open session of a key, which ends its frozen prompt; false without one."""
    result = connection.execute(
        update(session).where(*_is(key), session.c.ended_ms.is_(None)).values(model=model, prompt_hash=None)
    )
    return result.rowcount > 0


def takes_part(connection: Connection, key: SessionKey) -> bool:
    """Whether the assistant has spoken with anyone under this key."""
    return connection.execute(select(session.c.id).where(*_is(key)).limit(1)).first() is not None


def home_of(connection: Connection, person_id: int) -> SessionKey | None:
    """The chat for what the assistant says of its own accord: the one chosen, else the last direct one."""
    chosen = homes.chosen(connection, person_id)
    if chosen is not None:
        return chosen
    query = (
        _sessions()
        .join(stream, session.c.stream_id == stream.c.id)
        .join(account, stream.c.account_id == account.c.id)
        .where(account.c.person_id == person_id)
        .order_by(session.c.last_ms.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else _session(row).key


def direct_chats(connection: Connection, slug: PersonId) -> tuple[tuple[str, str], ...]:
    """The platforms and chats in which a person has written to the assistant alone."""
    query = (
        select(session.c.platform, session.c.chat)
        .distinct()
        .join(stream, session.c.stream_id == stream.c.id)
        .join(account, stream.c.account_id == account.c.id)
        .join(person, account.c.person_id == person.c.id)
        .where(person.c.slug == slug)
    )
    return tuple((row.platform, row.chat) for row in connection.execute(query))


def _is(key: SessionKey) -> tuple[Any, ...]:
    return (
        session.c.platform == key.platform,
        session.c.tenant == key.tenant,
        session.c.chat == key.chat,
        session.c.thread == key.thread,
        session.c.member == key.member,
    )


def _store_prompt(connection: Connection, prompt: str) -> str:
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    known = connection.execute(select(system_prompt.c.hash).where(system_prompt.c.hash == digest)).first()
    if known is None:
        connection.execute(insert(system_prompt).values(hash=digest, content=prompt))
    return digest


def _sessions() -> Select[Any]:
    return select(session, system_prompt.c.content.label("prompt")).select_from(
        session.outerjoin(system_prompt, session.c.prompt_hash == system_prompt.c.hash)
    )


def _key(row: Row[Any]) -> SessionKey:
    return SessionKey(row.platform, row.tenant, row.chat, row.thread, row.member)


def _session(row: Row[Any]) -> Session:
    return Session(
        id=row.id,
        public_id=row.public_id,
        stream=row.stream_id,
        key=_key(row),
        title=row.title,
        model=row.model,
        prompt=row.prompt or "",
        snapshot=row.snapshot,
        started_ms=row.started_ms,
        last_ms=row.last_ms,
        private=row.private,
    )
