"""Kills the program again and again while people talk to it on three platforms, and judges what they got.

The program is the installed one, in a process of its own; `kill -9` ends it. Who talks when, where and how
the model answers follow from the seed; what a kill hits does not.
"""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.judge import Verdict, in_flight_to_telegram, judge, see, unfinished
from tests.chaos.moments import Moments, connected, forget_calls
from tests.chaos.places import Place, all_places, settings
from tests.chaos.script import Script, question
from tests.e2e.installed import Installed, installed_program
from tests.gateway.small_house import eventually

SAID_PER_ROUND = (2, 6)
TALK_S = 3.5
"""Over how long the questions of a round are spread: a part of them comes while the program is down."""
CALM_EVERY = 5
"""Each such round the program lives until all is answered: rows that were begun nine times are set aside,
which is right, but no machine dies nine times in a minute."""
SETTLE_S = 25.0
LOOK_S = 0.3
NEW_AFTER = 12
"""Questions in one place after which a new session is begun, so that histories stay short."""


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    moments: Counter[str]


async def torment(
    folder: Path, kills: int, seed: int, passed: Callable[[], object] = lambda: None
) -> Outcome:
    """`passed` is called after each kill. The folder holds the program's home and is left as it ended."""
    async with installed_program(folder) as program:
        program.slack.socket.waits_for_socket = False
        program.slack.socket.retries = 1
        (program.home / "trunkline" / "config.yaml").write_text(settings(program), encoding="utf-8")
        ordeal = Ordeal(program, seed)
        await ordeal.begin()
        for number in range(kills):
            await ordeal.endure(calm=number % CALM_EVERY == CALM_EVERY - 1)
            passed()
        await ordeal.end()
        state = program.home / "trunkline" / "state.db"
        return Outcome(judge(ordeal.places, state, ordeal.in_flight), ordeal.moments)


class Ordeal:
    """One run: the places, the chance, and the questions that were in flight at some kill."""

    def __init__(self, program: Installed, seed: int) -> None:
        self._program = program
        self._chance = random.Random(seed)
        self._moments = Moments(program, random.Random(seed + 1))
        self._script = Script(seed)
        program.model.responder = self._script.reply
        self.places = all_places(program)
        self.in_flight: set[int] = set()
        self.moments: Counter[str] = Counter()
        self._asked = 0
        self._since_new: Counter[str] = Counter()

    async def begin(self) -> None:
        """Everybody says something once and is answered: a chat that is quite unknown can't be read back."""
        async with self._program.running():
            await connected(self._program)
            for place in self.places:
                await self.ask(place)
            await self.settled()

    async def endure(self, *, calm: bool) -> None:
        """One life of the program, from its start to its death, and what people say meanwhile."""
        forget_calls(self._program)
        talk = [
            (self._chance.uniform(0, TALK_S), self._chance.choice(self.places)) for _ in range(self._many())
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._talk(sorted(talk, key=lambda one: one[0])))
            async with self._program.running() as running:
                try:
                    if calm:
                        await connected(self._program)
                        await self.settled()
                        await self._begin_anew()
                    self.moments[await self._moments.pass_one()] += 1
                except* AssertionError as failed:
                    raise AssertionError(f"it did not connect:\n{running.said}{running.logged}") from failed
                await running.kill()
            self._look_at_the_dead()
            await self._sockets_closed()
        self._program.discord.gateway.forget_lost()

    async def end(self) -> None:
        """The last life ends by itself, when all is answered."""
        forget_calls(self._program)
        async with self._program.running() as running:
            await connected(self._program)
            await self.settled()
            await self.idle()
            assert await running.terminate() == 0, running.logged

    def _many(self) -> int:
        return self._chance.randint(*SAID_PER_ROUND)

    async def _talk(self, talk: Sequence[tuple[float, Place]]) -> None:
        began_s = asyncio.get_running_loop().time()
        for at_s, place in talk:
            await asyncio.sleep(max(began_s + at_s - asyncio.get_running_loop().time(), 0))
            await self.ask(place)

    async def ask(self, place: Place) -> None:
        self._asked += 1
        place.asked.append(self._asked)
        self._since_new[place.name] += 1
        await place.say(self._chance.choice(place.people), question(self._asked))

    async def _begin_anew(self) -> None:
        for place in self.places:
            if place.new is not None and self._since_new[place.name] >= NEW_AFTER:
                self._since_new[place.name] = 0
                await place.new()

    async def settled(self) -> None:
        """Returns when all is answered, or for SETTLE_S nothing more was."""
        loop = asyncio.get_running_loop()
        waiting, until_s = -1, 0.0
        while (left := self._unanswered()) and (left != waiting or loop.time() < until_s):
            if left != waiting:
                waiting, until_s = left, loop.time() + SETTLE_S
            await asyncio.sleep(LOOK_S)

    async def idle(self) -> None:
        """Returns when the program has nothing more to do, commands among it, or takes too long over it."""
        state = self._program.home / "trunkline" / "state.db"

        async def met() -> bool:
            return await asyncio.to_thread(lambda: not unfinished(state))

        with suppress(TimeoutError):
            await eventually(met, SETTLE_S)

    def _unanswered(self) -> int:
        return sum(
            not found.whole and number not in self.in_flight
            for place in self.places
            for number, found in see(place.shown(), place.asked).items()
        )

    def _look_at_the_dead(self) -> None:
        """Reads a copy of the state that was left: the original is the next process's to recover."""
        home = self._program.home / "trunkline"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("state.db", "state.db-wal"):
                if (home / name).exists():
                    shutil.copyfile(home / name, Path(folder) / name)
            self.in_flight |= in_flight_to_telegram(Path(folder) / "state.db", "sending")

    async def _sockets_closed(self) -> None:
        discord, slack = self._program.discord, self._program.slack
        await discord.wait_for(lambda: not discord.gateway.connected)
        await slack.wait_for(lambda: not slack.socket.sockets)
