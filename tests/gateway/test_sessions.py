"""The session workers: in order per key, beside each other over keys, stoppable, and hard to kill."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Connection, select, text

from tests.gateway.inbound import direct
from tests.gateway.small_house import eventually
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_inbound
from trunkline.gateway.sessions import RunningTurn, SessionWorkers
from trunkline.gateway.state import inbox, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import InboxRow, SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table

NOW = 1_800_000_000_000
Work = Callable[[Sequence[InboxRow], RunningTurn], Awaitable[None]]


async def nothing(rows: Sequence[InboxRow], running: RunningTurn) -> None:
    """A turn that says nothing."""


class Handler:
    """Does `work` and ends the rows."""

    def __init__(self, database: Database, work: Work = nothing) -> None:
        self.database = database
        self.work = work
        self.handled: list[list[str]] = []
        self.given_up: list[list[str]] = []

    async def handle(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        self.handled.append([row.payload for row in rows])
        await self.work(rows, running)
        await self._end(rows, "done")

    async def give_up(self, rows: Sequence[InboxRow]) -> None:
        self.given_up.append([row.payload for row in rows])
        await self._end(rows, "dead")

    async def _end(self, rows: Sequence[InboxRow], state: str) -> None:
        await self.database.write(lambda c: inbox.finish(c, [row.id for row in rows], state, "", NOW))


@asynccontextmanager
async def working(database: Database, handler: Handler) -> AsyncIterator[SessionWorkers]:
    workers = SessionWorkers(database, handler, "me")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(workers.run())
        await asyncio.sleep(0)
        try:
            yield workers
        finally:
            task.cancel()


async def put(
    database: Database, name: str, chat: str = "1", kind: str = "message", at_ms: int = NOW
) -> tuple[SessionKey, int]:
    key = SessionKey("telegram", "bot", chat)

    def work(connection: Connection) -> int:
        who = people.ensure_account(connection, "telegram", "", chat, label="", now_ms=NOW).id
        return inbox.store(connection, Arrival(key, f"m:{chat}:{name}:0", who, kind, name, at_ms), at_ms)

    return key, await database.write(work)


async def end_in(database: Database, *states: str) -> None:
    query = select(inbox_table.c.state).order_by(inbox_table.c.id)

    async def met() -> bool:
        return await database.read(lambda c: list(c.execute(query).scalars())) == list(states)

    await eventually(met)


async def test_rows_of_one_key_are_handled_one_after_the_other_and_in_order(database: Database) -> None:
    busy = 0

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        nonlocal busy
        busy += 1
        assert busy == 1
        await asyncio.sleep(0.01)
        busy -= 1

    handler = Handler(database, work)
    async with working(database, handler) as workers:
        for number in range(12):
            key, _ = await put(database, str(number))
            workers.wake(key)
        await end_in(database, *["done"] * 12)

    assert [name for batch in handler.handled for name in batch] == [str(number) for number in range(12)]


async def test_a_key_that_waits_holds_no_other_key_up(database: Database) -> None:
    gate = asyncio.Event()

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        if rows[0].payload == "slow":
            await gate.wait()

    async with working(database, Handler(database, work)) as workers:
        for name, chat in (("slow", "1"), ("fast", "2")):
            key, _ = await put(database, name, chat)
            workers.wake(key)
        await end_in(database, "leased", "done")
        gate.set()
        await end_in(database, "done", "done")


async def test_what_fails_three_times_is_given_up_and_what_waits_behind_it_is_handled(
    database: Database,
) -> None:
    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        if "bad" in [row.payload for row in rows]:
            raise RuntimeError("this message breaks it")

    handler = Handler(database, work)
    async with working(database, handler) as workers:
        key, _ = await put(database, "bad")
        await put(database, "good")
        workers.wake(key)
        await end_in(database, "dead", "done")

    assert handler.given_up == [["bad"]]
    assert handler.handled.count(["bad"]) == 2


async def test_a_failing_control_command_ends_neither_the_program_nor_the_command(database: Database) -> None:
    tries = 0

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("this command breaks it")

    async with working(database, Handler(database, work)) as workers:
        key, row = await put(database, "stop", kind="command")
        workers.control(row)
        await eventually(lambda: _is(tries == 1))
        await eventually(lambda: database.read(lambda c: bool(inbox.waiting_keys(c, "telegram", "bot"))))
        workers.wake(key)
        await end_in(database, "done")


async def test_a_control_command_whose_row_cannot_be_had_ends_nothing(sqlite_database: Database) -> None:
    async with working(sqlite_database, Handler(sqlite_database)) as workers:
        key, row = await put(sqlite_database, "stop", kind="command")
        await sqlite_database.write(lambda c: c.execute(text("ALTER TABLE inbox RENAME TO away")))
        workers.control(row)
        workers.wake(key)
        await sqlite_database.write(lambda c: c.execute(text("ALTER TABLE away RENAME TO inbox")))
        await end_in(sqlite_database, "done")


async def test_rows_that_cannot_be_given_back_at_once_are_given_back_later(database: Database) -> None:
    tries = 0

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await database.write(lambda c: c.execute(text("ALTER TABLE inbox RENAME TO away")))
            raise RuntimeError("and the database fails with it")

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "a")
        workers.wake(key)
        await eventually(lambda: _is(tries == 1))
        await database.write(lambda c: c.execute(text("ALTER TABLE away RENAME TO inbox")))
        await end_in(database, "done")

    assert tries == 2


async def _is(value: bool) -> bool:
    return value


async def test_a_turn_can_be_stopped_before_it_has_a_task(database: Database) -> None:
    began, go = asyncio.Event(), asyncio.Event()
    ran = False

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        began.set()
        await go.wait()

        async def answer() -> None:
            nonlocal ran
            ran = True

        async with asyncio.TaskGroup() as group:
            running.watch(group.create_task(answer()))

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "a")
        workers.wake(key)
        await began.wait()
        assert workers.running_for(key) is not None
        assert workers.stop(key)
        go.set()
        await end_in(database, "done")

    assert not ran
    assert not workers.stop(key)


async def test_a_turn_can_be_stopped_while_its_messages_are_gathered(database: Database) -> None:
    stopped: list[bool] = []

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        stopped.append(running.stopped)

    async def gathers() -> bool:
        return workers.stop_gathering(key) == 1

    async with working(database, Handler(database, work)) as workers:
        payload = dump_inbound(replace(direct("look"), album="7"))
        key, _ = await put(database, payload, at_ms=now_ms() + 600_000)
        workers.wake(key)
        await eventually(gathers)
        await end_in(database, "done")

    assert stopped == [True]


async def test_a_turn_whose_answer_is_whole_can_no_longer_be_stopped(database: Database) -> None:
    whole, go = asyncio.Event(), asyncio.Event()

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        async with asyncio.TaskGroup() as group:
            running.watch(group.create_task(asyncio.sleep(0)))
        whole.set()
        await go.wait()

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "a")
        workers.wake(key)
        await whole.wait()
        assert not workers.stop(key)
        go.set()
        await end_in(database, "done")


async def test_a_running_command_is_nothing_to_stop(database: Database) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        began.set()
        await go.wait()

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "search", kind="command")
        workers.wake(key)
        await began.wait()
        assert workers.running_for(key) is None
        go.set()
        await end_in(database, "done")


async def test_draining_lets_the_running_turn_end_and_takes_no_other(database: Database) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        began.set()
        await go.wait()

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "a")
        workers.wake(key)
        await began.wait()
        await put(database, "b")
        async with asyncio.TaskGroup() as group:
            drained = group.create_task(workers.drain(30))
            group.create_task(asyncio.to_thread(lambda: None))
            go.set()
        assert drained.done()
        workers.wake(key)
        await end_in(database, "done", "received")


@pytest.mark.parametrize("killed", ["cancelled", "drained out of time"])
async def test_a_turn_cut_off_leaves_its_row_for_the_next_start(database: Database, killed: str) -> None:
    began = asyncio.Event()

    async def work(rows: Sequence[InboxRow], running: RunningTurn) -> None:
        began.set()
        await asyncio.Event().wait()

    async with working(database, Handler(database, work)) as workers:
        key, _ = await put(database, "a")
        workers.wake(key)
        await began.wait()
        if killed != "cancelled":
            await workers.drain(0.05)

    await database.write(lambda c: inbox.take_back(c, "telegram", "next"))
    (row,) = await database.write(lambda c: inbox.lease(c, key, "next", NOW))
    assert row.payload == "a"
    assert not inbox.is_poison(row)
