"""What a file is, by its bytes first: a name or a platform's word for it may say anything."""

import io
import zipfile
from dataclasses import dataclass
from typing import Literal

Nature = Literal[
    "picture", "odd_picture", "audio", "video", "pdf", "docx", "xlsx", "pptx", "text", "old_office",
    "archive", "program", "other",
]  # fmt: skip

_STARTS: tuple[tuple[bytes, Nature, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "picture", "image/png"),
    (b"\xff\xd8\xff", "picture", "image/jpeg"),
    (b"GIF8", "picture", "image/gif"),
    (b"%PDF", "pdf", "application/pdf"),
    (b"\xd0\xcf\x11\xe0", "old_office", ""),
    *((start, "archive", "") for start in (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")),
    (b"\x28\xb5\x2f\xfd", "archive", ""),
    *((start, "program", "") for start in (b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")),
)
_BY_MIME: dict[str, Nature] = {"audio": "audio", "video": "video", "image": "odd_picture"}
_ODD_PICTURES = (b"BM", b"II*\x00", b"MM\x00*", b"\x00\x00\x01\x00")
_OFFICE: tuple[tuple[str, Nature], ...] = (
    ("word/document.xml", "docx"), ("xl/workbook.xml", "xlsx"), ("ppt/presentation.xml", "pptx"),
)  # fmt: skip
_PLAIN_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_LOOKED_AT_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class FileKind:
    """`nature` decides what is done with a file; `mime` is what its bytes say, or the sender did."""

    nature: Nature
    mime: str


def kind_of(content: bytes, mime: str) -> FileKind:
    """Blocks for a moment on a large archive; callers use a thread."""
    head, major = content[:16], mime.partition("/")[0]
    for start, nature, real in _STARTS:
        if head.startswith(start) and (nature != "program" or b"\x00" in content[:64]):
            return FileKind(nature, real or mime)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return FileKind("picture", "image/webp")
    if b"%PDF-" in content[:1024]:
        return FileKind("pdf", "application/pdf")
    if head.startswith(b"PK\x03\x04"):
        return _packed(content, mime)
    if content[257:262] == b"ustar":
        return FileKind("archive", mime)
    if major in _BY_MIME and mime != "image/svg+xml":
        return FileKind(_BY_MIME[major], mime)
    if decoded(content[:_LOOKED_AT_BYTES], whole=len(content) <= _LOOKED_AT_BYTES) is not None:
        return FileKind("text", mime or "text/plain")
    if head.startswith(_ODD_PICTURES):
        return FileKind("odd_picture", mime)
    return FileKind("other", mime or "application/octet-stream")


def decoded(content: bytes, *, whole: bool = True) -> str | None:
    """The text that the bytes are; None when they are none. Without `whole` they may end mid-character."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace").removeprefix("\ufeff")
    sample = content[:_LOOKED_AT_BYTES]
    if any(byte < 32 and byte not in _PLAIN_CONTROLS for byte in sample):
        return None
    for cut in range(1 if whole else 4):
        try:
            return content[: len(content) - cut].decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    for encoding in ("gb18030", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return None


def _packed(content: bytes, mime: str) -> FileKind:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = set(packed.namelist())
    except (zipfile.BadZipFile, ValueError, OSError):
        return FileKind("archive", mime)
    for part, nature in _OFFICE:
        if part in names:
            return FileKind(nature, mime)
    return FileKind("archive", mime)
