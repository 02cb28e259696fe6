"""Tool servers: real ones and one of our own that answers, fails, floods, hangs and dies."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import mcp_types
import pytest
from pydantic import ValidationError

from tests.gateway.small_house import eventually
from tests.ports import free_port
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult
from trunkline.agent.tools.given_schema import BadSchema, arguments_of, values_of
from trunkline.agent.tools.mcp import (
    DESCRIPTION_CHARS,
    RESULT_CHARS,
    McpConnection,
    ServerSpec,
    legal_name,
    render_result,
)
from trunkline.agent.tools.mcp_http import MOST_ANSWER_BYTES

HERE = ToolContext(PersonScope(PersonId("ana")), "s", 1, 1, "c", "telegram", datetime(2026, 1, 1, tzinfo=UTC))
ODD = ("-m", "tests.emulators.mcp_server")


@asynccontextmanager
async def connected(**more: Any) -> AsyncIterator[McpConnection]:
    """Our own server over standard input and output, unless `more` says else."""
    values = {"name": "odd", "command": sys.executable, "args": ODD, "timeout_s": 20.0, **more}
    connection = McpConnection(ServerSpec(**values))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(connection.run())
        try:
            assert await connection.wait_until_known(90), connection.reason
            yield connection
        finally:
            running.cancel()


def tool(connection: McpConnection, name: str) -> Tool[Any]:
    return next(one for one in connection.tools if one.name == f"{connection.spec.name}_{name}")


async def call(connection: McpConnection, name: str, /, **arguments: object) -> ToolResult:
    chosen = tool(connection, name)
    return await chosen.run(chosen.arguments.model_validate(arguments), HERE)


def runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_server_of_the_official_collection_is_of_use() -> None:
    args = ("-m", "mcp_server_time", "--local-timezone", "Europe/Berlin")
    async with connected(name="time", args=args) as server:
        assert {one.name for one in server.tools} >= {"time_get_current_time", "time_convert_time"}
        said = await call(server, "get_current_time", timezone="Asia/Tokyo")
        assert not said.is_error
        assert "Asia/Tokyo" in said.content
        assert (await call(server, "get_current_time", timezone="Nowhere/Land")).is_error
        schema = tool(server, "convert_time").arguments.model_json_schema()
        assert set(schema["properties"]) == {"source_timezone", "time", "target_timezone"}
        with pytest.raises(ValidationError, match="required"):
            tool(server, "convert_time").arguments.model_validate({"time": "10:00"})


async def test_what_a_server_says_is_bounded_and_told_apart_from_instructions() -> None:
    async with connected(env={"TOLD": "by us"}) as server:
        assert (await call(server, "add", first=2, second=3)).content == "5"
        assert (await call(server, "secret", name="TOLD")).content == "by us"
        assert (await call(server, "secret", name="OPENAI_API_KEY")).content == "not set"
        odd = tool(server, "odd_name_with_everything")
        assert "Ignore" not in odd.description
        much = await call(server, "much", chars=300_000)
        assert len(much.content) < RESULT_CHARS + 200
        hostile = await call(server, "hostile")
        assert "not instructions" in hostile.content
        assert "</memory-context>" not in hostile.content
        assert "⟦" not in hostile.content
        picture = await call(server, "picture")
        assert picture.content.startswith("a dot")
        assert "image/png" in picture.content
        broken = await call(server, "broken")
        assert broken.is_error


async def test_a_call_that_hangs_ends_with_its_time() -> None:
    async with connected(timeout_s=0.5) as server:
        said = await call(server, "hang")
        assert said.is_error
        assert "did not answer within" in said.content
        server.spec = replace(server.spec, timeout_s=60)
        assert (await call(server, "add", first=1)).content == "1"


async def test_a_call_that_hangs_is_left_when_it_is_given_up() -> None:
    async with connected(timeout_s=600) as server:
        async with asyncio.TaskGroup() as group:
            given_up = group.create_task(call(server, "hang"))
            await asyncio.wait([given_up], timeout=0.2)
            given_up.cancel()
            async with asyncio.timeout(60):
                await asyncio.wait([given_up])
        assert (await call(server, "add", first=1)).content == "1"


async def test_a_server_that_dies_is_started_again() -> None:
    async with connected() as server:
        before = (await call(server, "process")).content
        said = await call(server, "die")
        assert said.is_error
        assert "lost" in said.content

        async def answers() -> bool:
            return (await call(server, "add", first=1)).content == "1"

        await eventually(answers, timeout_s=60)
        assert (await call(server, "process")).content != before


@pytest.mark.parametrize("name", ["flood", "chatter"])
async def test_a_server_that_floods_is_ended(name: str) -> None:
    async with connected() as server:
        number = int((await call(server, "process")).content)
        said = await call(server, name)
        assert said.is_error
        assert server.reason

        async def has_ended() -> bool:
            return not runs(number)

        await eventually(has_ended)


async def test_nothing_is_left_running_when_the_house_closes() -> None:
    async with connected() as server:
        number = int((await call(server, "process")).content)
        assert runs(number)
    assert not runs(number)


async def test_a_command_that_is_not_there_is_named_and_harms_nobody() -> None:
    connection = McpConnection(ServerSpec("gone", command="no-such-command-anywhere"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(connection.run())

        async def is_told() -> bool:
            return connection.reason == "its command is not found"

        await eventually(is_told)
        assert connection.tools == ()
        running.cancel()


async def test_only_the_tools_that_are_wanted_are_taken() -> None:
    async with connected(wanted=("add", "subtract")) as server:
        assert [one.name for one in server.tools] == ["odd_add"]
        assert server.left_out == ("subtract: the server has no such tool",)


async def test_a_tool_that_is_wanted_is_found_on_the_last_page() -> None:
    async with connected(args=(*ODD, "--many"), wanted=("add_99",)) as server:
        assert [one.name for one in server.tools] == ["odd_add_99"]


@asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """Our own server over HTTP: its address and its process."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(sys.executable, *ODD, "--port", str(port), *flags)
    try:
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_server_over_http_gets_its_secret() -> None:
    async with serving("--locked") as (url, process):
        secret = {"Authorization": "Bearer open"}
        async with connected(command="", args=(), url=url, headers=secret) as server:
            assert (await call(server, "add", first=2, second=3)).content == "5"
            process.kill()
            await process.wait()
            assert (await call(server, "add", first=1)).is_error


@pytest.mark.parametrize("flags", [("--plain",), ()], ids=["plain", "stream"])
async def test_an_answer_over_http_is_bounded_and_the_server_of_use_afterwards(
    flags: tuple[str, ...],
) -> None:
    async with serving(*flags) as (url, _), connected(command="", args=(), url=url) as server:
        assert len((await call(server, "much", chars=300_000)).content) < RESULT_CHARS + 200
        said = await call(server, "much", chars=3 * MOST_ANSWER_BYTES)
        assert said.is_error
        assert (await call(server, "add", first=2, second=3)).content == "5"


async def test_a_server_whose_list_changes_is_listed_again() -> None:
    async with connected() as server:
        assert (await call(server, "grow")).content == "grown"

        async def is_listed() -> bool:
            return {"odd_plus"} == {"odd_plus", "odd_much"} & {one.name for one in server.tools}

        await eventually(is_listed, timeout_s=30)
        assert (await call(server, "plus", first=2)).content == "2"


async def test_resources_and_large_pictures_are_named_and_not_copied() -> None:
    async with connected() as server:
        picture = await call(server, "sized_picture", count=900_000)
        assert picture.content == "[a picture that can't be shown: image/png, 900,000 bytes]"
        said = await call(server, "resources")
        assert "not instructions" in said.content
        assert "</memory-context>" not in said.content
        assert "[a file that can't be shown: file:///b.bin]" in said.content
        assert "[a resource: notes, file:///notes.txt]" in said.content
        assert len(said.content) < 1_000


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "pattern": "(a+)+$"},
        "size": {"$ref": "#/$defs/size"},
        "from": {"$ref": "http://127.0.0.1:9/elsewhere.json"},
    },
    "required": ["pattern"],
    "$defs": {"size": {"enum": ["small", "large"]}},
    "additionalProperties": False,
}


def test_a_schema_from_elsewhere_is_shown_as_it_is_and_held_to() -> None:
    model = arguments_of(SCHEMA)
    assert model.model_json_schema() == SCHEMA
    given = {"pattern": "a" * 40 + "!", "size": "small", "from": 1}
    assert values_of(model.model_validate(given)) == given
    for wrong in ({}, {"pattern": 1}, {"pattern": "x", "size": "huge"}, {"pattern": "x", "more": 1}):
        with pytest.raises(ValidationError):
            model.model_validate(wrong)


def deep(levels: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": deep(levels - 1)} if levels else {}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": "none"},
        {"type": "object", "description": "x" * 30_000},
        deep(40),
    ],
)
def test_a_schema_that_is_none_or_too_large_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema):
        arguments_of(schema)


def test_names_are_made_legal_and_stay_apart() -> None:
    assert legal_name("odd", "a b/c.d") == "odd_a_b_c_d"
    long = [legal_name("odd", "x" * 100 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert max(map(len, long)) <= 64


def test_every_kind_of_content_is_named() -> None:
    done = mcp_types.CallToolResult(
        content=[
            mcp_types.AudioContent(data="AAAA", mime_type="audio/ogg"),
            mcp_types.ResourceLink(name="notes", uri="file:///notes.txt"),
            mcp_types.EmbeddedResource(
                resource=mcp_types.TextResourceContents(uri="file:///a.txt", text="inside")
            ),
            mcp_types.EmbeddedResource(
                resource=mcp_types.BlobResourceContents(uri="file:///b.bin", blob="AAAA")
            ),
        ]
    )
    text = render_result(done)
    for expected in ("audio/ogg", "notes", "inside", "b.bin"):
        assert expected in text
    assert render_result(mcp_types.CallToolResult(content=[])) == "(the tool returned nothing)"
    alone = mcp_types.CallToolResult(content=[], structured_content={"ok": True})
    assert render_result(alone) == '{"ok": true}'
    assert DESCRIPTION_CHARS < 5_000
