"""Before a turn in a thread: the thread is opened where a room wants one, and what stands in it is read.

What others wrote there before is kept as what is overheard in a room is (`state.heard`): for this question.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatKind,
    ChatRef,
    InboundKind,
    InboundMessage,
    Names,
    OpensThreads,
    ReadsThreads,
)
from trunkline.agent.prompt import clean_label
from trunkline.gateway.access import entry_of
from trunkline.gateway.clock import now_ms
from trunkline.gateway.opening import load_message, who_is
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import heard, people, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import InboxRow

log = logging.getLogger(__name__)

WAIT_S = 8.0
"""For the platform to open or to hand over a thread: an answer is not to wait for it."""
TITLE_CHARS = 90
NAMES_MOST = 10
NAMES_S = 4.0


async def prepare(database: Database, adapter: Adapter | None, settings: FileSettings, row: InboxRow) -> None:
    """Does for a row that begins a turn what its thread needs. Raises NotAdmitted."""
    message = load_message(row)
    if row.kind != "message" or message.thread is None or message.chat_kind is ChatKind.DIRECT:
        return
    try:
        async with asyncio.timeout(WAIT_S):
            if message.chat_kind is ChatKind.GROUP:
                await _open(adapter, message)
            elif row.turn is None and entry_of(settings, message).read_threads:
                await _read(database, adapter, row, message)
    except (AdapterError, TimeoutError) as error:
        # What can't be said in a thread goes to the chat, and a question is asked without its context.
        log.info("thread not opened or not read: %s on %s", type(error).__name__, message.platform)


async def _open(adapter: Adapter | None, message: InboundMessage) -> None:
    if isinstance(adapter, OpensThreads) and message.thread == message.message_id:
        title = clean_label(message.text, TITLE_CHARS) or clean_label(message.sender.label, TITLE_CHARS)
        await adapter.open_thread(message.chat, message.message_id or "", title)


async def _read(database: Database, adapter: Adapter | None, row: InboxRow, message: InboundMessage) -> None:
    """Keeps what was said in a thread in which the assistant is asked for the first time."""
    if not isinstance(adapter, ReadsThreads) or message.thread == message.message_id:
        return
    if await database.read(lambda c: sessions.takes_part(c, row.key)):
        return
    await database.read(lambda c: who_is(c, row, message))
    place = ChatRef(message.chat, message.thread)
    said = await adapter.said_before(place, message.message_id or "", heard.MOST)
    said = [one for one in said if one.kind in (InboundKind.MESSAGE, InboundKind.COMMAND)]
    said = await _named(adapter, said)
    await database.write(lambda c: _keep(c, row, message, said))


async def _named(adapter: Adapter, said: Sequence[InboundMessage]) -> list[InboundMessage]:
    """The same with their authors' names, as far as those can be learnt in time."""
    names: dict[str, str] = {}
    if isinstance(adapter, Names):
        unknown = dict.fromkeys(
            one.sender.id for one in said if one.sender.label == one.sender.id and one.sender.is_person
        )
        try:
            async with asyncio.timeout(NAMES_S):
                for user in list(unknown)[:NAMES_MOST]:
                    names[user] = await adapter.name_of(user)
        except (AdapterError, TimeoutError) as error:
            log.info("names in a thread not learnt: %s", type(error).__name__)
    return [
        replace(one, sender=replace(one.sender, label=names.get(one.sender.id, one.sender.label)))
        for one in said
    ]


def _keep(
    connection: Connection, row: InboxRow, question: InboundMessage, said: Sequence[InboundMessage]
) -> None:
    room = people.find_room(connection, question.platform, question.realm, row.key.chat)
    if room is None:
        return
    stamp_ms = now_ms()
    for one in said:
        text = _words(one)
        here = replace(one, chat=row.key.chat, thread=question.thread, text=text)
        if not text.strip() or heard.has(connection, here):
            continue
        sender = one.sender
        account = people.ensure_account(
            connection, one.platform, question.realm, sender.id, label=sender.label, now_ms=stamp_ms
        )
        if not account.blocked and (account.person is None or not account.person.suspended):
            heard.keep(connection, room.id, account.id, here, stamp_ms)


def _words(message: InboundMessage) -> str:
    """What a message says, with a word for each file."""
    command = f"/{message.command} " if message.command else ""
    files = (f"[{one.kind.value}: {clean_label(one.name, 60) or 'no name'}]" for one in message.attachments)
    return " ".join(filter(None, [f"{command}{message.text}".strip(), *files]))
