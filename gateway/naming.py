"""Names for the ids that some platforms send, asked for once it is sure that the sender may speak."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import Adapter, AdapterError, InboundMessage, Names
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_inbound, load_inbound
from trunkline.gateway.state import people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import InboxRow

log = logging.getLogger(__name__)

ASK_S = 4.0
"""For all names of a turn: an answer is not to wait for a courtesy."""


async def with_names(
    database: Database, adapter: Adapter | None, rows: Sequence[InboxRow]
) -> Sequence[InboxRow]:
    """The rows with names in their texts; the sender's goes to their account. As they were where it fails."""
    if not isinstance(adapter, Names):
        return rows
    try:
        async with asyncio.timeout(ASK_S):
            return [await _named(database, adapter, row) for row in rows]
    except (AdapterError, TimeoutError) as error:
        log.info("names not learnt: %s", type(error).__name__)
        return rows


async def _named(database: Database, adapter: Names, row: InboxRow) -> InboxRow:
    message = load_inbound(row.payload)
    text = await adapter.with_names(message.text)
    sender = message.sender
    if sender.label == sender.id and sender.is_person:
        sender = replace(sender, label=await adapter.name_of(sender.id))
        await database.write(lambda c: _keep_name(c, message, sender.label))
    if (text, sender) == (message.text, message.sender):
        return row
    return replace(row, payload=dump_inbound(replace(message, text=text, sender=sender)))


def _keep_name(connection: Connection, message: InboundMessage, label: str) -> None:
    people.ensure_account(
        connection, message.platform, message.realm, message.sender.id, label=label, now_ms=now_ms()
    )
