"""Where a command of somebody's own, asked in a room, is answered without the room seeing it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from trunkline.adapters.base import Adapter, ChatRef, HasDirectLink, InboundMessage
from trunkline.gateway.delivery import Destination
from trunkline.gateway.sentences import say
from trunkline.gateway.state import inbox
from trunkline.gateway.state.records import Account

SPARE = timedelta(seconds=30)
"""What an interaction must have left, so that its answer is not late."""


def point_elsewhere(adapter: Adapter | None, language: str) -> str:
    """What the room is told where nothing private is known: where to ask."""
    link = adapter.direct_link if isinstance(adapter, HasDirectLink) else ""
    return say("private_link", language, link=link) if link else say("private_elsewhere", language)


@dataclass(frozen=True, slots=True)
class PrivateWay:
    """Where to answer. `elsewhere`: it is another chat, of which the room is told in a sentence."""

    where: Destination
    elsewhere: bool


def find_private_way(connection: Connection, message: InboundMessage, account: Account) -> PrivateWay | None:
    """Through the interaction while it lasts, else the asker's direct chat on the same platform, if there
    is one; None where nothing private is known."""
    expires = message.interaction_expires
    if message.interaction is not None and expires is not None and expires - SPARE > datetime.now(UTC):
        to = ChatRef(message.chat, message.thread, message.interaction, expires)
        here = Destination(message.platform, message.tenant, to, ephemeral=True, group=True, private=True)
        return PrivateWay(here, elsewhere=False)
    if account.person is None:
        return None
    place = inbox.last_place(connection, account.id)
    if place is None or place.platform != message.platform:
        return None
    there = Destination(place.platform, place.tenant, ChatRef(place.chat, place.thread or None))
    return PrivateWay(there, elsewhere=True)
