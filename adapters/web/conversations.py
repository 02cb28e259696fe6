"""What the web chat asks of the house: earlier conversations of a person and what was said in them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of the list. `thread` is the id that the conversation has in the address."""

    thread: str
    title: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it is shown: `text` is Markdown for an answer and plain for a person's words.

    `files` are names and hashes of what went out with it. `id`: what it was sent under, where that is known.
    """

    by_person: bool
    text: str
    at: datetime
    files: tuple[tuple[str, str], ...] = ()
    id: str = ""


class Conversations(Protocol):
    """Implemented by the gateway over its transcripts, within the person's own scope."""

    async def list(self, person: str) -> tuple[Conversation, ...]:
        """The person's web conversations, newest first."""
        ...

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        """What was said in one of them, oldest first; empty if it is unknown or someone else's."""
        ...

    async def rename(self, person: str, thread: str, title: str) -> bool:
        """Gives one of them a title; false if it is unknown or someone else's."""
        ...

    async def delete(self, person: str, thread: str) -> None:
        """Deletes one of them for good, if there is such a one of this person's."""
        ...

    async def has_file(self, person: str, thread: str, sha256: str) -> bool:
        """Whether a file of this content goes with one of the person's web conversations."""
        ...
