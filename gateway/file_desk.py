"""Where files to send are put while a turn runs, and taken from when it ends.

Each is a row of its turn and call, so that a call repeated after a crash puts nothing twice. Sending is
delivery's work.
"""

import asyncio
import mimetypes
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from sqlalchemy import Connection

from trunkline.adapters.base import AttachmentKind
from trunkline.agent.prompt import clean_label
from trunkline.agent.tools.base import ToolContext
from trunkline.agent.tools.send_file import ELSEWHERE, FileRefused
from trunkline.gateway.clock import now_ms
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.state import files
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.files import FileRow, NewFile
from trunkline.gateway.state.messages import streams_of

FILES_A_TURN = 20
NAME_CHARS = 80
_UNFIT = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f]+')


class StoreFileDesk:
    """The FileDesk over the store and its rows. `mask` takes secrets out of what the model wrote."""

    def __init__(self, database: Database, store: FileStore, mask: Callable[[str], str]) -> None:
        self._database = database
        self._store = store
        self._mask = mask

    async def put_text(self, context: ToolContext, name: str, text: str) -> str:
        content = self._mask(text).encode()
        fit = fit_name(name, "file.txt")
        sha256 = await self._put(content)
        mime = mimetypes.guess_type(fit)[0] or "text/plain"
        return await self._note(context, fit, AttachmentKind.DOCUMENT.value, mime, len(content), sha256)

    async def put_again(self, context: ToolContext, file: int, name: str, *, elsewhere: bool) -> str | None:
        found = await self._database.read(lambda c: self._find(c, context, file, elsewhere=elsewhere))
        if found is None or found.sha256 is None:
            return None
        fit = fit_name(name or found.name, _fallback(found))
        return await self._note(context, fit, found.kind, found.mime, found.size_bytes or 0, found.sha256)

    def _find(
        self, connection: Connection, context: ToolContext, file: int, *, elsewhere: bool
    ) -> FileRow | None:
        found = files.find(connection, streams_of(connection, context.scope), context.session, file)
        if found is not None and not elsewhere and not files.is_at_hand(connection, context.session, file):
            raise FileRefused(ELSEWHERE.format(file=file))
        return found

    async def _put(self, content: bytes) -> str:
        try:
            return await asyncio.to_thread(self._store.put, content)
        except OSError as error:
            raise FileRefused("The file could not be stored.") from error

    async def _note(
        self, context: ToolContext, name: str, kind: str, mime: str, size_bytes: int, sha256: str
    ) -> str:
        call = f"{context.step}/{context.call}"

        def work(connection: Connection) -> str:
            known = files.put_by(connection, context.turn, call)
            if known is not None:
                return known.name
            if len(files.going_out(connection, context.turn)) >= FILES_A_TURN:
                raise FileRefused(f"At most {FILES_A_TURN} files go out with one answer.")
            new = NewFile(
                stream=files.stream_of_turn(connection, context.turn),
                kind=kind,
                name=name,
                mime=mime,
                size_bytes=size_bytes,
                sha256=sha256,
                created_ms=now_ms(),
                turn=context.turn,
                call=call,
            )
            files.add(connection, new)
            return name

        try:
            return await self._database.write(work)
        except LookupError as error:
            raise FileRefused("No answer is under way that a file could go with.") from error


def fit_name(name: str, fallback: str) -> str:
    """The last part of what may be a path, as a name that every platform and disk takes."""
    last = PurePosixPath(name.replace("\\", "/")).name
    fit = _UNFIT.sub("_", clean_label(last, 4 * NAME_CHARS).replace('\\"', "'")).strip(" .")
    if not fit:
        return fallback
    if len(fit) > NAME_CHARS:
        ending = PurePosixPath(fit).suffix[:12]
        fit = fit[: NAME_CHARS - len(ending)] + ending
    return fit


def _fallback(row: FileRow) -> str:
    known = {"image/jpeg": ".jpg", "audio/ogg": ".ogg"}
    return f"file{known.get(row.mime) or mimetypes.guess_extension(row.mime) or ''}"
