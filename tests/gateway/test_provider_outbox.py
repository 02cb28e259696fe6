"""The sending of what waits for a provider, at the end of a process."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest
from sqlalchemy import select

from tests.agent.providers.conformance import WHEN
from tests.agent.providers.scripted import Scripted
from trunkline.agent.providers.base import CompletedTurn
from trunkline.agent.providers.dispatch import Dispatcher
from trunkline.agent.scope import Scope
from trunkline.gateway.provider_outbox import ProviderOutbox
from trunkline.gateway.state import provider_rows
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.provider_payloads import TurnSaid
from trunkline.gateway.state.schema import provider_outbox


class OpenGate:
    async def refusal(self, scope: Scope, session: str, *, writes: bool) -> str | None:
        return None

    async def banks(self, scope: Scope) -> Sequence[Scope]:
        return [scope]


class Slow(Scripted):
    """Keeps a turn when its gate is open. `taken` are the keys of those it was given."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.taken: list[str] = []
        self.kept: list[str] = []

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        self.taken.append(turn.key)
        await self.gate.wait()
        self.kept.append(turn.key)


@pytest.fixture
def waiting(sqlite_database: Database) -> Database:
    """A turn of Ana's waits for the provider."""
    said = TurnSaid("s-1-1", "s-1", "telegram", "ana", "hello", "Hello.", WHEN)
    sqlite_database.write_now(lambda c: provider_rows.set_active(c, ["slow"]))
    sqlite_database.write_now(lambda c: provider_rows.keep_turn(c, "person:ana", 0, said, 1))
    return sqlite_database


async def rows(database: Database) -> list[tuple[str, int]]:
    query = select(provider_outbox.c.state, provider_outbox.c.not_before_ms)
    return [(state, due_ms) for state, due_ms in await database.read(lambda c: c.execute(query).all())]


async def test_an_end_waits_for_a_slow_provider_for_so_long_and_no_longer(waiting: Database) -> None:
    slow = Slow()
    slow.gate.clear()
    await ProviderOutbox(waiting, Dispatcher([slow], OpenGate())).drain(0.2)

    assert (slow.taken, slow.kept) == (["s-1-1"], [])
    assert await rows(waiting) == [("waiting", 0)]  # the next process takes it up at once


async def test_a_process_that_died_while_sending_has_its_row_sent_by_the_next(waiting: Database) -> None:
    waiting.write_now(lambda c: provider_rows.take(c, "slow", 1, 0, 10))  # its lease ended with it
    slow = Slow()
    outbox = ProviderOutbox(waiting, Dispatcher([slow], OpenGate()))
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(outbox.run())
        async with asyncio.timeout(60):
            while await rows(waiting):  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(0.01)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending

    assert slow.kept == ["s-1-1"]
