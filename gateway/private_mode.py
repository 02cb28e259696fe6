"""Ends private conversations: at the person's word, or by the clock, and says so.

What keeps them out of search, titles and reviews stands with those; what keeps them out of memory is
memory_approval's.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.state import outbox, private_sessions, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.private_sessions import Due
from trunkline.gateway.state.records import SessionKey

log = logging.getLogger(__name__)

KEPT_MS = 24 * 3_600_000
LOOK_S = 30.0


async def end(database: Database, key: SessionKey, reason: str) -> bool:
    """Ends the open session under the key and, where it is private, erases it; whether it was private."""

    def work(connection: Connection) -> bool:
        found = sessions.find_open(connection, key)
        stamp_ms = now_ms()
        sessions.end(connection, key, reason, stamp_ms)
        if found is None or not found.private:
            return False
        private_sessions.erase(connection, found.id, stamp_ms)
        return True

    was_private = await database.write(work)
    if was_private:
        await database.empty_log()
    return was_private


async def erase_due(database: Database, at_ms: int) -> tuple[SessionKey, ...]:
    """Erases what has ended or is over a day old at `at_ms`; returns where the person is told so."""

    def work(connection: Connection) -> tuple[tuple[SessionKey, ...], bool]:
        due = private_sessions.to_erase(connection, at_ms - KEPT_MS)
        for one in due:
            if not one.is_told:
                _tell(connection, one, at_ms)
            private_sessions.erase(connection, one.session.id, at_ms)
        return tuple(one.session.key for one in due if not one.is_told), bool(due)

    told, erased = await database.write(work)
    if erased:
        await database.empty_log()
    return told


async def watch(database: Database, kick: Callable[[str, str], None]) -> None:
    """Erases what is due, again and again, until it is cancelled."""
    while True:
        try:
            for key in await erase_due(database, now_ms()):
                kick(key.platform, key.chat)
        except DBAPIError as error:
            log.warning("private conversations not looked at: %s", type(error).__name__)
        await asyncio.sleep(LOOK_S)


def _tell(connection: Connection, due: Due, at_ms: int) -> None:
    key = due.session.key
    language = private_sessions.language_of(connection, due.session.id)
    sentence = say("private_off" if due.has_ended else "private_expired", language)
    notice = OutboundMessage(ChatRef(key.chat, key.thread or None), Chunk(sentence), quiet=True)
    outbox.plan(connection, outbox.notice(key), [dump_outbound(notice)], at_ms)
