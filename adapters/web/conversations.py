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
    """One message as it is shown: `text` is Markdown for an answer and plain for a person's words."""

    by_person: bool
    text: str
    at: datetime


class Conversations(Protocol):
    """Implemented by the gateway over its transcripts, within the person's own scope."""

    async def list(self, person: str) -> tuple[Conversation, ...]:
        """The person's web conversations, newest first."""
        ...

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        """What was said in one of them, oldest first; empty if it is unknown or someone else's."""
        ...
