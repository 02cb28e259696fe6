"""What is special to RetainDB: a project for each bank, its editions, and what its deleting leaves behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.providers.bench_retaindb import KEY, RetainDbBench
from tests.agent.providers.conformance import ANA, BO, DEN, HERE, WHEN, Opened
from tests.emulators.base import Fault
from tests.emulators.retaindb import Edition, Memory
from trunkline.agent.providers.base import CompletedTurn, ForgetAll, ForgetFact, ProviderDown, bank_of
from trunkline.agent.providers.retaindb import MARKED_ONLY, STILL_THERE, parts_of
from trunkline.agent.tools.base import ToolContext

TEA = "User drinks jasmine tea at breakfast."
COFFEE = "User drinks black coffee at breakfast."
BANK = bank_of(ANA, "trunkline")


@pytest.fixture(params=["admin"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    class Chosen(RetainDbBench):
        edition: Edition = request.param

    bench = Chosen(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        await provider.stop()


def server(opened: Opened) -> RetainDbBench:
    assert isinstance(opened.bench, RetainDbBench)
    return opened.bench


editions = pytest.mark.parametrize("opened", ["admin", "server", "local"], indirect=True)
soft_ones = pytest.mark.parametrize("opened", ["server", "local"], indirect=True)


@editions
async def test_every_edition_keeps_recalls_replaces_and_removes(opened: Opened) -> None:
    first = await opened.write(ANA, "w-1", after=TEA)
    assert [one.remote_id for one in await opened.recalled("jasmine tea", ANA)] == [first]
    second = await opened.write(ANA, "w-2", before=TEA, after=COFFEE, remote_id=first)
    assert await opened.recall("breakfast", ANA) == [COFFEE]

    await opened.write(ANA, "w-3", before=COFFEE)
    assert second != first
    assert await opened.recall("breakfast", ANA) == []
    assert await opened.provider.count(ANA) == 0


async def test_a_bank_is_a_project_of_its_own(opened: Opened) -> None:
    """What the service takes for knowledge of a project is no user's there, and all its users see it."""
    await opened.write(ANA, "w-1", after=TEA)
    server(opened).server.projects[BANK].append(
        Memory("mem-shared", "The boat is called Marigold.", None, None)
    )

    assert await opened.recall("boat Marigold", ANA) == ["The boat is called Marigold."]
    assert await opened.recall("boat Marigold", BO) == []
    assert list(server(opened).server.projects) == [BANK]


@soft_ones
async def test_that_a_fact_is_only_marked_as_deleted_is_said(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)

    done = await opened.provider.forget(ForgetFact((TEA,), (remote,), ()), ANA)
    assert (done.removed, done.left) == (1, MARKED_ONLY)
    assert await opened.recall("jasmine tea", ANA) == []
    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), BO)).left == ""


@editions
async def test_everything_goes_with_the_project_where_there_is_a_call_for_it(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    done = await opened.provider.forget(ForgetAll(), ANA)
    soft = server(opened).edition == "local"
    assert (done.removed, done.left) == (1, MARKED_ONLY if soft else "")
    assert bool(await opened.bench.stored(ANA)) == soft
    assert (await opened.provider.forget(ForgetAll(), BO)).left == ""


async def test_a_fact_that_comes_back_in_spite_of_deleting_is_no_secret(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    class Undeletable(Memory):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, True if name == "active" else value)

    (made,) = server(opened).server.projects[BANK]
    server(opened).server.projects[BANK] = [Undeletable(made.id, made.content, made.user_id, None)]
    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)).left == STILL_THERE


async def test_what_is_not_kept_yet_is_deleted_later(opened: Opened) -> None:
    server(opened).server.pending = True
    remote = await opened.write(ANA, "w-1", after=TEA)

    with pytest.raises(ProviderDown, match="still at work") as raised:
        await opened.provider.forget(ForgetFact((TEA,), (remote,), ()), ANA)
    assert raised.value.retry_after_s


async def test_a_tool_deletes_only_what_is_the_askers(opened: Opened) -> None:
    """The service deletes by an id alone, whosever it is."""
    remote = await opened.write(BO, "w-1", after=TEA)

    assert (await opened.call("retaindb_forget", ANA, id=remote)).is_error
    assert not (await opened.call("retaindb_forget", BO, id=remote)).is_error
    assert await opened.bench.stored(BO) == []


async def test_a_fact_that_was_forgotten_can_be_remembered_again(opened: Opened) -> None:
    await opened.call("retaindb_remember", ANA, content=TEA, kind="preference")
    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)
    assert await opened.bench.stored(ANA) == []

    later = ToolContext(ANA, HERE.session, 2, 1, "call-1", HERE.platform, WHEN)
    tool = opened.tool("retaindb_remember")
    await tool.run(tool.arguments.model_validate({"content": TEA}), later)
    assert await opened.recall("jasmine tea", ANA) == [TEA]


async def test_the_context_and_the_profile_are_of_the_asker(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    assert "jasmine" in (await opened.call("retaindb_context", ANA, query="breakfast tea")).content
    assert "jasmine" in (await opened.call("retaindb_profile", ANA)).content
    assert "jasmine" not in (await opened.call("retaindb_context", BO, query="breakfast tea")).content
    assert "jasmine" not in (await opened.call("retaindb_profile", BO)).content


async def test_a_long_turn_goes_in_parts_with_names_of_their_own(opened: Opened) -> None:
    for _ in range(2):
        await opened.sync(DEN, "s-1-1", "A" * 12_000, "B" * 12_000)

    stored = await opened.bench.stored(DEN)
    assert [len(part) for part in stored] == [9_000, 9_000, len("".join(stored)) - 18_000]
    assert stored[0].startswith(f"account {DEN.asker}: AAA")
    assert (await opened.provider.forget(ForgetFact((), (), ("s-1-1",)), DEN)).removed == 3


async def test_the_same_write_bears_the_same_key(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-1", after=TEA)
    await opened.write(BO, "w-1", after=TEA)

    keys = [call.arguments["key"] for call in server(opened).server.calls_of("memory")]
    assert keys[0] == keys[1] != keys[2]


async def test_the_hosted_service_needs_a_key_and_a_server_of_ones_own_may_need_none(tmp_path: Path) -> None:
    kind = RetainDbBench(tmp_path).kind

    class Hosted(RetainDbBench):
        @property
        def options(self) -> dict[str, object]:
            return {}

    bare = Hosted(tmp_path).make(secrets={})
    assert "RETAINDB_API_KEY" in bare.available()[0]
    assert bare.tools() == ()
    assert Hosted(tmp_path).make(secrets={"RETAINDB_API_KEY": KEY}).available() == ()
    assert kind.extra == ""


async def test_an_answer_without_sense_is_a_failure(opened: Opened) -> None:
    server(opened).server.fail_next("search", Fault(status=200, body={"results": [{"memory": 7}]}))

    with pytest.raises(ProviderDown, match="unknown"):
        await opened.recall("jasmine tea", ANA)


async def test_what_the_service_gives_of_another_user_is_neither_told_nor_deleted(opened: Opened) -> None:
    """As it does in what it lists of a project, whoever asks."""
    others = Memory("mem-bo", TEA, bank_of(BO, "trunkline"), "s-1-1")
    server(opened).server.projects[BANK].append(others)
    memory = {"id": others.id, "content": TEA, "user_id": others.user_id}
    server(opened).server.fail_next("search", Fault(status=200, body={"results": [{"memory": memory}]}))

    assert await opened.recall("jasmine tea", ANA) == []
    assert await opened.provider.count(ANA) == 0
    assert "jasmine" not in (await opened.call("retaindb_profile", ANA)).content
    assert (await opened.call("retaindb_forget", ANA, id=others.id)).is_error
    assert (await opened.provider.forget(ForgetFact((TEA,), (), ("s-1-1",)), ANA)).removed == 0
    assert others.active


def test_parts_hold_nothing_hidden() -> None:
    turn = CompletedTurn("k", HERE, "ana", "I row\u200b on Sundays.", "Nice.", WHEN)

    assert parts_of(turn, ANA) == ["user: I row on Sundays.\n\nassistant: Nice."]
