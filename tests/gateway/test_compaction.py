"""Long conversations are made shorter in time, nothing of them is lost, and what goes wrong harms nobody."""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import bpe_openai
import pytest
from sqlalchemy import Connection, func, insert, select

from tests.emulators.openai import Reply, ToolUse, check_messages
from tests.gateway.small_house import ANA, SmallHouse, small_house
from trunkline.agent.history import mend
from trunkline.agent.messages import AssistantMessage, ToolCall
from trunkline.agent.ports import SearchQuery
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tokens import estimate_messages, estimate_text
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import compaction as rows
from trunkline.gateway.state import forgetting, notes, resuming, search, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_messages, redact_messages
from trunkline.gateway.state.schema import compaction, message, session, turn
from trunkline.gateway.state.sessions import load

WINDOW = 16_000
SCOPE = PersonScope(PersonId("ana"))
NOTE = "## Facts\n- They spoke of kites and of the harbour.\n## Identifiers\n- order KX-2217"
TOKENIZER = bpe_openai.get_encoding("o200k_base")

Judge = Callable[[dict[str, Any]], Reply]


@pytest.fixture
async def house(tmp_path: Path, sqlite_database: Database, sqlite_url: str) -> AsyncIterator[SmallHouse]:
    async with small_house(tmp_path, sqlite_database, sqlite_url) as made:
        yield made


def is_summary(body: dict[str, Any]) -> bool:
    return "You write the summary" in str(body["messages"][0]["content"])


def summaries(house: SmallHouse) -> list[dict[str, Any]]:
    return [body for body in house.model.requests if is_summary(body)]


def turns_asked(house: SmallHouse) -> list[dict[str, Any]]:
    return [body for body in house.model.requests if not is_summary(body)]


def plays(house: SmallHouse, *, summary: Reply | None = None, answer: Judge | None = None) -> None:
    """The model that answers, and writes summaries when asked for one."""

    def respond(body: dict[str, Any]) -> Reply:
        if is_summary(body):
            return summary or Reply(NOTE, usage=(0, 0, 0))
        return answer(body) if answer else Reply("Certainly.", usage=(0, 0, 0))

    house.model.responder = respond


def real_tokens(body: dict[str, Any]) -> int:
    text = json.dumps(body["messages"], ensure_ascii=False) + json.dumps(body.get("tools") or [])
    return len(TOKENIZER.encode(text, disallowed_special=()))


async def begin(house: SmallHouse) -> int:
    """The first turn of a conversation; returns the session's row."""
    await house.say("hello there")
    await house.ended(1)
    return (await house.rows(session))[0].id


async def plant(
    house: SmallHouse, session_id: int, pairs: Sequence[tuple[str, str]], *, with_calls: bool = False
) -> list[int]:
    """Turns that were answered earlier, after a call of a tool where it is so wished; returns their rows."""

    def work(connection: Connection) -> list[int]:
        account = connection.execute(select(turn.c.account_id)).scalars().first()
        ids, told = [], []
        for asked, answered in pairs:
            made = insert(turn).values(
                session_id=session_id, account_id=account, state="done", ended_ms=now_ms()
            )
            ids.append(connection.execute(made.returning(turn.c.id)).scalar_one())
            of = {"session_id": session_id, "turn_id": ids[-1], "created_ms": now_ms()}
            told.append(NewMessage(role="user", content=asked, sent=asked, account_id=account, **of))
            if with_calls:
                call = ToolCall(f"c{ids[-1]}", "session_search", "{}")
                told.append(NewMessage(role="assistant", content="", tool_calls=(call,), **of))
                result: dict[str, Any] = {"tool_call_id": call.id, "tool_name": call.name}
                told.append(NewMessage(role="tool", content="found", **result, **of))
            told.append(NewMessage(role="assistant", content=answered, **of))
        add_messages(connection, told)
        return ids

    return await house.database.write(work)


def english(count: int) -> list[tuple[str, str]]:
    return [
        (
            f"Question {n}: what should I know about the lighthouse keeper's {n}th letter before Thursday?",
            f"The letter numbered {n} tells of storms, a broken lamp and the oil's price, {n * 3} shillings.",
        )
        for n in range(count)
    ]


def chinese(count: int) -> list[tuple[str, str]]:
    return [
        (
            f"第{n}个问题：周四之前我应该了解灯塔看守人的第{n}封信的哪些内容？",
            f"第{n}封信讲到了暴风雨、坏掉的灯和油价，一共是{n * 3}先令。",
        )
        for n in range(count)
    ]


async def states(house: SmallHouse) -> dict[str, int]:
    query = select(message.c.state, func.count()).group_by(message.c.state)
    found = await house.database.read(lambda c: c.execute(query).all())
    return {row[0]: row[1] for row in found}


async def note_of(house: SmallHouse, session_id: int) -> str | None:
    found = await house.database.read(lambda c: notes.latest(c, session_id))
    return None if found is None else found.text


@pytest.mark.parametrize(
    ("pairs", "phrase"), [(english(2000), "letter numbered 41"), (chinese(2000), "第41封信")]
)
async def test_a_conversation_of_two_thousand_turns_fits_and_loses_nothing(
    house: SmallHouse, pairs: list[tuple[str, str]], phrase: str
) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, pairs)
        asked = len(house.model.requests)
        await house.say("And the harbour?")
        await house.ended(2002)

    later = house.model.requests[asked:]
    assert max(map(real_tokens, later)) < WINDOW
    assert len(later) > 2
    last = turns_asked(house)[-1]["messages"]
    assert "order KX-2217" in str(last)
    assert pairs[-1][0] in str(last)
    counted = await states(house)
    assert counted["compacted"] + counted["live"] == 4004
    found = await house.database.read(
        lambda c: search.search(c, SCOPE, SearchQuery(phrase, exclude_session=load(c, here).public_id))
    )
    assert any(phrase in line.text for hit in found.hits for line in hit.excerpt)


def model_settings(house: SmallHouse, window: int = WINDOW) -> dict[str, Any]:
    return {
        "name": "emulated",
        "base_url": house.model.base_url,
        "tool_calls": "native",
        "context_tokens": window,
    }


async def test_a_nearly_full_conversation_is_made_shorter_after_the_answer(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house, answer=lambda body: Reply("Certainly.", usage=(12_500, 0, 20)))
        here = await begin(house)
        await plant(house, here, english(150))
        await house.say("And the harbour?")
        await house.shows("Certainly.")
        await house.comes_true(lambda c: notes.latest(c, here))

        assert len(turns_asked(house)) == 2
        await house.say("And the kites?")
        await house.ended(153)

    before, after = (str(body["messages"]) for body in turns_asked(house)[1:])
    assert "Question 3:" in before
    assert "Question 3:" not in after
    assert "order KX-2217" in after
    assert "Question 149:" in after


async def test_an_endpoint_that_says_too_long_is_asked_again_with_less(house: SmallHouse) -> None:
    refused = Reply(
        status=400,
        code="context_length_exceeded",
        error="This model's maximum context length is 12000 tokens. Please reduce the length.",
    )
    said: list[int] = []

    def answer(body: dict[str, Any]) -> Reply:
        said.append(real_tokens(body))
        return Reply("Certainly.", usage=(0, 0, 0)) if said[-1] < 12_000 else refused

    async with house.running(model=model_settings(house, 200_000)):
        plays(house, answer=answer)
        here = await begin(house)
        await plant(house, here, english(200))
        await house.say("And the harbour?")
        await house.ended(202)
        assert said[-2] > 12_000 > said[-1]
        await house.shows("Certainly.")

    assert (await states(house))["compacted"] > 200


async def test_one_that_goes_on_saying_so_gets_a_sentence_and_the_next_message_is_answered(
    house: SmallHouse,
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        is_hopeless = "hopeless" in str(body["messages"][-1]["content"])
        return Reply(status=413, error="too large") if is_hopeless else Reply("Certainly.", usage=(0, 0, 0))

    async with house.running(model=model_settings(house)):
        plays(house, answer=answer)
        here = await begin(house)
        await plant(house, here, english(20))
        asked = len(house.model.requests)
        await house.say("hopeless")
        await house.ended(22)
        assert len(house.model.requests) - asked <= 4
        await house.shows("too long")

        await house.say("And the harbour?")
        await house.shows("Certainly.")
        await house.ended(23)


async def test_a_tool_that_returned_too_much_is_read_in_part(house: SmallHouse) -> None:
    """The turn goes on after its last step, with less of the result."""
    refused: list[int] = []

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "user":
            return Reply(tools=[ToolUse("session_search", {"query": "lighthouse"})], usage=(0, 0, 0))
        if real_tokens(body) > 6_000:
            refused.append(real_tokens(body))
            return Reply(status=400, code="context_length_exceeded", error="context length is 6000 tokens")
        return Reply("It tells of storms.", usage=(0, 0, 0))

    async with house.running(model=model_settings(house, 200_000)):
        plays(house)
        here = await begin(house)
        await plant(house, here, [("lighthouse " * 300, "storm " * 900)] * 12)
        await house.say("/new")
        await house.comes_true(lambda c: c.execute(select(session.c.ended_ms)).scalar())
        plays(house, answer=answer)
        await house.say("What of the lighthouse?")
        await house.ended(14)
        await house.shows("It tells of storms.")
    assert len(refused) == 1
    said = turns_asked(house)[-1]["messages"]
    check_messages(said)
    assert "too long for the model" in said[-1]["content"]
    assert len(await house.rows(message, message.c.role == "tool")) == 1


async def test_a_bare_failure_of_a_nearly_full_request_is_answered_with_less_and_not_repeated(
    house: SmallHouse,
) -> None:
    """A tool's result fills the window in the middle of a turn, and the endpoint says only 502."""
    failed: list[int] = []

    def answer(body: dict[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "user":
            return Reply(tools=[ToolUse("session_search", {"query": "lighthouse"})], usage=(0, 0, 0))
        if not summaries(house):
            failed.append(len(house.model.requests))
            return Reply(status=502, raw="Bad Gateway", content_type="text/plain")
        return Reply("It tells of storms.", usage=(0, 0, 0))

    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, [("lighthouse " * 300, "storm " * 900)] * 12)
        await house.say("/new")
        await house.comes_true(lambda c: c.execute(select(session.c.ended_ms)).scalar())
        await house.say("hello again")
        await house.ended(14)
        there = (await house.rows(session, session.c.ended_ms.is_(None)))[0].id
        asked = turns_asked(house)[-1]
        used = estimate_text(json.dumps(asked["messages"]) + json.dumps(asked["tools"]))
        pairs = english(300)
        each = estimate_messages([AssistantMessage(text) for text in pairs[100]])
        await plant(house, there, pairs[: int((0.84 * WINDOW - used) / each)])
        plays(house, answer=answer)
        planted = await house.rows(turn)
        await house.say("What of the lighthouse?")
        await house.ended(len(planted) + 1)
        await house.shows("It tells of storms.")

    assert len(failed) == 1, "the same request was not sent again"
    assert is_summary(house.model.requests[failed[0]]), "what came next was the summary"
    check_messages(turns_asked(house)[-1]["messages"])


async def test_a_tokenizer_that_takes_more_is_learnt_from_its_counts(house: SmallHouse) -> None:
    """An older one needs half as much again for Chinese as the estimate says, where no name tells of it."""
    older = bpe_openai.get_encoding("cl100k_base")

    def count(body: dict[str, Any]) -> int:
        text = json.dumps(body["messages"], ensure_ascii=False) + json.dumps(body.get("tools") or [])
        return len(older.encode(text, disallowed_special=()))

    async with house.running(model=model_settings(house)):
        plays(house, answer=lambda body: Reply("好的。", usage=(count(body), 0, 3)))
        here = await begin(house)
        for place, size in enumerate((160, 160)):
            await plant(house, here, chinese(size))
            await house.say(f"那么港口呢？{place}")
            await house.ended(2 + place + (place + 1) * size)
            await house.comes_true(
                lambda c, n=place: len(c.execute(select(compaction)).all()) > n  # type: ignore[misc]
            )
        await house.say("还有风筝呢？")
        await house.ended(324)
        rows = await house.rows(compaction, compaction.c.after_tokens > 0)

    counted = count(turns_asked(house)[-1])
    assert counted < 0.6 * WINDOW, "what is kept whole is as much as was meant"
    assert rows


async def test_a_summary_that_fails_leaves_all_as_it_is_and_is_told_once(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(
            house,
            summary=Reply(status=400, error="no"),
            answer=lambda body: Reply("Certainly.", usage=(13_900, 0, 20)),
        )
        here = await begin(house)
        await plant(house, here, english(150))
        for place, words in enumerate(("first", "second", "third", "fourth", "fifth")):
            await house.say(words)
            await house.ended(152 + place)
        await house.shows("summing up its older part didn't work")

        told = [text for text in house.telegram.texts(ANA) if "summing up" in text]
        assert len(told) == 1
        assert "compacted" not in await states(house)
        assert len(summaries(house)) <= 3
        assert await note_of(house, here) is None


async def test_a_session_that_stays_full_is_not_made_shorter_every_turn(house: SmallHouse) -> None:
    """The prompt and the tools alone fill a window as small as this."""
    async with house.running(model=model_settings(house, 3_500)):
        plays(house)
        await begin(house)
        for place in range(16):
            await house.say(f"message {place}")
            await house.ended(2 + place)
    assert 2 <= len(summaries(house)) <= 4


async def test_compress_shows_before_and_after_and_minds_the_focus(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await house.say("/compress")
        await house.shows("nothing to shorten")
        await plant(house, here, english(30))
        await house.say("/compress the broken lamp")
        await house.shows("58 messages are now a summary")

        assert "the broken lamp" in str(summaries(house)[-1]["messages"][-1]["content"])
        shown = next(text for text in house.telegram.texts(ANA) if "summary" in text)
        before, after = (
            int(one.replace(",", "")) for one in re.findall(r"([0-9,]+) (?:tokens before|now)", shown)
        )
        assert after < before
        await house.say("And the harbour?")
        await house.ended(32)
    said = turns_asked(house)[-1]["messages"]
    assert [one["role"] for one in said[:3]] == ["system", "user", "assistant"]
    assert "They spoke of kites" in str(said[1]["content"])
    assert "Question 28:" in str(said)
    assert "Question 27:" not in str(said)


async def test_undo_and_retry_work_on_both_sides_of_a_compaction(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(10))
        await house.say("/compress")
        await house.shows("now a summary")

        await house.say("/undo 2")
        await house.shows("Taken back")
        assert await note_of(house, here) == NOTE, "what is kept whole is no matter of the note"
        await house.say("/retry")
        await house.comes_true(lambda c: notes.latest(c, here) and not _running(c))
        await house.ended(12)
        said = str(turns_asked(house)[-1]["messages"])
        assert "Question 7:" in said, "a turn that was put away is answered anew"
        assert "Question 8:" not in said
        assert "the summary of it was removed" not in said, "the note was made again before"
        record = str(summaries(house)[-1]["messages"][-1]["content"])
        assert "Question 6:" in record
        assert "Question 7:" not in record


def _running(connection: Connection) -> bool:
    return connection.execute(select(turn.c.id).where(turn.c.state == "running")).first() is not None


async def test_a_message_deleted_on_the_platform_leaves_the_note_at_once(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(10))
        await house.say("/compress")
        await house.shows("now a summary")
        first = (await house.rows(message, message.c.role == "user"))[1]
        await house.database.write(lambda c: redact_messages(c, [first.id]))
        assert await note_of(house, here) == ""
        assert "kites" not in str([row.note for row in await house.rows(compaction)])


async def test_a_summary_written_while_something_was_forgotten_is_dropped(
    house: SmallHouse,
) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(10))
        past = await house.database.read(lambda c: rows.load_past(c, SCOPE, here))
        assert past is not None
        await house.database.write(lambda c: forgetting.count(c, SCOPE))
        done = await house.database.write(
            lambda c: rows.put_away(c, SCOPE, past, 5, NOTE, by_hand=False, tokens=(9, 1), stamp_ms=1)
        )
        assert not done
        assert "compacted" not in await states(house)


async def test_a_forgotten_fact_leaves_the_note_and_is_not_told_of_again(house: SmallHouse) -> None:
    fact = forgetting.Fact(("Ana is allergic to zanthoxylum.",))
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, [("Ana is allergic to zanthoxylum, mind that.", "I will."), *english(10)])
        await house.say("/compress")
        await house.shows("now a summary")
        await house.database.write(lambda c: forgetting.erase_copies(c, SCOPE, fact))
        assert await note_of(house, here) == ""
        await house.say("And the harbour?")
        await house.ended(13)
        assert "zanthoxylum" not in str(summaries(house)[-1]["messages"])
        assert "zanthoxylum" not in str(turns_asked(house)[-1]["messages"])


async def test_a_branch_begins_with_the_note_and_can_be_made_shorter_itself(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(10))
        await house.say("/compress")
        await house.shows("now a summary")
        await house.say("/branch")
        await house.say("And the harbour?")
        await house.ended(12)
        said = str(turns_asked(house)[-1]["messages"])
        assert "order KX-2217" in said
        assert "Question 9:" in said
        for place in range(3):
            await house.say(f"more {place}")
            await house.ended(13 + place)
        await house.say("/compress")
        await house.comes_true(lambda c: notes.latest(c, here + 1))
        record = str(summaries(house)[-1]["messages"][-1]["content"])
        assert "Question 9:" in record
        assert "order KX-2217" in record
        await house.say("And now?")
        await house.ended(16)
        said = str(turns_asked(house)[-1]["messages"])
        assert "Question 9:" not in said


async def test_nothing_is_orphaned_where_turns_used_tools(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        made = await plant(house, here, english(6), with_calls=True)
        await house.say("/compress")
        await house.shows("now a summary")
        history = await house.database.read(
            lambda c: resuming.load_conversation(c, SCOPE, sessions.load(c, here))
        )
        assert isinstance(history[1], AssistantMessage)
        assert mend(history).messages == tuple(history), "nothing had to be put right"
        together = [{row.state for row in await house.rows(message, message.c.turn_id == n)} for n in made]
        assert together == [{"compacted"}] * 4 + [{"live"}] * 2, "a turn goes or stays as a whole"
        await house.say("And the harbour?")
        await house.ended(8)
    check_messages(turns_asked(house)[-1]["messages"])


async def test_stop_ends_a_turn_that_waits_for_a_summary(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(600))
        plays(house, summary=Reply(NOTE, delay_s=60))
        await house.say("And the harbour?")
        await house.model.wait_for(lambda: summaries(house))
        await house.say("/stop")
        await house.model.wait_for(lambda: house.model.dropped >= 1)
        await house.ended(602)
        assert "compacted" not in await states(house)


async def test_a_private_conversation_takes_its_note_with_it(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        await begin(house)
        await house.say("/private")
        await house.say("between us")
        await house.ended(2)
        private = next(row for row in await house.rows(session) if row.private)
        await plant(house, private.id, english(10))
        await house.say("/compress")
        await house.shows("now a summary")
        assert await note_of(house, private.id) == NOTE
        await house.say("/private off")
        await house.comes_true(
            lambda c: c.execute(select(func.count()).select_from(compaction)).scalar() == 0
        )


async def test_the_prompt_is_made_anew_after_a_compaction(house: SmallHouse) -> None:
    async with house.running(model=model_settings(house)):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(10))
        frozen = (await house.rows(session))[0].prompt_hash
        await house.say("/compress")
        await house.shows("now a summary")
        assert frozen is not None
        assert (await house.rows(session))[0].prompt_hash is None
        await house.say("And the harbour?")
        await house.ended(12)
        assert (await house.rows(session))[0].prompt_hash is not None


async def test_what_the_server_says_of_its_window_counts(house: SmallHouse) -> None:
    house.model.listed_fields = {"max_model_len": 9_000}
    settings = {"name": "emulated", "base_url": house.model.base_url, "tool_calls": "native"}
    async with house.running(model=settings):
        plays(house)
        here = await begin(house)
        await plant(house, here, english(150))
        await house.say("And the harbour?")
        await house.ended(152)
    assert summaries(house)
    assert max(map(real_tokens, turns_asked(house))) < 9_000
