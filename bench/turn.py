"""How long a turn takes beside the model: the agent's loop alone, and the whole way from a Telegram update to
the answer on the screen. The model is emulated on loopback and answers at once.

`python -m bench.turn [--turns N] [--json]`
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from bench.report import report
from tests.e2e.world import ANA_TELEGRAM, World, made_world
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.loop import run_turn
from trunkline.agent.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult
from trunkline.agent.turn import TurnLimits, TurnRequest

ANSWER = Reply("An answer of an ordinary length, as one gets it in a chat. " * 3, chunk_chars=60)


class NoArguments(BaseModel):
    pass


class KeptNowhere:
    """A recorder for the loop alone; the whole way has the real one."""

    async def record_calls(
        self, step: int, message: AssistantMessage, usage: Usage, *, model: str
    ) -> None: ...

    async def record_results(
        self, step: int, results: Sequence[ToolMessage], *, last: bool = False
    ) -> tuple[UserMessage, ...]:
        return ()


async def _look(arguments: NoArguments, context: ToolContext) -> ToolResult:
    return ToolResult("seen")


LOOK = Tool(name="look", description="Looks.", arguments=NoArguments, run=_look, read_only=True)


async def measure(turns: int) -> dict[str, float]:
    """Milliseconds, over `turns` turns of each kind; the first one of a process stands apart."""
    async with OpenAIEmulator().running() as emulator:
        model = OpenAIModel("emulated", Endpoint(emulator.base_url, "key"), tool_calls="native")
        began = time.perf_counter()
        await _agent_turn(emulator, model, [ANSWER])
        first_ms = (time.perf_counter() - began) * 1000
        plain = [await _agent_turn(emulator, model, [ANSWER]) for _ in range(turns)]
        called = Reply(tools=[ToolUse("look", {})])
        with_tool = [await _agent_turn(emulator, model, [called, ANSWER]) for _ in range(turns)]
        await model.aclose()
    whole = await _gateway_turns(turns)
    return {
        "agent_turn_ms_p50": _percentile(plain, 50),
        "agent_turn_ms_p95": _percentile(plain, 95),
        "agent_tool_turn_ms_p50": _percentile(with_tool, 50),
        "agent_first_turn_ms_p50": round(first_ms, 2),
        "gateway_turn_ms_p50": _percentile(whole, 50),
    }


async def _agent_turn(emulator: OpenAIEmulator, model: OpenAIModel, replies: Sequence[Reply]) -> float:
    emulator.then(*replies)
    request = TurnRequest(
        scope=PersonScope(PersonId("ana")),
        session="s",
        turn=1,
        system="You are helpful. " * 200,
        history=(),
        user=UserMessage("hello", "hello"),
        tools=(LOOK,),
        platform="telegram",
        now=datetime.now(UTC),
    )
    began = time.perf_counter()
    turn = run_turn(request, model=model, recorder=KeptNowhere(), limits=TurnLimits())
    async with aclosing(turn) as events:
        async for _ in events:
            pass
    return (time.perf_counter() - began) * 1000


async def _gateway_turns(turns: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        async with made_world(Path(folder)) as world, world.running(memory={"review_every": 0}):
            return [await _gateway_turn(world, number) for number in range(turns)]


async def _gateway_turn(world: World, number: int) -> float:
    """From the message on Telegram to the whole answer there; previews are switched off by their pace."""
    mark = f"turn {number} is answered."
    world.model.then(Reply(f"{ANSWER.text} {mark}", chunk_chars=60))
    began = time.perf_counter()
    await world.ana_on_telegram(f"question {number}")
    await world.telegram.wait_for(lambda: any(mark in text for text in world.telegram.texts(ANA_TELEGRAM)))
    return (time.perf_counter() - began) * 1000


def _percentile(values: Sequence[float], percent: int) -> float:
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.turns))
    report(figures, as_json=options.json)


if __name__ == "__main__":
    main()
