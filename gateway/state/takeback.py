"""Turns that are past: finding them, taking back what was said in them, and their messages in the chat.

What is taken back stays in the file as undone, for nobody to see: not in the history, searches or lists.
"""

import json
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.agent.scope import AccountId, Scope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.state import people, provider_rows
from trunkline.gateway.state.messages import VISIBLE, set_message_state
from trunkline.gateway.state.records import scope_of
from trunkline.gateway.state.schema import attachment, inbox, message, outbox, turn

REMOVAL = "x:"
"""Begins the source of the deletion of a turn's messages."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that has ended, by what was asked in it: the text, the bytes sent, the platform's ids, and whose
    words of others stand in the bytes."""

    id: int
    author: AccountId
    ended_ms: int
    text: str
    sent: str
    platform_ids: tuple[str, ...]
    heard_from: str | None
    quoted_from: int | None
    parts: str | None = None
    """Where in the text each message stands, as it is kept; None where it was asked bit by bit."""


def last_turns(connection: Connection, session_id: int, count: int) -> tuple[PastTurn, ...]:
    """The newest turns of a session of which something still stands, newest first."""
    rows = connection.execute(
        select(turn.c.id, turn.c.account_id, turn.c.ended_ms)
        .where(
            turn.c.session_id == session_id,
            turn.c.state != "running",
            select(message.c.id)
            .where(message.c.turn_id == turn.c.id, message.c.role == "user", message.c.state.in_(VISIBLE))
            .exists(),
        )
        .order_by(turn.c.id.desc())
        .limit(count)
    ).all()
    return tuple(_past(connection, row.id, row.account_id, row.ended_ms) for row in rows)


def find_turn(connection: Connection, session_id: int, turn_id: int) -> PastTurn | None:
    """The turn, if it is the newest of the session, has ended and still stands."""
    found = last_turns(connection, session_id, 1)
    newest = connection.execute(
        select(turn.c.id).where(turn.c.session_id == session_id).order_by(turn.c.id.desc()).limit(1)
    ).scalar()
    return found[0] if found and found[0].id == turn_id == newest else None


def _past(connection: Connection, turn_id: int, account: int, ended_ms: int | None) -> PastTurn:
    asked = connection.execute(
        select(message)
        .where(message.c.turn_id == turn_id, message.c.role == "user", message.c.state.in_(VISIBLE))
        .order_by(message.c.seq)
    ).all()
    return PastTurn(
        turn_id,
        AccountId(account),
        ended_ms or 0,
        "\n\n".join(row.content for row in asked),
        "\n\n".join(row.content if row.sent is None else row.sent for row in asked),
        tuple(one for row in asked for one in json.loads(row.platform_ids or "[]")),
        next((row.heard_from for row in asked if row.heard_from), None),  # what steers a turn has none
        next((row.quoted_from for row in asked if row.quoted_from is not None), None),
        asked[0].parts if len(asked) == 1 else None,
    )


def take_back(connection: Connection, scope: Scope, turn_id: int, reason: str) -> None:
    """Marks all that was said in a turn as undone. What of its answer was not sent yet is not sent."""
    ids = connection.execute(
        select(message.c.id).where(message.c.turn_id == turn_id, message.c.state.in_(VISIBLE))
    ).scalars()
    set_message_state(connection, scope, list(ids), "undone")
    connection.execute(update(turn).where(turn.c.id == turn_id).values(reason=reason))
    provider_rows.forget_turns(connection, [turn_id], now_ms())
    connection.execute(
        update(outbox)
        .where(outbox.c.turn_id == turn_id, outbox.c.state == "planned")
        .values(state="refused", error=reason)
    )


def clear_after_change(connection: Connection, turn_id: int, now_ms: int) -> None:
    """Takes back what a turn had said so far when its account became somebody else's; else does nothing.

    Its question is answered anew, and is then asked once.
    """
    row = connection.execute(select(turn.c.account_id, turn.c.reason).where(turn.c.id == turn_id)).first()
    if row is None or row.reason != people.CHANGED:
        return
    account = people.load_account(connection, AccountId(row.account_id))
    if account.person is not None:
        take_back(connection, scope_of(account, None), turn_id, people.CHANGED)
    plan_removal(connection, turn_id, now_ms)


def hand_over(connection: Connection, old: int, new: int, message_id: int) -> None:
    """Gives the old turn's messages in the chat to the new one, and what was asked in it with its files."""
    rows = connection.execute(
        select(outbox)
        .where(outbox.c.source == f"t:{old}", outbox.c.kind.in_(("text", "preview")))
        .order_by(outbox.c.seq)
    ).all()
    for seq, row in enumerate(one for one in rows if one.message_id is not None):
        values = dict(row._mapping) | {
            "source": f"t:{new}",
            "seq": seq,
            "turn_id": new,
            "kind": "preview",
            "state": "sent",
            "not_before_ms": 0,
        }
        del values["id"]
        connection.execute(insert(outbox).values(**values))
    connection.execute(delete(outbox).where(outbox.c.id.in_([row.id for row in rows])))
    words = inbox.c.kind.not_in(("edit", "retry"))
    connection.execute(update(inbox).where(inbox.c.turn_id == old, words).values(turn_id=new))
    asked = select(message.c.id).where(message.c.turn_id == old, message.c.role == "user")
    connection.execute(
        update(attachment).where(attachment.c.message_id.in_(asked)).values(message_id=message_id)
    )


def plan_removal(connection: Connection, turn_id: int, now_ms: int) -> tuple[str, str] | None:
    """Plans the deletion of a turn's messages in the chat; the platform and chat where that is, if any."""
    rows = connection.execute(
        select(outbox)
        .where(outbox.c.turn_id == turn_id, outbox.c.message_id.is_not(None), outbox.c.kind != "delete")
        .order_by(outbox.c.id)
    ).all()
    for seq, row in enumerate(rows):
        gone = OutboundMessage(ChatRef(row.chat, row.thread or None), Chunk(""))
        connection.execute(
            insert(outbox).values(
                source=f"{REMOVAL}{turn_id}",
                seq=seq,
                platform=row.platform,
                tenant=row.tenant,
                chat=row.chat,
                thread=row.thread,
                kind="delete",
                payload=dump_outbound(gone),
                message_id=row.message_id,
                created_ms=now_ms,
            )
        )
    return (rows[0].platform, rows[0].chat) if rows else None


def turn_of(connection: Connection, platform: str, tenant: str, chat: str, message_id: str) -> int | None:
    """The turn that a person's message became a part of."""
    prefix = f"m:{chat}:{message_id}:"
    query = select(inbox.c.turn_id).where(
        inbox.c.platform == platform,
        inbox.c.tenant == tenant,
        inbox.c.key.startswith(prefix, autoescape=True),
        inbox.c.turn_id.is_not(None),
        inbox.c.kind.not_in(("edit", "retry")),
    )
    return connection.execute(query.order_by(inbox.c.id).limit(1)).scalar()
