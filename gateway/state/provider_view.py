"""Looks at what waits for the memory providers and what they hold; writing rows is `provider_rows`' work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from trunkline.gateway.state.provider_payloads import stored_rows
from trunkline.gateway.state.provider_rows import PENDING
from trunkline.gateway.state.schema import provider_mirror, provider_outbox


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the outbox holds for one provider. `dead` rows were refused; `error` is the newest reason."""

    waiting: int = 0
    dead: int = 0
    left: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Erasing:
    """Providers that have still to erase something, and for others why they can't, by name.

    `is_settled` says that each of the former was asked once and failed.
    """

    waiting: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    is_settled: bool = True


def withheld(connection: Connection, owner: str) -> tuple[str, ...]:
    """Texts that providers may still have and must not be recalled: forgotten, replaced or removed ones."""
    rows = connection.execute(
        select(provider_outbox.c.payload)
        .where(
            provider_outbox.c.owner == owner,
            provider_outbox.c.state.in_(PENDING),
            provider_outbox.c.kind.in_(("mirror", "forget")),
        )
        .order_by(provider_outbox.c.id)
    )
    texts: dict[str, None] = {}
    for payload in rows.scalars():
        stored = stored_rows().validate_json(payload)
        if stored.forget is not None:
            texts.update(dict.fromkeys(stored.forget.wordings))
        if stored.written is not None:
            texts[stored.written.before] = None
            texts.pop(stored.written.after, None)
    return tuple(filter(None, texts))


def is_forgetting_all(connection: Connection, owner: str) -> bool:
    """Whether a provider has still to erase everything it holds for an owner."""
    rows = connection.execute(
        select(provider_outbox.c.payload).where(
            provider_outbox.c.owner == owner,
            provider_outbox.c.state.in_(PENDING),
            provider_outbox.c.kind == "forget",
        )
    )
    found = (stored_rows().validate_json(payload).forget for payload in rows.scalars())
    return any(one is not None and one.all for one in found)


def erasing(connection: Connection, owners: Sequence[str], since_ms: int) -> Erasing:
    """How far the providers are with what they were told to erase since then, of these owners."""
    rows = connection.execute(
        select(provider_outbox.c.provider, provider_outbox.c.state, provider_outbox.c.error)
        .where(
            provider_outbox.c.owner.in_(owners),
            provider_outbox.c.kind == "forget",
            provider_outbox.c.created_ms >= since_ms,
        )
        .order_by(provider_outbox.c.id)
    ).all()
    open_rows = [row for row in rows if row.state in PENDING]
    return Erasing(
        tuple(dict.fromkeys(row.provider for row in open_rows)),
        {row.provider: row.error for row in rows if row.state not in PENDING},
        is_settled=all(row.error for row in open_rows),
    )


def waiting(connection: Connection) -> dict[str, Waiting]:
    """For each provider that rows are of, also one that is not active any more."""
    found: dict[str, Waiting] = {}
    counted = select(provider_outbox.c.provider, provider_outbox.c.state, func.count().label("number"))
    for row in connection.execute(counted.group_by(provider_outbox.c.provider, provider_outbox.c.state)):
        before = found.get(row.provider, Waiting())
        numbers = {"waiting": before.waiting, "dead": before.dead, "left": before.left}
        state = "waiting" if row.state in PENDING else row.state
        found[row.provider] = Waiting(**(numbers | {state: numbers[state] + row.number}))
    latest = select(provider_outbox.c.provider, provider_outbox.c.error).where(provider_outbox.c.error != "")
    for row in connection.execute(latest.order_by(provider_outbox.c.id)):
        known = found[row.provider]
        found[row.provider] = Waiting(known.waiting, known.dead, known.left, row.error)
    return found


def mirrored(connection: Connection) -> dict[str, int]:
    """How many entries of the built-in memory each provider holds."""
    counted = select(provider_mirror.c.provider, func.count()).where(provider_mirror.c.remote_id != "")
    return {row[0]: row[1] for row in connection.execute(counted.group_by(provider_mirror.c.provider))}
