"""A day's share that is used up: no way of asking gets a model called that nobody pays for."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from tests.emulators.openai import Reply, ToolUse
from tests.gateway.inbound import direct
from tests.gateway.linked import code_in, town
from tests.gateway.small_house import ANA, BO, SmallHouse
from tests.gateway.test_compaction import NOTE, english, is_summary, model_settings, plant
from trunkline.gateway import budgets
from trunkline.gateway.clock import now_ms
from trunkline.gateway.scheduled import SCHEDULED
from trunkline.gateway.state import people
from trunkline.gateway.state.schema import inbox, message, session, turn, usage

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
        go_on = asyncio.Event()
        house.model.then(Reply("Slowly. " * 8, held=go_on))
        await house.say("one", BO)
        await house.asked(1)
        await house.say("/queue two", BO)
        await house.comes_true(lambda c: c.execute(inbox.select().where(inbox.c.state == "received")).all())
        go_on.set()
        await house.shows(SPENT, BO)
        await house.comes_true(lambda c: not c.execute(inbox.select().where(inbox.c.state != "done")).all())

    assert len(house.model.requests) == 1
    assert [row.reason for row in await house.rows(inbox) if "two" in row.payload] == ["budget"]
    assert house.telegram.texts(ANA) == []


async def test_an_edit_that_nobody_pays_for_changes_the_transcript_and_is_kept_nowhere_else(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(access={"messages_per_minute": 0, "daily_tokens": 1}):
        house.answer("First.")
        asked = await house.telegram.direct_message(BO, "hello")
        await house.shows("First.", BO)
        await house.ended(1)
        await house.telegram.edit_message(BO, asked.message_id, "hello, changed")
        await house.shows(SPENT, BO)

    assert [row.content for row in await house.rows(message)] == ["hello, changed", "First."]
    assert [row.payload for row in await house.rows(inbox)] == ["", ""]


async def test_whatever_a_model_is_asked_for_somebody_is_counted_as_theirs(sqlite_house: SmallHouse) -> None:
    """The turn with its tools, the title, the summary of what was found, the review of what was said."""
    house = sqlite_house

    def reply(body: dict[str, Any]) -> Reply:
        is_turn = "zqsearchx" in str(body["messages"][-1]["content"]) and body.get("tools")
        call = ToolUse("session_search", {"query": "marigolds"})
        return Reply(tools=[call]) if is_turn else Reply("Certainly.")

    house.model.responder = reply
    async with house.running(memory={"review_every": 1}):
        await house.say("I grow marigolds on the balcony.", BO)
        await house.shows("Certainly.", BO)
        await house.say("/new", BO)
        await house.say("zqsearchx: what do I grow?", BO)
        await house.comes_true(lambda c: {"turn", "title", "review", "session_search"} <= purposes(c))
        await house.comes_true(lambda c: counted(c) == 120 * asked(house))

    rows = await house.rows(usage)
    bo = [row.account_id for row in await house.rows(turn)]
    assert {row.account_id for row in rows} == set(bo)


async def test_a_searchs_summary_a_scheduled_run_and_a_compaction_are_paid_by_whoever_asked(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    calls = {
        "zqsearchx": ToolUse("session_search", {"query": "marigolds"}),
        "zqremindx": ToolUse("remind", {"text": "Say hello.", "after": "1s", "do": "run"}),
    }

    def reply(body: dict[str, Any]) -> Reply:
        if is_summary(body):
            return Reply(NOTE)
        said = str(body["messages"][-1]["content"])
        tools = [call for word, call in calls.items() if word in said and body.get("tools")]
        return Reply(tools=tools) if tools else Reply("Certainly.")

    house.model.responder = reply
    async with house.running(model=model_settings(house)):
        await house.say("I grow marigolds on the balcony.", BO)
        await house.ended(1)
        await house.say("/new", BO)
        await house.say("zqsearchx: what do I grow?", BO)
        await house.ended(2)
        await house.say("zqremindx: greet me in a second", BO)
        await house.ended(4)
        [here] = await house.rows(session, session.c.origin != SCHEDULED, session.c.ended_ms.is_(None))
        await plant(house, here.id, english(30))
        await house.say("/compress", BO)
        await house.comes_true(lambda c: {"turn", "title", "session_search", "compaction"} <= purposes(c))
        await house.comes_true(lambda c: counted(c) == 120 * asked(house))
        bo = await house.database.read(lambda c: people.find_account(c, "telegram", "", str(BO)))
        assert bo is not None
        spent = await house.database.read(
            lambda c: budgets.look(c, bo, None, house.config(), now_ms(), count_always=True)
        )
        assert spent.used.tokens == 120 * asked(house)

    runs = await house.rows(session, session.c.origin == SCHEDULED)
    assert await house.rows(usage, usage.c.session_id == runs[0].id)


def asked(house: SmallHouse) -> int:
    """How often a model was asked anything."""
    return len(house.model.requests) + len(house.namer.requests)


def counted(connection: Connection) -> int:
    rows = connection.execute(usage.select()).all()
    return sum(row.prompt_tokens + row.completion_tokens for row in rows)


def purposes(connection: Connection) -> set[str]:
    return set(connection.execute(usage.select()).columns("purpose").scalars())


async def test_accounts_that_are_one_persons_share_one_day(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url, access={"daily_tokens": 1000}) as house:
        await house.let_in("Bo", "101")
        code = code_in(await house.type("/link", "101"))
        await house.send(replace(direct(code, user="301", platform="discord"), text=code))
        await house.send(direct("yes", user="301", platform="discord"))
        await house.type("/link yes", "101")
        for user, platform in (("101", "telegram"), ("301", "discord")):
            account = await house.account(user, platform)
            row = {"account_id": account.id, "purpose": "turn", "prompt_tokens": 500, "created_ms": now_ms()}
            await house.house.database.write(lambda c: c.execute(insert(usage).values(**row)))  # noqa: B023

        for user, platform in (("101", "telegram"), ("301", "discord")):
            assert "1,000 tokens of 1,000" in await house.type("/usage", user, platform)
            await house.send(direct("more", user=user, platform=platform))
            assert "today's share" in (await house.told(user, platform))[-1]
