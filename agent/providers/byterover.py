"""ByteRover: notes as markdown files in the vendor's context trees on this disk, one tree for each bank.

Entries and turns are files of their own, written and found here without a model. The vendor's program is run
for its model only, when the assistant asks for that.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    Forget,
    ForgetAll,
    ForgetFact,
    Forgotten,
    MemoryProvider,
    MemoryWrite,
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    QuietHooks,
    Recalled,
    bank_of,
)
from trunkline.agent.providers.byterover_cli import Brv
from trunkline.agent.providers.byterover_tools import byterover_tools
from trunkline.agent.providers.byterover_tree import NOTES, TURNS, Trees, disk_reported
from trunkline.agent.providers.remote import as_dated_transcript, entry_id, turn_id
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool

T = TypeVar("T")

TREES = "banks"
RECORDS = "data"
STATUS_TIMEOUT_S = 60.0
"""The program starts a daemon first, which takes seconds, on a busy machine ten and more."""
QUERY_CHARS = 2_000
NOT_FOUND = (
    "The program {command} is not found. It needs Node.js 20 or newer; "
    "`npm install -g byterover-cli` installs it."
)
IN_HISTORY = (
    "Your ByteRover tree is under its version control: its history still has it, and a copy that was pushed."
)


class ByteRoverOptions(ProviderOptions):
    """`command` is the vendor's program, by name or path; `folder` is where the trees lie, or else our home;
    `model_timeout_s` is for what the program's model does; `environment` are variables for the program."""

    folder: Path | None = None
    command: Annotated[str, Field(min_length=1)] = "brv"
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 8
    model_timeout_s: Annotated[float, Field(gt=0, le=600)] = 120.0
    environment: Mapping[str, str] = Field(default_factory=dict)
    send_turns: bool = True


class ByteRover(QuietHooks):
    """The provider over trees on the disk and the vendor's program."""

    name = "byterover"

    def __init__(self, trees: Trees, brv: Brv, options: ByteRoverOptions) -> None:
        self._trees = trees
        self._brv = brv
        self._options = options

    def available(self) -> tuple[str, ...]:
        return () if self._brv.found else (NOT_FOUND.format(command=self._options.command),)

    async def check(self) -> None:
        folder = await _on_disk(self._trees.made)
        await self._brv.run(("status", "--format", "json"), folder, STATUS_TIMEOUT_S)

    async def start(self, conversation: Conversation, scope: Scope) -> None:
        """Reads the tree ahead: for a thousand turns that takes a second."""
        bank = self._bank(scope)
        await _on_disk(lambda: self._trees.search(bank, "", 1))

    def tools(self) -> tuple[Tool[Any], ...]:
        return byterover_tools(self._trees, self._brv, self._bank, self._options.model_timeout_s)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        bank, limit = self._bank(scope), self._options.recall_limit
        found = await _on_disk(lambda: self._trees.search(bank, query[:QUERY_CHARS], limit))
        return tuple(Recalled(one.text, one.id, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if self._options.send_turns:
            bank = self._bank(scope)
            text = f"{as_dated_transcript(turn, scope)}\n"
            await _on_disk(lambda: self._trees.write(bank, _turn_id(bank, turn.key), text))

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        bank = self._bank(scope)
        return await _on_disk(lambda: self._mirror(bank, write))

    def _mirror(self, bank: str, write: MemoryWrite) -> str:
        new_id = ""
        if write.after:
            new_id = f"{NOTES}/{entry_id(bank, write)}"
            self._trees.write(bank, new_id, write.after)
        old = [write.remote_id] if write.remote_id else []
        if not old and write.before:
            old = self._trees.same_as(bank, write.before)
        self._trees.remove(bank, [one for one in old if one != new_id])
        return new_id

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        bank = self._bank(scope)
        if isinstance(what, ForgetAll):
            return Forgotten(await _on_disk(lambda: self._forget_all(bank)))
        fact = what
        return await _on_disk(lambda: self._forget_fact(bank, fact))

    def _forget_all(self, bank: str) -> int:
        self._end_daemon(bank)
        return self._trees.remove_all(bank)

    def _end_daemon(self, bank: str) -> None:
        """Before something is erased: nothing may be answered from memory, or written down, afterwards."""
        if self._trees.is_known(bank):
            self._brv.end_daemon()

    def _forget_fact(self, bank: str, fact: ForgetFact) -> Forgotten:
        """The files that state it, with the topics that a model wrote; then the program's records of them."""
        self._end_daemon(bank)
        turns = (_turn_id(bank, turn) for turn in fact.turns)
        removed = self._trees.remove(
            bank, [*fact.remote_ids, *turns, *self._trees.stating(bank, fact.wordings)]
        )
        self._trees.remove_records(bank, fact.wordings)
        return Forgotten(removed, IN_HISTORY if removed and self._trees.has_history(bank) else "")

    async def count(self, scope: Scope) -> int | None:
        bank = self._bank(scope)
        return await _on_disk(lambda: self._trees.count(bank))

    def _bank(self, scope: Scope) -> str:
        return bank_of(scope, self._options.namespace)


async def _on_disk(work: Callable[[], T]) -> T:
    with disk_reported():
        return await asyncio.to_thread(work)


def _turn_id(bank: str, key: str) -> str:
    return f"{TURNS}/{turn_id(bank, key)}"


def make(setup: ProviderSetup[ByteRoverOptions]) -> MemoryProvider:
    options = setup.options
    folder = setup.folder if options.folder is None else options.folder.expanduser()
    trees = Trees(folder / TREES, folder / RECORDS)
    return ByteRover(trees, Brv(options.command, folder / RECORDS, options.environment), options)


KIND = ProviderKind(
    name="byterover",
    title="ByteRover (files on this machine)",
    options=ByteRoverOptions,
    make=make,
    check_s=STATUS_TIMEOUT_S,
)
