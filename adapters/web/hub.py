"""What has lately happened in each conversation, so that any number of pages can follow and catch up.

A page holds a place (a number) and is given the newest state of everything that changed after it. Edits of
one message replace each other, so a slow page costs no memory and misses no final text.
"""

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trunkline.adapters.base import Button

_ENTRIES_MOST = 400
_CONVERSATIONS_MOST = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in its newest state. `place` grows with each change in the whole hub."""

    id: str
    by_person: bool
    text: str
    at: datetime
    place: int
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What a page has to show next. `complete` is false if older changes are no longer known."""

    entries: tuple[Entry, ...]
    typing: bool
    place: int
    complete: bool


@dataclass(slots=True)
class _Log:
    entries: OrderedDict[str, Entry] = field(default_factory=OrderedDict)
    forgotten_up_to: int = 0
    typing: bool = False
    place: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """The conversations of one run of the program; `epoch` tells its places from those of another run."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.closed = False
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        self._place = 0

    def put(
        self, thread: str, id: str, text: str, *, by_person: bool, buttons: tuple[Button, ...] = ()
    ) -> bool:
        """Adds a message or gives an old one its new text; true if it is new."""
        log = self._log(thread)
        known = log.entries.get(id)
        at = known.at if known else datetime.now(UTC)
        log.entries[id] = Entry(id, by_person, text, at, self._move(log), buttons)
        while len(log.entries) > _ENTRIES_MOST:
            _, dropped = log.entries.popitem(last=False)
            log.forgotten_up_to = max(log.forgotten_up_to, dropped.place)
        return known is None

    def take_back(self, thread: str, id: str) -> None:
        """Forgets a message that could not be delivered."""
        self._log(thread).entries.pop(id, None)

    def remove(self, thread: str, id: str) -> None:
        """Takes a message out, also one that another run has shown: pages load themselves anew."""
        log = self._log(thread)
        log.entries.pop(id, None)
        log.forgotten_up_to = self._move(log)

    def knows(self, thread: str, id: str) -> bool:
        return id in self._log(thread).entries

    def is_typing(self, thread: str) -> bool:
        return self._log(thread).typing

    def texts(self, thread: str) -> dict[str, str]:
        """The messages of a conversation in their newest state, by id."""
        return {entry.id: entry.text for entry in self._log(thread).entries.values()}

    def ends_with_answer(self, thread: str) -> bool:
        """Whether the last message is not the person's: while typing is on, it begins an answer."""
        entries = self._log(thread).entries
        return bool(entries) and not entries[next(reversed(entries))].by_person

    def forget(self, thread: str) -> None:
        """Drops a conversation; pages that follow it see nothing more of it."""
        log = self._logs.pop(thread, None)
        if log is not None:
            log.changed.set()

    def set_typing(self, thread: str, *, on: bool) -> None:
        log = self._log(thread)
        if log.typing != on:
            log.typing = on
            self._move(log)

    def threads(self) -> tuple[tuple[str, Entry], ...]:
        """Each conversation with messages, and its first one."""
        return tuple(
            (thread, next(iter(log.entries.values()))) for thread, log in self._logs.items() if log.entries
        )

    def since(self, thread: str, place: int) -> Changes:
        log = self._log(thread)
        entries = sorted(
            (one for one in log.entries.values() if one.place > place), key=lambda one: one.place
        )
        complete = log.forgotten_up_to <= place <= self._place
        return Changes(tuple(entries), log.typing, log.place, complete)

    async def wait(self, thread: str, place: int) -> None:
        """Returns once something changed after `place`, or the hub is closed."""
        while not self.closed and self._log(thread).place <= place:
            changed = self._log(thread).changed
            await changed.wait()

    def open(self) -> None:
        self.closed = False

    def close(self) -> None:
        """Ends all waits."""
        self.closed = True
        for log in self._logs.values():
            log.changed.set()

    def _log(self, thread: str) -> _Log:
        log = self._logs.get(thread)
        if log is None:
            log = self._logs[thread] = _Log()
            while len(self._logs) > _CONVERSATIONS_MOST:
                _, dropped = self._logs.popitem(last=False)
                dropped.changed.set()
        self._logs.move_to_end(thread)
        return log

    def _move(self, log: _Log) -> int:
        self._place += 1
        log.place = self._place
        log.changed.set()
        log.changed = asyncio.Event()
        return self._place
