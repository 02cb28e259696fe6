"""Runs the vendor's program `brv` for what needs its model, and reads its answer.

Each run has a list of arguments and no shell, a time, a bound on its output, and an environment without our
keys. What a run leaves behind on purpose, the program's daemon, goes on until something has to be forgotten.
"""

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trunkline.agent.providers.base import ProviderDown, ProviderLocked

AT_ONCE = 2
MAX_OUTPUT_BYTES = 2**20
REASON_CHARS = 200
HEARTBEAT_S = 60.0
"""The daemon tells every 5 seconds that it runs; long after that its number may be another process's."""
FINAL_EVENTS = ("completed", "")
"""Of what goes well: a task's last line, and the only line of what is no task. Others tell of its steps."""
_OPERATORS = re.compile(
    r"no provider connected|api key|not logged in|log in|sign in|unauthori[sz]ed|quota|billing|credit", re.I
)
"""What the program says when it is set up wrong: only the operator can help."""


class Changes(BaseModel):
    created: list[str] = []
    updated: list[str] = []


class Answer(BaseModel):
    """The part `data` of what `brv … --format json` prints last."""

    model_config = ConfigDict(extra="ignore")

    event: str = ""
    result: str = ""
    error: str = ""
    message: str = ""
    changes: Changes = Changes()


class _Daemon(BaseModel):
    pid: Annotated[int, Field(gt=1)]


class _Line(BaseModel):
    success: bool
    data: Answer


class Brv:
    """`records` is where the program keeps what it remembers of its runs, apart from the operator's own;
    `more` are variables of its environment."""

    def __init__(self, command: str, records: Path, more: Mapping[str, str]) -> None:
        self._command = command
        self._records = records
        self._more = more
        self._places = asyncio.Semaphore(AT_ONCE)

    @property
    def found(self) -> bool:
        return shutil.which(self._command) is not None

    def end_daemon(self) -> None:
        """Ends the program's daemon at once: it answers for a minute from what it read, and notes that down.

        The next run starts another. Blocking: for threads.
        """
        try:
            daemon = _Daemon.model_validate_json((self._records / "daemon.json").read_bytes())
            told_s = (self._records / "heartbeat").stat().st_mtime
        except (FileNotFoundError, ValidationError):
            return
        if time.time() - told_s < HEARTBEAT_S:
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)

    async def run(self, arguments: Sequence[str], folder: Path, timeout_s: float) -> Answer:
        """One command in a project's folder. Raises ProviderDown and ProviderLocked."""
        async with self._places:
            output = await self._output(arguments, folder, timeout_s)
        for line in reversed(output.splitlines()):
            try:
                said = _Line.model_validate_json(line)
            except ValidationError:
                continue
            if said.success:
                if said.data.event in FINAL_EVENTS:
                    return said.data
                continue
            reason = said.data.error or said.data.message
            if _OPERATORS.search(reason):
                raise ProviderLocked(f"brv: {reason[:REASON_CHARS]}")
            raise ProviderDown(f"brv {arguments[0]} failed")
        raise ProviderDown(f"brv {arguments[0]} printed no answer")

    async def _output(self, arguments: Sequence[str], folder: Path, timeout_s: float) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *arguments,
                cwd=folder,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ProviderDown(f"brv can't be started ({type(error).__name__})") from error
        assert process.stdout is not None
        printed = bytearray()
        try:
            async with asyncio.timeout(timeout_s):
                while chunk := await process.stdout.read(65_536):
                    printed += chunk
                    if len(printed) > MAX_OUTPUT_BYTES:
                        raise ProviderDown(f"brv {arguments[0]} printed too much")
                await process.wait()
        except TimeoutError as error:
            raise ProviderDown(f"brv {arguments[0]} gave no answer within {timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return printed.decode(errors="replace")

    def _environment(self) -> dict[str, str]:
        """Ours is not passed on: it holds keys. The program must find itself, Node.js, and a home."""
        found = (shutil.which(self._command), shutil.which("node"))
        folders = [str(Path(one).parent) for one in found if one is not None]
        return {
            "PATH": os.pathsep.join((*dict.fromkeys(folders), os.defpath)),
            "HOME": str(Path.home()),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "NO_UPDATE_NOTIFIER": "1",
            "BRV_DATA_DIR": str(self._records),
            **self._more,
        }
