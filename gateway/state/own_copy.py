"""What state.db keeps of a person beside their conversations, for their own copy of it all."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, or_, select

from trunkline.agent.scope import PersonScope
from trunkline.gateway.payloads import words_in
from trunkline.gateway.state import links, people, reminders
from trunkline.gateway.state.deletion import own_streams
from trunkline.gateway.state.schema import (
    attachment,
    compaction,
    heard,
    home,
    inbox,
    memory_journal,
    message,
    room,
    room_member,
    session,
    skill,
    usage,
)

Rows = Sequence[Row[Any]]


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that the person sent or was sent; `sha256` is empty where its content is not kept."""

    name: str
    sha256: str


def describe_person(connection: Connection, scope: PersonScope) -> dict[str, object]:
    person = people.find_person(connection, scope.person)
    if person is None:
        return {}
    chosen = connection.execute(select(home).where(home.c.person_id == person.id)).first()
    return {
        "person": person.slug,
        "name": person.name,
        "role": person.role,
        "timezone": person.timezone,
        "language": person.language,
        "joined": list(links.former_slugs(connection, person.slug)),
        "accounts": [
            {"platform": one.platform, "id": one.user_id, "name": one.label}
            for one in people.accounts_of(connection, person.id)
        ],
        "home": None if chosen is None else {"platform": chosen.platform, "chat": chosen.chat},
    }


def tables(connection: Connection, scope: PersonScope) -> dict[str, list[dict[str, object]]]:
    """The lists of a copy, by the path of their file in it."""
    ids = _accounts(connection, scope)
    return {
        "reminders.json": _reminders(connection, scope),
        "rooms.json": _rooms(connection, ids),
        "unanswered.json": _unanswered(connection, ids),
        "overheard.json": _overheard(connection, ids),
        "notes.json": _notes(connection, scope),
        "files.json": [_shown(row) for row in _files(connection, scope, ids)],
        "usage.json": _usage(connection, ids),
        "memory/history.json": _history(connection, scope, ids),
    }


def files(connection: Connection, scope: PersonScope) -> tuple[OwnFile, ...]:
    """Those whose content is kept, each content once."""
    rows = _files(connection, scope, _accounts(connection, scope))
    by_content = {row.sha256: OwnFile(row.name or row.kind, row.sha256) for row in rows if row.sha256}
    return tuple(by_content.values())


def skills(connection: Connection, scope: PersonScope) -> Rows:
    query = select(skill).where(skill.c.owner.in_(_owners(connection, scope)))
    return connection.execute(query.order_by(skill.c.id)).all()


def _accounts(connection: Connection, scope: PersonScope) -> list[int]:
    person = people.find_person(connection, scope.person)
    return [] if person is None else [one.id for one in people.accounts_of(connection, person.id)]


def _owners(connection: Connection, scope: PersonScope) -> list[str]:
    return [f"person:{slug}" for slug in (scope.person, *links.former_slugs(connection, scope.person))]


def _reminders(connection: Connection, scope: PersonScope) -> list[dict[str, object]]:
    return [
        {
            "number": one.id,
            "text": one.text,
            "kind": one.kind,
            "due": _time(one.due_ms),
            "rule": one.cron,
            "timezone": one.zone,
            "state": one.state,
            "platform": one.key.platform,
        }
        for one in reminders.all_of(connection, scope)
    ]


def _rooms(connection: Connection, ids: Sequence[int]) -> list[dict[str, object]]:
    """Where they wrote."""
    query = (
        select(room.c.platform, room.c.chat, room.c.title, room_member)
        .join(room_member, room_member.c.room_id == room.c.id)
        .where(room_member.c.account_id.in_(ids))
    )
    return [
        {
            "platform": row.platform,
            "chat": row.chat,
            "title": row.title,
            "since": _time(row.first_ms),
            "left": None if row.left_ms is None else _time(row.left_ms),
        }
        for row in connection.execute(query)
    ]


def _unanswered(connection: Connection, ids: Sequence[int]) -> list[dict[str, object]]:
    """Messages that wait, or were set aside: they stand in no conversation."""
    query = select(inbox).where(inbox.c.account_id.in_(ids), inbox.c.payload != "").order_by(inbox.c.id)
    return [
        {
            "platform": row.platform,
            "time": _time(row.sent_ms),
            "text": words_in(row.payload),
            "state": row.state,
            "reason": row.reason,
        }
        for row in connection.execute(query)
    ]


def _overheard(connection: Connection, ids: Sequence[int]) -> list[dict[str, object]]:
    """What they said to others in rooms, which is kept for a day."""
    query = select(heard).where(heard.c.account_id.in_(ids)).order_by(heard.c.id)
    return [
        {"platform": row.platform, "chat": row.chat, "time": _time(row.sent_ms), "text": row.content}
        for row in connection.execute(query)
    ]


def _notes(connection: Connection, scope: PersonScope) -> list[dict[str, object]]:
    """The notes that stand for older parts of their own conversations."""
    query = (
        select(compaction.c.note, compaction.c.created_ms, session.c.public_id)
        .join(session, session.c.id == compaction.c.session_id)
        .where(session.c.stream_id.in_(own_streams(connection, scope)), compaction.c.note != "")
        .order_by(compaction.c.id)
    )
    return [
        {"conversation": row.public_id, "time": _time(row.created_ms), "note": row.note}
        for row in connection.execute(query)
    ]


def _files(connection: Connection, scope: PersonScope, ids: Sequence[int]) -> Rows:
    """Those of their own chats, and those that they sent in rooms."""
    said = select(message.c.id).where(message.c.account_id.in_(ids))
    own = attachment.c.stream_id.in_(own_streams(connection, scope))
    query = select(attachment).where(or_(own, attachment.c.message_id.in_(said)))
    return connection.execute(query.order_by(attachment.c.id)).all()


def _shown(row: Row[Any]) -> dict[str, object]:
    return {
        "name": row.name,
        "kind": row.kind,
        "type": row.mime,
        "bytes": row.size_bytes,
        "time": _time(row.created_ms),
        "content": row.sha256,
        "words": row.words,
    }


def _usage(connection: Connection, ids: Sequence[int]) -> list[dict[str, object]]:
    query = select(usage).where(usage.c.account_id.in_(ids)).order_by(usage.c.id)
    return [
        {
            "time": _time(row.created_ms),
            "purpose": row.purpose,
            "model": row.model,
            "prompt_tokens": row.prompt_tokens,
            "cached_tokens": row.cached_tokens,
            "completion_tokens": row.completion_tokens,
            "cost_usd": row.cost_micros / 1e6,
        }
        for row in connection.execute(query)
    ]


def _history(connection: Connection, scope: PersonScope, ids: Sequence[int]) -> list[dict[str, object]]:
    """Every change of their memory, and those that they brought into memories of rooms."""
    brought = memory_journal.c.owner.startswith("room:") & memory_journal.c.account_id.in_(ids)
    query = select(memory_journal).where(or_(memory_journal.c.owner.in_(_owners(connection, scope)), brought))
    return [
        {
            "memory": row.owner,
            "store": row.target,
            "action": row.action,
            "before": json.loads(row.before or "[]"),
            "after": json.loads(row.after or "[]"),
            "held": json.loads(row.operations) if row.operations else None,
            "state": row.state,
            "platform": row.platform,
            "time": _time(row.created_ms),
        }
        for row in connection.execute(query.order_by(memory_journal.c.id))
    ]


def _time(stamp_ms: int) -> str:
    return datetime.fromtimestamp(stamp_ms / 1000, UTC).isoformat()
