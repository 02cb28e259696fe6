"""ByteRover: trees of files, and a stand-in for the vendor's program.

The disk is what can fail: where the folder of the trees should be lies a link that leads nowhere, or a file.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.agent.providers.conformance import Bench
from tests.emulators.byterover import BrvProgram
from tests.emulators.provider import Outage
from trunkline.agent.providers.base import bank_of
from trunkline.agent.providers.byterover import TREES
from trunkline.agent.scope import Scope


class ByteRoverBench(Bench):
    name = "byterover"
    lookup = ("byterover_search", "query")
    keep = ("byterover_remember", "content")
    outages = ("down", "locked")

    @property
    def options(self) -> Mapping[str, object]:
        return {"command": str(self.program.path), "folder": str(self.folder / "provider")}

    @property
    def trees(self) -> Path:
        return self.folder / "provider" / TREES

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.program = BrvProgram(self.folder / "bin")
        yield

    def fail(self, outage: Outage | None) -> None:
        away = self.trees.with_name("away")
        away.parent.mkdir(parents=True, exist_ok=True)
        if self.trees.is_symlink() or self.trees.is_file():
            self.trees.unlink()
        elif outage is not None and self.trees.exists():
            self.trees.rename(away)
        if outage == "down":
            self.trees.symlink_to(self.trees)
        elif outage == "locked":
            self.trees.write_text("in the way")
        elif outage is None and away.exists():
            away.rename(self.trees)

    async def stored(self, scope: Scope) -> list[str]:
        files = (self.trees / bank_of(scope, "trunkline")).rglob("*.md")
        return [path.read_bytes().decode() for path in files]
