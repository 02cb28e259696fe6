"""Who leaves for good takes along their words that were told to the model when others spoke in a room."""

from typing import Any

from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway.state.schema import heard, message

LISTEN: dict[str, Any] = {f"telegram/{ROOM}": {"listen": True}}
KEY, BOAT, DOG = "zqkeyx", "zqboatx", "zqdogx"


def called(name: str, user: int) -> dict[str, Any]:
    """A message's author, as they are called at that time."""
    return {"from": {"id": user, "is_bot": False, "first_name": name}}


async def ask(house: SmallHouse, text: str, answer: str, **fields: Any) -> None:
    house.answer(answer)
    await house.telegram.group_message(ROOM, ANA, text, **fields)
    await house.shows(answer, ROOM)


async def leave(house: SmallHouse, user: int) -> None:
    await house.say("/delete-me", user)
    await house.shows("/delete-me ", user)
    asked = "\n".join(house.telegram.texts(user))
    await house.say(f"/delete-me {asked.rpartition('/delete-me ')[2][:5]}", user)
    await house.telegram.wait_for(lambda: len(house.telegram.texts(user)) >= 2)


async def test_words_overheard_go_by_whose_they_are_whatever_they_were_called_then(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(rooms=LISTEN):
        await house.telegram.group_message(ROOM, BO, KEY, mention=False, **called("Robert", BO))
        # Somebody else of the same name, whose words stay.
        await house.telegram.group_message(ROOM, 1009, DOG, mention=False, **called("Bobby", 1009))
        await house.comes_true(lambda c: len(c.execute(heard.select()).all()) == 2)
        await ask(house, "What was said?", "A key and a dog.")
        assert KEY in house.last_user()
        await house.telegram.group_message(ROOM, BO, BOAT, mention=False, **called("Bobby", BO))
        await house.comes_true(lambda c: len(c.execute(heard.select()).all()) == 3)
        await ask(house, "And then?", "A boat.")

        await leave(house, BO)

        told = "\n".join(str(tuple(row)) for row in await house.rows(message))
        assert KEY not in told
        assert BOAT not in told
        assert DOG in told
        assert [row.content for row in await house.rows(heard)] == [DOG]
        await ask(house, "Who has a dog?", "Bobby.")
        assert KEY not in str(house.model.requests[-1])


async def test_words_that_somebody_quoted_go_too(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        said = await house.telegram.group_message(ROOM, BO, f"I hid it: {KEY}.", mention=False)
        await ask(house, "What does this mean?", "It is hidden.", reply_to=said.message_id)
        assert KEY in house.last_user()

        await leave(house, BO)

        told = "\n".join(str(tuple(row)) for row in await house.rows(message))
        assert KEY not in told
        assert "What does this mean?" in told
        assert "> [deleted]" in told


async def test_words_overheard_stay_gone_when_the_question_is_asked_anew(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(rooms=LISTEN):
        await house.telegram.group_message(ROOM, BO, KEY, mention=False)
        await house.comes_true(lambda c: len(c.execute(heard.select()).all()) == 1)
        await ask(house, "What was said?", "A key.")
        house.answer("A key, again.")
        await house.telegram.group_message(ROOM, ANA, "/retry", mention=False)
        await house.shows("A key, again.", ROOM)

        await leave(house, BO)

        assert KEY not in "\n".join(str(tuple(row)) for row in await house.rows(message))
