"""What is stored after something broke is history that any provider takes; the next message is answered.

Rows LLM-04, LLM-05, LLM-09 and LLM-10 of the field issues, over the whole house and a strict model server.
"""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from tests.emulators.openai import Reply
from tests.gateway.small_house import ANA, SmallHouse
from trunkline.agent.history import UNKNOWN_OUTCOME
from trunkline.agent.messages import ToolCall
from trunkline.gateway.clock import now_ms
from trunkline.gateway.config import parse_config
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.state import people, sessions, turns
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import message

QUICK: dict[str, Any] = {"agent": {"burst_window": 0.001}}
TEA = '{"action": "add", "target": "user", "content": "Likes tea."}'


def asked(house: SmallHouse, number: int = -1) -> list[dict[str, Any]]:
    return list(house.model.requests[number]["messages"])


async def test_a_lost_result_is_called_unknown_and_what_it_did_is_not_done_again(
    sqlite_house: SmallHouse,
) -> None:
    """LLM-04.1: calls c1 and c2, the result of c1, the process killed; then `hello`."""
    house = sqlite_house

    def plant(connection: Connection) -> None:
        who = people.ensure_account(connection, "telegram", "", str(ANA), label="", now_ms=now_ms()).id
        stream = people.stream_of(connection, account_id=who, room_id=None)
        key = SessionKey("telegram", str(house.telegram.me["id"]), str(ANA))
        here = sessions.start(connection, key, stream, prompt="", snapshot="{}", model="", now_ms=now_ms())
        row = turns.begin(connection, here.id, stream, who, "a process that is gone", now_ms())
        of: dict[str, Any] = {"session_id": here.id, "turn_id": row.key.turn, "created_ms": now_ms()}
        calls = (ToolCall("c1", "session_search", '{"query": "tea"}'), ToolCall("c2", "memory", TEA))
        add_message(connection, NewMessage(role="user", content="remember tea", account_id=who, **of))
        add_message(connection, NewMessage(role="assistant", content="", tool_calls=calls, step_n=1, **of))
        found: dict[str, Any] = {"tool_call_id": "c1", "tool_name": "session_search", "step_n": 1}
        add_message(connection, NewMessage(role="tool", content="Nothing found.", **found, **of))
        turns.give_up(connection, row.key.turn, "killed", now_ms())

    async with house.running(**QUICK):
        await house.database.write(plant)
        house.answer("Hello, Ana.")
        await house.say("hello")
        await house.shows("Hello, Ana.")

    results = {one["tool_call_id"]: one["content"] for one in asked(house) if one["role"] == "tool"}
    assert results == {"c1": "Nothing found.", "c2": UNKNOWN_OUTCOME}
    assert not (house.home / "memories" / "ana" / "USER.md").exists()
    assert len(house.model.requests) == 1


async def test_a_message_whose_turn_failed_is_there_beside_the_next_one(sqlite_house: SmallHouse) -> None:
    """LLM-05.1."""
    house = sqlite_house
    async with house.running(**QUICK):
        house.model.then(Reply(status=401, error="bad key", code="invalid_api_key"))
        await house.say("When is the tide high?")
        await house.shows("refused my key")
        house.answer("At nine.")
        await house.say("And where?")
        await house.shows("At nine.")

    said = asked(house)[1:]
    assert [one["role"] for one in said] == ["user"]
    first, between, second = said[0]["content"].partition("never answered")
    assert "When is the tide high?" in first
    assert between
    assert second.rstrip().endswith("And where?")


async def test_a_question_after_a_change_of_model_is_answered_by_the_new_one(
    sqlite_house: SmallHouse,
) -> None:
    """LLM-05.2."""
    house = sqlite_house
    other = {"name": "other", "base_url": house.model.base_url, "tool_calls": "native"}
    async with house.running(**QUICK, models=[other]):
        house.answer("Hello.")
        await house.say("hello")
        await house.shows("Hello.")
        await house.say("/model other")
        await house.shows("From now on other answers")
        house.answer("It is Monday.")
        await house.say("Which day is it?")
        await house.shows("It is Monday.")

    last = house.model.requests[-1]
    assert last["model"] == "other"
    assert len(house.model.requests) == 2
    assert [one["role"] for one in last["messages"]] == ["system", "user", "assistant", "user"]
    assert last["messages"][-1]["content"].rstrip().endswith("Which day is it?")


async def test_half_characters_and_zero_bytes_spoil_no_turn(sqlite_house: SmallHouse) -> None:
    """LLM-10: in the arguments of a call, and so in what its tool says, and in the answer."""
    house = sqlite_house
    async with house.running(**QUICK):
        query = '{"query": "tea \\ud800 \\u0000"}'
        house.call("session_search", query)
        house.model.then(Reply(raw_deltas=[{"content": "Noted \ud83d it"}, {"content": "\x00."}]))
        await house.say("I like this")
        await house.shows("Noted")
        await house.ended(1)
        house.answer("Hello again.")
        await house.say("hello")
        await house.shows("Hello again.")
        await house.ended(2)

    stored = await house.rows(message)
    assert [row.role for row in stored] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert not any(odd in str([row.content for row in stored]) for odd in ("\\ud8", "\\x00"))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"name": "m", "timeout": None}},
        {"memory": {"recall_timeout": None}},
        {"mcp": {"servers": {"odd": {"command": "x", "timeout": None}}}},
        {"agent": {"burst_window": None}},
    ],
    ids=str,
)
def test_no_wait_can_be_made_endless_in_the_settings(tmp_path: Path, changes: dict[str, Any]) -> None:
    """LLM-09.3."""
    with pytest.raises(ConfigError):
        parse_config(tmp_path, {"people": {"ana": {"role": "owner"}}, **changes}, {})


def test_the_endless_wait_that_is_refused_is_the_only_fault(tmp_path: Path) -> None:
    for changes in (
        {"model": {"name": "m"}},
        {"memory": {"recall_timeout": "2s"}},
        {"mcp": {"servers": {"odd": {"command": "x", "timeout": 5}}}},
        {"agent": {"burst_window": 1}},
    ):
        parse_config(tmp_path, {"people": {"ana": {"role": "owner"}}, **changes}, {})
