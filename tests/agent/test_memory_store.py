import asyncio
import multiprocessing
import os
import random
import resource
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

from trunkline.agent.memory.entries import MemoryLimits, count_chars, join_entries, parse_entries
from trunkline.agent.memory.files import MemoryFolders, folder_name
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome, Written
from trunkline.agent.memory.store import FileMemoryStore, JournalFailed
from trunkline.agent.ports import Action, JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope

ANA = PersonScope(PersonId("ana"))
ROOM = RoomScope(RoomId("discord-789"), AccountId(7))
ORIGIN = WriteOrigin("tool", "telegram", session="s1", turn=1)


@dataclass(slots=True)
class ListJournal:
    """Keeps the rows in memory; `state` is pending, done or abandoned."""

    entries: list[JournalEntry] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    origins: list[WriteOrigin] = field(default_factory=list)

    async def begin(self, scope: Scope, entry: JournalEntry, origin: WriteOrigin) -> int:
        self.entries.append(entry)
        self.states.append("pending")
        self.origins.append(origin)
        return len(self.entries) - 1

    async def settle(self, scope: Scope, journal_id: int, *, done: bool) -> None:
        self.states[journal_id] = "done" if done else "abandoned"


class BrokenJournal(ListJournal):
    async def begin(self, scope: Scope, entry: JournalEntry, origin: WriteOrigin) -> int:
        raise ConnectionError("the database is away")


@pytest.fixture
def journal() -> ListJournal:
    return ListJournal()


@pytest.fixture
def store(tmp_path: Path, journal: ListJournal) -> FileMemoryStore:
    return FileMemoryStore(tmp_path, MemoryLimits(memory_chars=200, user_chars=100), journal)


async def apply(
    store: FileMemoryStore, *operations: tuple[Action, str, str], target: Target = "user", scope: Scope = ANA
) -> Outcome:
    return await store.apply(scope, target, [Operation(*operation) for operation in operations], ORIGIN)


async def add(store: FileMemoryStore, *texts: str, target: Target = "user", scope: Scope = ANA) -> Outcome:
    return await apply(store, *(("add", text, "") for text in texts), target=target, scope=scope)


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed)
    return outcome


async def test_an_added_entry_is_in_the_file_and_in_the_next_read(
    store: FileMemoryStore, tmp_path: Path
) -> None:
    outcome = await add(store, "  likes tea \n")

    assert isinstance(outcome, Written)
    assert outcome.message == "Entry added."
    assert (tmp_path / "memories/ana/USER.md").read_text("utf-8") == "likes tea\n§\n"
    assert (await store.read(ANA)).user == ("likes tea",)


async def test_a_room_has_notes_of_its_own_and_no_user_store(store: FileMemoryStore, tmp_path: Path) -> None:
    await add(store, "meets on Mondays", target="memory", scope=ROOM)
    await add(store, "likes tea")

    refused = failed(await add(store, "likes tea", scope=ROOM))

    assert refused.kind is FailureKind.NOT_HERE
    assert "direct chat" in refused.error
    assert (tmp_path / "memories/rooms/discord-789/MEMORY.md").exists()
    assert (await store.read(ROOM)).user == ()
    assert (await store.read(ROOM)).memory == ("meets on Mondays",)
    assert (await store.read(ANA)).memory == ()


@pytest.mark.parametrize("slug", ["../../x", "a/b", "..", "rooms", "x" * 300, "Ana", "åsa", "a\x00b", " "])
def test_a_strange_slug_gets_a_safe_folder_of_its_own(slug: str, tmp_path: Path) -> None:
    name = folder_name(slug)

    assert (tmp_path / name).resolve().parent == tmp_path.resolve()
    assert name not in ("rooms", slug)
    assert len(name) < 100


def test_distinct_slugs_get_distinct_folders_and_an_empty_one_none() -> None:
    slugs = ["../../x", "a/b", "a-b", "a", "rooms", "Rooms", "A", "x" * 299, "x" * 300]

    assert len({folder_name(slug) for slug in slugs}) == len(slugs)
    with pytest.raises(ValueError, match="without a name"):
        folder_name("")


async def test_curly_quotes_and_a_double_space_still_find_the_entry(store: FileMemoryStore) -> None:
    await add(store, "says “no  meetings” before ten")

    assert isinstance(await apply(store, ("remove", "", 'says "no meetings"')), Written)


@pytest.mark.parametrize("text", ["", "  \n", "\u200b \u2060", "\u00a0\u3000", "a\n§\nb", "§", "a\r\n§\r\nb"])
def test_empty_content_and_a_mark_line_are_refused(text: str, store: FileMemoryStore) -> None:
    assert failed(asyncio.run(add(store, text))).kind is FailureKind.INVALID


async def test_the_first_write_to_a_hand_written_file_keeps_its_bytes(
    store: FileMemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "memories/ana/USER.md"
    path.parent.mkdir(parents=True)
    original = b"# About Ana\r\n\r\n- likes tea\r\n- lives in Ghent\r\n"
    path.write_bytes(original)

    await apply(store, ("remove", "", "tea"))
    await add(store, "works at night")

    assert path.with_name("USER.md.bak").read_bytes() == original
    assert (await store.read(ANA)).user == ("# About Ana", "- lives in Ghent", "works at night")
    await store.erase_backups(ANA)
    assert not path.with_name("USER.md.bak").exists()


@pytest.mark.parametrize("content", [b"caf\xe9\n", b"\xff\xfea\x00"], ids=["latin-1", "utf-16"])
async def test_bytes_that_are_not_utf8_are_left_as_they_are(
    store: FileMemoryStore,
    tmp_path: Path,
    journal: ListJournal,
    content: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "memories/ana/USER.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    outcome = failed(await add(store, "likes tea"))

    assert outcome.kind is FailureKind.UNREADABLE
    assert "not UTF-8" in outcome.error
    assert "memory file unreadable file=USER.md cause=not UTF-8" in caplog.text
    assert path.read_bytes() == content
    assert (await store.read(ANA)).unreadable == ("user",)
    assert journal.entries == []


async def test_a_write_that_fails_keeps_the_old_text_and_abandons_its_row(
    store: FileMemoryStore, tmp_path: Path, journal: ListJournal
) -> None:
    await add(store, "likes tea")
    (tmp_path / "memories/ana/.USER.md.tmp").mkdir()

    outcome = failed(await add(store, "lives in Ghent"))

    assert outcome.kind is FailureKind.WRITE_FAILED
    assert "nothing new was saved" in outcome.error
    assert (await store.read(ANA)).user == ("likes tea",)
    assert journal.states == ["done", "abandoned"]


async def test_a_link_in_the_place_of_the_temporary_file_is_not_written_through(
    store: FileMemoryStore, tmp_path: Path
) -> None:
    await add(store, "likes tea")
    other = tmp_path / "other.txt"
    other.write_text("somebody's own", "utf-8")
    (tmp_path / "memories/ana/.USER.md.tmp").symlink_to(other)

    assert isinstance(await add(store, "lives in Ghent"), Written)

    assert other.read_text("utf-8") == "somebody's own"
    assert not (tmp_path / "memories/ana/USER.md").is_symlink()


@pytest.mark.parametrize("kind", ["a pipe", "a loop of links", "a folder"])
async def test_what_is_no_file_is_neither_read_nor_replaced(
    kind: str, store: FileMemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / "memories/ana/USER.md"
    path.parent.mkdir(parents=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a loop of links":
        path.symlink_to(path)
    else:
        path.mkdir()

    assert failed(await add(store, "likes tea")).kind is FailureKind.UNREADABLE
    assert (await store.read(ANA)).unreadable == ("user",)


async def test_without_a_journal_row_nothing_is_written(tmp_path: Path) -> None:
    store = FileMemoryStore(tmp_path, MemoryLimits(), BrokenJournal())

    with pytest.raises(JournalFailed):
        await add(store, "likes tea")

    assert (await store.read(ANA)).user == ()


async def test_a_lock_that_another_process_keeps_is_a_clear_error(tmp_path: Path) -> None:
    store = FileMemoryStore(tmp_path, MemoryLimits(), ListJournal(), lock_timeout_s=0.2)
    await add(store, "likes tea")

    with FileLock(tmp_path / "memories/ana/USER.md.lock"):
        outcome = failed(await add(store, "lives in Ghent"))

    assert outcome.kind is FailureKind.LOCKED
    assert isinstance(await add(store, "lives in Ghent"), Written)


async def test_a_cancelled_write_is_whole_and_its_row_settled(tmp_path: Path) -> None:
    class SlowJournal(ListJournal):
        begun = asyncio.Event()
        go_on = asyncio.Event()

        async def begin(self, scope: Scope, entry: JournalEntry, origin: WriteOrigin) -> int:
            self.begun.set()
            await self.go_on.wait()
            return await super().begin(scope, entry, origin)

    journal = SlowJournal()
    store = FileMemoryStore(tmp_path, MemoryLimits(), journal)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        write = group.create_task(add(store, "likes tea"))
        await journal.begun.wait()
        write.cancel()
        journal.go_on.set()
    # The next writer waits for the lock, so it comes after the cancelled one.
    await add(store, "lives in Ghent")

    assert (await store.read(ANA)).user == ("likes tea", "lives in Ghent")
    assert journal.states == ["done", "done"]


def test_only_the_stores_know_where_memory_files_are_and_write_them() -> None:
    root = Path(__file__).parents[2]
    knowing = {
        str(path.relative_to(root))
        for folder in ("agent", "adapters", "gateway")
        for path in (root / folder).rglob("*.py")
        if ".path_of(" in path.read_text("utf-8")
    }

    # The command line makes its draft beside the file.
    assert knowing == {"agent/memory/store.py", "gateway/state/memory_texts.py", "gateway/cli/memory.py"}


async def test_files_are_for_the_owner_alone(store: FileMemoryStore, tmp_path: Path) -> None:
    await add(store, "likes tea")

    assert (tmp_path / "memories/ana").stat().st_mode & 0o077 == 0
    assert (tmp_path / "memories/ana/USER.md").stat().st_mode & 0o077 == 0


# Processes of a fresh one that has imported this module, instead of each importing it anew.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])

PROCESSES = 16
ROUNDS = 6
RACE_LIMITS = MemoryLimits(user_chars=10_000)


def _race(home: str, worker: int) -> None:
    asyncio.run(_race_rounds(Path(home), worker))


async def _race_rounds(home: Path, worker: int) -> None:
    """Each worker adds its facts, rewords each, and removes every second one; then tries to overfill."""
    store = FileMemoryStore(home, RACE_LIMITS, ListJournal(), lock_timeout_s=300)
    for number in range(ROUNDS):
        steps: list[tuple[Action, str, str]] = [
            ("add", f"fact w{worker}-{number}.", ""),
            ("replace", f"fact w{worker}-{number}. reworded", f"w{worker}-{number}."),
        ]
        if number % 2:
            steps.append(("remove", "", f"w{worker}-{number}. reworded"))
        for step in steps:
            while isinstance(outcome := await apply(store, step), Failed):
                assert (
                    outcome.kind is FailureKind.OVER_LIMIT
                )  # another has filled the file, and will empty it
        await add(store, "z" * random.randint(9_000, 10_000))
        await apply(store, ("remove", "", "zzz"))


@pytest.mark.timeout(600)  # sixteen processes on a busy machine take their time to begin
def test_processes_that_race_lose_no_update_and_never_pass_the_limit(tmp_path: Path) -> None:
    context = FORKS
    processes = [context.Process(target=_race, args=(str(tmp_path), worker)) for worker in range(PROCESSES)]
    for process in processes:
        process.start()
    path = tmp_path / "memories/ana/USER.md"
    while alive := [process for process in processes if process.is_alive()]:
        if path.exists():
            assert count_chars(parse_entries(path.read_text("utf-8")).entries) <= RACE_LIMITS.user_chars
        alive[0].join(0.02)

    assert [process.exitcode for process in processes] == [0] * PROCESSES
    expected = {f"fact w{w}-{n}. reworded" for w in range(PROCESSES) for n in range(0, ROUNDS, 2)}
    assert {e for e in parse_entries(path.read_text("utf-8")).entries if e[0] != "z"} == expected
    with FileLock(f"{path}.lock", timeout=0):
        pass  # nobody has left it locked


def _write_for_ever(home: str) -> None:
    asyncio.run(_swap_for_ever(Path(home)))


async def _swap_for_ever(home: Path) -> None:
    store = FileMemoryStore(home, MemoryLimits(), ListJournal())
    while True:
        await apply(store, ("replace", "b" * 1_000, "a"))
        await apply(store, ("replace", "a" * 1_000, "b"))


def test_a_process_killed_while_writing_leaves_the_old_or_the_new_text(tmp_path: Path) -> None:
    path = tmp_path / "memories/ana/USER.md"
    path.parent.mkdir(parents=True)
    context = FORKS
    for _ in range(4):
        path.write_text(join_entries(["a" * 1_000]), "utf-8")
        path.with_name(".USER.md.tmp").unlink(missing_ok=True)
        process = context.Process(target=_write_for_ever, args=(str(tmp_path),))
        process.start()
        while path.read_text("utf-8")[0] == "a" and process.is_alive():
            process.join(0.001)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)

        assert path.read_text("utf-8") in (join_entries(["a" * 1_000]), join_entries(["b" * 1_000]))
        store = FileMemoryStore(tmp_path, MemoryLimits(), ListJournal())
        assert isinstance(asyncio.run(add(store, "after the crash")), Written)


SMALL_BYTES = 100


def _write_too_much(home: str, killed: bool) -> None:
    """Writes more than files may grow to: the system ends the process within the write, or fails it."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if killed else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_BYTES, SMALL_BYTES))
    journal = ListJournal()
    outcome = asyncio.run(add(FileMemoryStore(Path(home), MemoryLimits(), journal), "b" * SMALL_BYTES * 3))
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.WRITE_FAILED
    assert "nothing new was saved" in outcome.error
    assert journal.states == ["abandoned"]


@pytest.mark.parametrize("killed", [True, False], ids=["killed within the write", "no room left"])
async def test_a_write_that_ends_half_way_leaves_the_old_text(
    killed: bool, store: FileMemoryStore, tmp_path: Path
) -> None:
    """MEM-02.1."""
    await add(store, "likes tea")
    process = FORKS.Process(target=_write_too_much, args=(str(tmp_path), killed))
    process.start()
    await asyncio.to_thread(process.join)

    half = tmp_path / "memories/ana/.USER.md.tmp"
    assert process.exitcode == (-signal.SIGXFSZ if killed else 0)
    assert half.exists() is killed
    assert (await store.read(ANA)).user == ("likes tea",)
    assert isinstance(await add(store, "lives in Ghent"), Written)
    assert (await store.read(ANA)).user == ("likes tea", "lives in Ghent")
    assert not half.exists()


async def test_a_whole_temporary_file_left_by_a_crash_is_not_taken_for_the_store(
    store: FileMemoryStore, tmp_path: Path
) -> None:
    """MEM-02.1: killed after the new text was written and before it was put in place."""
    await add(store, "likes tea")
    (tmp_path / "memories/ana/.USER.md.tmp").write_text("likes coffee\n§\n", "utf-8")

    assert (await store.read(ANA)).user == ("likes tea",)
    await add(store, "lives in Ghent")
    assert (await store.read(ANA)).user == ("likes tea", "lives in Ghent")


async def test_a_link_to_a_file_kept_elsewhere_stays_a_link(store: FileMemoryStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "notes.md"
    elsewhere.write_text("Likes tea.\n§\n")
    path = MemoryFolders(tmp_path).path_of(ANA, "user")
    path.parent.mkdir(parents=True)
    path.symlink_to(elsewhere)

    await add(store, "Likes rye.")

    assert path.is_symlink()
    assert elsewhere.read_text() == "Likes tea.\n§\nLikes rye.\n§\n"
