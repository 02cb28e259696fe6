"""Tells the model what was said in a room to others since it was last asked there.

The operator allows it room by room; what is kept, and for how long, is in `state.heard`.
"""

import asyncio
import logging
from datetime import datetime, tzinfo

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import InboundMessage
from trunkline.agent.overheard import HeardLine, render_heard
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import heard, namesakes, spent_today
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import SessionKey

log = logging.getLogger(__name__)

LOOK_S = 600.0


async def watch(database: Database) -> None:
    """Ends what was heard, or is known of those who left, for over a day; until it is cancelled."""
    while True:
        try:
            await database.write(lambda c: heard.forget_old(c, now_ms()))
            await database.write(lambda c: spent_today.forget_old(c, now_ms()))
        except DBAPIError as error:
            log.warning("what was heard is not looked at: %s", type(error).__name__)
        await asyncio.sleep(LOOK_S)


def tell_heard(
    connection: Connection,
    key: SessionKey,
    room_id: int,
    session_id: int | None,
    question: InboundMessage,
    sent: str,
    zone: tzinfo | None,
) -> tuple[str, str | None]:
    """The bytes of a question with the block of what was heard after its first line; and whose lines it has.

    A question that opens a thread of its own stands in the chat, so it follows what was said there.
    """
    opens_thread = question.thread is not None and question.thread == question.message_id
    threads = [key.thread, ""] if opens_thread else [key.thread]
    told = heard.since(connection, key, threads, session_id, now_ms())
    if not told:
        return sent, None
    alike = namesakes.alike(connection, room_id, {one.account for one in told})
    lines = [
        HeardLine(
            one.author,
            f"{datetime.fromtimestamp(one.sent_ms / 1000, zone):%H:%M}",
            one.text,
            one.account if one.account in alike else None,
        )
        for one in told
    ]
    head, _, rest = sent.partition("\n")
    return f"{head}\n{render_heard(lines)}\n{rest}", heard.whose(told)
