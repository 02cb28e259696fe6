"""What a row of the providers' outbox says, as it is stored, and the names of turns and entries in it."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from trunkline.agent.memory.entries import normalise
from trunkline.agent.ports import Action, Target
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope

Kind = Literal["sync", "mirror", "forget", "end"]


@dataclass(frozen=True, slots=True)
class TurnSaid:
    """A completed turn to keep. `created` is aware UTC."""

    key: str
    session: str
    platform: str
    author: str
    user: str
    assistant: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Written:
    """A change of the built-in memory to mirror. The hashes name its texts in `provider_mirror`."""

    key: str
    action: Action
    target: Target
    before: str
    after: str
    before_hash: str
    after_hash: str


@dataclass(frozen=True, slots=True)
class ToForget:
    """A fact to erase, or everything where `all` is set."""

    all: bool
    wordings: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionEnded:
    session: str
    platform: str


Payload = TurnSaid | Written | ToForget | SessionEnded


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row that was taken for its `attempts`th try. `asker` is who spoke in a room, else 0."""

    id: int
    provider: str
    owner: str
    asker: AccountId
    payload: Payload
    attempts: int

    @property
    def scope(self) -> Scope:
        kind, _, slug = self.owner.partition(":")
        return PersonScope(PersonId(slug)) if kind == "person" else RoomScope(RoomId(slug), self.asker)


@dataclass(frozen=True, slots=True)
class Stored:
    """A payload with who spoke, as it is stored."""

    asker: int
    said: TurnSaid | None = None
    written: Written | None = None
    forget: ToForget | None = None
    ended: SessionEnded | None = None


@cache
def stored_rows() -> TypeAdapter[Stored]:
    """Made when first used: it takes its time, and most installs have no rows."""
    return TypeAdapter(Stored)


def entry_hash(target: Target, text: str) -> str:
    """An entry's name in the mirror; entries that differ in white space or case only have one."""
    return hashlib.sha256(f"{target}\n{normalise(text)}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def turn_key(session_id: str, turn_id: int) -> str:
    """A turn's key at the providers: the same each time, and of no other install."""
    return f"{session_id}-{turn_id}"
