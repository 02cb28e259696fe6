"""What a chat command is: its name, who may use it, where, and the function that runs it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from trunkline.adapters.base import CommandSpec
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import SessionSearch
from trunkline.agent.scope import AccountId, PersonScope
from trunkline.agent.skills.store import SkillStore
from trunkline.gateway.joining import Belongings
from trunkline.gateway.roles import has_role
from trunkline.gateway.sentences import describe_command
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account, Room, Session, SessionKey


class Turns(Protocol):
    """What a command may do to running turns."""

    def running_for(self, key: SessionKey) -> AccountId | None:
        """The author of the turn that runs or is about to under a key, or None."""
        ...

    def stop(self, key: SessionKey) -> bool:
        """Stops the running turn of a key; false when none runs, or its answer is whole already."""
        ...

    def stop_gathering(self, key: SessionKey) -> int:
        """Stops the turn to be of messages whose rest is waited for. Returns how many; 0 when none is."""
        ...


@dataclass(frozen=True, slots=True)
class Erased:
    """Memory providers where something forgotten is gone, where that waits, and what of it can't go."""

    gone: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)


async def _kept_nowhere_else(_: PersonScope, since_ms: int) -> Erased:
    return Erased()


@dataclass(frozen=True, slots=True)
class Shortened:
    """What a conversation came to before and after, and how many messages were put away."""

    before_tokens: int
    after_tokens: int
    messages: int


@dataclass(frozen=True, slots=True)
class NotShortened:
    """`why` is a FailureKind's value, cut, changed, or nothing: there was nothing to put away."""

    why: str


Shorten = Callable[[Account, Room | None, Session, str, str], Awaitable[Shortened | NotShortened]]
"""Puts away the older part of a session; the texts are what matters most, and the asker's language."""


async def _cannot_shorten(*_: object) -> NotShortened:
    return NotShortened("nothing")


@dataclass(frozen=True, slots=True)
class House:
    """What commands work with."""

    database: Database
    memory: MemoryStore
    search: SessionSearch
    turns: Turns
    version: str
    model: str
    platforms: Callable[[str], str]
    """Says in a language how it is with the platforms."""
    mask: Callable[[str], str] = str
    """Takes known secrets out of what a command stores."""
    models: tuple[str, ...] = ()
    """The models that may answer, the main one first."""
    kick: Callable[[str, str], None] = lambda platform, chat: None
    """Tells delivery that something is planned in a chat of a platform."""
    settings: FileSettings = field(default_factory=FileSettings)
    belongings: tuple[Belongings, ...] = ()
    """What other parts keep of people: asked when two are joined, one is exported, or leaves."""
    home: Path = Path()
    skills: SkillStore | None = None
    erased: Callable[[PersonScope, int], Awaitable[Erased]] = _kept_nowhere_else
    """Waits a moment for memory providers to erase what of a person was forgotten since a time."""
    shorten: Shorten = _cannot_shorten


@dataclass(frozen=True, slots=True)
class CommandContext:
    """One use of a command. `account` may be without a person in a room; `room` is None in direct chats."""

    house: House
    account: Account
    room: Room | None
    key: SessionKey
    argument: str
    language: str
    inbox_row: int


Run = Callable[[CommandContext], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """`control` commands never wait behind turns; `private` ones show data in direct chats only.

    `role` is the least that may use it; `everywhere` lets the owner use it in a room not yet allowed. An
    `asker_only` one that is private may be used in a room: it does nothing with the conversation there, and
    its answer goes to the asker alone.
    """

    name: str
    run: Run
    argument: str = ""
    role: str = "guest"
    private: bool = False
    control: bool = False
    everywhere: bool = False
    asker_only: bool = False

    def allows(self, account: Account) -> bool:
        return has_role(account, self.role)

    def spec(self) -> CommandSpec:
        chinese = (("zh", describe_command(self.name, "zh")),)
        return CommandSpec(self.name, describe_command(self.name), self.argument, chinese, self.private)
