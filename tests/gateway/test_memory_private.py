"""Private conversations: outside of everything while they last, and gone afterwards."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tests.gateway.memory_desk import ANA, Typing, typing
from tests.gateway.test_memory_forget import files_with, said
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed
from trunkline.agent.ports import SearchQuery
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.private_mode import KEPT_MS, end, erase_due
from trunkline.gateway.state import outbox, sessions, turns
from trunkline.gateway.state.inbox import Arrival, store
from trunkline.gateway.state.records import Session, SessionKey
from trunkline.gateway.state.schema import inbox, message, session
from trunkline.gateway.state.schema import outbox as outbox_table

WORD = "quetzalcoatl"
KEY, DISCORD = SessionKey("telegram", "bot", "100"), SessionKey("discord", "bot", "dm-200")


@pytest.fixture
async def desk(tmp_path: Path, database_url: str) -> AsyncIterator[Typing]:
    async with typing(tmp_path, database_url) as opened:
        yield opened


async def talk(desk: Typing) -> tuple[Session, int]:
    """A private conversation on Discord, its answer sent."""
    opened, turn = await desk.conversation(
        said("user", f"about {WORD}"), said("assistant", f"{WORD}, then."), private=True
    )
    await plan(desk, turn)
    await desk.house.database.write(lambda c: outbox.mark_sent(c, 1, "m1", payload(), now_ms()))
    return opened, turn


def payload() -> str:
    return f'{{"to":{{"chat":"dm-200"}},"chunk":{{"text":"{WORD}, then."}}}}'


async def plan(desk: Typing, turn: int) -> None:
    where = outbox.Plan(f"t:{turn}", "discord", "bot", "dm-200", "", turn)
    await desk.house.database.write(lambda c: outbox.plan(c, where, [payload()], now_ms()))


async def messages(desk: Typing) -> int:
    query = select(func.count()).select_from(message)
    return int(await desk.house.database.read(lambda c: c.execute(query).scalar_one()))


async def test_private_begins_a_session_of_its_own_in_place_of_the_open_one(desk: Typing) -> None:
    before, _ = await desk.conversation()
    account = await desk.account("ana", "discord")
    assert not before.private

    first = await desk.type("/private")
    again = await desk.type("/private")

    assert "24 hours" in first
    assert "already" in again
    found = await desk.house.database.read(lambda c: sessions.find_open(c, KEY))
    assert found is not None
    assert (found.private, found.prompt) == (True, "")
    assert account.person is not None


@pytest.mark.parametrize("typed", ["/private off", "/new"])
async def test_it_is_erased_when_the_person_ends_it_and_the_bot_says_so(desk: Typing, typed: str) -> None:
    await desk.type("/private")

    assert "erased" in await desk.type(typed)

    assert await desk.house.database.read(lambda c: sessions.find_open(c, KEY)) is None
    assert "isn't private" in await desk.type("/private off")
    assert "erased" not in await desk.type("/new")


async def test_nothing_of_it_is_found_listed_or_saved_while_it_lasts(desk: Typing) -> None:
    opened, turn = await talk(desk)

    assert not (await desk.house.search.search(ANA, SearchQuery(WORD))).hits
    assert await desk.house.search.browse(ANA, 10) == ()
    assert await desk.house.search.read(ANA, opened.public_id, 1000) is None
    for actor in ("tool", "review"):
        write = Operation("add", f"likes {WORD}")
        refused = await desk.model_writes(write, session=opened, turn=turn, actor=actor)
        assert isinstance(refused, Failed)
        assert "private" in refused.error
    assert (await desk.house.memory.read(ANA)).user == ()


async def test_the_clock_erases_it_after_a_day_and_the_person_is_told(desk: Typing) -> None:
    await talk(desk)
    assert await erase_due(desk.house.database, now_ms() + KEPT_MS - 60_000) == ()
    assert await messages(desk) == 2

    assert await erase_due(desk.house.database, now_ms() + KEPT_MS + 1000) == (DISCORD,)

    assert await messages(desk) == 0
    assert await desk.house.database.read(lambda c: sessions.find_open(c, DISCORD)) is None
    rows = await desk.house.database.read(
        lambda c: c.execute(select(outbox_table.c.payload).order_by(outbox_table.c.id)).scalars().all()
    )
    assert rows[0] == ""
    assert "erased" in load_outbound(rows[1]).chunk.text
    assert await erase_due(desk.house.database, now_ms() + 2 * KEPT_MS) == ()


async def test_one_that_ended_in_another_way_is_erased_and_the_person_told(desk: Typing) -> None:
    await talk(desk)
    await desk.house.database.write(lambda c: sessions.end(c, DISCORD, "resumed another", now_ms()))

    assert await erase_due(desk.house.database, now_ms()) == (DISCORD,)

    assert await messages(desk) == 0
    assert await erase_due(desk.house.database, now_ms()) == ()


async def test_an_answer_on_its_way_is_delivered_first_and_erased_then(desk: Typing) -> None:
    _, turn = await desk.conversation(said("user", WORD), private=True)
    await plan(desk, turn)
    assert await end(desk.house.database, DISCORD, "new")
    row = await desk.house.database.read(lambda c: c.execute(select(outbox_table)).one())
    assert WORD in row.payload

    await desk.house.database.write(lambda c: outbox.mark_sent(c, row.id, "m1", row.payload, now_ms()))
    assert await erase_due(desk.house.database, now_ms()) == ()
    row = await desk.house.database.read(lambda c: c.execute(select(outbox_table)).one())
    assert row.payload == ""


async def test_a_turn_that_runs_is_not_erased_under_its_own_feet(desk: Typing) -> None:
    opened, _ = await talk(desk)
    account = await desk.account("ana", "discord")
    running = await desk.house.database.write(
        lambda c: turns.begin(c, opened.id, opened.stream, account.id, "p", now_ms())
    )

    await erase_due(desk.house.database, now_ms() + 2 * KEPT_MS)
    assert await messages(desk) == 2

    await desk.house.database.write(lambda c: turns.end(c, running.key, "done", "", now_ms()))
    await erase_due(desk.house.database, now_ms() + 2 * KEPT_MS)
    assert await messages(desk) == 0


async def test_no_byte_of_it_is_left_in_any_file(tmp_path: Path, sqlite_url: str) -> None:
    async with typing(tmp_path, sqlite_url) as desk:
        await talk(desk)
        await desk.house.database.write(lambda c: sessions.end(c, DISCORD, "new", now_ms()))
        assert files_with(tmp_path, WORD)

        await erase_due(desk.house.database, now_ms())

        assert files_with(tmp_path, WORD) == []


async def test_the_ids_of_what_was_erased_are_given_to_nobody_else(desk: Typing) -> None:
    """The outbox names answers by their turn: another of that number would edit the old one's messages."""
    _, turn = await talk(desk)
    await desk.house.database.write(lambda c: sessions.end(c, DISCORD, "new", now_ms()))
    await erase_due(desk.house.database, now_ms())

    opened, later = await desk.conversation()

    assert later > turn
    rows = await desk.house.database.read(lambda c: c.execute(select(session.c.public_id)).scalars().all())
    assert len(rows) == len(set(rows)) == 2
    assert opened.public_id in rows
    assert await desk.house.database.read(lambda c: c.execute(select(inbox)).all()) == []


@pytest.mark.parametrize("state", ["done", "failed", "dead", "noted"])
async def test_what_was_set_aside_unanswered_keeps_no_words_either(desk: Typing, state: str) -> None:
    """Too old, unpaid, or not readable: such a message never became a turn of the session."""
    opened, _ = await talk(desk)
    account = await desk.account("ana", "discord")
    rows = [
        Arrival(DISCORD, f"k{place}", account.id, "message", f"about {WORD}", now_ms(), kind)
        for place, kind in enumerate((state, "received"))
    ]
    for row in rows:
        await desk.house.database.write(lambda c: store(c, row, now_ms()))  # noqa: B023

    await end(desk.house.database, opened.key, "private off")

    query = select(inbox.c.state, inbox.c.payload).where(inbox.c.key.startswith("k")).order_by(inbox.c.id)
    left = await desk.house.database.read(lambda c: c.execute(query).all())
    assert [tuple(row) for row in left] == [(state, ""), ("received", f"about {WORD}")]
