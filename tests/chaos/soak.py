"""Days of traffic in minutes: many people write on three platforms, each at once after the answer before.

`python -m tests.chaos.soak --messages 100000` prints what the program holds in the first and in the last
quarter of the run: memory, asyncio tasks, threads, file handles, open connections, the size of the
write-ahead log.
"""

import argparse
import asyncio
import json
import logging
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from tests.chaos.moments import connected
from tests.e2e.installed import Installed, Running, installed_program, python_path
from tests.emulators.base import Call
from tests.emulators.openai import Reply
from tests.emulators.slack_workspace import Post
from tests.gateway.small_house import eventually

PEOPLE = 30
NEW_EVERY = 20
"""Questions after which a person begins a new session."""
ANSWER_S = 120.0
SAMPLES = 200
KEPT = 8
COUNT_FILE = "TASK_COUNT_FILE"
COUNTING = f'''
"""Writes the number of asyncio tasks into a file when asked by a signal."""
import asyncio, os, signal
def _count(*_):
    with open(os.environ["{COUNT_FILE}"], "w") as told:
        told.write(str(len(asyncio.all_tasks())))
signal.signal(signal.SIGUSR1, _count)
'''
_QUESTION, _DONE = re.compile(r"S(\d+)s"), re.compile(r"D(\d+)d")


@dataclass(frozen=True, slots=True)
class Held:
    """What the program holds at one moment."""

    rss_mb: float
    tasks: float
    threads: float
    handles: float
    connections: float
    wal_mb: float


@dataclass(frozen=True, slots=True)
class Outcome:
    sent: int
    answered: int
    doubled: int
    seconds: float
    first: Held
    last: Held


class Seat:
    """One person's chat on one platform, and the way to forget what was said there."""

    def __init__(
        self, name: str, say: Callable[[str], Awaitable[object]], forget: Callable[[], object], new: str
    ) -> None:
        self.name = name
        self.say = say
        self.forget = forget
        self.new = new


class Heard(list[Call]):
    """Stands in for an emulator's record of calls: passes each on, and keeps none."""

    def __init__(self, tell: Callable[[Call], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, call: Call) -> None:
        self._tell(call)


class Soak:
    def __init__(self, program: Installed, running: Running, messages: int, longest_s: float) -> None:
        self._program = program
        self._running = running
        self._messages = messages
        self._until = time.monotonic() + longest_s
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._answered: set[int] = set()
        self.samples: list[Held] = []
        self.doubled = 0
        self._looking = asyncio.Lock()

    @property
    def sent(self) -> int:
        return self._asked

    @property
    def answered(self) -> int:
        return len(self._answered)

    def listen(self) -> None:
        program = self._program
        program.model.responder = _answer
        program.model.calls = Heard(lambda _: None)
        for emulator in (program.telegram, program.discord, program.slack):
            emulator.calls = Heard(self._hear)

    def _hear(self, call: Call) -> None:
        text = str(call.arguments.get("text") or call.arguments.get("content") or call.arguments)
        for found in _DONE.findall(text):
            waiting = self._waiting.pop(int(found), None)
            if waiting is not None and not waiting.done():
                self._answered.add(int(found))
                waiting.set_result(None)
            elif call.method in ("sendMessage", "create_message", "chat.postMessage"):
                self.doubled += 1

    async def run(self, passed: Callable[[int], object]) -> None:
        every = max(self._messages // SAMPLES, 1)
        async with asyncio.TaskGroup() as group:
            for seat in _seats(self._program):
                group.create_task(self._sit(seat, every, passed))

    async def _sit(self, seat: Seat, every: int, passed: Callable[[int], object]) -> None:
        said = 0
        while self._asked < self._messages and time.monotonic() < self._until:
            self._asked += 1
            number = self._asked
            said += 1
            if said % NEW_EVERY == 0:
                await seat.say(seat.new)
            self._waiting[number] = asyncio.get_running_loop().create_future()
            await seat.say(f"S{number}s, and what then?")
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._waiting[number]
            except TimeoutError:
                raise AssertionError(f"no answer on {seat.name} to {number}") from None
            seat.forget()
            passed(1)
            if self.answered % every == 0:
                self.samples.append(await self._look())

    async def _look(self) -> Held:
        count = self._program.home / COUNT_FILE

        async def counted() -> bool:
            return bool(count.read_text(encoding="utf-8"))

        async with self._looking:
            count.write_text("", encoding="utf-8")
            self._running.signal(signal.SIGUSR1)
            await eventually(counted)
            tasks = int(count.read_text(encoding="utf-8"))
        state = self._program.home / "trunkline" / "state.db"
        return await asyncio.to_thread(_held, self._running.pid, tasks, state)


def _held(pid: int, tasks: int, state: Path) -> Held:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    facts = dict(line.split(":", 1) for line in status.splitlines())
    wal = state.with_name("state.db-wal")
    handles = [_leads_to(handle) for handle in Path(f"/proc/{pid}/fd").iterdir()]
    return Held(
        rss_mb=int(facts["VmRSS"].split()[0]) / 1024,
        tasks=tasks,
        threads=int(facts["Threads"]),
        handles=len(handles),
        connections=sum(where.startswith("socket:") for where in handles),
        wal_mb=wal.stat().st_size / 2**20 if wal.exists() else 0.0,
    )


def _leads_to(handle: Path) -> str:
    try:
        return os.readlink(handle)
    except FileNotFoundError:
        return ""  # closed since it was listed


def _answer(body: dict[str, object]) -> Reply:
    messages = body["messages"]
    assert isinstance(messages, list)
    asked = _QUESTION.findall(str([one["content"] for one in messages if one["role"] == "user"][-1:]))
    return Reply(" ".join(f"D{number}d" for number in asked) + " All is well.", chunk_chars=1000)


def _seats(program: Installed) -> list[Seat]:
    telegram, discord, slack = program.telegram, program.discord, program.slack
    seats = []
    for n in range(PEOPLE):
        user, snowflake, member = 5000 + n, str(600000 + n), f"USOAK{n:02}"
        discord.world.user(snowflake)
        channel, direct = discord.direct_chat(snowflake), slack.workspace.direct_channel(member)

        async def on_telegram(text: str, user: int = user) -> None:
            await telegram.direct_message(user, text)

        async def on_discord(text: str, user: str = snowflake) -> None:
            await discord.direct_message(user, text)

        async def on_slack(text: str, user: str = member) -> None:
            await slack.direct_message(user, text)

        def forget_telegram(user: int = user) -> None:
            _keep_newest(telegram.chats[user].messages)

        def forget_discord(channel: str = channel) -> None:
            _keep_newest(discord.world.messages[channel])
            discord.forget_said()

        def forget_slack(posts: dict[str, Post] = direct.posts) -> None:
            _keep_newest(posts)
            slack.socket.deliveries.clear()

        seats += [
            Seat("telegram", on_telegram, forget_telegram, "/new"),
            Seat("discord", on_discord, forget_discord, "/new"),
            Seat("slack", on_slack, forget_slack, "!new"),
        ]
    return seats


def _keep_newest(said: dict[Any, Any]) -> None:
    """An emulator forgets what no edit can be about any more."""
    for old in list(said)[:-KEPT]:
        del said[old]


def _settings() -> str:
    people = "\n".join(
        f"  p{n}: {{role: {'member' if n else 'owner'}, telegram: {5000 + n}, discord: {600000 + n}, "
        f"slack: T0TEAM/USOAK{n:02}}}"
        for n in range(PEOPLE)
    )
    return f"""
model: {{name: emulated, tool_calls: native}}
platforms: {{web: {{port: 0}}}}
memory: {{review_every: 0}}
access: {{messages_per_minute: 0, welcome: false}}
people:
{people}
"""


async def soak(
    folder: Path, messages: int, longest_s: float, passed: Callable[[int], object] = lambda _: None
) -> Outcome:
    """Ends after so many messages, or when the time is over."""
    (folder / "sitecustomize.py").write_text(COUNTING, encoding="utf-8")
    environment = {"PYTHONPATH": python_path(folder), COUNT_FILE: str(folder / COUNT_FILE)}
    async with installed_program(folder) as program:
        (program.home / "trunkline" / "config.yaml").write_text(_settings(), encoding="utf-8")
        async with program.running(**environment) as running:
            await connected(program)
            run = Soak(program, running, messages, longest_s)
            run.listen()
            began = time.monotonic()
            await run.run(passed)
            seconds = time.monotonic() - began
            assert await running.terminate() == 0, running.logged
    quarter = max(len(run.samples) // 4, 1)
    return Outcome(
        sent=run.sent,
        answered=run.answered,
        doubled=run.doubled,
        seconds=round(seconds, 1),
        first=_middle(run.samples[:quarter]),
        last=_middle(run.samples[-quarter:]),
    )


def _middle(samples: Sequence[Held]) -> Held:
    """The medians of some samples."""
    rows = [asdict(sample) for sample in samples]
    return Held(**{name: round(statistics.median(row[name] for row in rows), 1) for name in rows[0]})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--longest-s", type=float, default=4 * 3600.0, help="end after so many seconds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, Progress(disable=options.json) as bar:
        task = bar.add_task("messages", total=options.messages)
        outcome = asyncio.run(
            soak(Path(folder), options.messages, options.longest_s, lambda done: bar.advance(task, done))
        )
    figures = {"messages": outcome.sent, "answered": outcome.answered, "doubled": outcome.doubled}
    figures |= {"seconds": outcome.seconds}
    for name, held in (("first", outcome.first), ("last", outcome.last)):
        figures |= {f"{what}_{name}_quarter": found for what, found in asdict(held).items()}
    if options.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:24}{figure:>12}")
    return 0 if outcome.answered == outcome.sent and not outcome.doubled else 1


if __name__ == "__main__":
    sys.exit(main())
