"""Fetches the files that came with messages, once, and makes of each what a model can take.

It runs before the turn begins, for people who may speak only; what came of it is in the rows of
`state.files`, so that a turn taken up after a crash fetches nothing again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    Attachment,
    AttachmentKind,
    InboundMessage,
    RateLimited,
    Rejected,
    TooLarge,
)
from trunkline.agent.messages import Picture
from trunkline.gateway import documents
from trunkline.gateway.attachment_lines import MAX_FILES, RECORDINGS
from trunkline.gateway.clock import now_ms
from trunkline.gateway.documents import Unreadable
from trunkline.gateway.file_kinds import FileKind, decoded, kind_of
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.opening import load_message, who_is
from trunkline.gateway.state import files, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.files import NewFile
from trunkline.gateway.state.records import InboxRow

log = logging.getLogger(__name__)

FETCH_S = 150.0
"""One file with its second try."""
RETRY_WAIT_S = 1.0
RETRY_WAIT_MOST_S = 15.0
PARALLEL_FETCHES = 24
PARALLEL_READERS = 3
FETCHES_A_TURN = 4
"""Of the places above; in a turn one file is read at a time, so that nobody takes them all."""
PICTURE_BYTES = 3 * 2**20
"""A larger picture is made small: models scale it down anyway, and it is sent again with every turn."""

_FOR_TEXT = ("pdf", "docx", "xlsx", "pptx")


class Hearing(Protocol):
    """Puts recordings into words. Raises NotHeard."""

    async def transcribe(self, content: bytes, name: str, mime: str) -> str: ...


class NotHeard(Exception):
    """No transcript could be had."""


class _Unusable(Exception):
    """`reason` names the sentence that says why; `row` is what is known of the file by then."""

    def __init__(self, reason: str, row: NewFile | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to fetch, where it came from and where it is noted."""

    adapter: Adapter | None
    attachment: Attachment
    stream: int
    inbox_row: int
    place: int


class _Lane:
    """The places that one turn may have at once."""

    def __init__(self) -> None:
        self.fetch = asyncio.Semaphore(FETCHES_A_TURN)
        self.read = asyncio.Semaphore(1)


class Attachments:
    """The one that fetches. `adapter` gives a platform's adapter while it is connected."""

    def __init__(
        self,
        database: Database,
        store: FileStore,
        adapter: Callable[[str], Adapter | None],
        *,
        max_bytes: int,
        hearing: Hearing | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self._adapter = adapter
        self._hearing = hearing
        self._fetches = asyncio.Semaphore(PARALLEL_FETCHES)
        self._readers = asyncio.Semaphore(PARALLEL_READERS)
        self.max_bytes = max_bytes

    async def look_for(self, rows: Sequence[InboxRow]) -> tuple[Wanted, ...]:
        """What these rows name and is not there yet. Raises NotAdmitted for who may not speak."""
        messages = [load_message(row) for row in rows]
        return await self._database.write(lambda c: self._wanted(c, rows, messages))

    async def fetch(self, wanted: Sequence[Wanted]) -> None:
        """Fetches these files and notes what came of each, a fault included."""
        lane = _Lane()
        async with asyncio.TaskGroup() as group:
            for number, one in enumerate(wanted):
                group.create_task(self._take(one, number, lane))

    def _wanted(
        self, connection: Connection, rows: Sequence[InboxRow], messages: Sequence[InboundMessage]
    ) -> tuple[Wanted, ...]:
        who = who_is(connection, rows[0], messages[0])
        room_id = None if who.room is None else who.room.id
        stream = people.stream_of(connection, account_id=who.account.id, room_id=room_id)
        there = {(one.inbox_row, one.place) for one in files.came_with(connection, [row.id for row in rows])}
        return tuple(
            Wanted(self._adapter(message.platform), attachment, stream, row.id, place)
            for row, message in zip(rows, messages, strict=True)
            for place, attachment in enumerate(message.attachments)
            if (row.id, place) not in there
        )

    async def _take(self, wanted: Wanted, number: int, lane: _Lane) -> None:
        """One file, from its platform to its row."""
        sent = wanted.attachment
        row = NewFile(
            stream=wanted.stream,
            kind=sent.kind.value,
            name=sent.name,
            mime=sent.mime,
            size_bytes=sent.size_bytes,
            sha256=None,
            created_ms=now_ms(),
            inbox_row=wanted.inbox_row,
            place=wanted.place,
        )
        try:
            if number >= MAX_FILES:
                raise _Unusable("too_many")
            if sent.size_bytes is not None and sent.size_bytes > self.max_bytes:
                raise _Unusable(f"too_large {self.max_bytes // 2**20}")
            async with lane.fetch, self._fetches:
                content = await self._download(wanted)
            row = await self._kept(row, content)
            row = await self._made(row, content, lane)
        except _Unusable as unusable:
            row = replace(unusable.row or row, reason=unusable.reason)
        await self._database.write(lambda c: files.add(c, row))

    async def _download(self, wanted: Wanted) -> bytes:
        """The bytes, at the second try at the latest."""
        if wanted.adapter is None:
            raise _Unusable("not_fetched")
        try:
            async with asyncio.timeout(FETCH_S):
                try:
                    return await wanted.adapter.download(wanted.attachment, self.max_bytes)
                except Rejected:
                    raise
                except AdapterError as error:
                    wished_s = error.retry_after_s if isinstance(error, RateLimited) else RETRY_WAIT_S
                    await asyncio.sleep(min(wished_s, RETRY_WAIT_MOST_S))
                    return await wanted.adapter.download(wanted.attachment, self.max_bytes)
        except TooLarge:
            raise _Unusable(f"too_large {self.max_bytes // 2**20}") from None
        except (AdapterError, TimeoutError) as error:
            log.warning("file not fetched: %s from %s", type(error).__name__, wanted.adapter.platform)
            raise _Unusable("not_fetched") from error

    async def _kept(self, row: NewFile, content: bytes) -> NewFile:
        try:
            sha256 = await asyncio.to_thread(self._store.put, content)
        except OSError as error:
            log.warning("file not kept: %s", error.strerror)
            raise _Unusable("not_kept") from error
        return replace(row, sha256=sha256, size_bytes=len(content))

    async def _made(self, row: NewFile, content: bytes, lane: _Lane) -> NewFile:
        """The row of a kept file with what a model can take of it."""
        found = await asyncio.to_thread(kind_of, content, row.mime)
        row = replace(row, mime=found.mime)
        try:
            if row.kind in RECORDINGS or found.nature == "audio":
                return await self._heard(row, content, found)
            if found.nature in ("picture", "odd_picture"):
                return await self._shown(row, found, len(content), lane)
            return await self._read(row, content, found, lane)
        except (Unreadable, _Unusable) as error:
            raise _Unusable(error.reason, row) from error

    async def _read(self, row: NewFile, content: bytes, found: FileKind, lane: _Lane) -> NewFile:
        if found.nature == "text":
            words = documents.cut(decoded(content) or "")
        elif found.nature in _FOR_TEXT:
            async with lane.read, self._readers:
                words = await documents.read_text(found.nature, self._path(row))
        else:
            raise _Unusable(found.nature)
        if not words:
            raise _Unusable("no_words")
        return replace(row, words=words)

    async def _heard(self, row: NewFile, content: bytes, found: FileKind) -> NewFile:
        kind = row.kind if row.kind in RECORDINGS else AttachmentKind.AUDIO.value
        if self._hearing is None:
            raise _Unusable("no_hearing")
        try:
            words = await self._hearing.transcribe(content, _named(row), found.mime)
        except NotHeard as error:
            raise _Unusable("not_heard") from error
        if not words:
            raise _Unusable("not_heard")
        return replace(row, kind=kind, words=documents.cut(words))

    async def _shown(self, row: NewFile, found: FileKind, size_bytes: int, lane: _Lane) -> NewFile:
        row = replace(row, kind=AttachmentKind.IMAGE.value)
        if found.nature == "picture" and size_bytes <= PICTURE_BYTES:
            return replace(row, shown=Picture(row.sha256 or "", found.mime))
        try:
            async with lane.read, self._readers:
                small = await documents.make_small(self._path(row))
        except Unreadable as error:
            odd = found.nature == "odd_picture" and error.reason == "broken"
            raise _Unusable("odd_picture" if odd else error.reason) from error
        shown = await self._kept(row, small)
        return replace(row, shown=Picture(shown.sha256 or "", "image/jpeg"))

    def _path(self, row: NewFile) -> Path:
        return self._store.path(row.sha256 or "")


def _named(row: NewFile) -> str:
    """A name whose ending tells an endpoint the format."""
    ending = Path(row.name).suffix or _ENDINGS.get(row.mime.partition(";")[0], ".ogg")
    return f"recording{ending}"


_ENDINGS = {
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/x-m4a": ".m4a",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/webm": ".webm",
    "audio/flac": ".flac",
}
