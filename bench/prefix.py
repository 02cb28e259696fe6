"""How much of what the model is sent was sent before: the share that a provider's prefix cache can reuse.

A conversation runs through the whole program (Telegram and the model emulated on loopback); memory changes
from another platform on the way. `python -m bench.prefix [--turns N] [--json]`
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import report
from tests.e2e.world import World, made_world
from tests.emulators.openai import Reply


async def measure(turns: int) -> dict[str, float]:
    """Runs the conversation. `changed_prefix_bytes` is what a session's requests stopped having in common."""
    with tempfile.TemporaryDirectory() as folder:
        async with made_world(Path(folder)) as world:
            await _converse(world, turns)
            return _shares(world.model.requests)


async def _converse(world: World, turns: int) -> None:
    async with world.running(memory={"review_every": 0}):
        for number in range(turns):
            if number == turns // 2:
                world.call("memory", action="add", target="user", content="User likes tea.")
                world.answer("Noted on Discord.")
                await world.ana_on_discord("I like tea, remember that")
                await world.discord_shows("Noted on Discord.")
            world.model.then(Reply(f"Answer number {number}, long enough to look like one. " * 6))
            await world.ana_on_telegram(f"Question number {number}: what about the thing we spoke of?")
            await world.telegram_shows(f"Answer number {number},")


def _shares(requests: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Each request against the longest earlier one of its conversation, told apart by the first message."""
    total = repeated = changed = 0
    before: dict[str, bytes] = {}
    for request in requests:
        sent = json.dumps(request["messages"], ensure_ascii=False).encode()[:-1]
        opening = json.dumps(request["messages"][1], ensure_ascii=False)
        earlier = before.get(opening, b"")
        common = _common_bytes(earlier, sent)
        total += len(sent)
        repeated += common
        changed += len(earlier) - common
        before[opening] = sent
    return {"repeat_share": round(repeated / total, 4), "changed_prefix_bytes": changed}


def _common_bytes(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.turns))
    report(figures, as_json=options.json)


if __name__ == "__main__":
    main()
