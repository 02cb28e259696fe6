"""Messages that were set aside: listed without their text, tried again by one word, dropped by another."""

import json

from sqlalchemy import Connection, select, text
from typer.testing import CliRunner

from tests.emulators.openai import Reply
from tests.gateway.small_house import SmallHouse
from trunkline.gateway import cli
from trunkline.gateway.state.schema import inbox, message

POISON = "poison"


async def set_one_aside(house: SmallHouse) -> int:
    """A message that fails three times, and why it did is mended afterwards; returns its row."""
    trigger = (
        "CREATE TRIGGER harmful BEFORE INSERT ON message WHEN NEW.role = 'assistant' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    await house.database.write(lambda c: c.execute(text(trigger)))
    house.model.responder = lambda body: Reply("An answer.")
    async with house.running():
        await house.say(POISON)
        await house.shows("made me fail three times")
    await house.database.write(lambda c: c.execute(text("DROP TRIGGER harmful")))
    (row,) = await house.rows(inbox, inbox.c.state == "dead")
    return int(row.id)


def command(house: SmallHouse, *words: str) -> tuple[int, str]:
    environment = {"TRUNKLINE_HOME": str(house.home), "COLUMNS": "200", "DATABASE_URL": house.url}
    done = CliRunner().invoke(cli.app, ["inbox", *words], env=environment)
    failure = "" if done.exception is None else str(done.exception)
    return done.exit_code, done.output + failure


async def test_what_was_set_aside_is_listed_without_what_it_says(sqlite_house: SmallHouse) -> None:
    row = await set_one_aside(sqlite_house)

    code, listed = command(sqlite_house, "list", "--json")

    assert code == 0
    (line,) = json.loads(listed)
    assert (line["id"], line["platform"], line["state"]) == (row, "telegram", "dead")
    assert POISON not in listed


async def test_a_message_tried_again_is_answered_once_and_stands_once_in_the_transcript(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    row = await set_one_aside(house)

    code, said = command(house, "retry", str(row))
    assert (code, said.strip()) == (0, f"Message {row} waits again.")
    async with house.running():
        await house.shows("An answer.")
        await house.comes_true(lambda c: _state(c, row) == "done")

    live = await house.rows(message, message.c.state == "live")
    assert [(one.role, one.content) for one in live] == [("user", POISON), ("assistant", "An answer.")]
    assert house.telegram.texts(1001).count("An answer.") == 1


async def test_a_dropped_message_is_never_answered_and_its_text_is_gone(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    row = await set_one_aside(house)

    code, _ = command(house, "drop", str(row))

    assert code == 0
    (dropped,) = await house.rows(inbox, inbox.c.id == row)
    assert (dropped.state, dropped.reason, dropped.payload) == ("done", "dropped", "")
    assert json.loads(command(house, "list", "--json")[1]) == []


async def test_only_what_was_set_aside_can_be_tried_again_or_dropped(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    house.answer("Fine.")
    async with house.running():
        await house.say("all well")
        await house.shows("Fine.")
        await house.ended(1)
    (row,) = await house.rows(inbox)

    for word in ("retry", "drop"):
        code, said = command(house, word, str(row.id))
        assert code != 0
        assert f"set aside under {row.id}" in said


def _state(connection: Connection, row: int) -> str:
    return str(connection.execute(select(inbox.c.state).where(inbox.c.id == row)).scalar_one())
