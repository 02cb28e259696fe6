"""What is special to ByteRover: trees that are searched here, the vendor's program, what it writes down."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.agent.providers.bench_byterover import ByteRoverBench
from tests.agent.providers.conformance import ANA, BO, DEN, Opened
from trunkline.agent.providers.base import ForgetAll, ForgetFact, ProviderDown, ProviderRefused, bank_of
from trunkline.agent.providers.byterover import IN_HISTORY, RECORDS
from trunkline.agent.providers.byterover_tree import PASSAGE_CHARS, passages_of
from trunkline.agent.tools.base import ToolResult

TEA = "User drinks jasmine tea at breakfast."
BANK = bank_of(ANA, "trunkline")


class Quick(ByteRoverBench):
    """Its model may take no more than a second, and its program has a proxy."""

    @property
    def options(self) -> dict[str, object]:
        proxy = {"HTTPS_PROXY": "http://127.0.0.1:9"}
        return {**super().options, "model_timeout_s": 1, "environment": proxy}


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = ByteRoverBench(tmp_path)
    async with bench.running():
        yield Opened(bench, bench.make())


def bench_of(opened: Opened) -> ByteRoverBench:
    assert isinstance(opened.bench, ByteRoverBench)
    return opened.bench


def records(opened: Opened) -> list[str]:
    """All that the program wrote down, but for the environment."""
    root = bench_of(opened).trees.parent / RECORDS / "projects"
    return [path.read_text() for path in root.rglob("*.json") if path.name != "environment.json"]


def tree(opened: Opened, bank: str = BANK) -> Path:
    return bench_of(opened).trees / bank / ".brv" / "context-tree"


def told(result: ToolResult) -> dict[str, object]:
    reply: dict[str, object] = json.loads(result.content)
    return reply


async def becomes(met: Callable[[], object]) -> None:
    """Returns when something is true that another process does."""
    async with asyncio.timeout(10):
        while not met():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.01)


def runs(pid: int | None) -> bool:
    assert pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# The trees.


async def test_entries_and_turns_are_files_that_nobody_else_may_read(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.sync(DEN, "s-1-1", "I row\u200b on Sundays.", "Nice.")

    path = tree(opened) / f"{remote}.md"
    assert (path.read_text(), path.stat().st_mode & 0o777) == (TEA, 0o600)
    (turn,) = await opened.bench.stored(DEN)
    assert turn == f"2026-11-30\n\naccount {DEN.asker}: I row on Sundays.\n\nassistant: Nice.\n"


async def test_recall_starts_no_program_and_leaves_no_record_of_the_question(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    bench_of(opened).program.path.unlink()

    assert await opened.recall("jasmine tea", ANA) == [TEA]
    assert records(opened) == []


async def test_rare_words_weigh_more_than_common_ones(opened: Opened) -> None:
    for number in range(10):
        await opened.write(ANA, f"w-{number}", after=f"Meeting number {number} was in the big room.")
    await opened.write(ANA, "w-99", after="Meeting with Ines.")

    assert (await opened.recall("the meeting in the room with Ines", ANA))[0] == "Meeting with Ines."


async def test_of_a_long_turn_the_part_that_answers_comes_back(opened: Opened) -> None:
    long = "\n\n".join(f"The harbour has berth {number} for a ship." for number in range(200))
    await opened.sync(ANA, "s-1-1", f"{long}\n\n{TEA}\n\n{long}")

    (found, *_) = await opened.recall("What tea at breakfast?", ANA)
    assert TEA in found
    assert len(found) <= PASSAGE_CHARS


async def test_topics_of_the_model_are_recalled_without_their_front_matter(opened: Opened) -> None:
    assert told(await opened.call("byterover_curate", ANA, content=TEA)) == {"success": True, "topics": 1}

    assert await opened.recall("jasmine tea", ANA) == [f"## Facts\n{TEA}"]


async def test_a_file_that_is_changed_by_hand_is_read_anew_and_summaries_are_not(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    assert await opened.recall("jasmine tea", ANA) == [TEA]
    (tree(opened) / f"{remote}.md").write_text("User drinks jasmine tea in the evening, now.")
    (tree(opened) / "_index.md").write_text("A summary: jasmine tea.")

    assert await opened.recall("jasmine tea", ANA) == ["User drinks jasmine tea in the evening, now."]
    assert await opened.provider.count(ANA) == 1


async def test_links_lead_nowhere(opened: Opened) -> None:
    await opened.write(BO, "w-1", after=TEA)
    await opened.write(ANA, "w-1", after="User rows.")
    (tree(opened) / "stolen").symlink_to(tree(opened, bank_of(BO, "trunkline")))
    (tree(opened) / "fifo.md").unlink(missing_ok=True)
    os.mkfifo(tree(opened) / "fifo.md")

    assert await opened.recall("jasmine tea", ANA) == []
    await opened.provider.forget(ForgetAll(), ANA)
    assert await opened.bench.stored(BO) == [TEA]


async def test_an_id_leads_out_of_no_tree(opened: Opened, tmp_path: Path) -> None:
    theirs = await opened.write(BO, "w-1", after=TEA)
    outside = tmp_path / "outside.md"
    outside.write_text(TEA)
    await opened.write(ANA, "w-1", after="User rows.")
    (tree(opened) / "link.md").symlink_to(outside)
    up = f"../../../{bank_of(BO, 'trunkline')}/.brv/context-tree/{theirs}"

    for one in (
        up,
        f"trunkline/../{up}",
        str(outside.with_suffix("")),
        "link",
        "",
        ".",
        "x" * 290,
        "茶" * 200,
    ):
        assert (await opened.call("byterover_forget", ANA, ids=[one])).is_error
    assert outside.exists()
    assert await opened.bench.stored(BO) == [TEA]


def test_a_text_without_breaks_is_cut_all_the_same() -> None:
    parts = passages_of("茶" * (2 * PASSAGE_CHARS + 7))

    assert [len(part) for part in parts] == [PASSAGE_CHARS, PASSAGE_CHARS, 7]
    assert passages_of("  ") == []


# The vendor's program.


async def test_the_model_answers_from_the_askers_tree(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    assert told(await opened.call("byterover_query", ANA, question="--help; $(id)"))["answer"] == (
        f"It is known: {TEA}"
    )
    assert told(await opened.call("byterover_query", BO, question="?"))["answer"] == "It is known: "


async def test_that_the_model_stored_nothing_is_no_success(opened: Opened) -> None:
    bench_of(opened).program.play("nothing")

    assert (await opened.call("byterover_curate", ANA, content=TEA)).is_error


@pytest.mark.parametrize(
    ("play", "said"),
    [
        ("unconnected", "brv providers connect"),
        ("broken", "failed"),
        ("noise", "no answer"),
        ("cut", "no answer"),
        ("flood", "too much"),
    ],
)
async def test_a_model_that_fails_says_so_and_leaves_recall_alone(
    opened: Opened, play: str, said: str
) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    bench_of(opened).program.play(play)

    with pytest.raises(ProviderRefused, match=said) as raised:
        await opened.call("byterover_query", ANA, question="Whatever of the sapphire?")
    assert "sapphire" not in str(raised.value)
    assert await opened.recall("jasmine tea", ANA) == [TEA]


async def test_a_model_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    bench = Quick(tmp_path)
    async with bench.running():
        opened = Opened(bench, bench.make())
        bench.program.play("hang")
        with pytest.raises(ProviderRefused, match="within 1 s"):
            await opened.call("byterover_query", ANA, question="?")
        assert not runs(bench.program.pid)


async def test_a_run_that_is_called_off_ends_with_its_program(opened: Opened) -> None:
    program = bench_of(opened).program
    program.play("hang")
    async with asyncio.TaskGroup() as group:
        call = group.create_task(opened.call("byterover_query", ANA, question="?"))
        await becomes(lambda: program.pid)
        assert runs(program.pid)
        call.cancel()
    assert call.cancelled()
    assert not runs(program.pid)

    program.play("")
    assert not (await opened.call("byterover_query", ANA, question="?")).is_error


async def test_the_program_gets_what_is_set_for_it_and_none_of_our_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "secret")
    monkeypatch.setenv("BRV_API_KEY", "secret")
    bench = Quick(tmp_path)
    async with bench.running():
        await bench.make().check()

    (path,) = (bench.trees.parent / RECORDS).rglob("environment.json")
    given = json.loads(path.read_text())
    assert given["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert given["BRV_DATA_DIR"] == str(bench.trees.parent / RECORDS)
    assert "secret" not in given.values()


async def test_a_program_that_is_not_there_is_named_with_what_installs_it(tmp_path: Path) -> None:
    bench = ByteRoverBench(tmp_path)
    async with bench.running():
        bench.program.path.unlink()
        provider = bench.make()
        assert "npm install -g byterover-cli" in provider.available()[0]
        with pytest.raises(ProviderDown, match="can't be started"):
            await provider.check()


# Forgetting.


async def test_what_the_model_wrote_and_the_program_noted_down_goes_too(opened: Opened) -> None:
    await opened.call("byterover_curate", ANA, content=f"Of the household: {TEA}")
    await opened.call("byterover_query", ANA, question="Where is the boat?")
    await opened.call("byterover_curate", BO, content=TEA)
    (bench_of(opened).trees / BANK / ".brv" / "review-backups").mkdir()
    (bench_of(opened).trees / BANK / ".brv" / "review-backups" / "old.md").write_text(TEA)

    done = await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)
    assert (done.removed, done.left) == (1, "")
    assert await opened.bench.stored(ANA) == []
    assert sorted("jasmine" in text for text in records(opened)) == [False, True]
    assert "boat" in "".join(records(opened))


async def test_what_the_program_made_of_a_topic_in_its_own_words_goes_with_that(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after="User rows.")
    topic = tree(opened) / "life" / "breakfast"
    topic.mkdir(parents=True)
    made = [topic / f"tea{kind}.md" for kind in ("", ".abstract", ".overview", ".full", ".stub")]
    made += [tree(opened) / "_index.md", topic.parent / "_index.md", topic / "_index.md"]
    for path in made:
        path.write_text(TEA if path == made[0] else "A leaf in hot water, mornings.")
    (topic / "teapot.md").write_text("A pot of clay.")

    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)).removed == 1
    assert sorted(await opened.bench.stored(ANA)) == ["A pot of clay.", "User rows."]


async def test_the_daemon_that_remembers_is_ended_before_something_is_forgotten(opened: Opened) -> None:
    await opened.call("byterover_curate", ANA, content=TEA)
    noted = bench_of(opened).trees.parent / RECORDS
    daemon = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    (noted / "daemon.json").write_text(json.dumps({"pid": daemon.pid, "port": 1, "version": "3.14.0"}))
    (noted / "heartbeat").write_text("0")
    os.utime(noted / "heartbeat", (0, 0))

    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)  # the daemon of before has long ended
    (noted / "heartbeat").touch()
    await opened.provider.forget(ForgetAll(), BO)  # it was never asked for him
    assert daemon.returncode is None
    await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)
    async with asyncio.timeout(60):
        assert await daemon.wait() == -signal.SIGKILL


async def test_everything_goes_with_the_programs_own_records(opened: Opened) -> None:
    await opened.call("byterover_curate", ANA, content=TEA)
    await opened.call("byterover_query", BO, question="Where is the boat?")

    await opened.provider.forget(ForgetAll(), ANA)
    assert not (bench_of(opened).trees / BANK).exists()
    assert ["boat" in text for text in records(opened)] == [True]


async def test_that_a_version_history_keeps_it_is_said(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    (tree(opened) / ".git").mkdir()

    assert (await opened.provider.forget(ForgetFact((TEA,), (remote,), ()), ANA)).left == IN_HISTORY
    assert (await opened.provider.forget(ForgetFact((TEA,), (remote,), ()), ANA)).left == ""
