"""The outbox: what is planned is a row before it is sent, and a restart neither loses nor repeats it."""

import pytest
from sqlalchemy import Connection, select, update

from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.outbox import NONCE_HOLDS_MS, Plan
from trunkline.gateway.state.records import OutboxRow
from trunkline.gateway.state.schema import outbox as outbox_table

NOW = 1_800_000_000_000
WHERE = Plan("t:1", "discord", "bot", "900", "")


async def plan(database: Database, *texts: str, where: Plan = WHERE, **more: object) -> None:
    await database.write(lambda c: outbox.plan(c, where, texts, NOW, **more))  # type: ignore[arg-type]


async def rows(database: Database) -> list[tuple[str, str, str | None]]:
    query = select(outbox_table).order_by(outbox_table.c.seq)
    found = await database.read(lambda c: list(c.execute(query)))
    return [(row.payload, row.state, row.message_id) for row in found]


async def preview(database: Database, seq: int, text: str, message_id: str | None) -> OutboxRow:
    def work(connection: Connection) -> OutboxRow:
        row = outbox.begin_preview(connection, WHERE, seq, text, NOW)
        if message_id is not None:
            outbox.mark_sent(connection, row.id, message_id, text, NOW)
        return row

    return await database.write(work)


async def due(database: Database, at: int = NOW) -> tuple[str, int | None] | None:
    found = await database.read(lambda c: outbox.due(c, "discord", "bot", "900", at))
    return None if found is None else (found[0].payload, found[1])


async def test_messages_go_out_in_the_order_they_were_planned(database: Database) -> None:
    await plan(database, "a", "b")
    await plan(database, "c", where=Plan("t:2", "discord", "bot", "900", ""))
    sent = []
    while (found := await database.read(lambda c: outbox.due(c, "discord", "bot", "900", NOW))) is not None:
        sent.append(found[0].payload)
        await database.write(lambda c, r=found[0]: outbox.mark_sent(c, r.id, "1", r.payload, NOW))  # type: ignore[misc]

    assert sent == ["a", "b", "c"]


async def test_a_message_that_waits_holds_those_behind_it_back(database: Database) -> None:
    await plan(database, "a", "b")
    found = await database.read(lambda c: outbox.due(c, "discord", "bot", "900", NOW))
    assert found is not None
    await database.write(lambda c: outbox.put_off(c, found[0].id, NOW + 5000, "wait"))

    assert await due(database) == ("a", 5000)
    assert await due(database, NOW + 5000) == ("a", None)


async def test_the_final_text_takes_over_the_messages_of_the_preview(database: Database) -> None:
    await preview(database, 0, "half", "10")

    await plan(database, "whole", "and more")

    assert await rows(database) == [("whole", "planned", "10"), ("and more", "planned", None)]


async def test_a_preview_that_shows_the_final_text_needs_no_call(database: Database) -> None:
    await preview(database, 0, "whole", "10")

    await plan(database, "whole", shown={0: "whole"})

    assert await rows(database) == [("whole", "sent", "10")]


async def test_a_preview_message_that_the_answer_has_no_use_for_is_deleted(database: Database) -> None:
    await preview(database, 0, "half", "10")
    await preview(database, 1, "a link half written", "11")

    await plan(database, "whole", surplus="…")

    assert await rows(database) == [("whole", "planned", "10"), ("…", "planned", "11")]
    kinds = await database.read(lambda c: list(c.execute(select(outbox_table.c.kind)).scalars()))
    assert kinds == ["text", "delete"]


@pytest.mark.parametrize(
    ("final", "repeats_safely", "state"),
    [("same", False, "unknown"), ("same", True, "planned"), ("another", False, "planned")],
)
async def test_a_preview_that_may_have_arrived_is_not_sent_again_with_the_same_text(
    database: Database, final: str, repeats_safely: bool, state: str
) -> None:
    row = await preview(database, 0, "same", None)
    await database.write(lambda c: outbox.mark_ended(c, row.id, "unknown", "no answer"))

    await plan(database, final, repeats_safely=repeats_safely)

    assert await rows(database) == [(final, state, None)]


@pytest.mark.parametrize(
    ("repeats_safely", "age_ms", "state"),
    [(False, 0, "unknown"), (True, 1000, "planned"), (True, NONCE_HOLDS_MS, "unknown")],
)
async def test_what_was_being_sent_at_a_crash_is_repeated_only_while_the_platform_refuses_doubles(
    database: Database, repeats_safely: bool, age_ms: int, state: str
) -> None:
    await plan(database, "a")
    await database.write(lambda c: c.execute(update(outbox_table).values(state="sending")))

    await database.write(
        lambda c: outbox.take_back(c, "discord", repeats_safely=repeats_safely, now_ms=NOW + age_ms)
    )

    assert await rows(database) == [("a", state, None)]


async def test_an_edit_that_a_crash_cut_off_is_made_again(database: Database) -> None:
    await preview(database, 0, "half", "10")
    await plan(database, "whole")
    await database.write(lambda c: c.execute(update(outbox_table).values(state="sending")))

    await database.write(lambda c: outbox.take_back(c, "discord", repeats_safely=False, now_ms=NOW))

    assert await rows(database) == [("whole", "planned", "10")]


async def test_a_preview_that_a_crash_cut_off_is_known_to_the_resumed_turn(database: Database) -> None:
    await preview(database, 0, "half", None)

    await database.write(lambda c: outbox.take_back(c, "discord", repeats_safely=True, now_ms=NOW))

    assert await rows(database) == [("half", "unknown", None)]


async def test_a_held_chat_waits_in_all_of_its_messages_and_no_other_chat_does(database: Database) -> None:
    await plan(database, "a", "b")
    await plan(database, "c", where=Plan("t:2", "discord", "bot", "901", ""))
    found = await database.read(lambda c: outbox.due(c, "discord", "bot", "900", NOW))
    assert found is not None
    await database.write(lambda c: outbox.hold_chat(c, found[0], NOW + 9000))
    await database.write(lambda c: outbox.hold_chat(c, found[0], NOW + 1000))

    query = select(outbox_table.c.payload, outbox_table.c.not_before_ms)
    waits = await database.read(lambda c: {row.payload: row.not_before_ms for row in c.execute(query)})
    assert waits == {"a": NOW + 9000, "b": NOW + 9000, "c": 0}


async def test_a_closed_thread_ends_its_own_messages_only(database: Database) -> None:
    await plan(database, "a", "b", where=Plan("t:1", "discord", "bot", "900", "7"))
    await plan(database, "c", where=Plan("t:2", "discord", "bot", "900", "8"))
    found = await database.read(lambda c: outbox.due(c, "discord", "bot", "900", NOW))
    assert found is not None

    await database.write(lambda c: outbox.refuse_chat(c, found[0], "archived"))

    assert await due(database) == ("c", None)


async def test_a_terminal_sees_its_own_conversation_only(database: Database) -> None:
    await plan(database, "a", where=Plan("t:1", "terminal", "local", "ana", "work"))

    def chats(connection: Connection, thread: str) -> tuple[str, ...]:
        return outbox.waiting_chats(connection, "terminal", "local", thread)

    assert await database.read(lambda c: chats(c, "home")) == ()
    assert await database.read(lambda c: chats(c, "work")) == ("ana",)
    assert await database.read(lambda c: outbox.due(c, "terminal", "local", "ana", NOW, "home")) is None


async def test_a_preview_knows_of_an_answer_that_goes_before_it(database: Database) -> None:
    async def is_before(where: Plan) -> bool:
        return await database.read(lambda c: outbox.is_before(c, where))

    await plan(database, "a")
    beside = Plan("t:2", "discord", "bot", "900", "7")
    assert await is_before(Plan("t:2", "discord", "bot", "900", ""))
    assert not await is_before(WHERE)
    assert not await is_before(beside)

    await database.write(lambda c: c.execute(update(outbox_table).values(state="sent", message_id="1")))
    assert not await is_before(Plan("t:2", "discord", "bot", "900", ""))


async def test_how_long_a_message_can_be_sent_again_is_the_platforms_to_say(database: Database) -> None:
    await plan(database, "a")
    await database.write(lambda c: c.execute(update(outbox_table).values(state="sending")))

    later_ms = NOW + NONCE_HOLDS_MS + 1
    await database.write(
        lambda c: outbox.take_back(
            c, "discord", repeats_safely=True, now_ms=later_ms, repeatable_ms=outbox.FINDABLE_MS
        )
    )

    assert await rows(database) == [("a", "planned", None)]
