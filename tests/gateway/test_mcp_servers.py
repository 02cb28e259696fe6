"""Tool servers of the settings in the running house: for whom they are, and that nothing waits for them."""

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agent.test_mcp import ODD
from tests.emulators.openai import Reply, ToolUse
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse, small_house
from trunkline.agent.tokens import estimate_text
from trunkline.gateway.cli.mcp import app as command
from trunkline.gateway.config import parse_config, write_config
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import message

SERVER = {"command": sys.executable, "args": list(ODD), "tools": ["add"]}
CALL = Reply(tools=[ToolUse("odd_add", {"first": 2, "second": 3})])


@pytest.fixture
async def house(tmp_path: Path, sqlite_database: Database, sqlite_url: str) -> AsyncIterator[SmallHouse]:
    async with small_house(tmp_path, sqlite_database, sqlite_url) as made:
        yield made


def offered(house: SmallHouse, number: int = -1) -> list[str]:
    tools = house.model.requests[number].get("tools") or []
    return [one["function"]["name"] for one in tools if one["function"]["name"].startswith("odd")]


async def until_offered(house: SmallHouse) -> int:
    """Writes until the server is connected; returns how many turns that took."""
    for turns in range(1, 400):
        house.answer("Not yet.")
        await house.say(f"are you there, {turns}?")
        await house.ended(turns)
        if offered(house):
            return turns
    raise AssertionError("the server was never connected")


async def test_the_owner_alone_has_a_server_that_nobody_else_is_allowed(house: SmallHouse) -> None:
    async with house.running(mcp={"servers": {"odd": SERVER}}):
        turns = await until_offered(house)
        assert offered(house) == ["odd_add"]
        house.model.then(CALL, Reply("It is five."))
        await house.say("two and three?")
        await house.shows("It is five.")
        results = await house.rows(message, message.c.role == "tool")
        assert [row.content for row in results] == ["5"]

        house.answer("Who knows.")
        await house.say("two and three?", BO)
        await house.ended(turns + 2)
        assert offered(house) == []
        house.answer("Who knows.")
        await house.telegram.group_message(ROOM, ANA, "@trunkline_bot two and three?")
        await house.ended(turns + 3)
        assert offered(house) == []


def cost(tools: list[dict[str, Any]]) -> int:
    """In tokens, as the house estimates them."""
    parts = [[one["function"][name] for name in ("name", "description", "parameters")] for one in tools]
    return sum(estimate_text(name + said + json.dumps(schema)) for name, said, schema in parts)


async def test_their_tools_count_for_the_size_of_a_conversation(house: SmallHouse) -> None:
    everything = {key: value for key, value in SERVER.items() if key != "tools"}
    async with house.running(mcp={"servers": {"odd": everything}}):
        turns = await until_offered(house)
        for number in range(3):
            house.answer("Well, well.")
            await house.say(f"tell me more, {number}")
            await house.ended(turns + 1 + number)
        body = house.model.requests[-1]
        house.answer("## Facts\n- They spoke of little.")
        await house.say("/compress")
        await house.shows("tokens before")

    shown = next(text for text in house.telegram.texts(ANA) if "tokens before" in text)
    before = int(re.search(r"([0-9,]+) tokens before", shown)[1].replace(",", ""))  # type: ignore[index]
    said = sum(estimate_text(str(one["content"])) for one in body["messages"])
    assert before > said + cost(body["tools"])


async def test_whoever_is_named_may_use_it_and_wrong_arguments_never_reach_it(house: SmallHouse) -> None:
    async with house.running(mcp={"servers": {"odd": SERVER | {"allow": "everyone"}}}):
        turns = await until_offered(house)
        wrong = Reply(tools=[ToolUse("odd_add", {"first": "two"})])
        house.model.then(wrong, CALL, Reply("It is five."))
        await house.say("two and three?", BO)
        await house.shows("It is five.", BO)
        results = await house.rows(message, message.c.role == "tool")
        assert "Not run" in results[0].content
        assert results[1].content == "5"
        assert turns


async def test_a_server_that_is_not_there_holds_nobody_up(house: SmallHouse) -> None:
    async with house.running(mcp={"servers": {"gone": {"command": "no-such-command-anywhere"}}}):
        house.answer("Hello!")
        await house.say("hello")
        await house.shows("Hello!")


def settings(**server: Any) -> dict[str, Any]:
    return {"people": {"ana": {"role": "owner"}}, "mcp": {"servers": {"odd": server}}}


def test_secrets_come_from_the_environment_alone_and_are_never_shown(tmp_path: Path) -> None:
    server = {"url": "https://tools.example/mcp", "headers_env": {"Authorization": "ODD_TOKEN"}}
    config = parse_config(tmp_path, settings(**server), {"ODD_TOKEN": "Bearer zq-secret"})
    assert config.secrets.mcp_keys == {"ODD_TOKEN": "Bearer zq-secret"}
    assert "Bearer zq-secret" in config.secrets.values
    with pytest.raises(ConfigError, match="never the value itself") as caught:
        parse_config(
            tmp_path, settings(**server | {"headers_env": {"Authorization": "Bearer zq-secret"}}), {}
        )
    assert "zq-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "server", [{}, {"command": "x", "url": "https://y.example"}, {"url": "y.example"}, {"comand": "x"}]
)
def test_a_server_is_reached_in_one_way(tmp_path: Path, server: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="mcp"):
        parse_config(tmp_path, settings(**server), {})


def test_the_operator_lists_and_checks_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_HOME", str(tmp_path))
    shown = CliRunner().invoke(command, ["list"])
    assert shown.exit_code == 0
    assert "no tool servers" in shown.output
    gone = {"command": "no-such-command-anywhere", "env": {"KEY": "ODD_KEY"}}
    write_config(
        tmp_path,
        {"people": {"ana": {"role": "owner"}}, "mcp": {"servers": {"odd": SERVER, "gone": gone}}},
    )
    shown = CliRunner().invoke(command, ["list"])
    assert "ODD_KEY is not set" in shown.output
    assert "ana (the owner)" in shown.output

    good = CliRunner().invoke(command, ["check", "odd"])
    assert (good.exit_code, "odd_add" in good.output) == (0, True), good.output
    bad = CliRunner().invoke(command, ["check"])
    assert (bad.exit_code, "gone: not reached: its command is not found" in bad.output) == (1, True)
    unknown = CliRunner().invoke(command, ["check", "other"])
    assert unknown.exit_code != 0
