"""A chat in the terminal, or over a pipe: lines in, answers out. One conversation of one person.

In a terminal an answer is shown as it grows, Ctrl-C stops it and Ctrl-D ends the chat. Without one, each
line is a message, its answer is printed as plain text once it is complete, and the end of the input ends it.
"""

import asyncio
import codecs
import os
import re
import secrets
import select
import signal
import termios
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.spinner import Spinner

from trunkline.adapters.base import (
    Attachment,
    ChatKind,
    ChatRef,
    Chunk,
    Deliver,
    InboundKind,
    InboundMessage,
    Limits,
    OutboundFile,
    OutboundMessage,
    Receipt,
    Rejected,
    Sender,
)
from trunkline.adapters.markup.blocks import is_blank
from trunkline.adapters.markup.plain import render_plain

TENANT = "local"

_PROMPT = "› "
_OPENING = "Trunkline · /help lists commands · /quit leaves"
_LEAVING = ("/quit", "/exit")
_PATIENCE_S = 5
_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:\s+(.*))?\Z", re.DOTALL)
_READ_BYTES = 65536
_COPIES_MOST = 1000
_PRINTED_MOST = 50
_LAST_EDIT_S = 10.0

ReadLine = Callable[[], str | None]
"""Waits for the next line and returns it without its end, or None when there will be no more."""


class LineReader:
    """Lines of a file descriptor, read without Python's buffers: a thread that waits in one of those at the
    interpreter's end would bring it down."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._ended = False

    def __call__(self) -> str | None:
        while "\n" not in self._rest and not self._ended:
            read = os.read(self._descriptor, _READ_BYTES)
            self._ended = not read
            self._rest += self._decoder.decode(read, final=self._ended)
        line, separator, self._rest = self._rest.partition("\n")
        return line.rstrip("\r") if line or separator else None

    @property
    def keyboard(self) -> int | None:
        """The descriptor, where somebody types into it."""
        return self._descriptor if os.isatty(self._descriptor) else None


@contextmanager
def unseen(keyboard: int | None) -> Iterator[None]:
    """What is typed meanwhile waits to be read and doesn't show, since it would move what is being drawn."""
    if keyboard is None:
        yield
        return
    before = termios.tcgetattr(keyboard)
    termios.tcsetattr(keyboard, termios.TCSANOW, [*before[:3], before[3] & ~termios.ECHO, *before[4:]])
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


class Waiting:
    """A spinner that, once the wait is long, tells its seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s = clock()
        self._spinner = Spinner("dots", style="cyan")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        waited_s = int(self._clock() - self._since_s)
        if waited_s >= _PATIENCE_S:
            self._spinner.update(text=f"{waited_s} s")
        yield self._spinner


class Tail:
    """The last lines of what it holds, as many as the screen has room for above the cursor."""

    def __init__(self, whole: RenderableType) -> None:
        self._whole = whole

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._whole, options.update(height=None), pad=False)
        for line in lines[-max(1, console.height - 1) :]:
            yield from line
            yield Segment.line()


class TerminalAdapter:
    """The chat of `person` in `conversation`. `run` returns when the input has ended and is answered.

    An answer counts as complete once something was shown that can't be stopped any more, typing is off and
    `settle_s` passed in silence; what comes of its own accord is printed then, too. `keyboard` is where lines
    are typed, if anywhere.
    """

    platform = "terminal"
    limits = Limits(
        message_chars=1_000_000, edit_interval_s=0.1, group_edit_interval_s=0.1, typing_interval_s=20.0
    )

    def __init__(
        self,
        person: str,
        *,
        conversation: str,
        read_line: ReadLine,
        console: Console,
        settle_s: float = 0.4,
        answer_most_s: float = 1800.0,
        downloads: Path | None = None,
        keyboard: int | None = None,
    ) -> None:
        self._person = person
        self._conversation = conversation
        self._read_line = read_line
        self._console = console
        self._settle_s = settle_s
        self._answer_most_s = answer_most_s
        self._downloads = downloads
        self._keyboard = keyboard
        self._open: OrderedDict[str, str] = OrderedDict()
        self._at_stop: dict[str, str] = {}
        self._live: Live | None = None
        self._answering = False
        self._typing = False
        self._typing_ended = False
        self._moved = asyncio.Event()
        self._came = asyncio.Event()
        self._unfinished: set[str] = set()
        self._printed: OrderedDict[str, str] = OrderedDict()

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        connected(TENANT)
        if self._console.is_terminal:
            self._console.print(_OPENING, style="dim", highlight=False)
        async with asyncio.TaskGroup() as tasks:

            def stop() -> None:
                if self._answering:
                    tasks.create_task(self._stop(deliver))
                else:
                    self._console.print("(/quit or Ctrl-D ends the chat)", style="dim")
                    self._ask()

            listening = tasks.create_task(self._print_what_comes())
            with self._interrupts(stop):
                await self._converse(deliver)
            listening.cancel()
        self._close_answer()

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        """One chunk: a terminal has no limit, and lays Markdown out when it is shown."""
        return () if is_blank(markdown) else (Chunk(markdown),)

    async def send(self, message: OutboundMessage) -> Receipt:
        id = secrets.token_hex(8)
        text = message.chunk.text
        if message.file is not None:
            text = f"Saved: `{await asyncio.to_thread(self._save, message.file)}`"
        self._show(id, text, message)
        return Receipt(id)

    def _save(self, file: OutboundFile) -> Path:
        """Writes the file under its name, or one like it, where nothing is yet. Raises Rejected."""
        if self._downloads is None:
            raise Rejected("there is no folder to save files in")
        wanted = Path(file.name)
        try:
            self._downloads.mkdir(parents=True, exist_ok=True, mode=0o700)
            for number in range(1, _COPIES_MOST):
                name = wanted.name if number == 1 else f"{wanted.stem} {number}{wanted.suffix}"
                path = self._downloads / name
                with suppress(FileExistsError), path.open("xb") as saved:
                    saved.write(file.content)
                    return path
        except OSError as error:
            raise Rejected(f"the file could not be saved ({error.strerror})") from error
        raise Rejected(f"there are too many files named {wanted.name}")

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        self._show(message_id, message.chunk.text, message)
        return Receipt(message_id)

    async def delete(self, to: ChatRef, message_id: str) -> None:
        raise Rejected("what stands in the terminal stays there")

    async def typing(self, to: ChatRef, *, on: bool) -> None:
        self._typing_ended = self._typing_ended or (self._typing and not on)
        self._typing = on
        self._moved.set()
        if on and self._answering:
            self._refresh()

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        raise Rejected("the terminal carries no files")

    async def _stop(self, deliver: Deliver) -> None:
        self._at_stop = dict(self._open)
        await deliver(self._inbound("/stop"))

    async def _converse(self, deliver: Deliver) -> None:
        while True:
            is_shown = self._keyboard is not None and not select.select([self._keyboard], [], [], 0)[0]
            self._ask()
            line = await self._next_line()
            if self._console.is_terminal and not is_shown:
                self._console.print(line or "", markup=False, highlight=False)
            if line is None or line.strip().lower() in _LEAVING:
                return
            if is_blank(line):
                continue
            self._close_answer()
            with unseen(self._keyboard):
                await self._answer(line, deliver)

    async def _answer(self, line: str, deliver: Deliver) -> None:
        self._answering, self._typing_ended = True, False
        try:
            await deliver(self._inbound(line))
            async with asyncio.timeout(self._answer_most_s):
                await self._answered()
        except TimeoutError:
            self._console.print("No answer came in time.", style="red")
        finally:
            self._close_answer()

    async def _print_what_comes(self) -> None:
        """Prints what nobody waits for, such as a reminder, once it is complete."""
        while True:
            await self._came.wait()
            self._came.clear()
            await self._answered()
            if self._open and not self._answering:
                self._close_answer()
                self._ask()

    async def _answered(self) -> None:
        """Returns when the answer is complete."""
        while True:
            begun = bool(self._open) or self._typing_ended
            self._moved.clear()
            try:
                quiet_s = _LAST_EDIT_S if self._unfinished else self._settle_s
                async with asyncio.timeout(quiet_s if begun and not self._typing else None):
                    await self._moved.wait()
            except TimeoutError:
                return

    async def _next_line(self) -> str | None:
        """Waits for a line on a thread that can't keep the process from ending."""
        loop = asyncio.get_running_loop()
        read: asyncio.Future[str | None] = loop.create_future()

        def finish(line: str | None) -> None:
            if not read.done():
                read.set_result(line)

        def wait_for_it() -> None:
            try:
                line = self._read_line()
            except (OSError, EOFError):
                line = None
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, line)

        threading.Thread(target=wait_for_it, name="terminal-input", daemon=True).start()
        return await read

    def _inbound(self, line: str) -> InboundMessage:
        called = _COMMAND.match(line.strip())
        return InboundMessage(
            platform=self.platform,
            tenant=TENANT,
            kind=InboundKind.COMMAND if called else InboundKind.MESSAGE,
            chat=self._person,
            chat_kind=ChatKind.DIRECT,
            sender=Sender(self._person, self._person),
            sent_at=datetime.now(UTC),
            text=(called[2] or "") if called else line,
            thread=self._conversation,
            message_id=secrets.token_hex(8),
            command=called[1] if called else None,
            mentions_me=True,
        )

    def _ask(self) -> None:
        if self._console.is_terminal:
            self._console.print(_PROMPT, end="", style="bold cyan")

    def _show(self, id: str, text: str, message: OutboundMessage) -> None:
        self._unfinished.discard(id)
        if any(button.action == "stop" for button in message.buttons):
            self._unfinished.add(id)
        if self._printed.get(id) == text:
            return
        self._open[id] = text
        self._moved.set()
        if self._answering:
            self._refresh()
        else:
            self._came.set()

    def _refresh(self) -> None:
        """Draws the end of the answer so far; the whole of it is printed when it is complete."""
        if not self._console.is_terminal:
            return
        texts = [Markdown(text) for text in self._texts()]
        if texts:
            self._draw(Tail(Group(*texts)), moves=False)
        elif self._live is None:
            self._draw(Waiting(), moves=True)

    def _draw(self, shown: RenderableType, *, moves: bool) -> None:
        """Only what moves by itself is drawn again and again: laying out a long answer takes its time."""
        if self._live is None or self._live.auto_refresh != moves:
            self._end_live()
            self._live = Live(
                shown, console=self._console, auto_refresh=moves, refresh_per_second=10, transient=True
            )
            self._live.start()
        self._live.update(shown, refresh=True)

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _texts(self) -> tuple[str, ...]:
        """The messages of the answer. A stop that shows in the answer itself isn't told again."""
        told = any(self._open[id] != text for id, text in self._at_stop.items())
        return tuple(text for id, text in self._open.items() if not told or id in self._at_stop)

    def _close_answer(self) -> None:
        self._end_live()
        for text in self._texts():
            self._print(text)
        self._printed.update(self._open)
        while len(self._printed) > _PRINTED_MOST:
            self._printed.popitem(last=False)
        self._open.clear()
        self._unfinished.clear()
        self._at_stop.clear()
        self._answering = False

    def _print(self, text: str) -> None:
        if self._console.is_terminal:
            self._console.print(Markdown(text))
            self._console.print()
        else:
            self._console.print(
                render_plain(text), markup=False, highlight=False, emoji=False, soft_wrap=True
            )

    @contextmanager
    def _interrupts(self, stop: Callable[[], None]) -> Iterator[None]:
        """Ctrl-C is ours while the chat runs, where there is a terminal and signals may be taken."""
        if not self._console.is_terminal or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)
