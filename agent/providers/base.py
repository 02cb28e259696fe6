"""What an external memory provider is: its hooks, the values they take, its errors, and what it is made from.

When a hook is called, how long it may take and what becomes of its failure is the dispatcher's work and the
outbox's; a provider only carries out the one call.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.ports import Action, Target
from trunkline.agent.providers.facts import FactStore
from trunkline.agent.scope import PersonScope, Scope
from trunkline.agent.tools.base import Tool

DEFAULT_NAMESPACE = "trunkline"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_READABLE_CHARS = 24


# Errors. What a vendor's client raises becomes one of these, `from exc`, within the provider's module.


class ProviderError(Exception):
    """A provider could not do what it was asked. The text is for the operator, and holds no secret."""


class ProviderDown(ProviderError):
    """It can't be reached, takes too long, or fails itself: the same call may work later.

    `retry_after_s` is how long the vendor asked to be left alone, None where it said nothing.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class ProviderLocked(ProviderError):
    """It refuses our key, or an account's limit is used up: nothing works until the operator acts."""


class ProviderRefused(ProviderError):
    """It refuses this one request, which would be refused again; others may well work."""


# What the hooks take and give.


@dataclass(frozen=True, slots=True)
class Recalled:
    """A passage that came back. `remote_id` is the vendor's name for it, empty where it has none.

    `score` orders the passages of one provider only; the dispatcher fuses by rank.
    """

    text: str
    remote_id: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a hook is called from. `platform` is a label.

    `session` is the public session id, empty in the first prefetch of a session that is about to begin.
    """

    session: str
    platform: str


@dataclass(frozen=True, slots=True)
class CompletedTurn:
    """What was said in one turn that ended well. `key` is the same each time this turn is sent.

    `author` names who spoke: the person's slug, in a room the account that asked, as its id. `created` is
    aware UTC.
    """

    key: str
    conversation: Conversation
    author: str
    user: str
    assistant: str
    created: datetime


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """One entry that the built-in memory gained, changed or lost.

    `before` is empty for an add, `after` for a remove. `remote_id` is what the provider gave for `before`,
    empty where it never had it; a remove may have it alone, when the old text is known to nobody any more.
    `key` is the same each time this change is sent, and of no other change.
    """

    key: str
    action: Action
    target: Target
    before: str
    after: str
    remote_id: str


@dataclass(frozen=True, slots=True)
class ForgetFact:
    """A fact to erase: every wording it had, what was given for mirrors of it, and the keys of its turns.

    A turn in `turns` is one in which the fact was said and which may have been sent by `sync`.
    """

    wordings: tuple[str, ...]
    remote_ids: tuple[str, ...]
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetAll:
    """Everything that the provider keeps for the scope."""


Forget = ForgetFact | ForgetAll


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a provider did to forget. `left` is a sentence on what it can't erase, empty when all is gone."""

    removed: int
    left: str = ""


class MemoryProvider(Protocol):
    """A store outside the prompt that remembers more and gives it back for a question.

    Every hook may raise a ProviderError and nothing else; anything else is a defect, which the dispatcher
    isolates all the same. Each may be cancelled at any await, and must leave the provider usable. Hooks run
    beside each other, for several scopes at once.
    """

    @property
    def name(self) -> str:
        """As in `memory.provider`; the prefix of its tools."""
        ...

    def available(self) -> tuple[str, ...]:
        """What is missing before it can work, as sentences; empty when nothing is. Asks no network."""
        ...

    async def check(self) -> None:
        """Asks the vendor whether address and key are right. Raises ProviderError."""
        ...

    async def start(self, conversation: Conversation, scope: Scope) -> None:
        """A session opens: the time to make a bank. Other hooks must work without it, after a restart."""
        ...

    def system_block(self, scope: Scope) -> str:
        """A short text for the system prompt, the same each time for a scope; empty for none."""
        ...

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        """What is known that helps to answer `query`, the best first; it may be of any length."""
        ...

    def tools(self) -> tuple[Tool[Any], ...]:
        """Its tools, named `<name>_…`. The scope comes with each call's context; no argument may name one.

        A call may raise ProviderError: the dispatcher counts it and words it for the model.
        """
        ...

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        """Keeps a turn. Called again with the same key it changes nothing."""
        ...

    async def queue_prefetch(self, query: str, conversation: Conversation, scope: Scope) -> None:
        """A turn has ended: the time to warm what the next one will ask."""
        ...

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        """Mirrors a change of the built-in memory; returns the new text's id, empty after a remove.

        The old text must not be recalled afterwards. With the same key again it must not double anything.
        """
        ...

    async def on_session_end(self, conversation: Conversation, scope: Scope) -> None:
        """A session has ended for good."""
        ...

    async def on_compaction(self, summary: str, conversation: Conversation, scope: Scope) -> None:
        """A long conversation was replaced by `summary`."""
        ...

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        """Erases, truly, and says what it can't erase."""
        ...

    async def count(self, scope: Scope) -> int | None:
        """How many memories it keeps for the scope; None where the vendor can't tell."""
        ...

    async def stop(self) -> None:
        """Closes connections. It may be called twice, and without a start."""
        ...


class QuietHooks:
    """The hooks that a provider may leave out, doing nothing. A provider class may derive from it."""

    async def start(self, conversation: Conversation, scope: Scope) -> None:
        return

    def system_block(self, scope: Scope) -> str:
        return ""

    def tools(self) -> tuple[Tool[Any], ...]:
        return ()

    async def queue_prefetch(self, query: str, conversation: Conversation, scope: Scope) -> None:
        return

    async def on_session_end(self, conversation: Conversation, scope: Scope) -> None:
        return

    async def on_compaction(self, summary: str, conversation: Conversation, scope: Scope) -> None:
        return

    async def stop(self) -> None:
        return


# What a provider is made from.


class ProviderOptions(BaseModel):
    """The block `providers.<name>` of config.yaml. A provider adds its own keys in a subclass.

    `namespace` begins the name of every bank, so that two installs with one account stay apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    namespace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,23}$")] = DEFAULT_NAMESPACE
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0


@dataclass(frozen=True, slots=True)
class Secret:
    """A name in the environment or `.env`. `ask` is what set-up says when it asks for the value."""

    name: str
    ask: str
    required: bool = True


Options = TypeVar("Options", bound=ProviderOptions)


@dataclass(frozen=True, slots=True)
class ProviderSetup(Generic[Options]):
    """What the house gives a provider. `secrets` holds the declared names that are set, by name.

    `folder` is the provider's own, for what it keeps on this machine; it need not exist yet. `facts` is the
    state database's table of facts.
    """

    options: Options
    secrets: Mapping[str, str] = field(repr=False)
    folder: Path
    facts: FactStore


@dataclass(frozen=True, slots=True)
class ProviderKind(Generic[Options]):
    """A provider as the table knows it, before it is made.

    `extra` is what to install (`trunkline[extra]`), empty when the core has all; `imports` are the top-level
    modules that must then be there. `make` may import the vendor's SDK, the module's top level may not.
    `check_s` is how long its `check` may take.
    """

    name: str
    title: str
    options: type[Options]
    make: Callable[[ProviderSetup[Options]], MemoryProvider]
    secrets: tuple[Secret, ...] = ()
    extra: str = ""
    imports: tuple[str, ...] = ()
    check_s: float = 5.0


def bank_of(scope: Scope, namespace: str) -> str:
    """The name under which a provider keeps what belongs to a scope: `a-z`, `0-9` and `-`, at most 80 long.

    Distinct for distinct people and rooms, whatever their slugs look like; the same for whoever asks in a
    room. It begins with `namespace` and stays the same for ever.
    """
    kind, slug = ("person", scope.person) if isinstance(scope, PersonScope) else ("room", scope.room)
    readable = _NOT_IN_A_NAME.sub("-", slug.casefold())[:_READABLE_CHARS].strip("-") or "x"
    return f"{namespace}-{kind}-{readable}-{digest(kind, slug)}"


def document_id(bank: str, key: str) -> str:
    """An id of ours for what is kept under `key`: the same each time, in no other bank; at most 100 long."""
    return f"{bank}-{digest(bank, key)}"


def digest(*parts: str) -> str:
    """16 hexadecimal digits for these texts in this order."""
    framed = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed.encode("utf-8", "surrogatepass")).hexdigest()[:16]
