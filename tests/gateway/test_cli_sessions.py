"""`trunkline sessions` and `trunkline db` on a home with conversations of two people and a room."""

import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import Connection, func, insert, select, update
from typer.testing import CliRunner

from tests.gateway.rows import (
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    link_account,
    say,
)
from tests.migrated import put_migrated
from trunkline.agent.messages import ToolCall
from trunkline.gateway import backups, cli
from trunkline.gateway.cli.failure import Failure
from trunkline.gateway.cli.output import print_rows
from trunkline.gateway.clock import now_ms
from trunkline.gateway.config import write_config
from trunkline.gateway.sentences import say as say_to_people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.schema import (
    attachment,
    inbox,
    message,
    outbox,
    person,
    session,
    step,
    system_prompt,
    turn,
    usage,
)

NEW_MS = now_ms()


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, the sentence it failed with, and what it said beside its output."""

    output: str
    failed: str
    beside: str

    @property
    def json(self) -> object:
        return json.loads(self.output)


Run = Callable[..., Ran]


@pytest.fixture
def run(home: Path) -> Run:
    def ran(*words: str, answer: str = "") -> Ran:
        environment = {
            "TRUNKLINE_HOME": str(home),
            "COLUMNS": "300",
            "DATABASE_URL": "",
            "OPENAI_API_KEY": "",
        }
        done = CliRunner().invoke(cli.app, [*words], env=environment, input=answer)
        if done.exception is not None and not isinstance(done.exception, Failure | SystemExit):
            raise done.exception
        failed = str(done.exception) if isinstance(done.exception, Failure) else ""
        return Ran(done.stdout, failed, done.stderr)

    return ran


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_config(tmp_path, {"people": {"ana": {"role": "owner"}, "bo": {"role": "member"}}})
    put_migrated(tmp_path / "state.db")
    with Database.sqlite(tmp_path / "state.db") as database:
        database.write_now(fill)
    return tmp_path


def fill(connection: Connection) -> None:
    ana, bo = add_person(connection, "ana"), add_person(connection, "bo")
    connection.execute(update(person).values(source="config"))
    elsewhere = link_account(connection, "ana", "slack")
    stream = direct_stream(connection, ana)
    boiler = add_session(connection, stream, "s-boiler", title="Boiler", chat="1", ended_ms=START_MS)
    say(connection, boiler, "the boiler drips quetzalword")
    call = ToolCall("c", "look", '{"at": "narwhalword"}')
    add_message(connection, NewMessage(boiler, "assistant", "", START_MS + 1, tool_calls=(call,)))
    found = NewMessage(
        boiler, "tool", "tool says okapiword " + "x" * 2000, START_MS + 2, tool_call_id="c", tool_name="look"
    )
    add_message(connection, found)
    say(connection, boiler, "a new valve axolotlword", role="assistant", at_ms=START_MS + 3)
    trip = add_session(
        connection, direct_stream(connection, elsewhere), "s-trip", platform="slack", chat="2", ended_ms=1
    )
    say(connection, trip, "下周去苏州出差", at_ms=NEW_MS)
    den = add_session(connection, add_room(connection, "den", ana, bo), "s-den", chat="den", ended_ms=1)
    say(connection, den, "in the den we met", at_ms=START_MS)
    his = add_session(connection, direct_stream(connection, bo), "s-bo", title="Bo's", chat="3", ended_ms=1)
    say(connection, his, "bo has a pangolinword", at_ms=START_MS)
    plant_traces(connection, boiler, ana)


def plant_traces(connection: Connection, boiler: int, ana: int) -> None:
    """Copies of what was said, in every table that keeps some."""
    connection.execute(insert(system_prompt).values(hash="h", content="prompt ibexword"))
    connection.execute(
        update(session).where(session.c.id == boiler).values(prompt_hash="h", snapshot="snap lemurword")
    )
    for number in (1, 2):
        made = insert(turn).values(session_id=boiler, account_id=ana, state="done").returning(turn.c.id)
        turn_id = connection.execute(made).scalar_one()
        connection.execute(insert(step).values(turn_id=turn_id, n=1))
        common = {"platform": "telegram", "tenant": "bot", "turn_id": turn_id}
        connection.execute(
            insert(inbox).values(key=f"k{number}", payload="in tapirword", state="dead", **common)
        )
        connection.execute(
            insert(outbox).values(
                source=f"t:{turn_id}", seq=0, chat="1", kind="text", payload="out bongoword", **common
            )
        )
        connection.execute(
            insert(usage).values(
                account_id=ana, session_id=boiler, turn_id=turn_id, purpose="turn", prompt_tokens=7
            )
        )
    first = connection.execute(select(message.c.id).where(message.c.session_id == boiler).limit(1)).scalar()
    stream = direct_stream(connection, ana)
    connection.execute(insert(attachment).values(stream_id=stream, message_id=first, name="file gauralword"))


TRACES = ("quetzal", "narwhal", "okapi", "axolotl", "ibex", "lemur", "tapir", "bongo", "gaural")


def traces(folder: Path, files: str = "state.db*") -> set[str]:
    """The planted words that the bytes of the database's files still hold."""
    held = b"".join(path.read_bytes() for path in folder.glob(files))
    return {word for word in TRACES if word.encode() in held}


def test_a_deleted_conversation_leaves_no_byte_behind(home: Path, run: Run) -> None:
    assert traces(home) == set(TRACES)

    assert run("sessions", "delete", "s-boiler", "--yes", "--json").json == {"sessions": 1, "messages": 4}

    assert traces(home) == set()
    assert run("sessions", "show", "s-boiler").failed
    assert "s-boiler" not in run("sessions", "list", "--json").output
    assert run("db", "check").failed == ""
    with Database.sqlite(home / "state.db") as database:
        kept = database.read_now(lambda c: c.execute(select(usage)).all())
        rows = database.read_now(lambda c: c.execute(select(inbox)).all())
    assert [(row.prompt_tokens, row.session_id) for row in kept] == [(7, None), (7, None)]
    assert [row.key for row in rows] == ["k1", "k2"]


def test_the_id_of_a_deleted_turn_is_not_given_to_another(home: Path, run: Run) -> None:
    run("sessions", "delete", "s-boiler", "--yes")

    with Database.sqlite(home / "state.db") as database:
        other = database.read_now(lambda c: c.execute(select(func.max(session.c.id))).scalar_one())
        made = insert(turn).values(session_id=other, account_id=1).returning(turn.c.id)
        assert database.write_now(lambda c: c.execute(made).scalar_one()) == 3


def test_nothing_is_deleted_without_a_yes(home: Path, run: Run) -> None:
    assert run("sessions", "delete", "s-boiler", answer="n\n").failed == "Nothing was deleted."
    assert traces(home) == set(TRACES)
    run("sessions", "delete", "s-boiler", answer="y\n")
    assert traces(home) == set()


@pytest.mark.parametrize(
    "words",
    [("delete", "s-bo", "--yes"), ("rename", "s-bo", "Mine"), ("export", "s-bo"), ("show", "s-bo")],
    ids=["delete", "rename", "export", "show"],
)
def test_what_is_anothers_is_like_what_does_not_exist(run: Run, words: tuple[str, ...]) -> None:
    refused = run("sessions", *words)
    unknown = run("sessions", *(word.replace("s-bo", "s-none") for word in words))

    assert refused.failed.replace("s-bo", "s-none") == unknown.failed
    assert refused.failed
    assert run("sessions", "list", "--as", "bo", "--json").output.count("Bo's") == 1


def test_pruning_takes_old_direct_conversations_and_leaves_rooms_and_other_people(run: Run) -> None:
    assert run("sessions", "prune", "--yes").failed.startswith("Say how old")

    assert run("sessions", "prune", "--older-than", "5", "--yes", "--json").json == {
        "sessions": 1,
        "messages": 4,
    }
    left = {row["id"] for row in json.loads(run("sessions", "list", "--json").output)}
    assert left == {"s-trip", "s-den"}
    assert "s-bo" in run("sessions", "list", "--as", "bo", "--json").output

    run("sessions", "prune", "--older-than", "5", "--everyone", "--yes")
    assert {row["id"] for row in json.loads(run("sessions", "list", "--json").output)} == {"s-trip"}
    assert json.loads(run("sessions", "list", "--as", "bo", "--json").output) == []


def test_an_export_is_whole_as_json_and_as_markdown(home: Path, run: Run, tmp_path: Path) -> None:
    exported = json.loads(run("sessions", "export", "--json").output)
    assert {one["id"] for one in exported} == {"s-boiler", "s-trip", "s-den"}
    (boiler,) = (one for one in exported if one["id"] == "s-boiler")
    assert [one["role"] for one in boiler["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert boiler["messages"][1]["calls"] == [{"name": "look", "arguments": '{"at": "narwhalword"}'}]
    assert len(boiler["messages"][2]["text"]) > 2000
    assert "苏州" in str(exported)

    target = tmp_path / "talks.md"
    run("sessions", "export", "s-boiler", "--markdown", "--output", str(target))
    text = target.read_text(encoding="utf-8")
    assert text.startswith("# Boiler\n")
    assert "**user**, 20" in text
    assert "axolotlword" in text
    assert "苏州" not in text
    assert target.stat().st_mode & 0o077 == 0
    assert "there already" in run("sessions", "export", "--output", str(target)).failed


@pytest.mark.parametrize("part", ["s-boil", "boiler"])
def test_a_conversation_is_shown_by_the_beginning_or_end_of_its_id(run: Run, part: str) -> None:
    shown = run("sessions", "show", part, "--json").json

    assert isinstance(shown, dict)
    assert shown["id"] == "s-boiler"


def test_a_part_of_an_id_that_is_short_or_anothers_finds_nothing(run: Run) -> None:
    assert "no conversation" in run("sessions", "show", "boil").failed
    assert "no conversation" in run("sessions", "show", "s-bo").failed


def test_a_list_as_json_has_numbers(run: Run) -> None:
    cards = run("sessions", "list", "--json").json

    assert isinstance(cards, list)
    assert {card["id"]: card["messages"] for card in cards}["s-den"] == 1


def test_ids_are_whole_in_a_narrow_terminal() -> None:
    shown = io.StringIO()
    identity = "20261130-abcdefghijkl"

    print_rows(("id", "title"), [(identity, "word " * 30)], as_json=False, out=Console(file=shown, width=40))

    assert identity in shown.getvalue()


def test_a_new_title_is_shown_and_found(run: Run) -> None:
    assert run("sessions", "rename", "s-trip", "Boiler", "--json").json == {
        "id": "s-trip",
        "title": "Boiler (2)",
    }
    run("sessions", "rename", "s-trip", "Zugspitze by bus")
    found = json.loads(run("sessions", "search", "zugspitze", "--json").output)
    assert [(row["id"], row["title"]) for row in found] == [("s-trip", "Zugspitze by bus")]


def test_a_search_that_found_only_some_of_the_words_says_so_beside_its_output(run: Run) -> None:
    relaxed = run("sessions", "search", "quetzalword zeppelin", "--json")
    whole = run("sessions", "search", "quetzalword drips", "--json")

    assert [[row["id"] for row in json.loads(one.output)] for one in (relaxed, whole)] == [["s-boiler"]] * 2
    assert relaxed.beside == "Not all of the words were found together.\n"
    assert whole.beside == ""


def test_statistics_count_what_the_person_may_see(run: Run) -> None:
    assert json.loads(run("sessions", "stats", "--json").output)["messages"] == 6
    assert json.loads(run("sessions", "stats", "--as", "bo", "--json").output)["sessions"] == 2
    assert "messages" in run("sessions", "stats").output


# The database


def test_a_sound_database_has_nothing_wrong(run: Run) -> None:
    found = json.loads(run("db", "check", "--json").output)

    assert {one["subject"]: one["fine"] for one in found} == {"file": True, "references": True, "index": True}


def test_a_broken_index_is_found_said_by_the_doctor_and_mended(home: Path, run: Run) -> None:
    with sqlite3.connect(home / "state.db") as broken:
        broken.execute("UPDATE message_fts_data SET block = zeroblob(40) WHERE id > 10")
    broken.close()

    assert "1 of 3 checks" in run("db", "check").failed
    assert "db reindex" in run("db", "check").output
    assert run("db", "reindex", "--json").json == {"indexed": 7}
    assert run("db", "check").failed == ""
    assert "s-boiler" in run("sessions", "search", "quetzalword", "--json").output


def test_an_index_that_lacks_messages_is_found(home: Path, run: Run) -> None:
    with sqlite3.connect(home / "state.db") as other:
        other.execute("DELETE FROM indexed_message WHERE rowid % 2 = 0")
        other.execute("INSERT INTO kv VALUES ('index.degraded', 'torn')")
    other.close()

    index = next(one for one in json.loads(run("db", "check", "--json").output) if one["subject"] == "index")
    assert not index["fine"]
    assert "messages are not in it" in index["sentence"]
    findings = json.loads(run("doctor", "--json").output)
    (database,) = (one for one in findings if one["subject"] == "database")
    assert not database["fine"]
    assert "trunkline db reindex" in database["sentence"]


def test_a_reference_that_leads_nowhere_is_found(home: Path, run: Run) -> None:
    with sqlite3.connect(home / "state.db") as other:
        other.execute("UPDATE message SET session_id = 999 WHERE content LIKE 'in the den%'")
    other.close()

    found = {one["subject"]: one for one in json.loads(run("db", "check", "--json").output)}
    assert not found["references"]["fine"]
    assert "message" in found["references"]["sentence"]


def test_a_file_that_is_no_database_is_a_sentence(home: Path, run: Run) -> None:
    (home / "state.db").write_bytes(b"not a database at all" * 500)

    assert "can't be read" in run("db", "check").output
    assert "can't be used" in run("db", "stats").failed


def test_a_backup_is_one_whole_file_of_its_owners(home: Path, run: Run, tmp_path: Path) -> None:
    made = json.loads(run("db", "backup", "--json").output)
    copy = Path(made["file"])

    assert copy.parent == home / "backups"
    assert copy.stat().st_mode & 0o077 == 0
    with Database.sqlite(copy) as database:
        count = database.read_now(lambda c: len(c.execute(select(message)).all()))
    assert count == 7
    assert "there already" in run("db", "backup", str(copy)).failed
    assert "can't be written" in run("db", "backup", str(tmp_path / "no" / "where.db")).failed


def test_a_backup_after_a_deletion_holds_nothing_of_it_and_those_before_end_as_the_page_says(
    home: Path, run: Run, tmp_path: Path
) -> None:
    before = Path(json.loads(run("db", "backup", "--json").output)["file"])
    assert traces(before.parent, before.name) == set(TRACES)

    run("sessions", "delete", "s-boiler", "--yes")
    run("db", "backup", str(tmp_path / "later.db"))

    assert traces(tmp_path, "later.db*") == set()
    made_s = before.stat().st_mtime
    assert backups.expire(home, made_s + backups.KEPT_DAYS * 86_400 - 60) == 0
    assert backups.expire(home, made_s + backups.KEPT_DAYS * 86_400 + 60) == 1
    assert not before.exists()
    page = Path(__file__).parents[2] / "docs/people.md"
    for told in (" ".join(page.read_text("utf-8").split()), say_to_people("deleted_me")):
        assert f"backups end within {backups.KEPT_DAYS} days" in told


def test_a_backup_runs_beside_a_writer(home: Path, run: Run, tmp_path: Path) -> None:
    with Database.sqlite(home / "state.db") as busy:
        busy.write_now(lambda c: say(c, 1, "while the copy is made"))
        run("db", "backup", str(tmp_path / "copy.db"))
        busy.write_now(lambda c: say(c, 1, "after it"))
    with Database.sqlite(tmp_path / "copy.db") as database:
        texts = database.read_now(lambda c: c.execute(select(message.c.content)).scalars().all())
    assert "while the copy is made" in texts
    assert "after it" not in texts


def test_a_backup_holds_no_word_of_a_private_conversation(home: Path, run: Run, tmp_path: Path) -> None:
    def begin(connection: Connection) -> None:
        number = add_session(connection, direct_stream(connection, 1), "s-private", private=True)
        say(connection, number, "UNUTTERABLE words")

    with Database.sqlite(home / "state.db") as database:
        database.write_now(begin)

    run("db", "backup", str(tmp_path / "copy.db"))

    left = [path.name for path in tmp_path.glob("copy.db*") if b"UNUTTERABLE" in path.read_bytes()]
    assert left == []


def test_the_size_and_the_journal_in_force_are_shown(run: Run) -> None:
    found = json.loads(run("db", "stats", "--json").output)

    assert found["journal_mode"] == "wal"
    assert found["rows"]["message"] == 7
    assert found["file_bytes"] > 0
    assert found["network_mount"] is None
    shown = run("db", "stats").output
    assert "journal mode" in shown
    assert "wal" in shown


# What closes a file that SQLite has open takes SQLite's locks away: others could then remove its log.
WATCHED = """
import json, os, sys
from pathlib import Path

home, opened = Path(sys.argv[1]), []

def watch(event, given):
    if event == "open" and isinstance(given[0], str | bytes | os.PathLike):
        path = Path(os.fsdecode(given[0]))
        if path.parent == home and path.name.startswith("state.db"):
            opened.append(path.name)

sys.addaudithook(watch)

from typer.testing import CliRunner
from trunkline.gateway import cli

for words in json.loads(sys.argv[2]):
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
seen = list(opened)
(home / "state.db").open("rb").close()
print(json.dumps([seen, opened]))
"""


def test_nothing_but_sqlite_opens_the_database(home: Path, tmp_path: Path) -> None:
    commands = [
        ["sessions", "list"],
        ["sessions", "search", "boiler"],
        ["sessions", "export", "--output", str(tmp_path / "talks.json")],
        ["sessions", "delete", "s-boiler", "--yes"],
        ["people", "list"],
        ["db", "check"],
        ["db", "backup"],
        ["db", "reindex"],
        ["db", "stats"],
    ]
    environment = {**os.environ, "TRUNKLINE_HOME": str(home), "DATABASE_URL": "", "OPENAI_API_KEY": ""}
    words = [sys.executable, "-c", WATCHED, str(home), json.dumps(commands)]

    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], ["state.db"]]


def test_without_a_database_there_is_nothing_to_look_at(tmp_path: Path, run: Run, home: Path) -> None:
    (home / "state.db").unlink()

    assert run("db", "check").failed.startswith("There is no database yet")
    assert not (home / "state.db").exists()
