"""What is special to Hindsight: documents that are worked on later, observations, its mission."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.agent.providers.bench_hindsight import HindsightBench
from tests.agent.providers.conformance import ANA, DEN, HERE, WHEN, Opened
from tests.emulators.hindsight import HindsightEmulator
from trunkline.agent.providers.base import ForgetAll, ForgetFact, ProviderDown, bank_of
from trunkline.agent.providers.hindsight import IN_OBSERVATIONS, KIND
from trunkline.agent.providers.hindsight_wire import QUERY_BYTES, as_query

TEA = "User drinks jasmine tea at breakfast."
BOAT = "User restores a wooden boat called Marigold."
BOTH = "User drinks jasmine tea at breakfast, then restores a boat."


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = HindsightBench(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        await provider.stop()


def server(opened: Opened) -> HindsightEmulator:
    assert isinstance(opened.bench, HindsightBench)
    return opened.bench.server


async def test_a_turn_goes_with_who_said_what_and_when(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "I row\u200b on Sundays.", "Nice.")
    await opened.sync(DEN, "s-1-2", "I row on Mondays.", "Fine.")

    person, room = (call.arguments["items"][0] for call in server(opened).calls_of("retain"))
    assert person["content"] == "user: I row on Sundays.\n\nassistant: Nice."
    assert person["metadata"] == {"session": HERE.session, "platform": HERE.platform}
    assert person["timestamp"].startswith(WHEN.isoformat()[:19])
    assert room["content"].startswith(f"account {DEN.asker}: ")


async def test_a_bank_is_told_once_what_to_keep(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", TEA)
    await opened.sync(ANA, "s-1-2", BOAT)
    await opened.sync(DEN, "s-1-3", BOAT)

    missions = [call.arguments["retain_mission"] for call in server(opened).calls_of("bank")]
    assert len(missions) == 2
    assert "preferences" in missions[0]
    assert "group of people" in missions[1]


async def test_what_the_server_still_works_on_is_deleted_when_it_is_done(opened: Opened) -> None:
    server(opened).hold = True
    remote = await opened.write(ANA, "w-1", after=TEA)
    for what in (ForgetFact((TEA,), (remote,), ()), ForgetAll()):
        with pytest.raises(ProviderDown, match="at work") as raised:
            await opened.provider.forget(what, ANA)
        assert raised.value.retry_after_s is not None

    server(opened).release()
    assert (await opened.provider.forget(ForgetFact((TEA,), (remote,), ()), ANA)).removed == 1
    assert await opened.bench.stored(ANA) == []


async def test_observations_of_several_facts_go_with_one_of_them(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-2", after=BOAT)
    server(opened).observe(bank_of(ANA, "trunkline"), BOTH, "jasmine", "Marigold")

    done = await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)

    assert done.left == ""
    assert not any("jasmine" in text for text in await opened.recall("jasmine tea breakfast", ANA))
    assert await opened.bench.stored(ANA) == [BOAT]


async def test_a_short_wording_takes_no_other_words_with_it(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after="User eats steak.")
    await opened.write(ANA, "w-2", after="tea")

    await opened.provider.forget(ForgetFact(("tea",), (), ()), ANA)
    assert await opened.bench.stored(ANA) == ["User eats steak."]


async def test_an_observation_that_stays_is_owned_up_to(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).observe(bank_of(ANA, "trunkline"), BOTH)

    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)).left == IN_OBSERVATIONS


async def test_the_server_thinks_about_a_question(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    assert TEA in (await opened.call("hindsight_reflect", ANA, query="What about breakfast?")).content
    assert TEA not in (await opened.call("hindsight_reflect", DEN, query="What about breakfast?")).content


async def test_a_server_of_ones_own_needs_no_key_and_the_vendors_does(tmp_path: Path) -> None:
    class Own(HindsightBench):
        @property
        def secrets(self) -> Mapping[str, str]:
            return {}

    bench = Own(tmp_path)
    async with HindsightEmulator().running() as bench.server:
        own = bench.make()
        assert own.available() == ()
        await own.check()
        await own.stop()

    class Hosted(Own):
        @property
        def options(self) -> Mapping[str, object]:
            return {}

    hosted = Hosted(tmp_path).make()
    assert "HINDSIGHT_API_KEY" in hosted.available()[0]
    assert hosted.tools() == ()
    await hosted.stop()


async def test_turns_stay_at_home_where_so_set(tmp_path: Path) -> None:
    class Quiet(HindsightBench):
        @property
        def options(self) -> Mapping[str, object]:
            return {**super().options, "send_turns": False}

    bench = Quiet(tmp_path)
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.sync(ANA, "s-1-1", TEA)
        assert await bench.stored(ANA) == []
        await opened.provider.stop()


async def test_a_server_that_is_gone_is_down_and_not_broken(tmp_path: Path) -> None:
    bench = HindsightBench(tmp_path)
    async with bench.running():
        provider = bench.make()

    with pytest.raises(ProviderDown):
        await provider.prefetch("tea", HERE, ANA)
    await provider.stop()


@pytest.mark.parametrize("text", ["tea " * 2000, "茉莉花茶" * 800, "é" * 3000])
def test_questions_are_cut_to_what_the_server_takes(text: str) -> None:
    assert 0 < len(as_query(text).encode()) <= QUERY_BYTES
    assert text.startswith(as_query(text))


async def test_a_question_of_pictures_alone_is_not_asked(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    for question in ("🐈🐈", "?!", " "):
        assert await opened.recall(question, ANA) == []
    assert server(opened).calls_of("recall") == []


def test_its_address_is_checked_before_it_is_asked() -> None:
    assert KIND.options.model_validate({"base_url": "http://127.0.0.1:8888/"}).base_url[-1] == "8"
    with pytest.raises(ValueError, match="base_url"):
        KIND.options.model_validate({"base_url": "localhost:8888"})
