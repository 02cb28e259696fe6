"""The chat in a terminal and over a pipe, with a house that answers as the delivery does."""

import asyncio
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from trunkline.adapters.base import (
    AttachmentKind,
    Button,
    ChatRef,
    Chunk,
    InboundKind,
    InboundMessage,
    OutboundFile,
    OutboundMessage,
)
from trunkline.adapters.terminal import LineReader, Tail, TerminalAdapter, Waiting

DEADLINE_S = 60
ROOT = Path(__file__).parents[2]


@dataclass
class House:
    """Answers each message in three edits, typing meanwhile; commands get one line."""

    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    adapter: TerminalAdapter | None = None
    inbox: list[InboundMessage] = field(default_factory=list)

    async def deliver(self, message: InboundMessage) -> None:
        self.inbox.append(message)
        self.tasks.create_task(self.answer(message))

    async def answer(self, message: InboundMessage) -> None:
        assert self.adapter is not None
        to = ChatRef(message.chat, message.thread)
        if message.kind is InboundKind.COMMAND:
            await self.adapter.send(OutboundMessage(to, Chunk(f"ran {message.command}")))
            return
        await self.adapter.typing(to, on=True)
        receipt = await self.adapter.send(OutboundMessage(to, Chunk("You")))
        for text in ("You said", f"You said **{message.text}**"):
            await asyncio.sleep(0)
            await self.adapter.edit(receipt.message_id, OutboundMessage(to, Chunk(text)))
        await self.adapter.typing(to, on=False)

    async def chat(self, lines: list[str], *, to_terminal: bool = False) -> str:
        """What is printed when these lines come through a pipe."""
        out = io.StringIO()
        rest = iter(lines)
        self.adapter = TerminalAdapter(
            "alice",
            conversation="c1",
            read_line=lambda: next(rest, None),
            console=Console(file=out, width=80, force_terminal=to_terminal, color_system=None),
            settle_s=0.05,
        )
        async with asyncio.timeout(DEADLINE_S), self.tasks:
            await self.adapter.run(self.deliver, lambda _: None)
        return out.getvalue()


async def test_lines_through_a_pipe_get_their_answers_once_and_in_order() -> None:
    printed = await House().chat(["one", "", "two"])

    assert printed == "You said one\nYou said two\n"


class SlowToEnd(House):
    """Stops typing before the answer has its last text, as a busy house does, and repeats that once more."""

    async def answer(self, message: InboundMessage) -> None:
        assert self.adapter is not None
        to = ChatRef(message.chat, message.thread)
        await self.adapter.typing(to, on=True)
        stop = (Button("stop", "Stop", "1"),)
        receipt = await self.adapter.send(OutboundMessage(to, Chunk("Once upon"), buttons=stop))
        await self.adapter.typing(to, on=False)
        await asyncio.sleep(0.3)
        for _ in range(2):
            await self.adapter.edit(receipt.message_id, OutboundMessage(to, Chunk("Once upon a time.")))
            await asyncio.sleep(0.2)


async def test_an_answer_that_can_still_be_stopped_is_waited_for_and_printed_once() -> None:
    assert await SlowToEnd().chat(["a story", "another"]) == "Once upon a time.\n" * 2


class Reminding(House):
    """Answers, and says something of its own accord when the answer has been printed."""

    async def answer(self, message: InboundMessage) -> None:
        assert self.adapter is not None
        await super().answer(message)
        await asyncio.sleep(0.3)
        to = ChatRef(message.chat, message.thread)
        receipt = await self.adapter.send(OutboundMessage(to, Chunk("By the")))
        await self.adapter.edit(receipt.message_id, OutboundMessage(to, Chunk("By the way: the boiler.")))


async def test_what_comes_unasked_is_printed_once_and_whole() -> None:
    house = Reminding()
    lines = iter(["one"])
    out = io.StringIO()

    def read_line() -> str | None:
        line = next(lines, None)
        until = time.monotonic() + DEADLINE_S
        while line is None and "boiler" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        return line

    house.adapter = TerminalAdapter(
        "alice", conversation="c1", read_line=read_line, console=Console(file=out, width=80), settle_s=0.05
    )
    async with asyncio.timeout(DEADLINE_S), house.tasks:
        await house.adapter.run(house.deliver, lambda _: None)

    assert out.getvalue() == "You said one\nBy the way: the boiler.\n"


async def test_lines_of_a_pipe_stand_before_their_answers_on_a_terminal() -> None:
    printed = await House().chat(["/help", "/status"], to_terminal=True)

    shown = [line for line in re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", printed).split("\n") if "›" in line]
    assert [line.strip() for line in shown[:2]] == ["› /help", "› /status"]


async def test_a_line_is_a_message_of_the_person_in_the_conversation() -> None:
    house = House()

    await house.chat(["hello"])

    message = house.inbox[0]
    assert (message.platform, message.tenant, message.chat, message.thread) == (
        "terminal",
        "local",
        "alice",
        "c1",
    )
    assert (message.sender.id, message.text, message.kind) == ("alice", "hello", InboundKind.MESSAGE)


async def test_messages_have_ids_of_their_own() -> None:
    house = House()

    await house.chat(["same", "same"])

    assert len({message.key for message in house.inbox}) == 2


@pytest.mark.parametrize(
    ("line", "command", "text"),
    [
        ("/help", "help", ""),
        ("/resume last week", "resume", "last week"),
        ("/etc/hosts?", None, "/etc/hosts?"),
    ],
)
async def test_a_slash_and_a_name_is_a_command(line: str, command: str | None, text: str) -> None:
    house = House()

    await house.chat([line])

    assert (house.inbox[0].command, house.inbox[0].text) == (command, text)


@pytest.mark.parametrize("word", ["/quit", " /Exit "])
async def test_a_word_leaves_the_chat_as_the_end_of_the_input_does(word: str) -> None:
    house = House()

    printed = await house.chat(["hello", word, "never read"])

    assert printed == "You said hello\n"
    assert [message.text for message in house.inbox] == ["hello"]


async def test_a_long_answer_is_not_wrapped_in_a_pipe_and_brackets_stay() -> None:
    printed = await House().chat(["[red] " + "word " * 60 + ":smile:"])

    assert printed == "You said [red] " + "word " * 60 + ":smile:\n"


def test_lines_are_read_over_split_characters_and_without_a_last_line_end() -> None:
    reading, writing = os.pipe()
    text = "héllo\r\n\n世界".encode()
    for start in range(0, len(text), 2):
        os.write(writing, text[start : start + 2])
    os.close(writing)

    read = LineReader(reading)

    assert [read(), read(), read(), read(), read()] == ["héllo", "", "世界", None, None]
    os.close(reading)


SCRIPT = """
import asyncio, sys
from rich.console import Console
from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.adapters.terminal import LineReader, TerminalAdapter

class House:
    shown = ""
    async def deliver(self, message):
        tasks.create_task(self.answer(message))
    async def answer(self, message):
        to = ChatRef(message.chat, message.thread)
        if message.command == "stop":
            if self.shown:
                text = "thinking about it (stopped here)"
                await adapter.edit(self.shown, OutboundMessage(to, Chunk(text)))
            await adapter.send(OutboundMessage(to, Chunk("stopped-it")))
            await adapter.typing(to, on=False)
            return
        await adapter.typing(to, on=True)
        if message.text == "silence":
            return
        text = "thinking about " + message.text
        if message.text == "tall":
            text = "\\n".join(f"- row {n}" for n in range(200))
        receipt = await adapter.send(OutboundMessage(to, Chunk(text)))
        if message.text == "long":
            self.shown = receipt.message_id
        if message.text == "short":
            await adapter.typing(to, on=False)

async def main():
    global adapter, tasks
    console = Console(width=60)
    read = LineReader()
    adapter = TerminalAdapter(
        "alice", conversation="c", read_line=read, console=console, settle_s=0.05, keyboard=read.keyboard
    )
    async with asyncio.TaskGroup() as tasks:
        await adapter.run(House().deliver, lambda tenant: None)
    print("left")

asyncio.run(main())
"""


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "PYTHONUNBUFFERED": "1"}
        self.program = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment
        )
        os.close(slave)
        self.seen = ""

    def until(self, wanted: Callable[[str], bool]) -> None:
        while not wanted(self.seen):
            ready, _, _ = select.select([self.master], [], [], DEADLINE_S)
            assert ready, f"the terminal shows only {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> int:
        code = self.program.wait(DEADLINE_S)
        os.close(self.master)
        return code


def test_in_a_terminal_ctrl_c_stops_the_answer_and_ctrl_d_ends_the_chat() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)

    terminal.type("forever\n")
    terminal.until(lambda seen: "thinking about forever" in seen)
    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "stopped-it" in seen and seen.count("› ") >= 2)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    assert terminal.close() == 0


def test_what_is_typed_during_an_answer_shows_at_the_next_prompt() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)

    terminal.type("forever\n")
    terminal.until(lambda seen: "thinking about forever" in seen)
    terminal.type("short\n")
    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "thinking about short" in seen and seen.count("› ") >= 3)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    during, _, after = terminal.seen.partition("stopped-it")
    assert "short" not in during
    assert re.search(r"› \S*short\r?\n", re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", after))
    assert terminal.close() == 0


def test_a_stop_that_shows_in_the_answer_is_not_told_again() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)

    terminal.type("long\n")
    terminal.until(lambda seen: "thinking about long" in seen)
    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "(stopped here)" in seen and seen.count("› ") >= 2)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    assert "stopped-it" not in terminal.seen
    assert terminal.close() == 0


def test_a_terminal_is_greeted_by_one_line_and_the_spinner_moves() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)
    assert terminal.seen.count("/help lists commands") == 1

    terminal.type("silence\n")
    terminal.until(lambda seen: len(set(re.findall("[⠁-⣿]", seen))) >= 4)
    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "stopped-it" in seen and seen.count("› ") >= 2)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    assert terminal.close() == 0


def test_an_answer_taller_than_the_window_shows_its_end_while_it_grows() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)

    terminal.type("tall\n")
    terminal.until(lambda seen: "row 199" in seen)
    assert "row 100" not in terminal.seen
    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "row 100" in seen and seen.count("› ") >= 2)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    assert terminal.close() == 0


def test_a_long_wait_tells_its_seconds() -> None:
    now_s = 100.0
    out = io.StringIO()
    waiting = Waiting(lambda: now_s)
    console = Console(file=out, width=40)

    console.print(waiting)
    now_s = 104.9
    console.print(waiting)
    assert "s" not in out.getvalue()

    now_s = 107.2
    console.print(waiting)
    assert "7 s" in out.getvalue()


def test_a_tail_is_the_last_lines_that_fit() -> None:
    out = io.StringIO()

    Console(file=out, width=40, height=4).print(Tail("\n".join("abcdef")), end="")

    assert out.getvalue() == "d\ne\nf\n"


def test_ctrl_c_at_the_prompt_only_says_how_to_end() -> None:
    terminal = Terminal()
    terminal.until(lambda seen: "›" in seen)

    terminal.program.send_signal(signal.SIGINT)
    terminal.until(lambda seen: "Ctrl-D ends" in seen)
    terminal.type("short\n")
    terminal.until(lambda seen: "thinking about short" in seen and seen.count("› ") >= 3)
    terminal.type("\x04")
    terminal.until(lambda seen: "left" in seen)

    assert terminal.close() == 0


async def test_waiting_for_a_line_does_not_keep_it_from_ending() -> None:
    reading, writing = os.pipe()
    adapter = TerminalAdapter(
        "alice", conversation="c", read_line=LineReader(reading), console=Console(file=io.StringIO())
    )
    ready = asyncio.Event()

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(House().deliver, lambda _: ready.set()))
        await ready.wait()
        running.cancel()

    os.close(writing)
    assert running.cancelled()


async def test_a_file_is_saved_under_its_name_and_never_over_another(tmp_path: Path) -> None:
    out = io.StringIO()
    adapter = TerminalAdapter(
        "alice",
        conversation="c1",
        read_line=lambda: None,
        console=Console(file=out, width=200),
        downloads=tmp_path / "downloads",
    )
    for content in (b"one", b"two"):
        file = OutboundFile(AttachmentKind.DOCUMENT, "../list.md", "text/markdown", "0" * 64, content)
        await adapter.send(OutboundMessage(ChatRef("alice", "c1"), Chunk(""), file=file))
    await adapter.run(House().deliver, lambda _: None)
    saved = {path.name: path.read_bytes() for path in (tmp_path / "downloads").iterdir()}
    assert saved == {"list.md": b"one", "list 2.md": b"two"}
    assert [f"Saved: {tmp_path / 'downloads' / name}" in out.getvalue() for name in saved] == [True, True]
