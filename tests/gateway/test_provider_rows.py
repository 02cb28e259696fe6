"""The rows for memory providers and Holographic's facts, on both databases."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, select

from trunkline.agent.ports import JournalEntry
from trunkline.agent.providers.facts import FactsUnavailable, NewFact
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope
from trunkline.gateway.facts_kept import FactBelongings
from trunkline.gateway.state import provider_rows, provider_view
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts
from trunkline.gateway.state.provider_payloads import OutboxRow, ToForget, TurnSaid, Written
from trunkline.gateway.state.schema import fact_term, provider_mirror, provider_outbox

ANA, BO, DEN = "person:ana", "person:bo", "room:den"
TEA, COFFEE = "User drinks jasmine tea.", "User drinks black coffee."
WHEN = datetime(2026, 11, 30, tzinfo=UTC)


def said(key: str, text: str = "hello") -> TurnSaid:
    return TurnSaid(key, "s-1", "telegram", "ana", text, "I see.", WHEN)


def entry(before: tuple[str, ...], after: tuple[str, ...]) -> JournalEntry:
    return JournalEntry("user", "edit", before, after)


def take(connection: Connection, now_ms: int = 1000, provider: str = "one") -> list[OutboxRow]:
    return provider_rows.take(connection, provider, now_ms, 500, 10)


def take_one(connection: Connection, now_ms: int = 1000) -> OutboxRow:
    (row,) = take(connection, now_ms)
    return row


@pytest.fixture
def rows(database: Database) -> Database:
    database.write_now(lambda c: provider_rows.set_active(c, ["one", "two"]))
    return database


def test_nothing_is_written_where_there_is_no_provider(database: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.keep_turn(connection, ANA, 0, said("k"), 1)
        provider_rows.mirror(connection, ANA, entry((), (TEA,)), "w", 1)
        provider_rows.forget_fact(connection, ANA, [TEA], [], 1)
        assert connection.execute(select(provider_outbox)).all() == []

    database.write_now(work)


def test_each_owners_rows_go_in_order_and_owners_beside_each_other(rows: Database) -> None:
    def work(connection: Connection) -> None:
        for key, owner in (("a1", ANA), ("a2", ANA), ("b1", BO), ("a1", ANA)):
            provider_rows.keep_turn(connection, owner, 0, said(key), 1)
        first = take(connection)
        assert [row.payload.key for row in first if isinstance(row.payload, TurnSaid)] == ["a1", "b1"]
        assert take(connection) == []  # leased
        assert len(take(connection, 1600)) == 2  # their lease has ended
        provider_rows.finish(connection, first[0], "", "", 2)
        provider_rows.retry(connection, first[1], "busy", 9000)
        (left,) = take(connection, 1000)
        assert left.payload == said("a2")
        assert [row.attempts for row in take(connection, 9000) if row.owner == BO] == [3]
        assert {row.provider for row in take(connection, 1000, "two")} == {"two"}

    rows.write_now(work)


def test_a_rooms_row_remembers_who_asked(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.keep_turn(connection, DEN, 7, said("k"), 1)
        assert take_one(connection).scope == RoomScope(RoomId("den"), AccountId(7))

    rows.write_now(work)


def test_a_mirrored_entry_is_known_by_its_id_and_forgotten_with_it(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.mirror(connection, ANA, entry((), (TEA,)), "w1", 1)
        row = take_one(connection)
        assert isinstance(row.payload, Written)
        provider_rows.finish(connection, row, "remote-1", "", 2)
        provider_rows.mirror(connection, ANA, entry((TEA,), (COFFEE,)), "w2", 3)
        changed = take_one(connection)
        assert isinstance(changed.payload, Written)
        assert changed.payload.action == "replace"
        assert provider_rows.remote_ids(connection, changed, [changed.payload.before_hash]) == ("remote-1",)
        assert provider_view.withheld(connection, ANA) == (TEA,)
        provider_rows.finish(connection, changed, "remote-2", "", 4)
        kept = connection.execute(select(provider_mirror.c.provider, provider_mirror.c.remote_id)).all()
        assert ("one", "remote-2") in [tuple(row) for row in kept]
        assert ("one", "remote-1") not in [tuple(row) for row in kept]
        assert provider_view.mirrored(connection) == {"one": 1}

    rows.write_now(work)


def test_only_what_a_mirror_lacks_or_has_too_much_is_reconciled(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.reconcile(connection, ANA, [("user", TEA)], "r1", 1)
        row = take_one(connection)
        provider_rows.finish(connection, row, "remote-1", "", 2)
        provider_rows.reconcile(connection, ANA, [("user", TEA)], "r2", 3)
        assert take(connection) == []
        provider_rows.reconcile(connection, ANA, [("user", COFFEE)], "r3", 4)
        provider_rows.reconcile(connection, ANA, [("user", COFFEE)], "r4", 5)
        actions = []
        while found := take(connection):
            assert isinstance(found[0].payload, Written)
            actions.append((found[0].payload.action, found[0].payload.after))
            provider_rows.finish(connection, found[0], "remote-2", "", 6)
        assert actions == [("add", COFFEE), ("remove", "")]

    rows.write_now(work)


def test_what_waits_and_states_a_forgotten_fact_is_never_sent(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.keep_turn(connection, ANA, 0, said("k1", f"Remember: {TEA}"), 1)
        provider_rows.keep_turn(connection, ANA, 0, said("k2", "another matter"), 1)
        provider_rows.mirror(connection, ANA, entry((), (TEA,)), "w1", 1)
        under_way = take_one(connection)
        provider_rows.forget_fact(connection, ANA, [TEA], [], 2)
        assert provider_view.withheld(connection, ANA) == (TEA,)
        assert provider_view.erasing(connection, [ANA], 2).waiting == ("one", "two")
        provider_rows.retry(connection, under_way, "busy", 0)  # it states the fact, and goes
        left = take_one(connection)
        assert left.payload == said("k2", "another matter")
        provider_rows.finish(connection, left, "", "", 3)
        forget = take_one(connection)
        assert isinstance(forget.payload, ToForget)
        provider_rows.finish(connection, forget, "", "it keeps a copy", 4)
        erasing = provider_view.erasing(connection, [ANA], 2)
        assert (erasing.waiting, dict(erasing.left)) == (("two",), {"one": "it keeps a copy"})

    rows.write_now(work)


def test_of_everything_only_the_erasing_itself_waits(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.keep_turn(connection, ANA, 0, said("k1"), 1)
        provider_rows.keep_turn(connection, BO, 0, said("k2"), 1)
        provider_rows.forget_all(connection, ANA, provider_rows.holders(connection, ANA), 2)
        assert provider_view.is_forgetting_all(connection, ANA)
        assert not provider_view.is_forgetting_all(connection, BO)
        assert {row.owner: type(row.payload) for row in take(connection)} == {ANA: ToForget, BO: TurnSaid}

    rows.write_now(work)


def test_too_many_waiting_turns_push_the_oldest_out(rows: Database) -> None:
    def work(connection: Connection) -> None:
        provider_rows.mirror(connection, ANA, entry((), (TEA,)), "w1", 1)
        for number in range(4):
            provider_rows.keep_turn(connection, BO, 0, said(f"k{number}"), 1, most=3)
        kept = connection.execute(select(provider_outbox.c.key).where(provider_outbox.c.provider == "one"))
        assert sorted(kept.scalars()) == ["m:w1-0", "t:k2", "t:k3"]

    rows.write_now(work)


async def test_facts_stay_within_their_scope(database: Database) -> None:
    facts = StoreFacts(database)
    ana, bo = PersonScope(PersonId("ana")), PersonScope(PersonId("bo"))
    new = NewFact("k", TEA, "general", "tool", 0.5, ("tea", "jasmin"), ("marta",))
    mine = await facts.put(ana, new)
    his = await facts.put(bo, new)
    assert mine.id != his.id

    assert [one.fact.id for one in await facts.find(ana, ["tea", "milk"], 5)] == [mine.id]
    assert [one.id for one in await facts.about(bo, "marta", 5)] == [his.id]
    assert await facts.get(ana, his.id) is None
    assert await facts.rate(ana, his.id, 1.0, helpful=True) is None
    assert await facts.term_counts(ana, ["tea", "milk"]) == {"tea": 1}
    assert await facts.remove(ana, [his.id]) == 0
    assert (await facts.put(ana, NewFact("k", COFFEE, "general", "tool", 0.9, ("coffe",), ()))).trust == 0.5
    assert await facts.find(ana, ["tea"], 5) == ()
    assert await facts.remove_all(ana) == 1
    assert (await facts.count(ana), await facts.count(bo)) == (0, 1)
    assert await facts.remove(bo, [his.id]) == 1
    assert await database.read(lambda c: c.execute(select(fact_term)).all()) == []


async def test_a_database_that_is_gone_is_said_so(sqlite_database: Database) -> None:
    sqlite_database.write_now(lambda c: c.exec_driver_sql("DROP TABLE fact_term"))

    with pytest.raises(FactsUnavailable):
        await StoreFacts(sqlite_database).find(PersonScope(PersonId("ana")), ["tea"], 5)


async def test_a_persons_copy_holds_their_facts_and_nobody_elses(sqlite_database: Database) -> None:
    facts = StoreFacts(sqlite_database)
    ana, bo = PersonScope(PersonId("ana")), PersonScope(PersonId("bo"))
    await facts.put(ana, NewFact("k", TEA, "general", "tool", 0.5, ("tea",), ()))
    kept = FactBelongings(facts)

    assert TEA.encode() in (await kept.export(ana.person))["facts.json"]
    assert await kept.export(bo.person) == {}
    await kept.erase(ana.person)
    assert await kept.export(ana.person) == {}
