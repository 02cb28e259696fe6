"""Killed in the middle and started again, as a process of its own: all is answered, and nothing twice."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from sqlalchemy import select

from tests.e2e.installed import DEADLINE_S, Installed, echo, installed_program
from tests.emulators.base import Fault
from tests.emulators.openai import Reply, ToolUse
from tests.gateway.small_house import eventually
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import inbox, outbox, step

pytestmark = pytest.mark.blackbox

ANA_TELEGRAM, ANA_DISCORD = 1001, "2001"
SETTINGS = f"""
model: {{name: emulated, tool_calls: native}}
platforms: {{web: {{port: 0}}}}
logs: {{level: debug}}
shutdown: {{grace: 20}}
agent: {{burst_window: 0.001}}
people:
  ana: {{role: owner, telegram: {ANA_TELEGRAM}, discord: {ANA_DISCORD}}}
access: {{welcome: false}}
"""
LONG = "\n\n".join(f"Paragraph {n} of an answer that needs more than one message." for n in range(100))


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Installed]:
    async with installed_program(tmp_path) as made:
        (tmp_path / "trunkline" / "config.yaml").write_text(SETTINGS, encoding="utf-8")
        yield made


def on_telegram(program: Installed) -> list[str]:
    return program.telegram.texts(ANA_TELEGRAM)


def on_discord(program: Installed) -> list[str]:
    return program.discord.texts(program.discord.direct_chat(ANA_DISCORD))


def words(texts: list[str]) -> list[str]:
    return "\n".join(texts).split()


async def states(program: Installed, table: Any) -> list[str]:
    with Database.sqlite(program.home / "trunkline" / "state.db") as database:
        query = select(table.c.state).order_by(*table.primary_key.columns)
        return await database.read(lambda c: list(c.execute(query).scalars()))


async def test_killed_before_the_model_answered(program: Installed) -> None:
    program.model.responder = lambda body: Reply("Too late to be heard.", delay_s=60)
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "are you there?")
        await program.model.wait_for(lambda: program.model.requests)
        await running.kill()

    program.model.responder = echo
    async with program.running():
        await program.telegram.wait_for(lambda: on_telegram(program), DEADLINE_S)
        await program.telegram.direct_message(ANA_TELEGRAM, "and now?")
        await program.telegram.wait_for(lambda: len(on_telegram(program)) == 2, DEADLINE_S)

    assert on_telegram(program) == ["You said: are you there?", "You said: and now?"]


async def test_killed_while_a_tool_ran_its_outcome_is_known_to_the_model_and_done_once(
    program: Installed,
) -> None:
    folder = program.home / "trunkline" / "memories" / "ana"
    folder.mkdir(parents=True)
    note = {"action": "add", "target": "user", "content": "Ana likes tea."}

    def remember(body: Mapping[str, Any]) -> Reply:
        said = str(body["messages"][-1])
        if body.get("tools") and "remember" in said and body["messages"][-1]["role"] == "user":
            return Reply(tools=[ToolUse("memory", note)])
        return Reply("It is noted.")

    program.model.responder = remember
    async with program.running() as running:
        await program.connected()
        with FileLock(folder / "USER.md.lock"):
            await program.telegram.direct_message(ANA_TELEGRAM, "remember that I like tea")
            await eventually(lambda: is_calling(program), DEADLINE_S)
            await running.kill()

    async with program.running():
        await program.telegram.wait_for(lambda: on_telegram(program), DEADLINE_S)

    assert on_telegram(program) == ["It is noted."]
    results = [m for m in program.model.requests[-1]["messages"] if m["role"] == "tool"]
    written = (folder / "USER.md").read_text(encoding="utf-8") if (folder / "USER.md").exists() else ""
    assert written.count("Ana likes tea.") <= 1
    assert len(results) <= 1


async def is_calling(program: Installed) -> bool:
    """Whether a call is recorded that has no result yet."""
    return "calling" in await states(program, step)


async def test_killed_between_the_messages_of_an_answer_on_telegram(program: Installed) -> None:
    """T3: the parts that had arrived are not sent again."""
    program.model.responder = lambda body: Reply(LONG, chunk_chars=4000)
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "a long one")
        await program.telegram.wait_for(lambda: on_telegram(program), DEADLINE_S)
        program.telegram.fail_next("sendMessage", Fault(delay_s=1, accept_then_drop=True))
        sent = len(program.telegram.calls_of("sendMessage"))
        if words(on_telegram(program)) != LONG.split():
            await program.telegram.wait_for(
                lambda: len(program.telegram.calls_of("sendMessage")) > sent, DEADLINE_S
            )
        await running.kill()

    async with program.running():
        await ended(program)

    answer = [text for text in on_telegram(program) if "may not have arrived" not in text]
    assert words(answer) == LONG.split()
    assert set(await states(program, outbox)) <= {"sent", "unknown"}


async def test_an_answer_on_its_way_to_telegram_when_the_program_died_is_said_to_be_in_doubt(
    program: Installed,
) -> None:
    program.model.responder = lambda body: Reply("A short one.")
    program.telegram.fail_next("sendMessage", Fault(delay_s=60, drop=True))
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "are you there?")
        await eventually(lambda: is_in_state(program, "sending"), DEADLINE_S)
        await eventually(lambda: is_answered(program), DEADLINE_S)
        await running.kill()

    async with program.running():
        await program.telegram.wait_for(lambda: on_telegram(program), DEADLINE_S)
        await ended(program)

    (notice,) = on_telegram(program)
    assert "may not have arrived" in notice


async def is_in_state(program: Installed, state: str) -> bool:
    return state in await states(program, outbox)


async def is_answered(program: Installed) -> bool:
    """Whether the turn has ended, so that no other attempt at its answer follows."""
    return await states(program, inbox) == ["done"]


async def test_killed_between_the_messages_of_an_answer_on_discord(program: Installed) -> None:
    """T3."""
    program.model.responder = lambda body: Reply(LONG, chunk_chars=4000)
    program.discord.fail_next("create_message", Fault(delay_s=1, accept_then_drop=True))
    async with program.running() as running:
        await program.connected()
        await program.discord.direct_message(ANA_DISCORD, "a long one")
        await program.discord.wait_for(lambda: program.discord.calls_of("create_message"), DEADLINE_S)
        await running.kill()

    async with program.running():
        await program.discord.wait_for(lambda: words(on_discord(program)) == LONG.split(), DEADLINE_S)
        await ended(program)

    assert words(on_discord(program)) == LONG.split()
    assert set(await states(program, outbox)) == {"sent"}


async def ended(program: Installed) -> None:
    """Returns when nothing is left to do."""

    async def met() -> bool:
        going_out = {*await states(program, outbox)} & {"planned", "sending"}
        return not going_out and {*await states(program, inbox)} == {"done"}

    await eventually(met, DEADLINE_S)


async def test_asked_to_end_it_finishes_the_answer_and_keeps_what_comes_meanwhile(program: Installed) -> None:
    program.model.responder = lambda body: Reply("Just in time.", delay_s=2)
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "a question")
        await program.model.wait_for(lambda: program.model.requests, DEADLINE_S)
        async with asyncio.TaskGroup() as group:
            leaving = group.create_task(running.terminate())
            await program.telegram.direct_message(ANA_TELEGRAM, "one more thing")
        assert leaving.result() == 0

    assert on_telegram(program) == ["Just in time."]
    program.model.responder = echo
    async with program.running():
        await program.telegram.wait_for(lambda: len(on_telegram(program)) == 2, DEADLINE_S)

    assert on_telegram(program) == ["Just in time.", "You said: one more thing"]


async def test_asked_to_end_before_a_whole_answer_may_go_out_it_arrives_once_whoever_sends_it(
    program: Installed,
) -> None:
    program.model.responder = lambda body: Reply("Done.")
    slower = {"ok": False, "error_code": 429, "description": "Too Many Requests"}
    wait = Fault(status=429, body=slower | {"parameters": {"retry_after": 2}})
    program.telegram.fail_next("sendMessage", wait)
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "a question")
        await program.telegram.wait_for(lambda: program.telegram.calls_of("sendMessage"), DEADLINE_S)
        assert await running.terminate() == 0

    async with program.running():
        await program.connected()
        await ended(program)

    assert on_telegram(program) == ["Done."]
    assert len(program.model.requests) == 1
    assert set(await states(program, outbox)) == {"sent"}


async def test_a_start_beside_an_end_that_takes_its_time_comes_up_afterwards(program: Installed) -> None:
    async with program.running() as running:
        await program.connected()
        assert await running.terminate() == 0
    [lock] = program.home.rglob("home-*.lock")
    leaving = FileLock(lock)
    leaving.acquire()
    async with program.running() as successor:
        await successor.says("waits 30 seconds")
        leaving.release()
        await program.connected()
        assert await successor.terminate() == 0


async def test_asked_to_end_by_a_tool_of_the_running_turn_it_answers_first(program: Installed) -> None:
    """What a person asks for may end the very process that answers; nothing waits for itself."""
    pids: list[int] = []

    def answer(body: Mapping[str, Any]) -> Reply:
        if body["messages"][-1]["role"] == "tool":
            return Reply("I am going down now.")
        os.kill(pids[0], signal.SIGTERM)
        return Reply(tools=[ToolUse("session_search", {"query": "anything"})])

    program.model.responder = answer
    async with program.running() as running:
        await program.connected()
        pids.append(running.pid)
        await program.telegram.direct_message(ANA_TELEGRAM, "restart yourself")
        assert await running.ended() == 0

    assert on_telegram(program) == ["I am going down now."]


async def test_a_process_id_of_another_program_does_not_hinder_a_start_after_a_kill(
    program: Installed,
) -> None:
    async with program.running() as running:
        await program.connected()
        await running.kill()
    for note in program.home.rglob("*.holder"):
        note.write_text(f"process {os.getpid()}", encoding="utf-8")

    async with program.running() as running:
        await program.telegram.direct_message(ANA_TELEGRAM, "a question")
        await program.telegram.wait_for(lambda: on_telegram(program), DEADLINE_S)
        assert await running.terminate() == 0


async def test_what_was_said_while_it_was_down(program: Installed) -> None:
    async with program.running() as running:
        await program.connected()
        assert await running.terminate() == 0
    say = program.telegram.direct_message
    days_ago = int(time.time()) - 2 * 86_400
    await say(ANA_TELEGRAM, "an old note", date=days_ago)
    await say(ANA_TELEGRAM, "another old note", date=days_ago)
    await say(ANA_TELEGRAM, "/stop", date=int(time.time()) - 60)
    await say(ANA_TELEGRAM, "a question", date=int(time.time()) - 60)

    async with program.running():
        await program.telegram.wait_for(lambda: len(on_telegram(program)) == 2, DEADLINE_S)
        await ended(program)

    too_old, answer = on_telegram(program)
    assert "too long ago" in too_old
    assert answer == "You said: a question"
