"""The bench of memory judgement: its table is whole and balanced, and it counts what a model does."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, get_args

import pytest

from bench.memory_judgement import (
    HopelessModel,
    Kind,
    MemoryCall,
    Row,
    SearchCall,
    Verdict,
    ask,
    judge,
    load_table,
    score,
)
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.messages import ToolCall
from trunkline.agent.openai_client_sdk import Endpoint

TABLE = load_table()
ROWS = {row.id: row for row in TABLE.rows}


@pytest.fixture
async def server() -> AsyncIterator[OpenAIEmulator]:
    async with OpenAIEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


def memory(**arguments: Any) -> ToolCall:
    return ToolCall("c1", "memory", json.dumps(arguments))


def search(query: str) -> ToolCall:
    return ToolCall("c2", "session_search", json.dumps({"query": query}))


def judged(row_id: str, *calls: ToolCall) -> Verdict:
    row = ROWS[row_id]
    return judge(row, TABLE.people[row.person], calls)


def right_use(row: Row) -> list[ToolUse]:
    """The calls that the row asks for, made from its own words."""
    match row.call:
        case None:
            return []
        case SearchCall(content=groups):
            return [ToolUse("session_search", {"query": " ".join(words[0] for words in groups)})]
        case MemoryCall() as call:
            given = {"target": call.target, "action": call.action}
            if call.entry:
                given["old_text"] = call.entry
            if call.action != "remove":
                given["content"] = ", ".join(words[0] for words in call.content)
            return [ToolUse("memory", given)]


def row_of(body: dict[str, Any]) -> Row:
    said = body["messages"][-1]["content"]
    return next(row for row in TABLE.rows if said.endswith(row.text))


async def asked(server: OpenAIEmulator, mode: Any, reply: Callable[[Row], Reply]) -> list[Verdict]:
    server.responder = lambda body: reply(row_of(body))
    return await ask(TABLE, TABLE.rows, Endpoint(server.base_url), "emulated", mode, quiet=True)


def test_the_table_has_thirty_sentences_in_each_language_a_third_of_them_for_tuning() -> None:
    counts = Counter((row.language, row.split) for row in TABLE.rows)

    assert counts == {("en", "tune"): 10, ("en", "judge"): 20, ("zh", "tune"): 10, ("zh", "judge"): 20}


def test_every_class_is_in_both_languages_and_both_splits_alike() -> None:
    counts = Counter((row.kind, row.split, row.language) for row in TABLE.rows)

    for kind in get_args(Kind):
        for split in ("tune", "judge"):
            assert counts[kind, split, "en"] == counts[kind, split, "zh"] > 0


def test_no_sentence_stands_twice() -> None:
    assert len(ROWS) == len({row.text for row in TABLE.rows}) == 60


def test_what_a_class_stands_for_is_what_its_rows_ask_for() -> None:
    saves = {"lasting_preference": {"add"}, "environment_fact": {"add"}, "extension": {"replace"}}
    saves["correction"] = {"replace", "remove"}
    for row in TABLE.rows:
        if row.kind in saves:
            assert isinstance(row.call, MemoryCall)
            assert row.call.action in saves[row.kind]
        elif row.kind == "past_conversation":
            assert isinstance(row.call, SearchCall)
        else:
            assert row.call is None


def test_an_entry_to_change_is_one_that_is_remembered_and_no_other_matches() -> None:
    for row in TABLE.rows:
        if isinstance(row.call, MemoryCall) and row.call.action != "add":
            known = TABLE.people[row.person]
            entries = known.user if row.call.target == "user" else known.memory
            assert sum(row.call.entry in entry for entry in entries) == 1, row.id


def test_a_save_with_the_fact_in_the_right_store_is_right() -> None:
    verdict = judged(
        "en-lasting_preference-2",
        memory(target="user", action="add", content="User drinks no coffee after noon."),
    )

    assert verdict.right
    assert not verdict.false_save


@pytest.mark.parametrize(
    "call",
    [
        memory(target="memory", action="add", content="User drinks no coffee after noon."),
        memory(target="user", action="add", content="User sleeps badly."),
        memory(target="user", action="replace", old_text="Vegetarian", content="No coffee after noon."),
        memory(target="user", action="add"),
        memory(target="user", action="add", content="No coffee.", operations=[{"action": "remove"}]),
        ToolCall("c1", "memory", '{"target": "user", "action": "add", "content": "coff'),
    ],
    ids=["wrong store", "fact missing", "an old fact lost", "no content", "two shapes", "cut off"],
)
def test_a_save_that_would_not_keep_the_fact_is_wrong(call: ToolCall) -> None:
    verdict = judged("en-lasting_preference-2", call)

    assert not verdict.right
    assert verdict.right_tool


def test_a_search_beside_a_right_save_is_let_pass() -> None:
    save = memory(target="user", action="add", content="No coffee after noon.")

    assert judged("en-lasting_preference-2", search("coffee"), save).right


def test_an_extension_replaces_the_entry_and_keeps_what_it_said() -> None:
    kept = memory(
        target="user", action="replace", old_text="metric", content="Prefers metric units and Celsius."
    )
    forgot = memory(target="user", action="replace", old_text="metric", content="Prefers Celsius.")
    beside = memory(target="user", action="add", content="Prefers metric units and Celsius.")

    assert judged("en-extension-1", kept).right
    assert not judged("en-extension-1", forgot).right
    assert not judged("en-extension-1", beside).right


def test_a_batch_that_comes_to_the_same_is_right() -> None:
    batch = memory(
        target="user",
        operations=[
            {"action": "remove", "old_text": "metric"},
            {"action": "add", "content": "Prefers metric units and Celsius."},
        ],
    )

    assert judged("en-extension-1", batch).right


def test_a_removal_of_the_one_entry_is_right_and_of_another_is_wrong() -> None:
    assert judged("en-correction-3", memory(target="user", action="remove", old_text="Biscuit")).right
    assert not judged("en-correction-3", memory(target="user", action="remove", old_text="Vegetarian")).right


def test_a_question_about_the_past_wants_a_search_with_its_subject_and_no_save() -> None:
    save = memory(target="user", action="add", content="User went to Lisbon.")

    assert judged("en-past_conversation-1", search("hotel Lisbon")).right
    assert not judged("en-past_conversation-1", search("yesterday")).right
    assert not judged("en-past_conversation-1").right
    both = judged("en-past_conversation-1", search("hotel Lisbon"), save)
    assert not both.right
    assert both.false_save


def test_small_talk_wants_no_call_at_all() -> None:
    assert judged("en-chit_chat-1").right
    assert not judged("en-chit_chat-1", search("sleep")).right


async def test_a_model_that_does_all_right_scores_one(server: OpenAIEmulator) -> None:
    verdicts = await asked(
        server, "native", lambda row: Reply("" if row.call else "Sure.", tools=right_use(row))
    )

    figures = score(verdicts, seconds=30.0)

    assert [verdict.row.id for verdict in verdicts if not verdict.right] == []
    assert {key: value for key, value in figures.items() if key.startswith("accuracy")} == {
        "accuracy": 1.0,
        "accuracy_tool": 1.0,
        "accuracy_en": 1.0,
        "accuracy_zh": 1.0,
    } | {f"accuracy_{kind}": 1.0 for kind in get_args(Kind)}
    assert (figures["n"], figures["seconds_per_row"]) == (60, 0.5)
    assert (figures["false_saves"], figures["missed_saves"], figures["failed"]) == (0, 0, 0)


async def test_each_sentence_is_one_request_with_prompt_tools_and_memory(server: OpenAIEmulator) -> None:
    await asked(server, "native", lambda row: Reply("Sure."))

    assert len(server.requests) == 60
    first = server.requests[0]
    system = first["messages"][0]["content"]
    assert "# Memory" in system
    assert "# Past conversations" in system
    assert "USER PROFILE" in system
    assert "Prefers metric units." in system
    assert first["messages"][-1]["content"].startswith("⟦2026-05-12 09:30, Tuesday, Europe/Stockholm")
    assert [tool["function"]["name"] for tool in first["tools"]] == ["memory", "session_search"]


async def test_a_model_that_only_talks_misses_every_save_and_makes_no_false_one(
    server: OpenAIEmulator,
) -> None:
    figures = score(await asked(server, "native", lambda row: Reply("Sure.")), seconds=1.0)

    idle = sum(row.call is None for row in TABLE.rows)
    assert figures["accuracy"] == round(idle / 60, 4)
    assert figures["accuracy_chit_chat"] == figures["accuracy_one_off_constraint"] == 1.0
    assert figures["missed_saves"] == sum(isinstance(row.call, MemoryCall) for row in TABLE.rows)
    assert figures["false_saves"] == 0


async def test_a_model_that_saves_everything_is_counted_for_each_false_save(server: OpenAIEmulator) -> None:
    def save(row: Row) -> Reply:
        return Reply(
            tools=[ToolUse("memory", {"target": "user", "action": "add", "content": row.text})],
        )

    figures = score(await asked(server, "native", save), seconds=1.0)

    assert figures["false_saves"] == sum(not isinstance(row.call, MemoryCall) for row in TABLE.rows)
    assert figures["accuracy_chit_chat"] == figures["accuracy_past_conversation"] == 0.0
    assert figures["accuracy_extension"] == 0.0
    assert 0.0 < figures["accuracy"] < 0.5


async def test_decisions_by_schema_are_judged_without_waiting_for_the_answer(server: OpenAIEmulator) -> None:
    def decided(body: dict[str, Any]) -> Reply:
        if "response_format" not in body:
            return Reply("A long answer. " * 200, stall_after=3)
        use = right_use(row_of(body))
        return Reply(
            json.dumps({"tool": use[0].name, "arguments": use[0].arguments} if use else {"tool": "answer"})
        )

    server.responder = decided
    verdicts = await ask(TABLE, TABLE.rows, Endpoint(server.base_url), "emulated", "schema", quiet=True)

    assert all(verdict.right for verdict in verdicts)


async def test_a_refused_request_counts_as_failed_and_the_rest_goes_on(server: OpenAIEmulator) -> None:
    refused = Reply(status=400, error="This text is not to our liking.")
    figures = score(
        await asked(server, "native", lambda row: refused if row.kind == "extension" else Reply("Sure.")),
        seconds=1.0,
    )

    assert figures["failed"] == sum(row.kind == "extension" for row in TABLE.rows)
    assert figures["accuracy_chit_chat"] == 1.0


async def test_a_wrong_key_ends_the_run_with_its_reason(server: OpenAIEmulator) -> None:
    server.api_key = "right"

    with pytest.raises(HopelessModel, match="bad_key"):
        await ask(TABLE, TABLE.rows, Endpoint(server.base_url, "wrong"), "emulated", "native", quiet=True)

    assert len(server.requests) <= 1
