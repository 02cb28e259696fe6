"""What is special to Honcho: its passes, sessions that are rewritten, what was concluded, its card."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.providers.bench_honcho import HonchoBench
from tests.agent.providers.conformance import ANA, BO, DEN, HERE, Opened
from tests.emulators.honcho import HonchoEmulator, Workspace
from trunkline.agent.providers.base import (
    Conversation,
    ForgetAll,
    ForgetFact,
    ProviderDown,
    bank_of,
)
from trunkline.agent.providers.honcho_reader import NOTHING

TEA = "User drinks jasmine tea at breakfast."
COFFEE = "User drinks black coffee at breakfast."
BOAT = "User restores a wooden boat called Marigold."
BANK = bank_of(ANA, "trunkline")


class HonchoWith(HonchoBench):
    """With options of the test's own."""

    more: Mapping[str, object] = {}

    @property
    def options(self) -> Mapping[str, object]:
        return {**super().options, **self.more}


@pytest.fixture
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    bench = HonchoWith(tmp_path)
    bench.more = getattr(request, "param", {})
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        bench.fail(None)
        await provider.stop()


def options(**more: object) -> Any:
    return pytest.mark.parametrize("opened", [more], indirect=True)


def server(opened: Opened) -> HonchoEmulator:
    assert isinstance(opened.bench, HonchoBench)
    return opened.bench.server


def place(opened: Opened) -> Workspace:
    return server(opened).workspaces[BANK]


def asked(opened: Opened) -> list[str]:
    return [call.arguments["query"] for call in server(opened).calls_of("chat")]


# Passes.


async def test_a_cold_start_asks_once_who_this_is(opened: Opened) -> None:
    await opened.recall("anything at all?", ANA)
    assert asked(opened) == []  # nothing is known: nobody is asked

    await opened.write(ANA, "w-1", after=TEA)
    server(opened).answers.append("Rises early. Wants short answers.")
    assert (await opened.recall("breakfast", ANA))[0] == "Rises early. Wants short answers."
    assert (await opened.recall("tea at breakfast", ANA))[0] == "Rises early. Wants short answers."
    (question,) = asked(opened)
    for word in ("Who are they", "prefer", "trying to reach", "like to be answered and to work", "useful"):
        assert word in question


async def test_with_context_the_present_conversation_comes_before_the_biography(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).answers.append("Is about to move house.")
    await opened.provider.queue_prefetch("Which boxes do I need? >>> obey", HERE, ANA)

    (question,) = asked(opened)
    assert "Which boxes do I need?" in question
    assert ">>> obey" not in question
    assert question.index("going on for them now") < question.index("older or general facts")
    assert (await opened.recall("breakfast", ANA))[0] == "Is about to move house."
    elsewhere = Conversation("s-2", "slack")
    server(opened).answers.append("Of the person as such.")
    assert (await opened.provider.prefetch("breakfast", elsewhere, ANA))[0].text == "Of the person as such."


@options(depth=2)
async def test_a_second_pass_asks_what_is_missing(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).answers.extend(["Likes tea.", "Has sold the boat this week."])
    await opened.provider.queue_prefetch("hello", HERE, ANA)

    second = asked(opened)[1]
    assert "Likes tea." in second
    assert "recent sessions" in second
    assert (await opened.recall("breakfast", ANA))[:2] == ["Likes tea.", "Has sold the boat this week."]


@options(depth=3)
async def test_a_third_pass_makes_one_of_both(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).answers.extend(["Lives in Rome.", "Moved to Oslo in May.", "Lives in Oslo since May."])
    await opened.provider.queue_prefetch("hello", HERE, ANA)

    third = asked(opened)[2]
    assert "Lives in Rome." in third
    assert "Moved to Oslo" in third
    assert "disagree" in third
    assert (await opened.recall("breakfast", ANA))[0] == "Lives in Oslo since May."


@options(depth=3)
async def test_passes_end_where_nothing_is_known(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).answers.append(f"{NOTHING.title()}.")
    await opened.provider.queue_prefetch("hello", HERE, ANA)
    assert len(asked(opened)) == 1

    server(opened).answers.extend(["Likes tea.", NOTHING])
    await opened.provider.queue_prefetch("hello", HERE, ANA)
    assert len(asked(opened)) == 3
    assert (await opened.recall("breakfast", ANA))[0] == "Likes tea."


@options(read_every=3)
async def test_a_reading_lasts_as_many_turns_as_is_set(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    for number in range(7):
        await opened.provider.queue_prefetch(f"message {number}", HERE, ANA)

    assert len(asked(opened)) == 2


@options(read_every=0)
async def test_no_reading_is_made_where_none_is_wanted(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.provider.queue_prefetch("hello", HERE, ANA)
    assert await opened.recall("breakfast", ANA) == [TEA]

    assert asked(opened) == []


async def test_what_is_taken_back_is_in_no_reading_not_even_in_one_under_way(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.provider.queue_prefetch("hello", HERE, ANA)
    assert (await opened.recall("breakfast", ANA))[0] == TEA
    await opened.write(ANA, "w-2", before=TEA, after=COFFEE, remote_id=remote)
    assert not any("jasmine" in text for text in await opened.recall("breakfast", ANA))

    server(opened).may_answer.clear()
    async with asyncio.TaskGroup() as group:
        before = len(asked(opened))
        group.create_task(opened.provider.queue_prefetch("hello", HERE, ANA))
        await server(opened).wait_for(lambda: len(asked(opened)) > before)
        await opened.provider.forget(ForgetFact((COFFEE,), (), ()), ANA)
        server(opened).may_answer.set()
    assert await opened.recall("breakfast", ANA) == []


# Turns.


async def test_turns_of_a_conversation_share_a_session_and_only_the_person_is_observed(
    opened: Opened,
) -> None:
    await opened.sync(ANA, "s-1-1", TEA, "Noted. Tea it is.")
    await opened.sync(ANA, "s-1-2", BOAT)

    (session,) = place(opened).sessions.values()
    assert [(one["peer_id"], one["content"]) for one in session.messages[:2]] == [
        ("user", TEA),
        ("assistant", "Noted. Tea it is."),
    ]
    assert session.observed == {"user"}
    assert {one["content"] for one in place(opened).conclusions.values()} == {TEA, BOAT}


async def test_in_a_room_each_message_says_who_spoke(opened: Opened) -> None:
    await opened.sync(DEN, "s-1-1", "I row on Sundays.")

    assert (await opened.bench.stored(DEN))[0] == f"[account {DEN.asker}] I row on Sundays."


async def test_a_very_long_text_is_sent_in_pieces(opened: Opened) -> None:
    long = "茶" * 60_000
    await opened.sync(ANA, "s-1-1", long)

    said = [one for one in await opened.bench.stored(ANA) if one.startswith("茶")]
    assert "".join(said) == long


async def test_a_turn_is_taken_out_of_its_session_and_the_rest_stays(opened: Opened) -> None:
    for number, text in enumerate((BOAT, TEA, "User rows.")):
        await opened.sync(ANA, f"s-1-{number}", text, f"Answer {number}.")

    await opened.provider.forget(ForgetFact((), (), ("s-1-1",)), ANA)
    said = [BOAT, "Answer 0.", "User rows.", "Answer 2."]
    assert await opened.bench.stored(ANA) == said
    assert not any("jasmine" in one["content"] for one in place(opened).conclusions.values())
    await opened.sync(ANA, "s-1-3", COFFEE, "Answer 3.")
    assert await opened.bench.stored(ANA) == [*said, COFFEE, "Answer 3."]


async def test_taking_out_goes_on_where_it_was_interrupted(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", BOAT, "Aye.")
    await opened.sync(ANA, "s-1-2", TEA, "Yes.")
    what = ForgetFact((), (), ("s-1-2",))

    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(opened.provider.forget(what, ANA))
        await server(opened).wait_for(lambda: len(server(opened).calls_of("messages")) == 3)
        server(opened).fail("slow")
        under_way.cancel()
    server(opened).fail(None)
    await opened.provider.forget(what, ANA)

    assert sorted(await opened.bench.stored(ANA)) == ["Aye.", BOAT]


async def test_a_turn_of_another_name_is_found_by_looking_everywhere(opened: Opened) -> None:
    await opened.sync(ANA, "odd-key", TEA)
    await opened.provider.forget(ForgetFact((), (), ("odd-key",)), ANA)

    assert await opened.bench.stored(ANA) == []


# Forgetting.


async def test_what_was_concluded_from_a_fact_goes_with_it(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-2", after=BOAT)
    server(opened).deduce(BANK, "They avoid coffee in the morning.", "jasmine")
    server(opened).deduce(BANK, "They sleep well.", "avoid coffee")
    server(opened).deduce(BANK, "They are good with wood.", "Marigold")

    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)
    left = {one["content"] for one in place(opened).conclusions.values()}
    assert left == {BOAT, "They are good with wood."}


async def test_the_card_loses_the_lines_that_say_it_in_these_or_nearly_these_words(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    place(opened).card = ["Drinks jasmine tea at breakfast", "Name: Ana"]

    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)
    assert place(opened).card == ["Name: Ana"]


async def test_other_turns_that_state_a_forgotten_fact_go_too(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", f"As I said: {TEA}")
    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)

    assert await opened.bench.stored(ANA) == []


async def test_a_workspace_is_forgotten_when_it_is_gone_and_not_before(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", TEA)
    server(opened).linger = 2
    for _ in range(1):
        with pytest.raises(ProviderDown, match="at work"):
            await opened.provider.forget(ForgetAll(), ANA)

    server(opened).linger = 0
    assert (await opened.provider.forget(ForgetAll(), ANA)).left == ""
    assert await opened.provider.count(ANA) == 0
    assert BANK not in server(opened).workspaces


# Tools.


async def test_conclusions_are_told_listed_and_taken_back(opened: Opened) -> None:
    for _ in range(2):
        made = json.loads((await opened.call("honcho_conclude", ANA, conclusion=TEA)).content)
    listed = json.loads((await opened.call("honcho_conclude", ANA, list=True)).content)
    assert listed["conclusions"] == [{"id": made["id"], "text": TEA}]

    assert (await opened.call("honcho_conclude", BO, delete_id=made["id"])).is_error
    assert not (await opened.call("honcho_conclude", ANA, delete_id=made["id"])).is_error
    assert await opened.bench.stored(ANA) == []
    for wrong in ({}, {"conclusion": TEA, "list": True}, {"conclusion": " "}):
        assert (await opened.call("honcho_conclude", ANA, **wrong)).is_error


async def test_profile_context_and_reasoning_show_what_is_known(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    place(opened).card = ["Name: Ana"]

    assert "Name: Ana" in (await opened.call("honcho_profile", ANA)).content
    assert TEA in (await opened.call("honcho_context", ANA, subject="breakfast")).content
    assert TEA in (await opened.call("honcho_reasoning", ANA, query="Why tea?", effort="high")).content
    assert server(opened).calls_of("chat")[-1].arguments["reasoning_level"] == "high"
    assert "knows nothing" in (await opened.call("honcho_reasoning", BO, query="Why tea?")).content


# Set-up and failure.


async def test_a_server_of_ones_own_needs_no_key_and_the_vendors_does(tmp_path: Path) -> None:
    bench = HonchoWith(tmp_path)
    async with bench.running():
        own = bench.make(secrets={})
        assert own.available() == ()
        await own.stop()

        bench.more = {"base_url": "https://api.honcho.dev"}
        hosted = bench.make(secrets={})
        assert "HONCHO_API_KEY" in hosted.available()[0]
        assert hosted.tools() == ()
        await hosted.stop()


async def test_turns_stay_at_home_where_so_set(tmp_path: Path) -> None:
    bench = HonchoWith(tmp_path)
    bench.more = {"send_turns": False}
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.sync(ANA, "s-1-1", TEA)
        assert await bench.stored(ANA) == []
        await opened.provider.stop()


async def test_a_server_that_is_gone_is_down_and_not_broken(tmp_path: Path) -> None:
    bench = HonchoBench(tmp_path)
    async with bench.running():
        provider = bench.make()

    with pytest.raises(ProviderDown):
        await provider.prefetch("tea", HERE, ANA)
    await provider.stop()


async def test_passes_that_were_in_time_count(tmp_path: Path) -> None:
    bench = HonchoWith(tmp_path)
    bench.more = {"depth": 3, "cold_wait_s": 0.3}
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.write(ANA, "w-1", after=TEA)
        bench.server.answers.extend(["Likes tea.", "Has sold the boat.", "Never comes."])
        bench.server.free_answers = 2
        bench.server.may_answer.clear()

        assert (await opened.recall("breakfast", ANA))[:2] == ["Likes tea.", "Has sold the boat."]
        bench.server.may_answer.set()
        await opened.provider.stop()


async def test_a_reading_that_takes_too_long_holds_up_no_turn(tmp_path: Path) -> None:
    bench = HonchoWith(tmp_path)
    bench.more = {"cold_wait_s": 0}
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.write(ANA, "w-1", after=TEA)
        assert await opened.recall("breakfast", ANA) == [TEA]
        await opened.provider.queue_prefetch("hello", HERE, ANA)
        assert (await opened.recalled("breakfast", ANA))[0].score == 2.0
        await opened.provider.stop()
