"""Requests of the Telegram library that are given up by those who waited for them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from telegram import Bot
from telegram.error import TelegramError

from tests.emulators.base import Fault
from tests.emulators.telegram import TelegramEmulator
from trunkline.adapters.telegram_requests import WholeRequest

CONNECTIONS = 4


@pytest.fixture
async def bot(telegram: TelegramEmulator) -> AsyncIterator[Bot]:
    request = WholeRequest(CONNECTIONS, read_timeout=5, connect_timeout=5, pool_timeout=2)
    async with Bot(telegram.token, base_url=f"{telegram.url}/bot", request=request) as made:
        yield made


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator


async def test_requests_given_up_at_any_moment_cost_no_connection(
    bot: Bot, telegram: TelegramEmulator
) -> None:
    chance = random.Random(1)

    async def give_up_after(seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await bot.get_me()

    for _ in range(100):
        async with asyncio.TaskGroup() as group:
            for _ in range(3 * CONNECTIONS):
                group.create_task(give_up_after(chance.uniform(0, 0.008)))

    assert (await bot.get_me()).username == telegram.me["username"]


async def test_a_request_that_fails_after_it_was_given_up_harms_nothing(
    bot: Bot, telegram: TelegramEmulator
) -> None:
    telegram.fail_next("getMe", Fault(status=500, delay_s=0.05))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await bot.get_me()

    telegram.fail_next("getMe", Fault(status=500))
    with pytest.raises(TelegramError):
        await bot.get_me()


async def test_closing_waits_for_no_answer_that_never_comes(telegram: TelegramEmulator) -> None:
    request = WholeRequest(CONNECTIONS, read_timeout=60)
    async with asyncio.timeout(10):
        async with Bot(telegram.token, base_url=f"{telegram.url}/bot", request=request) as bot:
            telegram.fail_next("getMe", Fault(delay_s=60, serve=True))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await bot.get_me()
