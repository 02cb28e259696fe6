"""One worker per session key: takes its inbox rows in order, one turn or command at a time.

Control commands run beside the workers, so that nothing they could stop can hold them up.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from trunkline.agent.scope import AccountId
from trunkline.gateway.bursts import lease_whole
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import inbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import InboxRow, SessionKey

log = logging.getLogger(__name__)

PARALLEL_TURNS = 32
PAUSE_S = 1.0
"""Between a failure and the next try."""


class RunningTurn:
    """The handle by which a turn can be stopped: its model and tools end, its bookkeeping does not.

    It may be stopped before its task exists, which then ends before it began.
    """

    def __init__(self, author: AccountId) -> None:
        self.author = author
        self.is_turn = True
        """False for a command, which nobody stops: until that calls a skill."""
        self.stopped = False
        self.arrived = asyncio.Event()
        """Set whenever something new waits under the turn's key."""
        self._task: asyncio.Task[None] | None = None

    def watch(self, task: asyncio.Task[None]) -> None:
        self._task = task
        if self.stopped:
            task.cancel()

    def restart(self) -> bool:
        """Ends the model's task, to be followed by another; false when it has ended already."""
        if self.stopped or self._task is None or self._task.done():
            return False
        self._task.cancel()
        self._task = None
        return True

    def release(self) -> None:
        """Nothing runs for the moment: a stop counts for what is watched next."""
        self._task = None

    def stop(self) -> bool:
        """False when the model has said its last word already."""
        if self._task is not None and self._task.done():
            return False
        self.stopped = True
        if self._task is not None:
            self._task.cancel()
        return True


@dataclass(frozen=True, slots=True)
class Gathering:
    """The turn to be of messages whose rest is waited for, and how many there are."""

    turn: RunningTurn
    messages: int


class RowHandler(Protocol):
    """Carries rows through to their end: a command's reply, or a whole turn. Commits their final state."""

    async def handle(self, rows: Sequence[InboxRow], running: RunningTurn) -> None: ...

    async def give_up(self, rows: Sequence[InboxRow]) -> None:
        """Sets rows aside that failed again and again, and tells their author."""
        ...


class SessionWorkers:
    """The running workers. `run` owns their tasks; a cancelled run leaves leased rows for the next start."""

    def __init__(self, database: Database, handler: RowHandler, owner: str) -> None:
        self._database = database
        self._handler = handler
        self._owner = owner
        self._workers: dict[SessionKey, asyncio.Event] = {}
        self._running: dict[SessionKey, RunningTurn] = {}
        self._gathering: dict[SessionKey, Gathering] = {}
        self._listening_ms: dict[str, int] = {}
        self._slots = asyncio.Semaphore(PARALLEL_TURNS)
        self._group: asyncio.TaskGroup | None = None
        self._worker_ended = asyncio.Event()
        self._closing = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    async def drain(self, grace_s: float) -> None:
        """Takes no new work and waits for what runs, at most `grace_s` seconds."""
        self._closing = True
        try:
            async with asyncio.timeout(grace_s):
                while self._workers:
                    self._worker_ended.clear()
                    await self._worker_ended.wait()
        except TimeoutError:
            log.info("turns cut off: the next start goes on with them")

    async def sweep(self, platform: str, tenant: str, thread: str | None = None) -> None:
        """Wakes every key of a connected platform that has something waiting."""
        self._listening_ms.setdefault(platform, now_ms())
        for key in await self._database.read(
            lambda c: inbox.waiting_keys(c, platform, tenant, thread, now_ms=now_ms())
        ):
            self.wake(key)

    def wake(self, key: SessionKey) -> None:
        """Tells a key's worker that something waits, starting it when it isn't running."""
        if self._group is None or self._closing:
            return
        worker = self._workers.get(key)
        if worker is not None:
            worker.set()
            if key in self._running:
                self._running[key].arrived.set()
            return
        worker = asyncio.Event()
        self._workers[key] = worker
        self._group.create_task(self._work(key, worker), name=f"session {key.platform}")

    def control(self, row_id: int) -> None:
        """Runs one stored command at once."""
        if self._group is not None and not self._closing:
            self._group.create_task(self._run_control(row_id), name="control")

    def running_for(self, key: SessionKey) -> AccountId | None:
        if key in self._gathering:
            return self._gathering[key].turn.author
        running = self._running.get(key)
        return running.author if running is not None and running.is_turn else None

    def stop(self, key: SessionKey) -> bool:
        running = self._running.get(key)
        return running is not None and running.is_turn and running.stop()

    def stop_gathering(self, key: SessionKey) -> int:
        gathering = self._gathering.get(key)
        if gathering is None:
            return 0
        gathering.turn.stop()
        self.wake(key)
        return gathering.messages

    async def _run_control(self, row_id: int) -> None:
        try:
            row = await self._database.write(lambda c: inbox.lease_one(c, row_id, self._owner, now_ms()))
        except Exception:  # boundary: session worker
            log.exception("control row waits for the next sweep: %s", row_id)
            return
        if row is not None:
            await self._carry_through([row], RunningTurn(row.account))

    async def _work(self, key: SessionKey, woken: asyncio.Event) -> None:
        try:
            while not self._closing:
                woken.clear()
                try:
                    rows, wait_s = await self._lease(key)
                except Exception:  # boundary: session worker
                    log.exception("database failed: session on %s waits", key.platform)
                    await asyncio.sleep(PAUSE_S)
                    continue
                if wait_s:
                    self._gathering[key] = Gathering(self._turn_of(key, rows), len(rows))
                    await _wait(woken, wait_s)
                elif rows:
                    await self._take_turn(key, rows)
                elif not woken.is_set():
                    return
        finally:
            self._gathering.pop(key, None)
            self._workers.pop(key, None)
            self._worker_ended.set()

    async def _lease(self, key: SessionKey) -> tuple[tuple[InboxRow, ...], float]:
        since_ms = self._listening_ms.get(key.platform, 0)
        gathering = self._gathering.get(key)
        at_once = gathering is not None and gathering.turn.stopped
        return await self._database.write(
            lambda c: lease_whole(c, key, self._owner, now_ms(), since_ms, at_once=at_once)
        )

    def _turn_of(self, key: SessionKey, rows: Sequence[InboxRow]) -> RunningTurn:
        """The handle of the turn of these rows, which may have been stopped while they were gathered."""
        author, gathering = rows[0].account, self._gathering.get(key)
        if gathering is not None and gathering.turn.author == author:
            return gathering.turn
        return RunningTurn(author)

    async def _take_turn(self, key: SessionKey, rows: Sequence[InboxRow]) -> None:
        running = self._running[key] = self._turn_of(key, rows)
        self._gathering.pop(key, None)
        running.is_turn = rows[0].kind != "command"
        try:
            async with self._slots:
                await self._carry_through(rows, running)
        finally:
            self._running.pop(key, None)

    async def _carry_through(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        try:
            if inbox.is_poison(rows[0]):
                await self._handler.give_up(rows)
            else:
                await self._handler.handle(rows, running)
        except Exception:  # boundary: session worker
            log.exception("rows failed: %s on %s", [row.id for row in rows], rows[0].key.platform)
            await self._give_back([row.id for row in rows])

    async def _give_back(self, rows: Sequence[int]) -> None:
        """Lets failed rows wait again; as long as the database doesn't take that, nobody can have them."""
        while True:
            await asyncio.sleep(PAUSE_S)
            try:
                await self._database.write(lambda c: inbox.release(c, rows))
            except SQLAlchemyError as error:
                log.warning("failed rows not given back yet: %s", type(error).__name__)
            else:
                return


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    """Waits, but not when something new came meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
