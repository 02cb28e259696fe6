"""What is asked of Honcho's API, without the vendor's SDK: everything else of the provider sees only this."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Level = Literal["minimal", "low", "medium", "high", "max"]
ASSISTANT = "assistant"
"""The peer that speaks for us; nothing is concluded about it."""


@dataclass(frozen=True, slots=True)
class Place:
    """One scope's workspace, and the peer in it whom everything is about."""

    workspace: str
    peer: str


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What Honcho holds for true of the peer: drawn from messages, or told to it."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """What a peer said in a turn. `session` is the vendor's; `part` numbers the pieces of a long text."""

    peer: str
    text: str
    turn: str
    created: datetime
    part: int = 0
    session: str = ""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What Honcho keeps ready: conclusions as a text, and the card, a list of short facts."""

    conclusions: str
    card: tuple[str, ...]


class Wire(Protocol):
    """The vendor's API, one workspace for each call, made where it is not there. Raises ProviderError."""

    async def check(self) -> None: ...

    async def sessions(self, place: Place, conversation: str | None = None) -> list[tuple[str, str]]:
        """Ids of the sessions, each with the conversation it belongs to; of one conversation, or all."""
        ...

    async def make_session(self, place: Place, session: str, conversation: str) -> None: ...

    async def delete_session(self, place: Place, session: str) -> None:
        """Deletes it with its messages and what was concluded from them; an unknown one is no failure."""
        ...

    async def messages(
        self, place: Place, session: str, turns: Sequence[str] | None = None
    ) -> list[Message]: ...

    async def add_messages(self, place: Place, session: str, messages: Sequence[Message]) -> None: ...

    async def search(self, place: Place, query: str, limit: int) -> list[Message]: ...

    async def conclusions(self, place: Place, limit: int) -> list[Conclusion]:
        """The newest."""
        ...

    async def count_conclusions(self, place: Place) -> int: ...

    async def query(self, place: Place, query: str, limit: int) -> list[Conclusion]: ...

    async def conclude(self, place: Place, text: str) -> str:
        """Tells Honcho a conclusion; returns its id."""
        ...

    async def derived_from(self, place: Place, conclusion: str) -> list[Conclusion]: ...

    async def delete_conclusion(self, place: Place, conclusion: str) -> bool:
        """Whether there was such a one."""
        ...

    async def card(self, place: Place) -> tuple[str, ...]: ...

    async def set_card(self, place: Place, lines: Sequence[str]) -> None: ...

    async def portrait(self, place: Place, query: str) -> Portrait: ...

    async def ask(self, place: Place, question: str, level: Level) -> str:
        """What Honcho's own model says of the peer; empty when it has nothing to say."""
        ...

    async def workspace_exists(self, place: Place) -> bool: ...

    async def delete_workspace(self, place: Place) -> None:
        """Asks for its deletion, which goes on after this. It must have no sessions."""
        ...

    async def aclose(self) -> None: ...
