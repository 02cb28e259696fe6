"""What a chat command is: its name, who may use it, where, and the function that runs it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from trunkline.adapters.base import CommandSpec
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import SessionSearch
from trunkline.agent.scope import AccountId
from trunkline.gateway.sentences import describe_command
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account, Room, SessionKey

ROLE_ORDER = ("guest", "member", "admin", "owner")


class Turns(Protocol):
    """What a command may do to running turns."""

    def running_for(self, key: SessionKey) -> AccountId | None:
        """The author of the turn that runs under a key, or None."""
        ...

    def stop(self, key: SessionKey) -> bool:
        """Stops the running turn of a key; false when none runs, or its answer is whole already."""
        ...


@dataclass(frozen=True, slots=True)
class House:
    """What commands work with."""

    database: Database
    memory: MemoryStore
    search: SessionSearch
    turns: Turns
    version: str
    model: str
    platforms: Callable[[], tuple[str, ...]]
    mask: Callable[[str], str] = str
    """Takes known secrets out of what a command stores."""


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

    `role` is the least that may use it; `everywhere` lets the owner use it in a room not yet allowed.
    """

    name: str
    run: Run
    argument: str = ""
    role: str = "guest"
    private: bool = False
    control: bool = False
    everywhere: bool = False

    def allows(self, account: Account) -> bool:
        role = "guest" if account.person is None else account.person.role
        return ROLE_ORDER.index(role) >= ROLE_ORDER.index(self.role)

    def spec(self) -> CommandSpec:
        return CommandSpec(self.name, describe_command(self.name), self.argument)
