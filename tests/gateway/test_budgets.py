"""A day's share that is used up: no way of asking gets a model called that nobody pays for."""

import pytest

from tests.emulators.openai import Reply
from tests.gateway.small_house import ANA, BO, SmallHouse
from trunkline.gateway.state.schema import inbox

SPENT = "用量已经用完"
"""Bo reads Chinese."""


@pytest.mark.parametrize(
    "way", ["/retry", "/queue and this", "/compress", "/a-skill please", "again", "edit"]
)
async def test_no_way_of_asking_goes_past_a_share_that_is_used_up(way: str, sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(access={"messages_per_minute": 0, "daily_tokens": 1}):
        house.answer("First.")
        asked = await house.telegram.direct_message(BO, "hello")
        await house.shows("First.", BO)
        await house.ended(1)

        if way == "edit":
            await house.telegram.edit_message(BO, asked.message_id, "hello, changed")
        else:
            await house.say(way, BO)
        await house.shows(SPENT, BO)
        house.answer("For the owner.")
        await house.say("hello")
        await house.shows("For the owner.")

    assert len(house.model.requests) == 2


async def test_what_waited_while_the_last_share_was_used_is_kept_and_not_answered(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(access={"messages_per_minute": 0, "daily_tokens": 1}):
        house.model.then(Reply("Slowly. " * 8, delay_s=0.5))
        await house.say("one", BO)
        await house.asked(1)
        await house.say("/queue two", BO)
        await house.shows(SPENT, BO)
        await house.comes_true(lambda c: not c.execute(inbox.select().where(inbox.c.state != "done")).all())

    assert len(house.model.requests) == 1
    assert [row.reason for row in await house.rows(inbox) if "two" in row.payload] == ["budget"]
    assert house.telegram.texts(ANA) == []
