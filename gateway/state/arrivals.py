"""Queries on what may join a turn while that runs: more words of its author, changes of earlier ones.

Which of it does, and how the model is told, is the steering's decision.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from trunkline.gateway.state import inbox
from trunkline.gateway.state.inbox import FAILURE_WEIGHT, LEASE_MS
from trunkline.gateway.state.messages import rewrite_message
from trunkline.gateway.state.records import InboxRow, SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table
from trunkline.gateway.state.schema import message
from trunkline.gateway.state.turns import TurnRow


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits under the key of a running turn, oldest first.

    `own` are the author's words that may join it, edits of what the turn is about among them. `later` tells
    that something is there which has to wait for the end. `withdrawn`: the turn's own question was deleted;
    else `asked` is how it reads now.
    """

    own: tuple[InboxRow, ...]
    later: bool
    withdrawn: bool
    asked: str = ""


def waiting(connection: Connection, key: SessionKey, turn: TurnRow, now_ms: int) -> Waiting:
    """Nothing joins past a command, nor past what its author asked to queue, nor past what somebody else said
    first; only an edit of what the turn is about does.
    """
    query = (
        select(inbox_table)
        .where(*inbox.is_of(key), inbox_table.c.state == "received", inbox_table.c.not_before_ms <= now_ms)
        .order_by(inbox_table.c.id)
        .limit(inbox.BATCH_ROWS)
    )
    rows = connection.execute(query).all()
    own: list[InboxRow] = []
    others_wait = False
    for row in rows:
        if row.kind not in (*inbox.SAID, "edit"):
            break
        is_others = row.account_id != turn.account
        if is_others or (row.kind == "edit" and not _is_about(connection, row.key, turn)):
            others_wait = others_wait or (is_others and row.kind in inbox.SAID)
            continue
        if others_wait and row.kind in inbox.SAID:
            break
        if row.kind == "queued" or row.turn_id is not None or row.attempts >= FAILURE_WEIGHT:
            break
        own.append(inbox.inbox_row(row))
    withdrawn = _is_withdrawn(connection, turn)
    began = question(connection, turn)
    asked = "" if withdrawn or began is None else began.content
    return Waiting(tuple(own), len(own) < len(rows), withdrawn, asked)


def join(connection: Connection, rows: Sequence[InboxRow], turn: TurnRow, owner: str, now_ms: int) -> None:
    """Makes waiting rows a part of the turn: they end when it does."""
    connection.execute(
        update(inbox_table)
        .where(inbox_table.c.id.in_([row.id for row in rows]))
        .values(
            state="leased",
            owner=owner,
            lease_until_ms=now_ms + LEASE_MS,
            attempts=inbox_table.c.attempts + 1,
            turn_id=turn.key.turn,
        )
    )


def question(connection: Connection, turn: TurnRow) -> Row[Any] | None:
    """The stored message that the turn began with; None when its conversation was deleted."""
    return connection.execute(
        select(message)
        .where(message.c.turn_id == turn.key.turn, message.c.role == "user")
        .order_by(message.c.seq)
        .limit(1)
    ).first()


def extend_question(
    connection: Connection, row: Row[Any], values: Mapping[str, object], platform_ids: Sequence[str]
) -> None:
    """Gives a turn's question another text, and the ids of the messages that were added to it."""
    ids = [*json.loads(row.platform_ids or "[]"), *platform_ids]
    rewrite_message(connection, row, {**values, "platform_ids": json.dumps(list(dict.fromkeys(ids)))})


def _is_about(connection: Connection, edit_key: str, turn: TurnRow) -> bool:
    """Whether an edit is of a message that the turn is about."""
    original = edit_key.rpartition(":")[0]
    query = select(inbox_table.c.id).where(
        inbox_table.c.turn_id == turn.key.turn,
        inbox_table.c.key.startswith(original + ":", autoescape=True),
    )
    return connection.execute(query.limit(1)).first() is not None


def _is_withdrawn(connection: Connection, turn: TurnRow) -> bool:
    asked = message.c.turn_id == turn.key.turn, message.c.role == "user"
    states = list(connection.execute(select(message.c.state).where(*asked)).scalars())
    return bool(states) and "live" not in states
