"""An account changes hands while an answer to it is written: it is answered anew, as whose it is by then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.emulators.openai import Reply
from tests.gateway.linked import code_in
from tests.gateway.small_house import BO, GUEST, SmallHouse
from trunkline.gateway.state.schema import message, person_alias, turn

TEA, BOAT = "Bo drinks zqteax at breakfast.", "Gus restores zqboatx."
OLD, NEW = "What the one before was told. ", "What is told now."


def knows(house: SmallHouse, slug: str, entry: str) -> None:
    path = house.home / "memories" / slug / "USER.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{entry}\n§\n", encoding="utf-8")


async def code_shown(house: SmallHouse, user: int) -> str:
    await house.telegram.wait_for(lambda: any(_codes(text) for text in house.telegram.texts(user)))
    return next(found for text in reversed(house.telegram.texts(user)) for found in _codes(text))


def _codes(text: str) -> list[str]:
    try:
        return [code_in(text)]
    except StopIteration:
        return []


async def let_in(house: SmallHouse) -> None:
    """Gus comes, with a memory of his own."""
    await house.telegram.direct_message(GUEST, "hello", **called)
    await house.say(f"/approve {await code_shown(house, GUEST)}")
    await house.shows("You're in", GUEST)
    knows(house, "gus", BOAT)
    knows(house, "bo", TEA)


called: dict[str, Any] = {"from": {"id": GUEST, "is_bot": False, "first_name": "Gus"}}


async def half_linked(house: SmallHouse) -> None:
    """Gus has typed Bo's code and said yes; Bo's yes is what is left."""
    await let_in(house)
    await house.say("/link", BO)
    await house.say(f"/link {await code_shown(house, BO)}", GUEST)
    await house.shows("/link yes", GUEST)
    await house.say("/link yes", GUEST)
    await house.shows("Now write", GUEST)


@asynccontextmanager
async def being_answered(house: SmallHouse) -> AsyncIterator[None]:
    """Gus's question, whose answer has begun to be shown and would go on for long; then the new one."""
    house.model.then(Reply(OLD * 200, chunk_delay_s=0.2))
    await house.say("What do you know of me?", GUEST)
    await house.shows("the one before", GUEST)
    house.answer(NEW)
    yield
    await house.shows(NEW, GUEST)
    await house.comes_true(lambda c: not c.execute(turn.select().where(turn.c.state == "running")).all())


async def check_answered_once(house: SmallHouse) -> str:
    """Of the answer that was cut off nothing is left; returns what the model was told for the new one."""
    shown = house.telegram.texts(GUEST)
    assert [text for text in shown if NEW in text] == [NEW]
    assert not [text for text in shown if "the one before" in text]
    said = [row.content for row in await house.rows(message) if row.state == "live"]
    assert said.count("What do you know of me?") == 1
    assert not [text for text in said if "the one before" in text]
    return str(house.model.requests[-1]["messages"])


async def test_two_who_are_joined_while_one_is_answered(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        await half_linked(house)
        async with being_answered(house):
            await house.say("/link yes", BO)
        told = await check_answered_once(house)
        assert "zqteax" in told
        assert "zqboatx" in told
        assert len(await house.rows(person_alias)) == 1


async def test_one_who_is_parted_again_while_answered(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        await half_linked(house)
        await house.say("/link yes", BO)
        await house.comes_true(lambda c: c.execute(person_alias.select()).all())
        async with being_answered(house):
            await house.say("/link undo", BO)
        told = await check_answered_once(house)
        assert "zqteax" not in told
        assert "zqboatx" in told


async def test_an_account_that_is_unlinked_while_answered(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        await half_linked(house)
        await house.say("/link yes", BO)
        await house.comes_true(lambda c: c.execute(person_alias.select()).all())
        async with being_answered(house):
            await house.say("/unlink 2", BO)
        told = await check_answered_once(house)
        assert "zqteax" not in told
        assert "zqboatx" not in told
