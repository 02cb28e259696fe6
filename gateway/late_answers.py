"""What becomes of a private answer for which there was no longer a way to show it to its asker alone."""

from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.state import inbox, outbox, people
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import Account, OutboxRow

OF_COMMANDS = ("i", "c")
"""Begin the sources of what answers a command: its reply, and the file that goes with it."""


def send_late(connection: Connection, row: OutboxRow, message: OutboundMessage) -> None:
    """Sends it to the asker's direct chat on that platform, if there is one, and says so where it was asked.

    Else the asker is told to ask again. `row` answers the command of an inbox row, as its source tells.
    """
    asker = asker_of(connection, row)
    language, place = language_of(asker), None
    if asker is not None and asker.person is not None:
        place = inbox.last_place(connection, asker.id)
    said = "private_too_late"
    if place is not None and place.platform == row.platform:
        said = "answered_privately"
        to = ChatRef(place.chat, place.thread or None)
        moved = replace(message, to=to, ephemeral=False, private=False, reply_to=None)
        outbox.redirect(connection, row.id, place, dump_outbound(moved))
    here = Plan(f"{row.source}:late", row.platform, row.tenant, row.chat, row.thread)
    if outbox.find(connection, here.source, 0) is None:
        told = OutboundMessage(ChatRef(row.chat, row.thread or None), Chunk(say(said, language)))
        outbox.plan(connection, here, [dump_outbound(told)], now_ms())


def asker_of(connection: Connection, row: OutboxRow) -> Account | None:
    """Who sent the command that a row replies to, as its source tells; None for any other row."""
    kind, asked, *_ = row.source.split(":")
    is_reply = kind in OF_COMMANDS and asked.isdecimal()
    author = inbox.author_of(connection, int(asked)) if is_reply else None
    return None if author is None else people.load_account(connection, author)


def language_of(asker: Account | None) -> str:
    """The one that the person chose; empty where nobody knows."""
    return "" if asker is None else asker.language_or("")
