"""What goes wrong around the program without killing it, fault by fault, while people talk to it.

Each fault is begun, everybody asks something in every place, and the fault is ended. The claims are the kill
harness's, judged by the emulators' own record: everything answered, nothing twice, each place in its order.
"""

import argparse
import asyncio
import json
import logging
import resource
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.harness import Ordeal
from tests.chaos.judge import Verdict, in_flight_to_telegram, judge, unfinished
from tests.chaos.moments import connected
from tests.chaos.places import settings
from tests.e2e.installed import Installed, Running, installed_program, python_path
from tests.emulators.base import Emulator, Fault

WAIT_S = 3
LOCKED_S = 5.0
FULL_S = 6.0
HOUR_S = 3600
SENDS = {"telegram": "sendMessage", "discord": "create_message", "slack": "chat.postMessage"}
EDITS = {"telegram": "editMessageText", "discord": "edit_message", "slack": "chat.update"}
CLOCK = "clock_offset_s"
JUMPING = '''
"""A clock that jumps: what Python programs read of the time is off by what a file says."""
import os, time
_true_time, _true_time_ns, _file = time.time, time.time_ns, os.environ["CLOCK_FILE"]
def _offset_s():
    with open(_file) as found:
        return int(found.read() or 0)
time.time = lambda: _true_time() + _offset_s()
time.time_ns = lambda: _true_time_ns() + _offset_s() * 10**9
'''


@dataclass(frozen=True, slots=True)
class Trouble:
    """The program under trial and the process that runs it."""

    program: Installed
    running: Running

    @property
    def state(self) -> Path:
        return self.program.home / "trunkline" / "state.db"

    @property
    def emulators(self) -> dict[str, Emulator]:
        return {
            "telegram": self.program.telegram,
            "discord": self.program.discord,
            "slack": self.program.slack,
        }

    def each(self, methods: dict[str, str], fault: Callable[[str], Fault], times: int) -> None:
        """Lets the next calls of one method fail, on every platform."""
        for platform, method in methods.items():
            self.emulators[platform].fail_next(method, fault(platform), times)


Begin = Callable[[Trouble], AbstractAsyncContextManager[None]]
FAULTS: dict[str, Begin] = {}


def fault(begin: Callable[[Trouble], AsyncIterator[None]]) -> Begin:
    """Puts a fault into the table: what is before the yield begins it, the rest ends it."""
    FAULTS[begin.__name__] = asynccontextmanager(begin)
    return FAULTS[begin.__name__]


def _too_many(platform: str) -> Fault:
    bodies: dict[str, dict[str, object]] = {
        "telegram": {
            "ok": False,
            "error_code": 429,
            "description": f"Too Many Requests: retry after {WAIT_S}",
            "parameters": {"retry_after": WAIT_S},
        },
        "discord": {"message": "You are being rate limited.", "retry_after": float(WAIT_S), "global": False},
        "slack": {"ok": False, "error": "ratelimited"},
    }
    headers = {"Retry-After": str(WAIT_S)}
    if platform == "discord":
        headers |= {"X-RateLimit-Scope": "user", "Via": "1.1 google"}
    return Fault(status=429, body=bodies[platform], headers=headers)


def _broken(platform: str) -> Fault:
    bodies = {"telegram": {"ok": False, "error_code": 500, "description": "Internal Server Error"}}
    return Fault(status=500, body=bodies.get(platform))


def _refused_edit(platform: str) -> Fault:
    return {
        "telegram": Fault(
            status=400,
            body={"ok": False, "error_code": 400, "description": "Bad Request: message can't be edited"},
        ),
        "discord": Fault(status=404, body={"code": 10008, "message": "Unknown Message"}),
        "slack": Fault(status=200, body={"ok": False, "error": "cant_update_message"}),
    }[platform]


@fault
async def waits_asked_for(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each(SENDS, _too_many, 2)
    trouble.each(EDITS, _too_many, 1)
    yield


@fault
async def server_errors(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each(SENDS, _broken, 3)
    trouble.each(EDITS, _broken, 2)
    trouble.program.telegram.fail_next("getUpdates", _broken("telegram"), 2)
    yield


@fault
async def requests_cut_off_unserved(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each({"discord": "create_message", "slack": "chat.postMessage"}, lambda _: Fault(drop=True), 2)
    trouble.program.telegram.fail_next("getUpdates", Fault(drop=True), 2)
    yield


@fault
async def answers_cut_off_after_serving(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each(SENDS, lambda _: Fault(accept_then_drop=True), 2)
    trouble.each(EDITS, lambda _: Fault(accept_then_drop=True), 1)
    yield


@fault
async def sockets_dropped(trouble: Trouble) -> AsyncIterator[None]:
    yield
    for _ in range(2):
        await trouble.program.discord.gateway.cut()
        await trouble.program.slack.socket.drop()
        trouble.program.telegram.fail_next("getUpdates", Fault(drop=True))
        await asyncio.sleep(1.5)


@fault
async def events_repeated_and_late(trouble: Trouble) -> AsyncIterator[None]:
    """Each event comes again, the oldest after the newest. Telegram repeats only what was not confirmed."""
    program = trouble.program
    before = len(program.slack.socket.deliveries)
    program.telegram.fail_next("getUpdates", Fault(accept_then_drop=True), 2)
    yield
    for delivery in program.slack.socket.deliveries[before:]:
        await program.slack.again(delivery)
    await program.discord.say_again(10)


@fault
async def edits_refused(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each(EDITS, _refused_edit, 4)
    yield


@fault
async def slow_answers(trouble: Trouble) -> AsyncIterator[None]:
    trouble.each(SENDS, lambda _: Fault(delay_s=2.5, serve=True), 2)
    trouble.each(EDITS, lambda _: Fault(delay_s=2.5, serve=True), 2)
    trouble.program.telegram.fail_next("getUpdates", Fault(delay_s=4, serve=True))
    yield


@fault
async def disk_full(trouble: Trouble) -> AsyncIterator[None]:
    """No file of the program may grow any more, for a while."""
    size = max(path.stat().st_size for path in trouble.state.parent.glob("state.db*"))
    _, hard = resource.prlimit(trouble.running.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(trouble.running.pid, resource.RLIMIT_FSIZE, (min(size, 4096), hard))
    yield
    await asyncio.sleep(FULL_S)
    resource.prlimit(trouble.running.pid, resource.RLIMIT_FSIZE, (hard, hard))


@fault
async def database_locked_by_another(trouble: Trouble) -> AsyncIterator[None]:
    holding, done = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        with closing(sqlite3.connect(trouble.state, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            loop.call_soon_threadsafe(holding.set)
            asyncio.run_coroutine_threadsafe(done.wait(), loop).result()
            connection.execute("ROLLBACK")

    held = asyncio.create_task(asyncio.to_thread(hold))  # noqa: TID251
    await holding.wait()
    yield
    await asyncio.sleep(LOCKED_S)
    done.set()
    await held


@fault
async def clock_jumps_an_hour(trouble: Trouble) -> AsyncIterator[None]:
    offset = trouble.program.home / CLOCK
    offset.write_text(str(HOUR_S), encoding="utf-8")
    yield
    await asyncio.sleep(2)
    offset.write_text(str(-HOUR_S), encoding="utf-8")
    await asyncio.sleep(2)
    offset.write_text("0", encoding="utf-8")


async def try_faults(
    folder: Path, names: Sequence[str], seed: int, passed: Callable[[str], object] = lambda _: None
) -> dict[str, Verdict]:
    """Runs the faults one after the other in one life of the program; a verdict for each."""
    (folder / CLOCK).write_text("0", encoding="utf-8")
    (folder / "sitecustomize.py").write_text(JUMPING, encoding="utf-8")
    clock = {"PYTHONPATH": python_path(folder), "CLOCK_FILE": str(folder / CLOCK)}
    verdicts: dict[str, Verdict] = {}
    async with installed_program(folder) as program:
        (program.home / "trunkline" / "config.yaml").write_text(settings(program), encoding="utf-8")
        ordeal = Ordeal(program, seed)
        async with program.running(**clock) as running:
            trouble = Trouble(program, running)
            await connected(program)
            for place in ordeal.places:
                await ordeal.ask(place)
            await ordeal.settled()
            for name in names:
                verdicts[name] = await _try(name, trouble, ordeal)
                passed(name)
            assert running.alive, running.logged
            assert await running.terminate() == 0, running.logged
    return verdicts


async def _try(name: str, trouble: Trouble, ordeal: Ordeal) -> Verdict:
    """Everybody asks twice during the fault; the verdict is on these questions alone."""
    before = {place.name: len(place.asked) for place in ordeal.places}
    async with FAULTS[name](trouble):
        for _ in range(2):
            for place in ordeal.places:
                await ordeal.ask(place)
    await ordeal.settled()
    await ordeal.idle()
    for emulator in trouble.emulators.values():
        emulator.faults.clear()
    trials = [place.since(before[place.name]) for place in ordeal.places]
    verdict = judge(trials, trouble.state, in_flight_to_telegram(trouble.state, "unknown"))
    verdict.faults += unfinished(trouble.state)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(FAULTS)}")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = options.names or list(FAULTS)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        told = (lambda _: None) if options.json else (lambda name: print(f"done: {name}", file=sys.stderr))
        verdicts = asyncio.run(try_faults(Path(folder), names, options.seed, told))
    figures = {name: _figures(verdict) for name, verdict in verdicts.items()}
    for name, verdict in verdicts.items():
        for found in verdict.faults:
            print(f"{name}: {found}", file=sys.stderr)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, verdict in verdicts.items():
            counts = f"sent {verdict.sent}, answered {verdict.answered}, lost {verdict.lost}, "
            counts += f"doubled {verdict.doubled}, unknown {verdict.unknown}, disorder {verdict.disorder}"
            print(f"{name:32}{counts}")
    return 0 if all(verdict.whole for verdict in verdicts.values()) else 1


def _figures(verdict: Verdict) -> dict[str, int | bool]:
    figures = asdict(verdict)
    del figures["faults"]
    return figures


if __name__ == "__main__":
    sys.exit(main())
