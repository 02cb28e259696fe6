"""The inbox: each message once, in order, in the hands of one process, set aside when it does harm."""

import asyncio

import pytest
from sqlalchemy import Connection, event, select

from trunkline.agent.scope import AccountId
from trunkline.gateway.state import inbox, people, sessions, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import InboxRow, SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table

NOW = 1_800_000_000_000
KEY = SessionKey("telegram", "bot", "-900")


def account(connection: Connection, user: str) -> AccountId:
    return people.ensure_account(connection, "telegram", "", user, label=user, now_ms=NOW).id


def put(connection: Connection, name: str, user: str = "1", kind: str = "message", **more: str) -> int:
    key = SessionKey("telegram", "bot", "-900", more.get("thread", ""))
    arrival = Arrival(key, f"m:-900:{name}:0", account(connection, user), kind, f'"{name}"', NOW)
    return inbox.store(connection, arrival, NOW)


def take(connection: Connection, owner: str = "me") -> list[str]:
    return [row.payload.strip('"') for row in inbox.lease(connection, KEY, owner, NOW)]


async def fill(database: Database, *named: tuple[str, str, str]) -> None:
    await database.write(lambda c: [put(c, name, user, kind) for name, user, kind in named])


async def test_messages_of_one_author_become_one_batch_and_another_author_ends_it(database: Database) -> None:
    await fill(database, ("a", "1", "message"), ("b", "1", "message"), ("c", "2", "message"))

    assert await database.write(take) == ["a", "b"]
    assert await database.write(take) == ["c"]
    assert await database.write(take) == []


def test_a_message_is_known_among_a_hundred_thousand_by_one_look_into_an_index(
    sqlite_database: Database,
) -> None:
    def work(connection: Connection) -> list[str]:
        same = {"platform": "telegram", "tenant": "bot", "chat": "-900", "kind": "message", "state": "done"}
        same |= {"account_id": account(connection, "1"), "payload": "", "sent_ms": NOW, "received_ms": NOW}
        rows = [{**same, "key": f"m:-900:{n}:0"} for n in range(100_000)]
        connection.execute(inbox_table.insert(), rows)
        asked: list[str] = []
        event.listen(connection, "before_cursor_execute", lambda *call: asked.append(call[2]))
        assert inbox.is_known(connection, "telegram", "bot", "m:-900:99999:0")
        assert not inbox.is_known(connection, "telegram", "bot", "m:-900:100000:0")
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked[0]}", ("telegram", "bot", "m"))
        return [row[-1] for row in plan]

    (step,) = sqlite_database.write_now(work)
    assert step.startswith("SEARCH inbox USING")
    assert step.endswith("(platform=? AND tenant=? AND key=?)")


async def test_a_command_between_messages_splits_them_and_is_taken_alone(database: Database) -> None:
    await fill(database, ("a", "1", "message"), ("new", "1", "command"), ("b", "1", "message"))

    assert [await database.write(take) for _ in range(3)] == [["a"], ["new"], ["b"]]


async def test_a_batch_is_bounded_and_loses_nothing(database: Database) -> None:
    names = [str(number) for number in range(2 * inbox.BATCH_ROWS + 1)]
    await database.write(lambda c: [put(c, name) for name in names])

    taken = [await database.write(take) for _ in range(3)]

    assert [name for batch in taken for name in batch] == names
    assert max(map(len, taken)) == inbox.BATCH_ROWS


async def test_a_row_is_leased_once_however_many_ask_at_the_same_time(database: Database) -> None:
    await fill(database, ("a", "1", "message"))

    taken = await asyncio.gather(*(database.write(lambda c, n=n: take(c, f"p{n}")) for n in range(8)))  # type: ignore[misc]

    assert sorted(taken) == [[]] * 7 + [["a"]]


async def test_a_control_row_that_is_leased_by_its_id_is_nobody_elses(database: Database) -> None:
    row_id = await database.write(lambda c: put(c, "stop", kind="command"))

    first = await database.write(lambda c: inbox.lease_one(c, row_id, "me", NOW))
    second = await database.write(lambda c: inbox.lease_one(c, row_id, "me", NOW))

    assert first is not None
    assert second is None
    assert await database.write(take) == []


async def test_rows_of_dead_processes_wait_again_and_our_own_are_left_alone(database: Database) -> None:
    await fill(database, ("a", "1", "message"), ("b", "2", "message"))
    await database.write(lambda c: take(c, "dead"))
    await database.write(lambda c: take(c, "me"))

    await database.write(lambda c: inbox.take_back(c, "telegram", "me"))

    assert await database.write(take) == ["a"]


async def test_only_the_own_conversation_of_a_terminal_is_taken_back_and_swept(database: Database) -> None:
    await database.write(lambda c: [put(c, "a", thread="work"), put(c, "b", thread="home")])
    for thread in ("work", "home"):
        key = SessionKey("telegram", "bot", "-900", thread)
        await database.write(lambda c, k=key: inbox.lease(c, k, "dead", NOW))  # type: ignore[misc]

    await database.write(lambda c: inbox.take_back(c, "telegram", "me", "work"))

    assert await database.read(lambda c: inbox.waiting_keys(c, "telegram", "bot", "home")) == ()
    (waiting,) = await database.read(lambda c: inbox.waiting_keys(c, "telegram", "bot"))
    assert waiting.thread == "work"


async def lease_all(database: Database) -> tuple[InboxRow, ...]:
    return await database.write(lambda c: inbox.lease(c, KEY, "me", NOW))


async def test_three_failures_are_poison_and_two_are_not(database: Database) -> None:
    await fill(database, ("a", "1", "message"))
    judged = []
    for _ in range(4):
        (row,) = await lease_all(database)
        judged.append(inbox.is_poison(row))
        await database.write(lambda c, r=row.id: inbox.release(c, [r]))  # type: ignore[misc]

    assert judged == [False, False, False, True]


async def test_a_row_outlives_more_deaths_of_the_process_than_failures_but_not_any_number(
    database: Database,
) -> None:
    await fill(database, ("a", "1", "message"))
    judged = []
    for death in range(10):
        (row,) = await database.write(lambda c, n=death: inbox.lease(c, KEY, f"p{n}", NOW))  # type: ignore[misc]
        judged.append(inbox.is_poison(row))
        await database.write(lambda c: inbox.take_back(c, "telegram", "next"))

    assert judged == [False] * 9 + [True]


async def test_a_message_that_failed_is_taken_alone_so_that_no_other_is_set_aside_with_it(
    database: Database,
) -> None:
    await fill(database, ("bad", "1", "message"), ("good", "1", "message"))
    rows = await lease_all(database)
    await database.write(lambda c: inbox.release(c, [row.id for row in rows]))

    assert [await database.write(take) for _ in range(2)] == [["bad"], ["good"]]


async def test_rows_of_an_interrupted_turn_are_taken_together_before_new_ones_and_other_places(
    database: Database,
) -> None:
    await database.write(lambda c: put(c, "older", thread="home"))
    await fill(database, ("a", "1", "message"), ("b", "1", "message"))
    rows = await lease_all(database)

    def begin(connection: Connection) -> None:
        who = account(connection, "1")
        stream = people.stream_of(connection, account_id=who, room_id=None)
        session = sessions.start(connection, KEY, stream, prompt="", snapshot="", model="", now_ms=NOW)
        turn = turns.begin(connection, session.id, stream, who, "dead", NOW)
        inbox.attach_turn(connection, [row.id for row in rows], turn.key.turn)
        inbox.take_back(connection, "telegram", "next")

    await database.write(begin)
    await fill(database, ("c", "1", "message"))

    waiting = await database.read(lambda c: inbox.waiting_keys(c, "telegram", "bot"))
    assert [key.thread for key in waiting] == ["", "home"]
    assert [await database.write(take) for _ in range(2)] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(("kind", "changed"), [("message", True), ("command", False)])
async def test_an_edit_changes_a_message_that_waits_and_no_command(
    database: Database, kind: str, changed: bool
) -> None:
    await fill(database, ("7", "1", kind))

    done = await database.write(lambda c: inbox.amend_waiting(c, "telegram", "bot", "m:-900:7", '"new"'))

    assert done is changed
    assert await database.write(take) == (["new"] if changed else ["7"])


async def test_an_edit_of_another_message_with_a_like_number_changes_nothing(database: Database) -> None:
    await fill(database, ("77", "1", "message"))

    assert not await database.write(lambda c: inbox.amend_waiting(c, "telegram", "bot", "m:-900:7", '"new"'))


async def test_what_was_said_goes_from_the_inbox_when_it_is_done_and_stays_when_it_is_dead(
    database: Database,
) -> None:
    ids = await database.write(lambda c: [put(c, "a"), put(c, "b")])
    await database.write(lambda c: inbox.finish(c, ids[:1], "done", "", NOW))
    await database.write(lambda c: inbox.finish(c, ids[1:], "dead", "", NOW))

    query = select(inbox_table.c.payload).order_by(inbox_table.c.id)
    assert await database.read(lambda c: list(c.execute(query).scalars())) == ["", '"b"']
