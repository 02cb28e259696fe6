"""What the model is told of reactions to its answers: who, to what, and nothing that was to be forgotten."""

from sqlalchemy import Connection, update

from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import deletion
from trunkline.gateway.state.schema import inbox, outbox

NOTED = inbox.c.state == "noted"
SENT = outbox.c.state == "sent"


async def react(house: SmallHouse, user: int, chat: int, emoji: str) -> None:
    """To the newest message of the bot there; returns when that is kept."""
    before = len(await house.rows(inbox, NOTED))
    await house.telegram.react(user, chat, house.telegram.sent(chat)[-1].message_id, emoji)
    await house.comes_true(lambda c: len(c.execute(inbox.select().where(NOTED)).all()) > before)


def empty_answers(connection: Connection) -> None:
    connection.execute(update(outbox).values(payload=""))


async def test_a_reaction_to_an_answer_whose_words_are_gone_is_told_without_them(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running():
        house.answer("It is Tuesday.", "Glad to hear.")
        await house.say("which day is it?")
        await house.shows("It is Tuesday.")
        await house.ended(1)
        await house.comes_true(lambda c: not c.execute(outbox.select().where(~SENT)).all())
        await react(house, ANA, ANA, "👍")
        await house.database.write(empty_answers)
        await house.say("thanks")
        await house.shows("Glad to hear.")

    assert "The person reacted with 👍 to an answer of yours." in house.last_user()


async def test_a_reaction_that_retention_has_emptied_is_passed_over(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.answer("It is Tuesday.", "Glad to hear.")
        await house.say("which day is it?")
        await house.shows("It is Tuesday.")
        await house.ended(1)
        await react(house, ANA, ANA, "👍")
        await house.database.write(lambda c: deletion.forget_words_before(c, now_ms() + 1))
        await house.say("thanks")
        await house.shows("Glad to hear.")

    assert "reacted" not in house.last_user()


async def test_a_reaction_in_a_room_is_told_with_whose_it_is_also_when_somebody_else_asks_next(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    house.telegram.group(ROOM)
    async with house.running():
        house.answer("It is Tuesday.", "Sorry.")
        await house.telegram.group_message(ROOM, ANA, "which day is it?")
        await house.shows("It is Tuesday.", ROOM)
        await house.ended(1)
        await react(house, BO, ROOM, "👎")
        await house.telegram.group_message(ROOM, ANA, "sure?")
        await house.shows("Sorry.", ROOM)

    name = house.telegram.person(BO)["first_name"]
    assert f'"{name}" reacted with 👎 to your answer "It is Tuesday."' in house.last_user()
