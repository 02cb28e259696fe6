"""What a memory provider is tested with: a bench, which starts what it talks to and looks into that.

test_conformance.py runs every test on every bench of benches.py; tests/gateway/test_provider_house.py runs
the house with them. A new provider is a bench in a module of its own and a line in BENCHES.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.agent.providers.failing_facts import FailingFacts
from tests.emulators.provider import Outage, ProviderServer
from trunkline.agent.ports import Action
from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    MemoryProvider,
    MemoryWrite,
    ProviderKind,
    ProviderSetup,
    Recalled,
)
from trunkline.agent.providers.facts import FactStore
from trunkline.agent.providers.table import kind_of
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

ANA = PersonScope(PersonId("ana"))
BO = PersonScope(PersonId("bo"))
DEN = RoomScope(RoomId("den"), AccountId(7))
HERE = Conversation("s-1", "telegram")
WHEN = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Bench:
    """A provider and what it talks to, running between `running`'s beginning and end.

    `lookup` is a reading tool with the name of its question's argument; `keep` a writing one with the name of
    its text's argument, None where there is none. `outages` are those that can be played. `label` tells
    benches of one provider apart.
    """

    name: ClassVar[str]
    label: ClassVar[str] = ""
    lookup: ClassVar[tuple[str, str]]
    keep: ClassVar[tuple[str, str] | None] = None
    outages: ClassVar[tuple[Outage, ...]] = ("down", "locked", "slow")
    marks: ClassVar[Sequence[pytest.MarkDecorator]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def kind(self) -> ProviderKind[Any]:
        return kind_of(self.name)

    @property
    def options(self) -> Mapping[str, object]:
        """The block `providers.<name>` of config.yaml that leads to this bench."""
        return {}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    def facts(self) -> FactStore:
        """Of no use to most: only Holographic looks at it."""
        return FailingFacts()

    def fail(self, outage: Outage | None) -> None:
        """From now on every request fails like this; None lifts it."""
        raise AssertionError(f"{self.name} has no outage {outage}")

    def lose(self, number: int) -> None:
        """The answer to the request of this number from now on, 1 for the next, is lost; 0 loses none."""
        raise AssertionError(f"{self.name} asks over no network")

    async def settled(self) -> None:
        """Returns when all that was accepted can be recalled."""

    async def stored(self, scope: Scope) -> list[str]:
        """Every text that is kept for the scope, read behind the provider's back."""
        raise AssertionError(f"{self.name} can't be looked into")

    def make(self, secrets: Mapping[str, str] | None = None) -> MemoryProvider:
        """A new instance, as after a restart."""
        kind = self.kind
        given = self.secrets if secrets is None else secrets
        options = kind.options.model_validate(dict(self.options))
        return kind.make(ProviderSetup(options, given, self.folder / "provider", self.facts()))


class ServerBench(Bench):
    """A bench whose provider asks a server of the tests over HTTP."""

    outages = ("down", "locked", "slow", "garbled", "cut")
    server: ProviderServer

    def fail(self, outage: Outage | None) -> None:
        self.server.fail(outage)

    def lose(self, number: int) -> None:
        self.server.lose(number)


@dataclass(slots=True)
class Opened:
    """A bench with one instance of its provider, and shorthand for asking it."""

    bench: Bench
    provider: MemoryProvider

    async def recall(self, query: str, scope: Scope) -> list[str]:
        await self.bench.settled()
        return [one.text for one in await self.recalled(query, scope)]

    async def recalled(self, query: str, scope: Scope) -> tuple[Recalled, ...]:
        return await self.provider.prefetch(query, HERE, scope)

    async def write(
        self, scope: Scope, key: str, after: str = "", before: str = "", remote_id: str = ""
    ) -> str:
        """Mirrors an add, a replace or a remove, by which texts are given."""
        action: Action = "replace" if before and after else "add" if after else "remove"
        made = MemoryWrite(key, action, "user", before, after, remote_id)
        remote = await self.provider.on_memory_write(made, scope)
        await self.bench.settled()
        return remote

    async def sync(self, scope: Scope, key: str, user: str, assistant: str = "I see.") -> None:
        author = str(scope.asker) if isinstance(scope, RoomScope) else scope.person
        await self.provider.sync(CompletedTurn(key, HERE, author, user, assistant, WHEN), scope)
        await self.bench.settled()

    def tool(self, name: str) -> Tool[Any]:
        return next(tool for tool in self.provider.tools() if tool.name == name)

    async def call(self, name: str, scope: Scope, **arguments: object) -> ToolResult:
        tool = self.tool(name)
        context = ToolContext(scope, HERE.session, 1, 1, "call-1", HERE.platform, WHEN)
        result = await tool.run(tool.arguments.model_validate(arguments), context)
        await self.bench.settled()
        return result

    async def look_up(self, query: str, scope: Scope) -> str:
        name, argument = self.bench.lookup
        return (await self.call(name, scope, **{argument: query})).content
