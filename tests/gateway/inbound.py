"""Inbound messages for tests of the house, as adapters make them."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from trunkline.adapters.base import ChatKind, InboundKind, InboundMessage, Sender

_numbers = count(1)


def direct(text: str, *, user: str = "100", platform: str = "telegram", name: str = "Ana") -> InboundMessage:
    """A message in a direct chat; the chat's id is the user's, as on Telegram."""
    return InboundMessage(
        platform=platform,
        tenant="bot",
        kind=InboundKind.MESSAGE,
        chat=user,
        chat_kind=ChatKind.DIRECT,
        sender=Sender(user, name),
        sent_at=datetime.now(UTC),
        text=text,
        message_id=str(next(_numbers)),
    )


def in_room(
    text: str, *, user: str = "100", room: str = "-900", platform: str = "telegram", mention: bool = True
) -> InboundMessage:
    return replace(
        direct(text, user=user, platform=platform),
        chat=room,
        chat_kind=ChatKind.GROUP,
        chat_title="The house",
        mentions_me=mention,
    )


def command(name: str, argument: str = "", *, user: str = "100") -> InboundMessage:
    return replace(direct(argument, user=user), kind=InboundKind.COMMAND, command=name)
