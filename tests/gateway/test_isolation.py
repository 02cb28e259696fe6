"""The isolation matrix over the stores, on both databases: no reader gives what its asker may not see."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import typer
from sqlalchemy import Connection
from typer.core import TyperGroup
from typer.testing import CliRunner

from tests.e2e.isolation import (
    CLI,
    COMMANDS,
    TOOLS,
    KnownSession,
    ReadsNothing,
    account_of,
    made_roster,
    markers_in,
    person_scope,
    plant,
    room_scope,
    uncovered,
)
from tests.gateway.inbound import in_room
from trunkline.adapters.base import InboundMessage
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool, ToolContext
from trunkline.gateway import cli
from trunkline.gateway.access import Admitted, decide
from trunkline.gateway.app import OpenHouse, belongings, built_in_tools, open_house
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.commands.catalogue import COMMANDS as CATALOGUE
from trunkline.gateway.commands.registry import CommandContext, House
from trunkline.gateway.config import Config, parse_config, write_config
from trunkline.gateway.exporting import export_person
from trunkline.gateway.joining import Joined, join
from trunkline.gateway.linking import Join
from trunkline.gateway.model_clients import Models
from trunkline.gateway.opening import who_is
from trunkline.gateway.payloads import dump_inbound
from trunkline.gateway.state import people, sessions
from trunkline.gateway.state.links import Request
from trunkline.gateway.state.records import Account, InboxRow, SessionKey, scope_of

ROSTER = made_roster("5001")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def config_for(home: Path, database_url: str) -> Config:
    return parse_config(home, ROSTER.settings, {"DATABASE_URL": database_url})


@asynccontextmanager
async def filled_house(
    home: Path, database_url: str
) -> AsyncIterator[tuple[OpenHouse, tuple[KnownSession, ...]]]:
    async with open_house(config_for(home, database_url)) as house:
        yield house, await plant(house, ROSTER)


@asynccontextmanager
async def tools_of(house: OpenHouse) -> AsyncIterator[dict[str, Tool[Any]]]:
    async with Models(house.config, house.database) as models:
        yield {tool.name: tool for tool in built_in_tools(house, models)}


async def scopes(house: OpenHouse) -> list[tuple[Scope, frozenset[str]]]:
    """Every place to ask from, with what may be seen there; in rooms also by one who is no member."""
    direct: list[tuple[Scope, frozenset[str]]] = [
        (person_scope(one.name), ROSTER.seen_by(one.name)) for one in ROSTER.people
    ]
    for place in ROSTER.rooms:
        for one in ROSTER.people:
            scope = await house.database.read(
                lambda c, place=place, one=one: room_scope(c, ROSTER, place, one.name)  # type: ignore[misc]
            )
            direct.append((scope, ROSTER.seen_in(place.name)))
    return direct


async def answer(tool: Tool[Any], arguments: object, scope: Scope, turn: int) -> str:
    context = ToolContext(scope, "no-session", turn, 1, f"call-{turn}", "telegram", NOW)
    return (await tool.run(tool.arguments.model_validate(arguments), context)).content


async def test_every_tool_is_in_the_matrix_with_every_argument(tmp_path: Path, sqlite_url: str) -> None:
    async with open_house(config_for(tmp_path, sqlite_url)) as house, tools_of(house) as tools:
        assert uncovered(tools, TOOLS) == []
        known = await plant(house, ROSTER)
        for name, tool in tools.items():
            asked = {argument for call in TOOLS[name](known) for argument in call}
            assert uncovered(tool.arguments.model_fields, asked) == [], name


def test_every_chat_command_is_in_the_matrix() -> None:
    assert uncovered(BY_NAME, COMMANDS) == []


def test_every_command_of_the_command_line_is_in_the_matrix() -> None:
    assert uncovered(command_line(), CLI) == []


def command_line() -> list[str]:
    """`sessions list` and the like, read from the program's own tables."""
    names = []
    for name in cli.COMMANDS:
        made = typer.main.get_command(import_module(f"trunkline.gateway.cli.{name}").app)
        names += [f"{name} {inner}" for inner in made.commands] if isinstance(made, TyperGroup) else [name]
    return names


async def test_no_tool_shows_anyone_what_is_not_theirs_to_see(tmp_path: Path, database_url: str) -> None:
    async with filled_house(tmp_path, database_url) as (house, known), tools_of(house) as tools:
        turn = 0
        for scope, visible in await scopes(house):
            seen: frozenset[str] = frozenset()
            for name, tool in tools.items():
                for arguments in TOOLS[name](known):
                    turn += 1
                    found = markers_in(await answer(tool, arguments, scope, turn))
                    assert found <= visible, f"{name} {arguments} of {scope}"
                    seen |= found
            assert seen == visible, f"asked for everything, {scope} did not get all of its own"


async def test_a_word_that_only_others_used_is_answered_like_a_word_that_nobody_used(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, _), tools_of(house) as tools:
        search = tools["session_search"]
        shape = {"summarize": False, "limit": 10, "role_filter": "user,assistant,tool"}
        for scope, visible in await scopes(house):
            nothing = await answer(search, {"query": "zqnobodyx", **shape}, scope, 1)
            for word in sorted(ROSTER.markers - visible):
                assert await answer(search, {"query": word, **shape}, scope, 1) == nothing, f"{word} {scope}"


async def test_a_session_of_others_reads_byte_for_byte_like_one_that_does_not_exist(
    tmp_path: Path, database_url: str
) -> None:
    never = sessions.new_public_id()
    async with filled_house(tmp_path, database_url) as (house, known), tools_of(house) as tools:
        search = tools["session_search"]
        for scope, visible in await scopes(house):
            hidden = [one for one in known if not any(one.holder in word for word in visible)]
            assert hidden
            for one in hidden:
                for more in ({}, {"around_message_id": one.messages[0], "window": 20}):
                    real = await answer(search, {"session_id": one.id, **more}, scope, 1)
                    made_up = await answer(search, {"session_id": never, **more}, scope, 1)
                    assert real.replace(one.id, never) == made_up, f"{one.holder} {scope}"


async def test_no_chat_command_shows_anyone_what_is_not_theirs_to_see(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, _):
        desk = House(
            house.database,
            house.memory,
            house.search,
            NoTurns(),
            "1",
            "model",
            lambda _: "web",
            skills=house.skills,
            home=house.config.home,
        )
        for one in ROSTER.people:
            for platform in one.accounts:
                shown = await _ask_commands(house, desk, one.name, platform)
                assert shown <= ROSTER.seen_by(one.name)
                assert shown, one.name


async def _ask_commands(house: OpenHouse, desk: House, name: str, platform: str) -> frozenset[str]:
    one = ROSTER.person(name)
    account = await house.database.write(lambda c: account_of(c, one, platform))
    shown: frozenset[str] = frozenset()
    for command in CATALOGUE:
        probes = COMMANDS[command.name]
        for argument in ("",) if isinstance(probes, ReadsNothing) else probes:
            key = SessionKey(platform, "bot", one.accounts[platform])
            reply = await command.run(CommandContext(desk, account, None, key, argument, "en", 1))
            found = markers_in(reply)
            assert not (found and isinstance(probes, ReadsNothing)), f"/{command.name} reads something"
            shown |= found
    return shown


class NoTurns:
    """No turn runs."""

    def running_for(self, key: SessionKey) -> None:
        return None

    def stop(self, key: SessionKey) -> bool:
        return False

    def stop_gathering(self, key: SessionKey) -> int:
        return 0


def test_the_command_line_shows_of_each_person_what_they_may_see(tmp_path: Path, database_url: str) -> None:
    async def fill() -> tuple[KnownSession, ...]:
        async with filled_house(tmp_path, database_url) as (_, known):
            return known

    write_config(tmp_path, ROSTER.settings)
    known = asyncio.run(fill())
    for one in ROSTER.people:
        shown = frozenset[str]().union(
            *(_run_cli(tmp_path, database_url, name, known, one.name) for name in CLI)
        )
        assert shown == ROSTER.seen_by(one.name)
    nobody = frozenset[str]().union(
        *(_run_cli(tmp_path, database_url, name, known, "nobody") for name in CLI)
    )
    assert nobody == frozenset()


def _run_cli(
    home: Path, database_url: str, name: str, known: tuple[KnownSession, ...], person: str
) -> frozenset[str]:
    probe = CLI[name]
    if isinstance(probe, ReadsNothing):
        return frozenset()
    environment = {"TRUNKLINE_HOME": str(home), "DATABASE_URL": database_url, "COLUMNS": "400"}
    found: frozenset[str] = frozenset()
    for one in known if "{session}" in probe else known[:1]:
        words = [word.replace("{session}", one.id) for word in probe]
        done = CliRunner().invoke(cli.app, [*name.split(), *words, "--as", person], env=environment)
        found |= markers_in(done.output + str(done.exception or ""))
    return found


async def test_a_persons_own_copy_holds_what_they_may_see_and_nothing_else(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, _):
        for one in ROSTER.people:
            target = tmp_path / f"{one.name}.zip"
            await export_person(
                house.database, house.memory, belongings(house), person_scope(one.name), target, house.files
            )
            with ZipFile(target) as archive:
                text = "\n".join(archive.read(name).decode() for name in archive.namelist())
            assert markers_in(text) == ROSTER.seen_by(one.name)


async def test_a_person_joined_with_another_sees_what_both_may_see_and_no_third(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, known), tools_of(house) as tools:
        for name in ("bo", "cy"):
            await house.database.write(
                lambda c, n=name: people.change_person(c, people.find_person(c, n).id, source="pairing")  # type: ignore[union-attr, misc]
            )
        bo, cy = await house.database.read(
            lambda c: (people.find_person(c, "bo"), people.find_person(c, "cy"))
        )
        assert bo is not None
        assert cy is not None
        typed_by = await house.database.read(lambda c: account_of(c, ROSTER.person("cy"), "telegram"))
        wanted = Join(Request(0, typed_by.id, typed_by.id, True, True), bo, cy, typed_by)
        joined = await join(house.database, house.memory, belongings(house), wanted, "")
        assert isinstance(joined, Joined)

        seen: frozenset[str] = frozenset()
        for name in ("memory", "session_search", "skill_view"):
            for arguments in TOOLS[name](known):
                seen |= markers_in(await answer(tools[name], arguments, person_scope("bo"), 1))
                assert not markers_in(await answer(tools[name], arguments, person_scope("cy"), 1))
        assert seen == ROSTER.seen_by("bo") | ROSTER.seen_by("cy")


async def test_what_was_said_in_a_room_is_out_of_reach_for_one_who_left(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, known), tools_of(house) as tools:
        attic, bo = ROSTER.room("attic"), ROSTER.person("bo")

        def leave(connection: Connection) -> None:
            room = people.find_room(connection, attic.platform, "", attic.chat)
            assert room is not None
            people.note_left(connection, room.id, account_of(connection, bo, "telegram").id, 1)

        await house.database.write(leave)
        gone = ROSTER.seen_in("attic")
        for arguments in TOOLS["session_search"](known):
            found = await answer(tools["session_search"], arguments, person_scope("bo"), 1)
            assert not markers_in(found) & gone, arguments


async def test_an_account_that_is_nobodys_any_more_sees_nothing_in_a_direct_chat(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, _):
        bo = ROSTER.person("bo")

        def unlink(connection: Connection) -> Account:
            account = account_of(connection, bo, "discord")
            people.give_account(connection, account.id, None, "")
            return people.load_account(connection, account.id)

        unlinked = await house.database.write(unlink)
        with pytest.raises(ValueError, match="has no person"):
            scope_of(unlinked, None)


async def test_what_an_account_that_was_taken_away_said_is_not_the_persons_any_more(
    tmp_path: Path, database_url: str
) -> None:
    async with filled_house(tmp_path, database_url) as (house, known), tools_of(house) as tools:
        bo = ROSTER.person("bo")
        await house.database.write(
            lambda c: people.give_account(c, account_of(c, bo, "discord").id, None, "")
        )
        taken = {word for word in ROSTER.markers if word.startswith("zqbodiscord")}
        for arguments in TOOLS["session_search"](known):
            found = await answer(tools["session_search"], arguments, person_scope("bo"), 1)
            assert not markers_in(found) & taken, arguments


async def test_an_account_that_changes_hands_begins_a_new_session(tmp_path: Path, database_url: str) -> None:
    """An open session's prompt holds the memory of the person it began with."""
    async with filled_house(tmp_path, database_url) as (house, _):
        key = SessionKey("discord", "bot", "2002")

        def hand_over(connection: Connection) -> bool:
            account = account_of(connection, ROSTER.person("bo"), "discord")
            stream = people.stream_of(connection, account_id=account.id, room_id=None)
            sessions.start(connection, key, stream, prompt="Bo's", snapshot="{}", model="m", now_ms=1)
            assert account.person is not None
            people.give_account(connection, account.id, account.person.id, "config")
            assert sessions.find_open(connection, key) is not None
            ana = people.find_person(connection, "ana")
            assert ana is not None
            people.give_account(connection, account.id, ana.id, "config")
            return sessions.find_open(connection, key) is None

        assert await house.database.write(hand_over)


async def test_a_message_of_a_room_has_the_rooms_scope_after_the_room_got_a_new_id(
    tmp_path: Path, database_url: str
) -> None:
    """It waited while a Telegram group became a supergroup; its stored form names the old id."""
    config = config_for(tmp_path, database_url)
    async with open_house(config) as house:
        message = in_room("what do you know?", room="-1000000000777", user="1001")

        def wait_and_move(connection: Connection) -> Scope:
            verdict = decide(connection, message, config, 1)
            assert isinstance(verdict, Admitted)
            assert verdict.room is not None
            people.move_room(connection, "telegram", "", message.chat, "-42")
            row = row_of(verdict, message, chat="-42")
            scope = who_is(connection, row, message).scope
            assert scope == RoomScope(verdict.room.slug, verdict.account.id)
            return scope

        await house.database.write(wait_and_move)


async def test_a_message_of_a_room_that_nobody_knows_has_no_scope_at_all(
    tmp_path: Path, database_url: str
) -> None:
    config = config_for(tmp_path, database_url)
    async with open_house(config) as house:
        message = in_room("what do you know?", room="-1000000000777", user="1001")

        def ask(connection: Connection) -> None:
            verdict = decide(connection, message, config, 1)
            assert isinstance(verdict, Admitted)
            with pytest.raises(LookupError):
                who_is(connection, row_of(verdict, message, chat="-43"), message)

        await house.database.write(ask)


def row_of(verdict: Admitted, message: InboundMessage, chat: str) -> InboxRow:
    key = SessionKey(message.platform, message.tenant, chat)
    return InboxRow(1, key, verdict.account.id, "message", dump_inbound(message), 1, None, 1)
