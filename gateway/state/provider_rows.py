"""What waits to be sent to external memory providers, and what they hold of the built-in memory.

Rows are written in the transaction of what they tell of, for every provider that is active then, so that a
crash loses none and doubles none. Sending them is the gateway's `provider_outbox`, looking at them
`provider_view`'s. An owner is person:<slug> or room:<slug>.
"""

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from trunkline.agent.memory.changes import entry_changes
from trunkline.agent.ports import Action, JournalEntry, Target
from trunkline.agent.providers.texts import states
from trunkline.agent.scope import AccountId
from trunkline.gateway.state import kv
from trunkline.gateway.state.provider_payloads import (
    Kind,
    OutboxRow,
    Payload,
    SessionEnded,
    Stored,
    ToForget,
    TurnSaid,
    Written,
    entry_hash,
    stored_rows,
    turn_key,
)
from trunkline.gateway.state.schema import (
    account,
    message,
    person,
    provider_mirror,
    provider_outbox,
    room,
    session,
    stream,
    turn,
)

ACTIVE = "providers.active"
MAX_WAITING = 10_000
"""Of one provider: of turns beyond them the oldest are dropped, of nothing else."""
PENDING = ("waiting", "sending")
"""The states of rows that are still to be carried out."""

# Which providers there are.


def active(connection: Connection) -> tuple[str, ...]:
    return tuple(json.loads(kv.get_value(connection, ACTIVE) or "[]"))


def set_active(connection: Connection, names: Sequence[str]) -> None:
    """Notes the providers of the settings, for whoever writes rows."""
    if active(connection) != tuple(names):
        kv.put_value(connection, ACTIVE, json.dumps(list(names)))


# Writing rows.


def keep_turn(
    connection: Connection,
    owner: str,
    asker: int,
    said: TurnSaid,
    stamp_ms: int,
    *,
    most: int = MAX_WAITING,
) -> None:
    """`asker` is the account that spoke in a room, else 0. Of more than `most` rows the oldest turn goes."""
    stored = Stored(asker, said=said)
    for name in active(connection):
        _drop_oldest_turn(connection, name, most)
        _put(connection, name, owner, "sync", f"t:{said.key}", stored, stamp_ms)


def mirror(
    connection: Connection,
    owner: str,
    entry: JournalEntry,
    key: str,
    stamp_ms: int,
    *,
    asker: int = 0,
) -> None:
    """Rows for each entry that a write added, changed or removed; `key` is the write's own."""
    changes = entry_changes(entry.before, entry.after)
    for name in active(connection):
        for place, change in enumerate(changes):
            old, new = change.old or "", change.new or ""
            action: Action = "replace" if old and new else "add" if new else "remove"
            written = Written(
                f"{key}-{place}",
                action,
                entry.target,
                old,
                new,
                entry_hash(entry.target, old) if old else "",
                entry_hash(entry.target, new) if new else "",
            )
            _mirror_one(connection, name, owner, written, asker, stamp_ms)


def reconcile(
    connection: Connection, owner: str, entries: Iterable[tuple[Target, str]], key: str, stamp_ms: int
) -> None:
    """Rows for what the providers' mirrors lack or have too much, against what the stores hold now.

    It finds what was edited by hand, or was there before a provider was.
    """
    here = {entry_hash(target, text): (target, text) for target, text in entries}
    for name in active(connection):
        known = connection.execute(
            select(provider_mirror.c.entry_hash, provider_mirror.c.remote_id).where(
                provider_mirror.c.provider == name, provider_mirror.c.owner == owner
            )
        ).all()
        waiting = _waiting_hashes(connection, name, owner)
        for digest, (target, text) in here.items():
            if digest not in {row.entry_hash for row in known}:
                written = Written(f"{key}-{digest}", "add", target, "", text, "", digest)
                _mirror_one(connection, name, owner, written, 0, stamp_ms)
        for row in known:
            if row.entry_hash not in here and row.entry_hash not in waiting and row.remote_id:
                written = Written(f"{key}-{row.entry_hash}", "remove", "memory", "", "", row.entry_hash, "")
                _mirror_one(connection, name, owner, written, 0, stamp_ms)


def forget_fact(
    connection: Connection, owner: str, wordings: Sequence[str], lines: Sequence[int], stamp_ms: int
) -> None:
    """Rows that erase a fact; `lines` are messages that state it. What waits and states it is never sent."""
    said = select(session.c.public_id, message.c.turn_id).join(session, session.c.id == message.c.session_id)
    found = connection.execute(said.where(message.c.id.in_(lines), message.c.turn_id.is_not(None))).all()
    turns = tuple(dict.fromkeys(turn_key(row.public_id, row.turn_id) for row in found))
    hashes = tuple(entry_hash(target, text) for text in wordings for target in ("memory", "user"))
    _drop_stating(connection, owner, wordings, turns)
    _forget(connection, owner, ToForget(False, tuple(wordings), hashes, turns), stamp_ms)


def forget_turns(connection: Connection, turns: Sequence[int], stamp_ms: int) -> None:
    """Rows that erase turns of one session, which are taken back or deleted; private ones were never sent."""
    found = connection.execute(
        select(turn.c.id, session.c.public_id, person.c.slug, room.c.slug)
        .join(session, session.c.id == turn.c.session_id)
        .join(stream, stream.c.id == session.c.stream_id)
        .outerjoin(account, account.c.id == stream.c.account_id)
        .outerjoin(person, person.c.id == account.c.person_id)
        .outerjoin(room, room.c.id == stream.c.room_id)
        .where(turn.c.id.in_(turns), turn.c.state == "done", session.c.private.is_(False))
    ).all()
    for owner, keys in _by_owner(found).items():
        _drop_stating(connection, owner, (), keys)
        _forget(connection, owner, ToForget(False, turns=keys), stamp_ms)


def holders(connection: Connection, owner: str) -> tuple[str, ...]:
    """The providers that may hold something of an owner, active or not."""
    mirrors = select(provider_mirror.c.provider).where(provider_mirror.c.owner == owner).distinct()
    return tuple(dict.fromkeys((*active(connection), *connection.execute(mirrors).scalars())))


def forget_all(connection: Connection, owner: str, providers: Sequence[str], stamp_ms: int) -> None:
    """Rows that erase all that a person or room has at these providers; what waits is never sent."""
    connection.execute(
        delete(provider_outbox).where(provider_outbox.c.owner == owner, provider_outbox.c.state != "sending")
    )
    _forget(connection, owner, ToForget(True), stamp_ms, providers)


def end_session(connection: Connection, owner: str, ended: SessionEnded, stamp_ms: int) -> None:
    for name in active(connection):
        stored = Stored(0, ended=ended)
        _put(connection, name, owner, "end", f"e:{ended.session}", stored, stamp_ms)


# Sending rows.


def take(connection: Connection, provider: str, now_ms: int, lease_ms: int, limit: int) -> list[OutboxRow]:
    """The oldest waiting row of each owner that is due, leased: nobody else gets it before `lease_ms`."""
    first = (
        select(func.min(provider_outbox.c.id))
        .where(provider_outbox.c.provider == provider, provider_outbox.c.state.in_(PENDING))
        .group_by(provider_outbox.c.owner)
    )
    rows = connection.execute(
        select(provider_outbox)
        .where(provider_outbox.c.id.in_(first), provider_outbox.c.not_before_ms <= now_ms)
        .order_by(provider_outbox.c.id)
        .limit(limit)
    ).all()
    for row in rows:
        connection.execute(
            update(provider_outbox)
            .where(provider_outbox.c.id == row.id)
            .values(state="sending", not_before_ms=now_ms + lease_ms, attempts=row.attempts + 1)
        )
    return [_taken(row) for row in rows]


def remote_ids(connection: Connection, row: OutboxRow, hashes: Sequence[str]) -> tuple[str, ...]:
    """What the provider gave for entries, without those it gave nothing for."""
    found = connection.execute(
        select(provider_mirror.c.remote_id).where(
            provider_mirror.c.provider == row.provider,
            provider_mirror.c.owner == row.owner,
            provider_mirror.c.entry_hash.in_(hashes),
            provider_mirror.c.remote_id != "",
        )
    )
    return tuple(found.scalars())


def finish(connection: Connection, row: OutboxRow, remote_id: str, left: str, stamp_ms: int) -> None:
    """A row was carried out: it goes, unless something is `left` at the provider, which stays on record."""
    match row.payload:
        case Written(before_hash=before, after_hash=after):
            if before != after:
                _unmirror(connection, row, [before])
            if after and remote_id:
                _note_mirror(connection, row.provider, row.owner, after, remote_id, stamp_ms)
        case ToForget(all=True):
            _unmirror(connection, row, None)
        case ToForget(hashes=hashes):
            _unmirror(connection, row, hashes)
    where = provider_outbox.c.id == row.id
    if left:
        connection.execute(update(provider_outbox).where(where).values(state="left", error=left, payload=""))
    else:
        connection.execute(delete(provider_outbox).where(where))


def retry(connection: Connection, row: OutboxRow, reason: str, not_before_ms: int) -> None:
    """A row waits for its next try, unless what it says was forgotten meanwhile: then it goes."""
    where = provider_outbox.c.id == row.id
    if _was_forgotten(connection, row):
        connection.execute(delete(provider_outbox).where(where))
    else:
        values = {"state": "waiting", "error": reason, "not_before_ms": not_before_ms}
        connection.execute(update(provider_outbox).where(where).values(values))


def set_aside(connection: Connection, row: OutboxRow, reason: str) -> None:
    """A row that would be refused again: only that it was is kept."""
    connection.execute(
        update(provider_outbox)
        .where(provider_outbox.c.id == row.id)
        .values(state="dead", error=reason, payload="")
    )


def wake(connection: Connection, provider: str) -> None:
    """Makes what waits for its next try due now: a new process may have what the last one lacked."""
    connection.execute(
        update(provider_outbox)
        .where(provider_outbox.c.provider == provider, provider_outbox.c.state == "waiting")
        .values(not_before_ms=0)
    )


def give_back(connection: Connection, rows: Sequence[OutboxRow]) -> None:
    """Ends the lease of rows that nobody is sending any more."""
    connection.execute(
        update(provider_outbox)
        .where(provider_outbox.c.id.in_([row.id for row in rows]))
        .values(state="waiting", not_before_ms=0)
    )


def _put(
    connection: Connection, provider: str, owner: str, kind: Kind, key: str, stored: Stored, stamp_ms: int
) -> None:
    known = select(provider_outbox.c.id).where(
        provider_outbox.c.provider == provider, provider_outbox.c.key == key
    )
    if connection.execute(known).first() is None:
        connection.execute(
            insert(provider_outbox).values(
                provider=provider,
                owner=owner,
                kind=kind,
                key=key,
                payload=stored_rows().dump_json(stored, exclude_none=True).decode(),
                created_ms=stamp_ms,
            )
        )


def _mirror_one(
    connection: Connection, provider: str, owner: str, written: Written, asker: int, stamp_ms: int
) -> None:
    if written.after_hash:
        _note_mirror(connection, provider, owner, written.after_hash, "", stamp_ms)
    stored = Stored(asker, written=written)
    _put(connection, provider, owner, "mirror", f"m:{written.key}", stored, stamp_ms)


def _note_mirror(
    connection: Connection, provider: str, owner: str, digest: str, remote_id: str, stamp_ms: int
) -> None:
    """Notes that a provider has an entry, or will have it when `remote_id` is empty."""
    where = (
        provider_mirror.c.provider == provider,
        provider_mirror.c.owner == owner,
        provider_mirror.c.entry_hash == digest,
    )
    if connection.execute(select(provider_mirror.c.entry_hash).where(*where)).first() is None:
        connection.execute(
            insert(provider_mirror).values(
                provider=provider, owner=owner, entry_hash=digest, remote_id=remote_id, created_ms=stamp_ms
            )
        )
    elif remote_id:
        connection.execute(update(provider_mirror).where(*where).values(remote_id=remote_id))


def _unmirror(connection: Connection, row: OutboxRow, hashes: Sequence[str] | None) -> None:
    where = [provider_mirror.c.provider == row.provider, provider_mirror.c.owner == row.owner]
    if hashes is not None:
        where.append(provider_mirror.c.entry_hash.in_(hashes))
    connection.execute(delete(provider_mirror).where(*where))


def _by_owner(turns: Iterable[Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """The keys of turns by whose they are; those of accounts without a person were never sent."""
    keys: dict[str, tuple[str, ...]] = {}
    for turn_id, public_id, slug, room_slug in turns:
        if slug is not None or room_slug is not None:
            owner = f"person:{slug}" if slug is not None else f"room:{room_slug}"
            keys[owner] = (*keys.get(owner, ()), turn_key(public_id, turn_id))
    return keys


def _forget(
    connection: Connection,
    owner: str,
    what: ToForget,
    stamp_ms: int,
    providers: Sequence[str] | None = None,
) -> None:
    """For every provider that may hold something, where not said which."""
    for name in holders(connection, owner) if providers is None else providers:
        stored = Stored(0, forget=what)
        _put(connection, name, owner, "forget", f"f:{uuid.uuid4()}", stored, stamp_ms)


def _drop_stating(connection: Connection, owner: str, wordings: Sequence[str], turns: Sequence[str]) -> None:
    """Takes what waits and states a fact, or is one of the turns, out of the outbox."""
    rows = connection.execute(
        select(provider_outbox.c.id, provider_outbox.c.payload).where(
            provider_outbox.c.owner == owner,
            provider_outbox.c.state == "waiting",
            provider_outbox.c.kind.in_(("sync", "mirror")),
        )
    ).all()
    for row in rows:
        if _states(_payload_of(stored_rows().validate_json(row.payload)), wordings, turns):
            connection.execute(delete(provider_outbox).where(provider_outbox.c.id == row.id))


def _drop_oldest_turn(connection: Connection, provider: str, most: int) -> None:
    of_it = (provider_outbox.c.provider == provider, provider_outbox.c.state == "waiting")
    number = connection.execute(select(func.count()).select_from(provider_outbox).where(*of_it)).scalar_one()
    if number >= most:
        oldest = select(func.min(provider_outbox.c.id)).where(*of_it, provider_outbox.c.kind == "sync")
        connection.execute(delete(provider_outbox).where(provider_outbox.c.id.in_(oldest)))


def _waiting_hashes(connection: Connection, provider: str, owner: str) -> set[str]:
    """The entries that a waiting row is about to remove."""
    rows = connection.execute(
        select(provider_outbox.c.payload).where(
            provider_outbox.c.provider == provider,
            provider_outbox.c.owner == owner,
            provider_outbox.c.state.in_(PENDING),
            provider_outbox.c.kind == "mirror",
        )
    )
    found = (stored_rows().validate_json(payload).written for payload in rows.scalars())
    return {one.before_hash for one in found if one is not None}


def _was_forgotten(connection: Connection, row: OutboxRow) -> bool:
    """Whether a waiting row erases what this one says."""
    later = connection.execute(
        select(provider_outbox.c.payload).where(
            provider_outbox.c.provider == row.provider,
            provider_outbox.c.owner == row.owner,
            provider_outbox.c.kind == "forget",
            provider_outbox.c.state.in_(PENDING),
            provider_outbox.c.id > row.id,
        )
    )
    found = (stored_rows().validate_json(payload).forget for payload in later.scalars())
    return any(
        one is not None and (one.all or _states(row.payload, one.wordings, one.turns)) for one in found
    )


def _states(payload: Payload, wordings: Sequence[str], turns: Sequence[str]) -> bool:
    """Whether a row would bring a fact to a provider, or one of the turns."""
    match payload:
        case TurnSaid() as said:
            return said.key in turns or states(f"{said.user}\n{said.assistant}", wordings)
        case Written() as written:
            return states(written.after, wordings)
    return False


def _payload_of(stored: Stored) -> Payload:
    payload = stored.said or stored.written or stored.forget or stored.ended
    assert payload is not None
    return payload


def _taken(row: Row[Any]) -> OutboxRow:
    stored = stored_rows().validate_json(row.payload)
    asker = AccountId(stored.asker)
    return OutboxRow(row.id, row.provider, row.owner, asker, _payload_of(stored), row.attempts + 1)
