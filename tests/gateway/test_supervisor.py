"""Supervisor and runner of the platforms: what is lost comes back, what is hopeless rests, one is enough."""

import asyncio
from collections.abc import Callable

import pytest

from tests.adapters.telegram_house import FAST, adapter_for
from tests.emulators.base import Fault
from tests.emulators.telegram import TelegramEmulator
from tests.gateway.small_house import ANA, SmallHouse, eventually
from trunkline.adapters.base import Adapter, AdapterError, Deliver, InboundMessage, Unauthorized
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.gateway import platforms
from trunkline.gateway.locks import claim
from trunkline.gateway.platforms import Platform
from trunkline.gateway.supervisor import supervise


async def ignore(message: InboundMessage) -> None:
    """Takes whatever comes."""


def nothing(*_: object) -> None:
    """Hears what nobody asks about."""


class Failing(TelegramAdapter):
    """Telegram's adapter that fails in its first runs as `errors` say."""

    errors: list[Exception] = []  # noqa: RUF012  # what is left of a test's list

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().run(deliver, connected)


async def test_a_bad_token_is_told_once_and_not_tried_again() -> None:
    async with TelegramEmulator().running() as telegram:
        sentences: list[str] = []

        def make() -> Adapter:
            return TelegramAdapter("1:" + "x" * 35, base_url=telegram.url)

        async with asyncio.timeout(60):
            assert not await supervise(make, ignore, nothing, nothing, sentences.append)

        assert len(sentences) == 1
        assert "token" in sentences[0]


async def test_an_adapter_that_is_lost_or_crashes_is_made_anew_and_told_of_once() -> None:
    async with TelegramEmulator().running() as telegram:
        sentences: list[str] = []
        tenants: list[str] = []
        lost = 0

        def note_lost() -> None:
            nonlocal lost
            lost += 1

        Failing.errors = [AdapterError("The cable is cut"), RuntimeError("a bug")]

        def make() -> Adapter:
            return Failing(telegram.token, base_url=telegram.url, pacing=FAST)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                supervise(make, ignore, lambda _, tenant: tenants.append(tenant), note_lost, sentences.append)
            )
            await telegram.wait_for(lambda: telegram.is_polled)
            task.cancel()

        assert sentences == ["The cable is cut. I keep trying."]
        assert lost == 3
        assert len(tenants) == 1


async def test_an_adapter_that_never_connects_stops_no_other(house: SmallHouse) -> None:
    house.telegram.fail_next("getMe", Fault(delay_s=600), times=50)
    async with TelegramEmulator(token="987654321:AAAnotherTokenForTheEmulatorOnly").running() as other:
        second = Platform("second", lambda: adapter_for(other))
        async with asyncio.TaskGroup() as group:
            program = group.create_task(house.serve(Platform("telegram", house.adapter), second))
            await other.wait_for(lambda: other.is_polled)
            house.answer("From the other one.")
            await other.direct_message(ANA, "hello")
            await other.wait_for(lambda: other.texts(ANA) == ["From the other one."])
            program.cancel()


async def test_a_program_with_nothing_but_a_bad_token_ends_with_a_code_of_its_own(house: SmallHouse) -> None:
    def make() -> Adapter:
        raise Unauthorized("There is no token.")

    async with asyncio.timeout(60):
        assert await house.serve(Platform("telegram", make)) == platforms.HOPELESS


async def test_a_second_process_waits_for_the_first_to_leave_and_then_takes_over(
    house: SmallHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = str(house.home)
    said = ""

    async def told() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "the old process" in said

    async with asyncio.TaskGroup() as group:
        with claim("telegram", secret, "the old process"):
            program = group.create_task(house.serve(Platform("telegram", house.adapter, lock_secret=secret)))
            await eventually(told)
            assert house.telegram.calls == []
        await house.telegram.wait_for(lambda: house.telegram.is_polled)
        program.cancel()


async def test_a_greeting_is_told_once_connected_and_not_before(
    house: SmallHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    connecting = asyncio.Event()
    proceed = asyncio.Event()

    class Waiting(TelegramAdapter):
        async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
            connecting.set()
            await proceed.wait()
            await super().run(deliver, connected)

    def make() -> Adapter:
        return Waiting(house.telegram.token, base_url=house.telegram.url, pacing=FAST)

    async def told() -> bool:
        return "Here is the link." in capsys.readouterr().out

    async with asyncio.TaskGroup() as group:
        program = group.create_task(
            house.serve(Platform("telegram", make, greeting=lambda: "Here is the link."))
        )
        await connecting.wait()
        assert not await told()
        proceed.set()
        await eventually(told)
        program.cancel()


async def test_a_second_terminal_of_one_conversation_does_not_wait(house: SmallHouse) -> None:
    terminal = Platform("terminal", house.adapter, lock_secret=str(house.home), thread="main")
    with claim("terminal", str(house.home), "the first terminal"):
        async with asyncio.timeout(60):
            assert await house.serve(terminal) == platforms.FAILED
