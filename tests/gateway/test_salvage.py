"""A damaged database: what can be read is saved, and nothing is answered again."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from tests.gateway.rows import add_person, direct_stream
from tests.migrated import put_migrated
from trunkline.agent.ports import SearchQuery
from trunkline.agent.scope import AccountId, PersonId, PersonScope
from trunkline.gateway.state import checks, kv, sessions, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.ready import Damaged, make_ready
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.salvage import SALVAGED_AT, Hopeless, Salvaged, salvage, take_place
from trunkline.gateway.state.schema import inbox
from trunkline.gateway.state.search import search

MESSAGES = 400
PAGE_BYTES = 4096


@pytest.fixture
def state(tmp_path: Path) -> Path:
    file = tmp_path / "state.db"
    put_migrated(file)
    with Database.sqlite(file) as database:
        database.write_now(fill)
    return file


def fill(connection: Connection) -> None:
    account = add_person(connection, "ana")
    stream = direct_stream(connection, account)
    key = SessionKey("telegram", "bot", "one")
    session = sessions.start(connection, key, stream, prompt="Be kind.", snapshot="", model="m", now_ms=1).id
    row = turns.begin(connection, session, stream, AccountId(account), "bench", 1)
    for n in range(MESSAGES):
        text = f"zebra number {n} {'filling ' * 30}"
        add_message(connection, NewMessage(session, "user", text, n, account, row.key.turn))
    common = {"platform": "telegram", "tenant": "9", "chat": "1", "thread": "", "account_id": account}
    common |= {"kind": "message", "payload": "x" * 200, "turn_id": row.key.turn}
    connection.execute(
        inbox.insert(),
        [
            {**common, "key": f"m:1:{n}:0"}
            | {"state": "done" if n else "leased", "sent_ms": n, "received_ms": n}
            for n in range(MESSAGES)
        ],
    )


def leaves(file: Path, name: str) -> list[int]:
    with sqlite3.connect(file) as opened:
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno"
        return [row[0] for row in opened.execute(query, (name,))]


def spoil(file: Path, *pages: int) -> None:
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * PAGE_BYTES)
            opened.write(b"\xa5" * PAGE_BYTES)


def saved(file: Path) -> Salvaged:
    """What is saved of a file that no start can work with; afterwards one can."""
    with Database.sqlite(file) as database, pytest.raises(Damaged):
        asyncio.run(make_ready(database))
    salvaged = salvage(file, file.parent / "backups" / "state-damaged-1.db", 77)
    with Database.sqlite(file) as database:
        asyncio.run(make_ready(database))
        assert [one.sentence for one in checks.check(database) if not one.fine] == []
    return salvaged


def count(file: Path, table: str, where: str = "1") -> int:
    with Database.sqlite(file) as database:
        query = text(f"SELECT count(*) FROM {table} WHERE {where}")
        return int(database.read_now(lambda c: c.execute(query).scalar_one()))


def test_of_a_table_with_broken_pages_all_other_rows_are_saved_and_found(state: Path) -> None:
    pages = leaves(state, "message")
    spoil(state, pages[2], pages[5], pages[6])

    salvaged = saved(state)

    kept = count(state, "message")
    assert salvaged.holes == ("message",)
    assert MESSAGES - 3 * 20 < kept < MESSAGES
    scope, query = PersonScope(PersonId("ana")), SearchQuery("zebra 399")
    with Database.sqlite(state) as database:
        found = database.read_now(lambda c: search(c, scope, query))
        assert found.hits
        assert not found.degraded
    assert count(state, "inbox") == MESSAGES


def test_nothing_is_lost_with_a_broken_index_and_what_was_under_way_goes_on(state: Path) -> None:
    spoil(state, *leaves(state, "sqlite_autoindex_inbox_1")[:2])

    salvaged = saved(state)

    assert salvaged.holes == ()
    assert (count(state, "inbox"), count(state, "message")) == (MESSAGES, MESSAGES)
    assert count(state, "inbox", "state = 'leased'") == 1
    with Database.sqlite(state) as database:
        assert database.read_now(lambda c: kv.get_value(c, SALVAGED_AT)) is None


def test_with_a_hole_in_what_was_answered_nothing_under_way_goes_on(state: Path) -> None:
    spoil(state, leaves(state, "inbox")[3])

    salvaged = saved(state)

    assert salvaged.forgot_answers
    assert count(state, "inbox", "state = 'failed' AND payload <> ''") == 1
    assert count(state, "inbox", "state = 'leased'") == 0
    with Database.sqlite(state) as database:
        assert database.read_now(lambda c: kv.get_value(c, SALVAGED_AT)) == "77"


def test_rows_whose_conversation_is_lost_go_too_so_that_every_reference_leads_somewhere(
    state: Path,
) -> None:
    spoil(state, *leaves(state, "session"))

    salvaged = saved(state)

    assert {"session", "message"} <= set(salvaged.holes)
    assert count(state, "message") == 0
    assert count(state, "inbox") == MESSAGES


def test_messages_outlive_the_turns_and_prompts_that_are_lost(state: Path) -> None:
    spoil(state, *leaves(state, "turn"), *leaves(state, "system_prompt"))

    salvaged = saved(state)

    assert {"turn", "system_prompt", "message", "session", "inbox"} <= set(salvaged.holes)
    assert (count(state, "message"), count(state, "inbox")) == (MESSAGES, MESSAGES)


def test_a_file_cut_off_at_its_end_is_saved_as_far_as_it_goes(state: Path) -> None:
    leaves(state, "message")
    with state.open("r+b") as opened:
        opened.truncate(state.stat().st_size * 3 // 4 // PAGE_BYTES * PAGE_BYTES)

    salvaged = saved(state)

    assert salvaged.rows > 0
    assert salvaged.holes


@pytest.mark.parametrize("first_bytes", [b"", b"\0" * 8192])
def test_a_file_of_which_nobody_can_be_read_is_left_as_it_is(state: Path, first_bytes: bytes) -> None:
    leaves(state, "message")
    if first_bytes:
        state.write_bytes(first_bytes + state.read_bytes()[len(first_bytes) :])
    else:
        spoil(state, *leaves(state, "person"))
    before = state.read_bytes()

    with pytest.raises(Hopeless):
        salvage(state, state.parent / "backups" / "state-damaged-1.db", 77)

    assert state.read_bytes() == before
    assert list((state.parent / "backups").iterdir()) == []


def test_a_death_before_the_new_file_took_its_place_is_made_good(state: Path, tmp_path: Path) -> None:
    whole = tmp_path / ".state.db.salvaged"
    put_migrated(whole)
    (tmp_path / "state.db-wal").write_bytes(b"of the damaged one")

    take_place(state)
    take_place(state)

    assert not whole.exists()
    assert not (tmp_path / "state.db-wal").exists()
    assert count(state, "message") == 0
