"""How fast `/stop` ends a turn in its worst moments: while the platform makes us wait, while a large file is
fetched, and while a start takes up what the process before had in hand. The clock runs from the message with
the command to the moment at which the model, or the file's server, sees its connection closed.

`python -m bench.stop [--tries N] [--only KIND] [--json]`
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bench.report import report
from tests.e2e.installed import DEADLINE_S, installed_program
from tests.e2e.world import ANA_TELEGRAM, World, made_world
from tests.emulators.base import Fault
from tests.emulators.openai import Reply

ENDLESS = Reply("word " * 4000, chunk_chars=5, chunk_delay_s=0.05)
FILE_BYTES = 49 * 2**20
BUSY_CHATS, FIRST_USER = 30, 7000
OWN = "a long story for me, please"
FLOOD_S = 60
QUIET: dict[str, Any] = {"memory": {"review_every": 0}}
Trial = Callable[[Path], Awaitable[float]]


async def measure(tries: int, names: Sequence[str]) -> dict[str, float]:
    """The longest of some tries of each kind, in milliseconds."""
    figures = {}
    for name in names:
        trial = TRIALS[name]
        figures[f"stop_ms_{name}"] = round(max([await _tried(trial) for _ in range(tries)]), 1)
    return figures


async def _tried(trial: Trial) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return await trial(Path(folder))


def _in_a_world(trial: Callable[[World], Awaitable[float]]) -> Trial:
    async def tried(folder: Path) -> float:
        async with made_world(folder) as world:
            return await trial(world)

    return tried


async def _plain(world: World) -> float:
    async with world.running(**QUIET):
        await _begin_endless(world)
        return await _stopped(world)


async def _flood(world: World) -> float:
    """Telegram answers each edit with a wait of a minute."""
    body = {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {}}
    body["parameters"] = {"retry_after": FLOOD_S}
    async with world.running(**QUIET):
        world.telegram.fail_next("editMessageText", Fault(status=429, body=body), 50)
        await _begin_endless(world)
        await world.telegram.wait_for(lambda: world.telegram.calls_of("editMessageText"))
        return await _stopped(world)


async def _download(world: World) -> float:
    """Slack sends the largest file that the settings allow, slowly; a larger one is not fetched at all."""
    async with world.running(files={"max_mb": 50}, **QUIET):
        file = world.slack.store_file("large.txt", "text/plain", b"x" * FILE_BYTES)
        world.slack.slow_downloads_s = 30.0
        await world.slack.direct_message("UANA", "read this", files=[file])
        await world.slack.wait_for(lambda: world.slack.calls_of("download"))
        await asyncio.sleep(0.3)
        began = time.perf_counter()
        await world.slack.direct_message("UANA", "!stop")
        await world.slack.wait_for(lambda: world.slack.downloads_cut)
        return (time.perf_counter() - began) * 1000


async def _restore(folder: Path) -> float:
    """The program, a process of its own, is killed and started anew while it answers many chats, Ana's first.

    All of them are taken up at once; she wants hers stopped as soon as the model is asked for it.
    """
    async with installed_program(folder) as program:
        (program.home / "trunkline" / "config.yaml").write_text(_settings(), encoding="utf-8")
        model, telegram = program.model, program.telegram
        model.responder = lambda body: ENDLESS

        def asked_for_ana() -> int:
            return sum(OWN in str(body["messages"][-1]) for body in model.requests)

        async with program.running() as running:
            await program.connected()
            await telegram.direct_message(ANA_TELEGRAM, OWN)
            await model.wait_for(asked_for_ana, DEADLINE_S)
            for n in range(BUSY_CHATS):
                await telegram.direct_message(FIRST_USER + n, "a story, please")
            await model.wait_for(lambda: len(model.requests) > BUSY_CHATS // 3, DEADLINE_S)
            await running.kill()
            begun = len(model.requests)
            await model.wait_for(lambda: model.dropped == begun, DEADLINE_S)
        async with program.running():
            await model.wait_for(lambda: asked_for_ana() == 2, DEADLINE_S)
            began = time.perf_counter()
            await telegram.direct_message(ANA_TELEGRAM, "/stop")
            await model.wait_for(lambda: model.dropped > begun)
            return (time.perf_counter() - began) * 1000


def _settings() -> str:
    people = [f"  p{n}: {{telegram: {FIRST_USER + n}}}" for n in range(BUSY_CHATS)]
    return "\n".join(
        [
            "model: {name: emulated, tool_calls: native}",
            "platforms: {web: {port: 0}}",
            "memory: {review_every: 0}",
            "access: {messages_per_minute: 0, welcome: false}",
            "people:",
            f"  ana: {{role: owner, telegram: {ANA_TELEGRAM}}}",
            *people,
        ]
    )


async def _begin_endless(world: World) -> None:
    world.model.then(ENDLESS)
    await world.ana_on_telegram("a long story, please")
    await world.telegram.wait_for(lambda: world.telegram.texts(ANA_TELEGRAM))


async def _stopped(world: World) -> float:
    began = time.perf_counter()
    await world.ana_on_telegram("/stop")
    await world.model.wait_for(lambda: world.model.dropped)
    return (time.perf_counter() - began) * 1000


TRIALS: dict[str, Trial] = {
    "plain": _in_a_world(_plain),
    "flood": _in_a_world(_flood),
    "download": _in_a_world(_download),
    "restore": _restore,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--only", choices=TRIALS, help="one kind instead of all")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.tries, [options.only] if options.only else list(TRIALS)))
    report(figures, as_json=options.json)


if __name__ == "__main__":
    main()
