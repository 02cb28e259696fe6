"""What is special to Supermemory: the instruction, the marked roles, addresses, its own answers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.providers.bench_supermemory import SupermemoryBench
from tests.agent.providers.conformance import ANA, DEN, HERE, Opened
from trunkline.agent.providers.base import ForgetFact, ProviderDown, ProviderLocked
from trunkline.agent.providers.http import failure_of
from trunkline.agent.providers.supermemory import CONTEXT_CHARS, INSTRUCTION

TEA = "User drinks jasmine tea at breakfast."


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = SupermemoryBench(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        await provider.stop()


def documents(opened: Opened) -> list[dict[str, object]]:
    assert isinstance(opened.bench, SupermemoryBench)
    return [call.arguments for call in opened.bench.server.calls_of("document")]


def test_the_instruction_says_what_to_keep_and_what_not() -> None:
    assert len(INSTRUCTION) <= CONTEXT_CHARS
    for word in ("lasting", "preferences", "routines", "tools", "projects", "explicitly ask"):
        assert word in INSTRUCTION
    for word in ("at this moment", "done once", "the assistant said", "implementation", "work in progress"):
        assert word in INSTRUCTION
    assert "in doubt, keep less" in INSTRUCTION


async def test_a_turn_goes_with_marked_roles_and_the_instruction(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "I row\u200b on Sundays.", "Nice.")

    (sent,) = documents(opened)
    assert sent["content"] == "[user]\nI row on Sundays.\n\n[assistant]\nNice."
    assert sent["supportingContext"] == INSTRUCTION
    assert sent["metadata"] == {"session": HERE.session, "platform": HERE.platform}


async def test_in_a_room_each_turn_says_who_spoke(opened: Opened) -> None:
    await opened.sync(DEN, "s-1-1", "I row on Sundays.")

    assert str(documents(opened)[0]["content"]).startswith(f"[user {DEN.asker}]\n")


async def test_an_entry_that_is_an_address_is_not_fetched(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after="https://wiki.example/start")
    await opened.write(ANA, "w-2", before="https://wiki.example/start")

    assert documents(opened)[0]["content"] == "Note: https://wiki.example/start"
    assert await opened.bench.stored(ANA) == []


async def test_turns_stay_at_home_where_so_set(tmp_path: Path) -> None:
    class Quiet(SupermemoryBench):
        @property
        def options(self) -> dict[str, object]:
            return {**super().options, "send_turns": False}

    bench = Quiet(tmp_path)
    async with bench.running():
        opened = Opened(bench, bench.make())
        await opened.sync(ANA, "s-1-1", TEA)
        await opened.provider.stop()
        assert await bench.stored(ANA) == []


async def test_what_stays_in_the_audit_history_is_said(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "At breakfast the user drinks tea, jasmine. The boat leaks.")

    done = await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)

    assert "audit history" in done.left
    assert "tea" not in str(await opened.call("supermemory_profile", ANA))


async def test_the_forget_tool_shows_first_and_removes_by_id(opened: Opened) -> None:
    await opened.call("supermemory_store", ANA, content=TEA)
    shown = json.loads((await opened.call("supermemory_forget", ANA, query="jasmine tea")).content)
    assert shown["removed"] == 0
    assert shown["would_remove"][0]["text"] == TEA

    removed = await opened.call("supermemory_forget", ANA, ids=[shown["would_remove"][0]["id"]])
    assert json.loads(removed.content) == {"success": True, "removed": 1}
    assert (await opened.call("supermemory_forget", ANA, ids=["mem-unknown"])).is_error
    assert (await opened.call("supermemory_forget", ANA)).is_error


async def test_a_server_that_is_gone_is_down_and_not_broken(tmp_path: Path) -> None:
    bench = SupermemoryBench(tmp_path)
    async with bench.running():
        provider = bench.make()

    with pytest.raises(ProviderDown):
        await provider.prefetch("tea", HERE, ANA)
    await provider.stop()


def test_statuses_are_told_apart() -> None:
    busy = failure_of(429, "7")

    assert isinstance(busy, ProviderDown)
    assert busy.retry_after_s == 7
    assert isinstance(failure_of(402, None), ProviderLocked)
    assert isinstance(failure_of(503, "soon"), ProviderDown)
