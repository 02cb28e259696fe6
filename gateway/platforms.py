"""Runs platforms: takes each one's lock, takes back what a dead process had in hand, keeps it connected."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.adapters.base import Adapter, Deliver
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Line
from trunkline.gateway.locks import Held, claim
from trunkline.gateway.read_back import CatchUp
from trunkline.gateway.state import inbox, outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.supervisor import supervise
from trunkline.gateway.undelivered import report_doubt

log = logging.getLogger(__name__)

LOCK_PAUSE_S = 2.0
"""Between two tries at a lock. The process before may need its grace time to leave."""
FAILED, HOPELESS = 1, 2
"""Exit codes: another process is in the way; only a person can mend the settings."""


@dataclass(frozen=True, slots=True)
class Platform:
    """An adapter to run: how to make it, and the lock that keeps a second process from running it.

    `repeats_safely` is what its limits will say, for `repeatable_ms` after a message was made.
    `thread` names the one conversation the adapter is for, where each is a process of its own (the terminal);
    such a process does not wait for the lock. What `greeting` returns is told when it is first connected.
    """

    name: str
    make: Callable[[], Adapter]
    repeats_safely: bool = False
    repeatable_ms: int = outbox.NONCE_HOLDS_MS
    lock_secret: str = ""
    thread: str | None = None
    greeting: Callable[[], str] | None = None


class Platforms:
    """The platforms of one process, by whose name the locks know it. `tell` gets sentences for people."""

    def __init__(
        self,
        database: Database,
        delivery: Delivery,
        deliver: Deliver,
        process: str,
        tell: Callable[[str], None],
    ) -> None:
        self._database = database
        self._delivery = delivery
        self._deliver = deliver
        self._process = process
        self._tell = tell

    async def run(self, platforms: Sequence[Platform]) -> int:
        """Runs until the last one has ended. Returns 0 when one ended by itself, else an exit code."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._run_one(platform), name=f"adapter {platform.name}")
                for platform in platforms
            ]
        return min((task.result() for task in tasks), default=0)

    async def _run_one(self, platform: Platform) -> int:
        told = False
        while True:
            try:
                with self._locked(platform):
                    return await self._keep_connected(platform)
            except (Held, PermissionError) as held:
                waits = platform.thread is None
                if not told:
                    self._tell(f"{held} I keep trying." if waits else str(held))
                if not waits:
                    return FAILED
            told = True
            await asyncio.sleep(LOCK_PAUSE_S)

    @contextmanager
    def _locked(self, platform: Platform) -> Iterator[None]:
        secret = platform.lock_secret
        with claim(platform.name, secret, self._process) if secret else nullcontext():
            yield

    async def _keep_connected(self, platform: Platform) -> int:
        greeting = platform.greeting

        def connected(adapter: Adapter, tenant: str) -> None:
            nonlocal greeting
            self._delivery.connect(Line(adapter, tenant, platform.thread))
            catch_up.connected(adapter, tenant)
            log.info("connected: %s", platform.name)
            if greeting is not None:
                self._tell(greeting())
                greeting = None

        def lost() -> None:
            self._delivery.disconnect(platform.name)
            catch_up.lost()

        await self._database.write(lambda c: self._take_back(c, platform))
        async with asyncio.TaskGroup() as group:
            catch_up = CatchUp(self._database, self._deliver, group)
            ended = await supervise(platform.make, catch_up.take, connected, lost, self._tell)
        return 0 if ended else HOPELESS

    def _take_back(self, connection: Connection, platform: Platform) -> None:
        """What processes before this one had in hand waits again; the platform's lock is ours now."""
        inbox.take_back(connection, platform.name, self._process, platform.thread)
        in_doubt = outbox.take_back(
            connection,
            platform.name,
            repeats_safely=platform.repeats_safely,
            repeatable_ms=platform.repeatable_ms,
            now_ms=now_ms(),
            thread=platform.thread,
        )
        for row in in_doubt:
            report_doubt(connection, row)
