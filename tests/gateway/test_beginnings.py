"""Turns that begin at the same time wait a little for each other, and none for ever."""

import asyncio
import time

import pytest

from trunkline.gateway.beginnings import LATE_S, LOOK_S, PAUSE_S, Beginnings
from trunkline.gateway.clock import now_ms

DEADLINE_S = 60


async def test_a_turn_begins_when_the_one_before_it_has_begun() -> None:
    beginnings, let_go = Beginnings(), asyncio.Event()
    begun: list[str] = []

    async def begin(name: str, until: asyncio.Event | None = None) -> None:
        async with beginnings.one(now_ms()):
            begun.append(name)
            if until is not None:
                await until.wait()
                begun.append(f"{name} is over")

    asyncio.get_running_loop().call_later(3 * LOOK_S, let_go.set)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        group.create_task(begin("first", let_go))
        group.create_task(begin("second"))
    assert begun == ["first", "first is over", "second"]


async def test_a_turn_begins_after_one_that_failed_and_however_busy_the_loop_is() -> None:
    beginnings = Beginnings()
    with pytest.raises(ValueError, match="first"):
        async with beginnings.one(now_ms()):
            raise ValueError("first")

    async def keep_busy() -> None:
        while True:
            time.sleep(2 * (LOOK_S + LATE_S))  # noqa: ASYNC251  # what must not happen, and does
            await asyncio.sleep(0)

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        busy = group.create_task(keep_busy())
        async with beginnings.one(now_ms()):
            pass
        busy.cancel()


async def test_turns_that_waited_since_before_the_start_leave_room_between_them() -> None:
    loop, before = asyncio.get_running_loop(), now_ms() - 1
    beginnings = Beginnings()
    async with asyncio.timeout(DEADLINE_S):
        async with beginnings.one(before):
            first_s = loop.time()
        async with beginnings.one(before):
            assert loop.time() - first_s >= PAUSE_S
