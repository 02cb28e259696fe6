"""What is special to Mem0: events, keys, whose a memory is, its own engine and what that leaves on disk."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.agent.providers.bench_mem0 import Mem0Bench, Mem0LocalBench
from tests.agent.providers.conformance import ANA, BO, DEN, HERE, WHEN, Opened
from tests.emulators.mem0 import Mem0Emulator
from trunkline.agent.providers.base import (
    ForgetAll,
    ForgetFact,
    MemoryWrite,
    ProviderDown,
    ProviderLocked,
    ProviderRefused,
    bank_of,
)
from trunkline.agent.providers.mem0_values import INSTRUCTIONS, KEY
from trunkline.agent.providers.remote import entry_id

TEA = "User drinks jasmine tea at breakfast."
COFFEE = "User drinks black coffee at breakfast."
BOAT = "User restores a wooden boat called Marigold."


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = Mem0Bench(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        bench.fail(None)
        await provider.stop()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = Mem0LocalBench(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        bench.fail(None)
        await provider.stop()


def server(opened: Opened) -> Mem0Emulator:
    assert isinstance(opened.bench, Mem0Bench)
    return opened.bench.server


# Hosted.


async def test_a_turn_goes_to_be_drawn_from_and_an_entry_as_it_is(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "I row\u200b on Sundays.", "Nice.")
    await opened.write(ANA, "w-1", after=TEA)
    await opened.sync(DEN, "s-1-2", "I row on Mondays.")

    turn, entry, room = (call.arguments for call in server(opened).calls_of("add"))
    assert turn["messages"] == [
        {"role": "user", "content": "I row on Sundays."},
        {"role": "assistant", "content": "Nice."},
    ]
    assert (turn["infer"], turn["custom_instructions"]) == (True, INSTRUCTIONS)
    assert turn["timestamp"] == int(WHEN.timestamp())
    assert (entry["infer"], entry["messages"][0]["content"]) == (False, TEA)
    assert {turn["user_id"], entry["user_id"]} == {bank_of(ANA, "trunkline")}
    assert room["messages"][0]["content"] == f"[account {DEN.asker}] I row on Mondays."
    assert len({turn["metadata"][KEY], entry["metadata"][KEY], room["metadata"][KEY]}) == 3


async def test_what_is_added_can_be_found_when_that_is_done(opened: Opened) -> None:
    server(opened).looks = 3
    await opened.write(ANA, "w-1", after=TEA)

    assert len(server(opened).calls_of("event")) == 3
    assert await opened.bench.stored(ANA) == [TEA]


async def test_an_interrupted_wait_goes_on_and_adds_nothing_twice(opened: Opened) -> None:
    server(opened).looks = 1_000_000
    async with asyncio.TaskGroup() as group:
        first = group.create_task(opened.sync(ANA, "s-1-1", TEA))
        await server(opened).wait_for(lambda: len(server(opened).calls_of("event")) == 2)
        first.cancel()
    server(opened).finish()
    await opened.sync(ANA, "s-1-1", TEA)

    assert len(server(opened).calls_of("add")) == 1
    assert await opened.bench.stored(ANA) == [TEA]


async def test_what_the_vendor_fails_to_work_on_is_refused_and_may_be_sent_again(opened: Opened) -> None:
    server(opened).failing = True
    with pytest.raises(ProviderRefused):
        await opened.write(ANA, "w-1", after=TEA)

    server(opened).failing = False
    await opened.write(ANA, "w-1", after=TEA)
    assert await opened.bench.stored(ANA) == [TEA]


async def test_a_key_with_many_memories_is_gone_through_by_pages(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", " ".join(f"Fact number {number}." for number in range(230)))
    assert len(await opened.bench.stored(ANA)) == 230

    await opened.provider.forget(ForgetFact((), (), ("s-1-1",)), ANA)
    assert await opened.bench.stored(ANA) == []


async def test_a_memory_in_nearly_the_same_words_is_forgotten_too(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "At breakfast the user drinks tea, jasmine. The boat leaks.")

    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)).removed == 1
    assert await opened.bench.stored(ANA) == ["The boat leaks."]


async def test_everything_goes_with_the_user_that_the_vendor_made_of_it(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    assert (await opened.provider.forget(ForgetAll(), ANA)).removed == 1

    assert [call.arguments["user"] for call in server(opened).calls_of("delete_user")] == [
        bank_of(ANA, "trunkline")
    ]


async def test_memories_are_corrected_and_deleted_by_their_owner_alone(opened: Opened) -> None:
    await opened.call("mem0_add", ANA, content=TEA)
    await opened.call("mem0_add", ANA, content=TEA)
    (found,) = json.loads((await opened.call("mem0_search", ANA, query="breakfast")).content)["results"]

    for scope in (BO, DEN):
        assert (await opened.call("mem0_update", scope, memory_id=found["id"], text="x")).is_error
        assert (await opened.call("mem0_delete", scope, memory_ids=[found["id"]])).is_error
    assert not (await opened.call("mem0_update", ANA, memory_id=found["id"], text=COFFEE)).is_error
    assert await opened.bench.stored(ANA) == [COFFEE]
    assert not (await opened.call("mem0_delete", ANA, memory_ids=["mem-0", found["id"]])).is_error
    assert await opened.bench.stored(ANA) == []


async def test_what_the_service_gives_of_another_user_is_dropped(opened: Opened) -> None:
    await opened.write(BO, "w-1", after=TEA)
    (his,) = server(opened).memories.values()
    server(opened).careless = True
    his.metadata[KEY] = entry_id(bank_of(ANA, "trunkline"), MemoryWrite("w-1", "add", "user", "", TEA, ""))

    assert await opened.recall(TEA, ANA) == []
    assert TEA not in (await opened.call("mem0_search", ANA, query=TEA)).content
    await opened.provider.forget(ForgetFact((TEA,), (his.metadata[KEY],), ()), ANA)
    await opened.write(ANA, "w-1", after=TEA)
    assert [await opened.bench.stored(scope) for scope in (ANA, BO)] == [[TEA], [TEA]]


async def test_the_sdk_tells_nobody_and_writes_nothing_into_the_home(opened: Opened) -> None:
    await opened.provider.check()

    telemetry = sys.modules["mem0.memory.telemetry"]
    assert telemetry.client_telemetry.posthog is None
    assert [call.method for call in server(opened).calls] == ["ping"]


async def test_a_server_that_is_gone_is_down_and_not_broken(tmp_path: Path) -> None:
    bench = Mem0Bench(tmp_path)
    async with bench.running():
        provider = bench.make()

    with pytest.raises(ProviderDown):
        await provider.prefetch("tea", HERE, ANA)
    await provider.stop()


async def test_turns_stay_at_home_where_so_set(tmp_path: Path) -> None:
    class Quiet(Mem0Bench):
        @property
        def options(self) -> Mapping[str, object]:
            return {**super().options, "send_turns": False}

    bench = Quiet(tmp_path)
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.sync(ANA, "s-1-1", TEA)
        assert await bench.stored(ANA) == []
        await opened.provider.stop()


# In this process.


def databases_in(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in found if path.read_bytes().startswith(b"SQLite format 3")]


async def test_only_what_the_person_said_is_kept_in_pieces(local: Opened) -> None:
    long = "茶" * 5_000
    await local.sync(ANA, "s-1-1", long, "Nice.")

    assert sorted(map(len, await local.bench.stored(ANA))) == [1_000, 2_000, 2_000]
    await local.sync(ANA, "s-1-1", long, "Nice.")
    assert len(await local.bench.stored(ANA)) == 3


async def test_no_history_keeps_what_is_deleted(local: Opened, tmp_path: Path) -> None:
    remote = await local.write(ANA, "w-1", after=TEA)
    await local.write(ANA, "w-2", after=BOAT)
    await local.write(ANA, "w-3", before=TEA, remote_id=remote)
    await local.provider.stop()

    assert await asyncio.to_thread(databases_in, tmp_path) == ["storage.sqlite"]
    assert await local.bench.stored(ANA) == [BOAT]


async def test_a_second_process_sees_that_it_is_in_use(local: Opened) -> None:
    await local.write(ANA, "w-1", after=TEA)
    other = local.bench.make()

    await other.check()
    assert await other.count(ANA) is None
    with pytest.raises(ProviderDown, match="another process"):
        await other.prefetch("tea", HERE, ANA)
    await other.stop()


class LocalWith(Mem0LocalBench):
    """With options of the test's own."""

    more: Mapping[str, object] = {}

    @property
    def options(self) -> Mapping[str, object]:
        return {**super().options, **self.more}


async def test_other_vectors_than_it_was_filled_with_are_refused(tmp_path: Path) -> None:
    bench = LocalWith(tmp_path)
    async with bench.running():
        first = Opened(bench, bench.make())
        await first.write(ANA, "w-1", after=TEA)
        await first.provider.stop()

        bench.more = {"embedder_model": "another"}
        second = bench.make()
        with pytest.raises(ProviderLocked, match="by-words, 512 dimensions"):
            await second.check()
        await second.stop()
        assert await bench.stored(ANA) == [TEA]


async def test_a_wrong_size_of_vectors_is_told_and_spoils_nothing(tmp_path: Path) -> None:
    bench = LocalWith(tmp_path)
    bench.more = {"embedder_dimensions": 64}
    async with bench.running():
        first = bench.make()
        with pytest.raises(ProviderLocked, match="512 dimensions"):
            await first.check()
        await first.stop()

        bench.more = {}
        second = Opened(bench, bench.make())
        await second.write(ANA, "w-1", after=TEA)
        assert await second.recall("What is for breakfast?", ANA) == [TEA]
        await second.provider.stop()


async def test_an_embedder_must_be_named(tmp_path: Path) -> None:
    class Nameless(Mem0LocalBench):
        @property
        def options(self) -> Mapping[str, object]:
            return {"mode": "local"}

    bare = Nameless(tmp_path).make()
    assert "embedder_url" in bare.available()[0]
    assert bare.tools() == ()
    await bare.stop()


async def test_the_hosted_service_needs_a_key(tmp_path: Path) -> None:
    bench = Mem0Bench(tmp_path)
    async with bench.running():
        bare = bench.make(secrets={})
        assert "MEM0_API_KEY" in bare.available()[0]
        assert bare.tools() == ()
        await bare.stop()
