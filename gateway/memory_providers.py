"""The active memory providers, made from the settings and run for as long as the house is.

Which there are is the agent's table; what one does is its own module's. Here they get their settings, secrets
and place, and everything that has to happen beside the turns.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.providers.base import Conversation, MemoryProvider, ProviderSetup
from trunkline.agent.providers.breaker import Health
from trunkline.agent.providers.dispatch import PREFETCH_TIMEOUT_S, Dispatcher
from trunkline.agent.providers.facts import FactStore
from trunkline.agent.providers.table import install_hint, kind_of, missing_modules
from trunkline.agent.scope import PersonScope, Scope
from trunkline.agent.tools.base import Tool
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import Erased
from trunkline.gateway.config import Config
from trunkline.gateway.memory_control import ORDER
from trunkline.gateway.opening import Opened
from trunkline.gateway.provider_outbox import DRAIN_S, ProviderOutbox
from trunkline.gateway.provider_recall import PersonsWish, ProviderRecall
from trunkline.gateway.state import journal, kv, links, provider_rows
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.provider_sessions import note_ended_sessions

log = logging.getLogger(__name__)

HEALTH = "providers.health"
LOOK_S = 5.0


class MemoryProviders:
    """The providers of one process. `run` owns their tasks and closes them; `drain` is for an orderly end."""

    def __init__(
        self,
        providers: Sequence[MemoryProvider],
        database: Database,
        memory: MemoryStore,
        *,
        approval: bool,
        timeout_s: float = PREFETCH_TIMEOUT_S,
    ) -> None:
        self._database = database
        self._memory = memory
        gate = PersonsWish(database, approval=approval)
        self._dispatcher = Dispatcher(providers, gate, timeout_s=timeout_s)
        self._stale: dict[str, Scope] = {}
        self._wake = asyncio.Event()
        self._told: tuple[Health, ...] = ()
        self.recall = ProviderRecall(database, self._dispatcher)
        self.outbox = ProviderOutbox(database, self._dispatcher)

    @property
    def names(self) -> tuple[str, ...]:
        return self._dispatcher.names

    def tools(self) -> tuple[Tool[Any], ...]:
        return self._dispatcher.tools()

    def after_turn(self, opened: Opened) -> None:
        """What was said is in the outbox by now: has it sent, and everything else seen to. Never waits."""
        if not self.names or opened.session.private:
            return
        here = Conversation(opened.session.public_id, opened.inbound.platform)
        self._dispatcher.warm(opened.user.text, here, opened.scope)
        self._stale[owner_of(opened.scope)] = opened.scope
        self._wake.set()
        self.outbox.kick()

    async def shortened(self, note: str, conversation: Conversation, scope: Scope) -> None:
        """A note stands for the older part of a conversation from now on."""
        if self.names:
            await self._dispatcher.shortened(note, conversation, scope)

    async def erased(self, scope: PersonScope, since_ms: int) -> Erased:
        """What became of forgetting something of a person since then, at each provider."""
        if not self.names:
            return Erased()
        former = await self._database.read(lambda c: links.former_slugs(c, scope.person))
        owners = [owner_of(PersonScope(slug)) for slug in (scope.person, *former)]
        erasing = await self.outbox.erased(owners, since_ms)
        gone = tuple(name for name in self.names if name not in (*erasing.waiting, *erasing.left))
        return Erased(gone, erasing.waiting, erasing.left)

    async def run(self) -> None:
        if not self.names:
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._dispatcher.run(), name="providers")
                group.create_task(self.outbox.run(), name="providers' outbox")
                group.create_task(self._keep_looking(), name="providers' mirror")
        finally:
            await self._dispatcher.stop()

    async def drain(self) -> None:
        """Sends what is due, for five seconds at most."""
        if self.names:
            await self.outbox.drain(DRAIN_S)
            with suppress(DBAPIError):
                await self._note_health()

    async def _keep_looking(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._look()
            except DBAPIError as error:
                log.warning("providers not looked after: %s", type(error).__name__)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()

    async def _look(self) -> None:
        """Hand edits of memory files, sessions that have ended, and how the providers fare."""
        while self._stale:
            _, scope = self._stale.popitem()
            await self._reconcile(scope)
        if await self._database.write(lambda c: note_ended_sessions(c, now_ms())):
            self.outbox.kick()
        await self._note_health()

    async def _reconcile(self, scope: Scope) -> None:
        """Mirrors what the stores hold by no write of ours. A write that comes in between goes first."""
        owner = owner_of(scope)
        before = await self._database.read(lambda c: journal.latest(c, scope))
        known = await self._memory.read(scope)
        if known.unreadable:
            return
        entries = [(target, text) for target in ORDER for text in known.entries_of(target)]

        def work(connection: Connection) -> None:
            if not before[1] and journal.latest(connection, scope) == before:
                provider_rows.reconcile(connection, owner, entries, f"r-{uuid.uuid4()}", now_ms())

        await self._database.write(work)
        self.outbox.kick()

    async def _note_health(self) -> None:
        """Keeps for `trunkline memory status`, which is another process, how the providers fare."""
        health = self._dispatcher.health
        if health != self._told:
            stored = json.dumps({one.name: asdict(one) for one in health})
            await self._database.write(lambda c: kv.put_value(c, HEALTH, stored))
            self._told = health


def open_providers(config: Config, database: Database, memory: MemoryStore) -> MemoryProviders:
    """The providers of the settings that can work; each other one is named in the log and in status."""
    providers = []
    for name in config.memory.provider:
        provider = make_provider(config, name, StoreFacts(database))
        if isinstance(provider, str):
            log.error("memory provider is off: %s: %s", name, provider)
        else:
            providers.append(provider)
    settings = config.memory
    return MemoryProviders(
        providers,
        database,
        memory,
        approval=settings.write_approval,
        timeout_s=settings.recall_timeout_s,
    )


def make_provider(config: Config, name: str, facts: FactStore) -> MemoryProvider | str:
    """One provider, or what is missing for it. Its settings were checked when they were read."""
    kind = kind_of(name)
    if missing_modules(kind):
        return f"its software is not installed: {install_hint(kind)}"
    options = kind.options.model_validate(dict(config.providers.get(name, {})))
    secrets = {
        secret.name: value
        for secret in kind.secrets
        if (value := config.secrets.provider_keys.get(secret.name))
    }
    provider = kind.make(ProviderSetup(options, secrets, config.home / "providers" / name, facts))
    return " ".join(provider.available()) or provider
