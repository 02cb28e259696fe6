"""The installed program as processes of its own, in a home folder, led to the emulators by a proxy.

It is given what an operator gives it, tokens and settings, and HTTPS_PROXY and SSL_CERT_FILE; the platforms'
host names are the real ones.
"""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.emulators.discord import DiscordEmulator
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from tests.emulators.proxy import PlatformProxy
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, SlackEmulator
from tests.emulators.telegram import TelegramEmulator
from trunkline.agent.openai_client import PROBE_TOOL

TRUNKLINE = Path(sys.executable).with_name("trunkline")
DEADLINE_S = 60.0
MODEL_KEY = "sk-emulated-key-0000000000000000"


class Running:
    """One process of the program. `said` is its standard output so far, `logged` its standard error."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._said: list[str] = []
        self._logged: list[str] = []
        self._changed = asyncio.Condition()
        self._ended_reading = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def said(self) -> str:
        return "".join(self._said)

    @property
    def logged(self) -> str:
        return "".join(self._logged)

    async def read(self) -> None:
        """Takes in both outputs until they end."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(self._process.stdout, self._said))
            group.create_task(self._read(self._process.stderr, self._logged))
        self._ended_reading = True
        async with self._changed:
            self._changed.notify_all()

    async def _read(self, pipe: asyncio.StreamReader | None, lines: list[str]) -> None:
        assert pipe is not None
        while line := await pipe.readline():
            lines.append(line.decode(errors="replace"))
            async with self._changed:
                self._changed.notify_all()

    async def says(self, pattern: str) -> str:
        """Waits for a text on standard output and returns the first group of the pattern, or all of it."""
        found: list[re.Match[str]] = []

        def met() -> bool:
            match = re.search(pattern, self.said)
            found.extend([match] if match else [])
            return bool(match)

        try:
            async with asyncio.timeout(DEADLINE_S):
                async with self._changed:
                    await self._changed.wait_for(lambda: met() or self._ended_reading)
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in:\n{self.said}\n{self.logged}") from None
        assert found, f"it ended before {pattern!r}:\n{self.said}\n{self.logged}"
        return found[0][found[0].re.groups]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def terminate(self) -> int:
        """Asks it to end; returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def terminate_impatiently(self) -> int:
        """Asks it to end again and again, five times a second; returns its exit code."""
        while True:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(0.2):
                    return await self._process.wait()
            except TimeoutError:
                continue

    async def kill(self) -> None:
        """Ends it as a power cut would."""
        self._process.kill()
        await self.ended()

    async def ended(self) -> int:
        """Waits until it has ended; returns its exit code."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"it did not end:\n{self.said}\n{self.logged}") from None


class Installed:
    """The home, the proxy, and an emulator for each platform and the model behind it."""

    def __init__(
        self,
        home: Path,
        telegram: TelegramEmulator,
        discord: DiscordEmulator,
        slack: SlackEmulator,
        model: OpenAIEmulator,
        proxy: PlatformProxy,
    ) -> None:
        self.home = home
        self.telegram = telegram
        self.discord = discord
        self.slack = slack
        self.model = model
        self.proxy = proxy
        self.outputs: list[Running] = []
        self.tokens = {
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "DISCORD_BOT_TOKEN": discord.token,
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "OPENAI_API_KEY": MODEL_KEY,
        }

    def environment(self, **changes: str) -> dict[str, str]:
        """Nothing of the caller's but the way to Python; the locks have a folder of their own, too."""
        return {
            "PATH": os.defpath,
            "TRUNKLINE_HOME": str(self.home / "trunkline"),
            "TMPDIR": str(self.home),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "HTTPS_PROXY": self.proxy.url,
            "SSL_CERT_FILE": str(self.home / "authority.pem"),
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            **self.tokens,
            **changes,
        }

    @asynccontextmanager
    async def running(self, *words: str, **changes: str) -> AsyncIterator[Running]:
        """`trunkline WORDS`, by default `run`; killed at the end if it still runs."""
        process = await asyncio.create_subprocess_exec(
            TRUNKLINE,
            *(words or ("run",)),
            env=self.environment(**changes),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        running = Running(process)
        self.outputs.append(running)
        async with asyncio.TaskGroup() as group:
            group.create_task(running.read())
            try:
                yield running
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()

    async def command(self, *words: str) -> str:
        """Runs `trunkline WORDS` to its end, which must be good; returns what it printed."""
        async with self.running(*words) as running:
            code = await running.ended()
        assert code == 0, running.said + running.logged
        return running.said

    async def connected(self, *, but: str = "") -> None:
        """Every platform is listened to, `but` one."""
        if but != "telegram":
            await self.telegram.wait_for(lambda: self.telegram.is_polled, DEADLINE_S)
        if but != "discord":
            await self.discord.connected(DEADLINE_S)
        if but != "slack":
            await self.slack.wait_for(lambda: self.slack.socket.sockets, DEADLINE_S)

    def written(self) -> str:
        """All that the program printed, and its log files."""
        logs = (self.home / "trunkline" / "logs").glob("*")
        files = [path.read_text(encoding="utf-8") for path in logs]
        return "".join([*files, *(running.said + running.logged for running in self.outputs)])


def echo(body: Mapping[str, Any]) -> Reply:
    """A model that uses the tool it is tried with, and else repeats what was said to it."""
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    if PROBE_TOOL.name in names:
        return Reply(tools=[ToolUse(PROBE_TOOL.name, {"text": "ready"})])
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    words = str(said[-1]).strip().splitlines()
    return Reply(f"You said: {words[-1] if words else ''}")


def python_path(folder: Path) -> str:
    """A PYTHONPATH where a `sitecustomize` in the folder is found, beside what the caller's holds."""
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


@asynccontextmanager
async def installed_program(folder: Path) -> AsyncIterator[Installed]:
    """Everything but the program; at the end the emulators must have nothing to complain of."""
    (folder / "trunkline").mkdir()
    (folder / "trunkline" / "config.yaml").write_text(
        "platforms: {web: {port: 0}}\nlogs: {level: debug}\nshutdown: {grace: 20}\n", encoding="utf-8"
    )
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramEmulator().running())
        discord = await stack.enter_async_context(
            DiscordEmulator("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs").running()
        )
        slack = await stack.enter_async_context(SlackEmulator().running())
        model = await stack.enter_async_context(OpenAIEmulator().running())
        slack.socket_place = "wss://wss-primary.slack.com"
        model.api_key = MODEL_KEY
        model.responder = echo
        ports = {
            "api.telegram.org": telegram.port,
            "discord.com": discord.port,
            "gateway.discord.gg": discord.port,
            "gateway-resume.discord.gg": discord.port,
            "slack.com": slack.port,
            "wss-primary.slack.com": slack.port,
            "api.openai.com": model.port,
        }
        proxy = await stack.enter_async_context(PlatformProxy(ports).running())
        proxy.write_authority(folder / "authority.pem")
        program = Installed(folder, telegram, discord, slack, model, proxy)
        yield program
        assert proxy.refused == [], proxy.refused
        breaches = [*telegram.violations, *discord.violations, *slack.violations, *model.violations]
        assert breaches == []
        written = program.written()
        assert not [name for name, token in program.tokens.items() if token in written]
