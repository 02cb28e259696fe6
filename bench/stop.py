"""How fast `/stop` ends a turn in its worst moments: while the platform makes us wait, while a large file is
fetched, and while a start takes up what the process before had in hand. The clock runs from the message with
the command to the moment at which the model, or the file's server, sees its connection closed.

`python -m bench.stop [--tries N] [--json]`
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.e2e.world import ANA_TELEGRAM, World, made_world
from tests.emulators.base import Fault
from tests.emulators.openai import Reply

ENDLESS = Reply("word " * 4000, chunk_chars=5, chunk_delay_s=0.05)
FILE_BYTES = 49 * 2**20
BUSY_CHATS = 30
OWN = "a long story for me, please"
FLOOD_S = 60
QUIET: dict[str, Any] = {"memory": {"review_every": 0}}


async def measure(tries: int) -> dict[str, float]:
    """The longest of some tries of each kind, in milliseconds."""
    figures = {}
    for name, trial in TRIALS.items():
        figures[f"stop_ms_{name}"] = round(max([await _in_a_world(trial) for _ in range(tries)]), 1)
    return figures


async def _in_a_world(trial: Callable[[World], Awaitable[float]]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with made_world(Path(folder)) as world:
            return await trial(world)


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


async def _restore(world: World) -> float:
    """A start that takes up the turns of many chats at once, Ana's among the first."""
    world.model.responder = lambda body: ENDLESS
    people = {f"p{n}": {"telegram": 7000 + n} for n in range(BUSY_CHATS)}
    everybody = {"people": {"ana": {"role": "owner", "telegram": ANA_TELEGRAM}, **people}}

    def asked_for_ana() -> int:
        return sum(OWN in str(body["messages"][-1]) for body in world.model.requests)

    async with world.running(**everybody, **QUIET):
        await world.ana_on_telegram(OWN)
        await world.model.wait_for(asked_for_ana)
        for n in range(BUSY_CHATS):
            await world.telegram.direct_message(7000 + n, "a story, please")
        await world.model.wait_for(lambda: len(world.model.requests) > BUSY_CHATS // 3, 60)
    async with world.running(**everybody, **QUIET):
        await world.model.wait_for(lambda: asked_for_ana() == 2, 60)
        before = world.model.dropped
        began = time.perf_counter()
        await world.ana_on_telegram("/stop")
        await world.model.wait_for(lambda: world.model.dropped > before)
        return (time.perf_counter() - began) * 1000


async def _begin_endless(world: World) -> None:
    world.model.then(ENDLESS)
    await world.ana_on_telegram("a long story, please")
    await world.telegram.wait_for(lambda: world.telegram.texts(ANA_TELEGRAM))


async def _stopped(world: World) -> float:
    began = time.perf_counter()
    await world.ana_on_telegram("/stop")
    await world.model.wait_for(lambda: world.model.dropped)
    return (time.perf_counter() - began) * 1000


TRIALS = {"plain": _plain, "flood": _flood, "download": _download, "restore": _restore}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.tries))
    if options.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:24}{figure:>12}")


if __name__ == "__main__":
    main()
