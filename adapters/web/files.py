"""Files on the web page: taken in before the message they go with, and handed out by links of our own."""

import mimetypes
import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from trunkline.adapters.base import Attachment, AttachmentKind, OutboundFile, Rejected, TooLarge

NAME_CHARS = 200
UPLOADS_MOST = 200
"""Files that wait for their message; the oldest is forgotten, and its message is then refused."""
_MARKUP = re.compile(r"([\\`*_\[\]<>#~|&])")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Cabinet(Protocol):
    """Where the house keeps contents by their hash."""

    async def keep(self, content: bytes) -> str: ...

    async def read(self, sha256: str) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was taken in. `id` is made anew for each, so that a hash alone opens nothing."""

    id: str
    name: str
    mime: str
    size_bytes: int
    sha256: str


class Uploads:
    """Files that were sent ahead of their message."""

    def __init__(self, cabinet: Cabinet) -> None:
        self._cabinet = cabinet
        self._waiting: OrderedDict[str, Upload] = OrderedDict()

    async def take(self, request: Request, max_bytes: int) -> Upload:
        """The body of a request as a file. Raises TooLarge, and Rejected for an empty one."""
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > max_bytes:
                raise TooLarge(f"That file is larger than {max_bytes // 2**20} MB.")
        if not content:
            raise Rejected("That file is empty.")
        name = request.query_params.get("name", "")[:NAME_CHARS]
        stated = request.headers.get("content-type", "").partition(";")[0]
        mime = stated or mimetypes.guess_type(name)[0] or "application/octet-stream"
        sha256 = await self._cabinet.keep(bytes(content))
        upload = Upload(secrets.token_hex(12), name, mime, len(content), sha256)
        self._waiting[upload.id] = upload
        while len(self._waiting) > UPLOADS_MOST:
            self._waiting.popitem(last=False)
        return upload

    def find(self, ids: Sequence[str]) -> tuple[Upload, ...] | None:
        """The files of a message; None when one of them isn't known any more."""
        if any(id not in self._waiting for id in ids):
            return None
        return tuple(self._waiting[id] for id in ids)

    async def kept(self, sha256: str) -> bytes | None:
        return await self._cabinet.read(sha256)

    async def read(self, attachment: Attachment, max_bytes: int) -> bytes:
        content = await self._cabinet.read(attachment.ref) if _SHA256.match(attachment.ref) else None
        if content is None:
            raise Rejected("the file is no longer kept")
        if len(content) > max_bytes:
            raise TooLarge(f"the file is larger than {max_bytes // 2**20} MB")
        return content


def attachment_of(upload: Upload) -> Attachment:
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    kind = kinds.get(upload.mime.partition("/")[0], AttachmentKind.DOCUMENT)
    return Attachment(kind, upload.sha256, upload.name, upload.mime, upload.size_bytes)


def link_to(thread: str, file: OutboundFile) -> str:
    """Markdown that leads to a file of the conversation."""
    return file_link(thread, file.name, file.sha256)


def file_link(thread: str, name: str, sha256: str) -> str:
    shown = _MARKUP.sub(r"\\\1", " ".join(name.split()))
    return f"📎 [{shown}](/c/{thread}/files/{sha256}/{quote(name, safe='')})"


def is_hash(text: str) -> bool:
    return _SHA256.match(text) is not None


def as_download(name: str, content: bytes) -> Response:
    """Always to be saved, never to be shown: a page somebody sent must not run as one of ours."""
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, media_type="application/octet-stream", headers=headers)
