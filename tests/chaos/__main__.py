"""`python -m tests.chaos --kills 500`: the kill harness. Its exit code is 1 when a message was lost."""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress

from tests.chaos.harness import Outcome, torment


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed when not given")
    parser.add_argument("--folder", type=Path, default=None, help="keep the program's home and logs here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    # Clients that die in the middle of a call are what this is about.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    began_s = time.monotonic()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        bar = stack.enter_context(Progress(disable=options.json))
        task = bar.add_task("kills", total=options.kills)
        outcome = asyncio.run(torment(folder, options.kills, seed, lambda: bar.advance(task)))
    for fault in outcome.verdict.faults:
        print(fault, file=sys.stderr)
    figures = {"kills": options.kills, "seed": seed, **_figures(outcome)}
    figures["seconds"] = round(time.monotonic() - began_s)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:24}{figure:>12}")
    return 0 if outcome.verdict.good else 1


def _figures(outcome: Outcome) -> dict[str, int | bool]:
    figures = asdict(outcome.verdict)
    del figures["faults"]
    return figures


if __name__ == "__main__":
    sys.exit(main())
