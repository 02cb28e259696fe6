"""A stand-in for the vendor's program `brv` 3.14: its commands, arguments and JSON lines, on real files.

Where the real one asks a model, `curate` keeps the text as a topic and `query` answers with what all files
say. It works in the folder it is started in, and notes each run down under BRV_DATA_DIR as the real one does.
Run as a program it is `brv` itself; a test has a `BrvProgram`.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

UNCONNECTED = (
    'No provider connected. Run "brv providers connect byterover" to use the free built-in provider.'
)


class BrvProgram:
    """The program in a folder. `path` is what to start."""

    def __init__(self, folder: Path) -> None:
        self._plays = folder / "play"
        self._pid = folder / "pid"
        self.path = folder / "brv"
        folder.mkdir(parents=True, exist_ok=True)
        start = f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" "{folder}" "$@"\n'
        self.path.write_text(start, encoding="utf-8")
        self.path.chmod(0o755)

    def play(self, what: str) -> None:
        """How later runs go: hang, flood, noise, cut, unconnected, broken, nothing; empty as they should."""
        self._plays.write_text(what, encoding="utf-8")

    @property
    def pid(self) -> int | None:
        """Of the run that hangs, once it does."""
        text = self._pid.read_text() if self._pid.exists() else ""
        return int(text) if text else None


class Run:
    """One start of the program."""

    def __init__(self, folder: Path, command: str, arguments: list[str]) -> None:
        cut = arguments.index("--") if "--" in arguments else len(arguments)
        assert arguments[:2] == ["--format", "json"], arguments
        assert command == "status" or int(arguments[arguments.index("--timeout") + 1]) >= 10, arguments
        self.folder = folder
        self.command = command
        self.text = " ".join(arguments[cut + 1 :])
        self.tree = Path.cwd() / ".brv" / "context-tree"
        plays = folder / "play"
        self.play = plays.read_text() if plays.exists() else ""

    def carry_out(self) -> None:
        self.note_down()
        self.go_wrong()
        if self.command == "status":
            self.tell(
                True, authStatus="not_logged_in", contextTreeStatus="not_initialized", cliVersion="3.14.0"
            )
        elif self.command == "query":
            self.tell(True, content="The beginning of", event="response")
            known = "\n".join(path.read_text() for path in sorted(self.tree.rglob("*.md")))
            self.tell(True, event="completed", result=f"It is known: {known}", status="completed", tier=3)
        elif self.command == "curate":
            self.curate()
        else:
            self.tell(False, error="unknown command", status="error")

    def curate(self) -> None:
        told = {"event": "completed", "message": "Context curated successfully", "status": "completed"}
        if self.play == "nothing":
            self.tell(True, **told)
            return
        self.tell(True, event="toolCall", toolName="code_exec", args={})
        topic = self.tree / "life" / f"{_digest(self.text)}.md"
        topic.parent.mkdir(parents=True, exist_ok=True)
        topic.write_text(f"---\ntitle: A topic\ntags: []\n---\n## Facts\n{self.text}\n")
        self.tell(True, changes={"created": [str(topic)], "updated": []}, **told)

    def note_down(self) -> None:
        records, here = Path(os.environ["BRV_DATA_DIR"]), Path.cwd()
        storage = records / "projects" / here.name
        (storage / "task-history").mkdir(parents=True, exist_ok=True)
        task = {"type": self.command, "content": self.text, "clientCwd": str(here)}
        (storage / "task-history" / f"{_digest(self.text)}.json").write_text(
            json.dumps(task, ensure_ascii=False)
        )
        (storage / "environment.json").write_text(json.dumps(dict(os.environ)))
        projects = {
            path.name: {"projectPath": str(here.parent / path.name), "storagePath": str(path)}
            for path in storage.parent.iterdir()
        }
        (records / "registry.json").write_text(json.dumps({"projects": projects, "version": 1}))

    def go_wrong(self) -> None:
        if self.play == "hang":
            (self.folder / "pid").write_text(str(os.getpid()))
            time.sleep(600)
        while self.play == "flood":
            sys.stdout.write("x" * 65_536)
        if self.play == "noise":
            sys.stdout.write("Connection lost. Restarting daemon... (attempt 3/3)\n")
            sys.exit(1)
        if self.play == "cut":
            self.tell(True, event="toolCall", toolName="code_exec", args={})
            sys.exit(1)
        if self.play == "unconnected" and self.command != "status":
            self.tell(False, error=UNCONNECTED, status="error")
            sys.exit(0)
        if self.play == "broken":
            self.tell(False, event="error", message=f"socket hang up: {self.text}", status="error")
            sys.exit(0)

    def tell(self, success: bool, **told: object) -> None:
        line = {
            "command": self.command,
            "data": told,
            "success": success,
            "timestamp": "2026-11-30T12:00:00Z",
        }
        sys.stdout.write(json.dumps(line) + "\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    Run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]).carry_out()
