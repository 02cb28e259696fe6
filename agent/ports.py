"""What the agent needs of the house, as protocols. Implementations live in gateway/state."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from trunkline.agent.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from trunkline.agent.scope import AccountId, Scope

Target = Literal["memory", "user"]
Action = Literal["add", "replace", "remove"]
Role = Literal["user", "assistant", "tool"]


class TurnRecorder(Protocol):
    """Keeps the steps of one running turn. Each call is one committed transaction.

    Raises `TurnLost` when another worker has taken the turn over; the loop must then stop at once.
    """

    async def record_calls(self, step: int, message: AssistantMessage, usage: Usage, *, model: str) -> None:
        """Commits an assistant message with its tool calls, before any of them runs."""
        ...

    async def record_results(
        self, step: int, results: Sequence[ToolMessage], *, last: bool = False
    ) -> tuple[UserMessage, ...]:
        """Commits the results of every call of `step`; the step has then ended.

        Returns what the person has said meanwhile and was committed with it, for the model to read next;
        nothing when this is the `last` that the turn does.
        """
        ...


class TurnLost(Exception):
    """This worker no longer holds the turn."""


@dataclass(frozen=True, slots=True)
class WriteOrigin:
    """Where a memory write comes from: `actor` is who wrote, the rest is its provenance."""

    actor: Literal["tool", "review", "command", "import", "undo", "forget", "join"]
    platform: str
    session: str | None = None
    turn: int | None = None
    account: AccountId | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write to a memory store: the store's whole entries before and after it."""

    target: Target
    action: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class MemoryJournal(Protocol):
    """The undo record of memory writes: a pending row before the file changes, settled after."""

    async def begin(self, scope: Scope, entry: JournalEntry, origin: WriteOrigin) -> int:
        """Commits a pending row and returns its id."""
        ...

    async def settle(self, scope: Scope, journal_id: int, *, done: bool) -> None:
        """Marks a pending row done, or abandoned when the file kept its old bytes."""
        ...


@dataclass(frozen=True, slots=True)
class SessionCard:
    """What a list of sessions shows of one. `preview` is at most 160 characters; times are aware UTC."""

    id: str
    title: str
    platform: str
    started: datetime
    last: datetime
    message_count: int
    preview: str


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One message of a transcript as it may be shown. `id` is the message's row id."""

    id: int
    role: Role
    author: str
    text: str
    created: datetime
    matched: bool = False


@dataclass(frozen=True, slots=True)
class SessionHit:
    """A session found by a search: excerpt lines around the matches, first and last exchange."""

    card: SessionCard
    score: float
    excerpt: tuple[TranscriptLine, ...]
    opening: tuple[TranscriptLine, ...]
    closing: tuple[TranscriptLine, ...]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`text` is raw; every input is legal. `exclude_session` leaves out what its model still has."""

    text: str
    limit: int = 3
    roles: tuple[Role, ...] = ("user", "assistant")
    platform: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    sort: Literal["relevance", "newest", "oldest"] = "relevance"
    exclude_session: str | None = None


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """`relaxed` says that not all words were found together; `degraded` that the index is broken."""

    hits: tuple[SessionHit, ...]
    relaxed: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class SessionView:
    """A bounded stretch of one session; `omitted` counts messages left out between or around."""

    card: SessionCard
    lines: tuple[TranscriptLine, ...]
    omitted: int = 0


class SessionSearch(Protocol):
    """Past transcripts within a scope. A session out of scope reads like one that does not exist.

    Raises `SearchFailed` when the store can't answer; an empty result means nothing was found.
    """

    async def browse(
        self,
        scope: Scope,
        limit: int,
        platform: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> tuple[SessionCard, ...]:
        """The newest sessions first; with limits of time those that went on between them."""
        ...

    async def search(self, scope: Scope, query: SearchQuery) -> SearchOutcome: ...

    async def read(self, scope: Scope, session: str, max_chars: int) -> SessionView | None:
        """The start and the end of a session, at most `max_chars` characters of text."""
        ...

    async def around(self, scope: Scope, session: str, message_id: int, window: int) -> SessionView | None:
        """`window` messages on each side of one message."""
        ...

    async def context_of(self, scope: Scope, session: str, message_ids: Sequence[int], max_chars: int) -> str:
        """A transcript text centred on the messages, for a summary; at most `max_chars` characters."""
        ...


class SearchFailed(Exception):
    """The search could not be carried out; says nothing about what would have been found."""
