"""Whose memory and transcripts a call may touch. Every reading call takes a Scope; none has a default."""

from dataclasses import dataclass
from typing import NewType

PersonId = NewType("PersonId", str)
"""A person's slug: lower-case ASCII, made once, never changed; it names folders."""

RoomId = NewType("RoomId", str)
"""A room's slug: safe as a folder name, unique over platforms and realms."""

AccountId = NewType("AccountId", int)
"""The row of one platform account, whether or not it belongs to a person."""


@dataclass(frozen=True, slots=True)
class PersonScope:
    """A person's own direct chats on every platform, and the rooms they took part in."""

    person: PersonId


@dataclass(frozen=True, slots=True)
class RoomScope:
    """One room, its threads and topics; never direct chats. `asker` bears the rights and the cost."""

    room: RoomId
    asker: AccountId


Scope = PersonScope | RoomScope
