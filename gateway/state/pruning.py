"""Removes what is over from the inbox and the outbox, in small steps: rows that nothing looks up any more.

What stays: what an edit, a deletion, a reaction or `/undo` may still be about, which are the rows of turns
for as long as their conversation is kept, words that no conversation holds, and the newest row of an account
in each chat, by which people are found again.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select, text, tuple_, update

from trunkline.gateway.state.schema import inbox, outbox
from trunkline.gateway.state.schema_over import INBOX_OVER, OUTBOX_OVER

STEP_ROWS = 500


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a walk has come: the time, in ms since 1970 UTC, and the id of the last row looked at."""

    at_ms: int = -1
    id: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Rows to remove, rows whose words are to go, and where the next step begins: None at the end."""

    rows: tuple[int, ...]
    words: tuple[int, ...]
    reached: Reached | None


def look_at_inbox(connection: Connection, before_ms: int, since: Reached) -> Step:
    """The next rows of the inbox that were done with before that time, and those of them that may go.

    A platform that sends one of them again after that is answered again.
    """
    newer = inbox.alias()
    is_followed = exists().where(
        newer.c.account_id == inbox.c.account_id,
        newer.c.received_ms >= inbox.c.received_ms,
        newer.c.chat == inbox.c.chat,
        newer.c.id > inbox.c.id,
    )
    is_wordless = or_(inbox.c.payload == "", inbox.c.kind == "reaction")
    rows = connection.execute(
        select(
            inbox.c.id, inbox.c.done_ms, is_wordless.label("is_wordless"), is_followed.label("is_followed")
        )
        .where(text(INBOX_OVER), *_between(inbox.c.done_ms, inbox.c.id, since, before_ms))
        .order_by(inbox.c.done_ms, inbox.c.id)
        .limit(STEP_ROWS)
    ).all()
    gone = tuple(row.id for row in rows if row.is_wordless and row.is_followed)
    return Step(gone, (), Reached(rows[-1].done_ms, rows[-1].id) if rows else None)


def look_at_outbox(connection: Connection, before_ms: int, since: Reached) -> Step:
    """The next rows of the outbox that were made before that time and have ended.

    Those of a turn keep their message id and lose their words, which the transcript has.
    """
    rows = connection.execute(
        select(outbox.c.id, outbox.c.created_ms, outbox.c.turn_id, outbox.c.platform)
        .where(text(OUTBOX_OVER), *_between(outbox.c.created_ms, outbox.c.id, since, before_ms))
        .order_by(outbox.c.created_ms, outbox.c.id)
        .limit(STEP_ROWS)
    ).all()
    # SQLite would give the newest row's id to another message.
    newest = connection.execute(select(func.max(outbox.c.id))).scalar()
    # The web page shows again what it was told beside the talk (`beside_talk`).
    is_kept = {row.id for row in rows if row.platform == "web"} | {newest}
    gone = tuple(row.id for row in rows if row.turn_id is None and row.id not in is_kept)
    emptied = tuple(row.id for row in rows if row.turn_id is not None)
    return Step(gone, emptied, Reached(rows[-1].created_ms, rows[-1].id) if rows else None)


def remove_from_inbox(connection: Connection, step: Step) -> None:
    connection.execute(delete(inbox).where(inbox.c.id.in_(step.rows), text(INBOX_OVER)))


def remove_from_outbox(connection: Connection, step: Step) -> None:
    connection.execute(delete(outbox).where(outbox.c.id.in_(step.rows), text(OUTBOX_OVER)))
    connection.execute(
        update(outbox).where(outbox.c.id.in_(step.words), text(OUTBOX_OVER)).values(payload="")
    )


def _between(
    at_ms: ColumnElement[int], row_id: ColumnElement[int], since: Reached, before_ms: int
) -> tuple[ColumnElement[bool], ...]:
    return at_ms < before_ms, tuple_(at_ms, row_id) > tuple_(since.at_ms, since.id)
