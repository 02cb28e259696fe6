"""Text out of PDF and office files, and pictures made small: done by a process of its own.

Such files are parsed by large libraries and may be made to harm: the process has little memory, little time
and dies alone. `python -m trunkline.gateway.documents KIND FILE` is what it runs.
"""

import asyncio
import io
import json
import logging
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

WORDS_CHARS = 40_000
"""How much of a file's text a model is given."""
READ_S = 40.0
CPU_S = 30
MEMORY_BYTES = 2 * 2**30
UNPACKED_BYTES = 200 * 2**20
ENTRIES = 10_000
CELLS = 200_000
PICTURE_PIXELS = 1568
"""The longest side of a picture made small: models look at no more."""
PIXELS_MOST = 120_000_000
_CUT = "\n[… cut here: the file goes on]"
_MODULE = "trunkline.gateway.documents"

log = logging.getLogger(__name__)


class Unreadable(Exception):
    """`reason` names a sentence: encrypted, broken, too_slow, unpacks, no_reader."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of document: what turns its bytes into pieces of text."""

    read: Callable[[bytes], Iterable[str]]
    zipped: bool = True


async def read_text(kind: str, path: Path) -> str:
    """The text of a pdf, docx, xlsx or pptx at `path`, at most WORDS_CHARS. Raises Unreadable."""
    return (await _run(kind, path)).decode()


async def make_small(path: Path) -> bytes:
    """The picture at `path` as a JPEG that models take. Raises Unreadable."""
    return await _run("picture", path)


async def _run(kind: str, path: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _MODULE, kind, str(path)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},  # and none of our secrets
    )
    try:
        async with asyncio.timeout(READ_S):
            out, told = await process.communicate()
    except TimeoutError:
        raise Unreadable("too_slow") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return out
    log.info("file not read: %s ended with %s", kind, process.returncode)
    raise Unreadable(_reason(told))


def _reason(told: bytes) -> str:
    """The reason in the last line that the process wrote, if it came so far as to write one."""
    try:
        last = json.loads(told.decode(errors="replace").strip().rpartition("\n")[2])
        return str(last["reason"])
    except (ValueError, KeyError, TypeError):
        return "broken"


# What runs in the process of its own.


def main(kind: str, path: Path) -> int:
    """Writes what was read to standard output, or the reason why not to standard error."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        content = path.read_bytes()
        made = _small(content) if kind == "picture" else _text(_KINDS[kind], content).encode()
    except Unreadable as unreadable:
        reason = unreadable.reason
    except ImportError:
        reason = "no_reader"
    except Exception:  # boundary: a foreign file, whatever the library makes of it  # noqa: BLE001
        reason = "broken"
    else:
        sys.stdout.buffer.write(made)
        return 0
    sys.stderr.write(json.dumps({"reason": reason}) + "\n")
    return 1


def _text(kind: _Kind, content: bytes) -> str:
    if kind.zipped:
        _check_unpacked(content)
    pieces: list[str] = []
    chars = 0
    for piece in kind.read(content):
        pieces.append(piece)
        chars += len(piece) + 1
        if chars > WORDS_CHARS:
            break
    return cut("\n".join(pieces).encode(errors="replace").decode())


def cut(text: str) -> str:
    """At most WORDS_CHARS of a text, which says where it was cut."""
    text = text.strip()
    return text if len(text) <= WORDS_CHARS else text[: WORDS_CHARS - len(_CUT)] + _CUT


def _check_unpacked(content: bytes) -> None:
    """No library unpacks what would fill the memory."""
    import zipfile  # noqa: PLC0415

    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        entries = packed.infolist()
        if any(entry.flag_bits & 1 for entry in entries):
            raise Unreadable("encrypted")
        if len(entries) > ENTRIES or sum(entry.file_size for entry in entries) > UNPACKED_BYTES:
            raise Unreadable("unpacks")


def _pdf(content: bytes) -> Iterable[str]:
    import pypdf  # noqa: PLC0415

    document = pypdf.PdfReader(io.BytesIO(content))
    if document.is_encrypted and not document.decrypt(""):
        raise Unreadable("encrypted")
    for number, page in enumerate(document.pages, 1):
        said = page.extract_text().strip()
        if said:
            yield f"[page {number}]\n{said}"


def _docx(content: bytes) -> Iterable[str]:
    import docx  # noqa: PLC0415
    from docx.table import Table  # noqa: PLC0415

    for part in docx.Document(io.BytesIO(content)).iter_inner_content():
        if isinstance(part, Table):
            for row in part.rows:
                yield " | ".join(" ".join(cell.text.split()) for cell in row.cells)
        elif part.text.strip():
            yield part.text


def _xlsx(content: bytes) -> Iterable[str]:
    import openpyxl  # noqa: PLC0415

    book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    cells = 0
    for sheet in book.worksheets:
        yield f"[sheet {sheet.title}]"
        for row in sheet.iter_rows(values_only=True):
            cells += len(row)
            if cells > CELLS:
                return
            told = ["" if value is None else str(value) for value in row]
            if any(told):
                yield "\t".join(told).rstrip("\t")


def _pptx(content: bytes) -> Iterable[str]:
    import pptx  # noqa: PLC0415

    for number, slide in enumerate(pptx.Presentation(io.BytesIO(content)).slides, 1):
        yield f"[slide {number}]"
        for shape in slide.shapes:
            if shape.has_text_frame and shape.text_frame.text.strip():
                yield shape.text_frame.text
            if getattr(shape, "has_table", False):
                for row in shape.table.rows:
                    yield " | ".join(" ".join(cell.text.split()) for cell in row.cells)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            said = slide.notes_slide.notes_text_frame.text.strip()
            if said:
                yield f"[notes] {said}"


def _small(content: bytes) -> bytes:
    from PIL import Image, ImageOps  # noqa: PLC0415

    Image.MAX_IMAGE_PIXELS = PIXELS_MOST
    with Image.open(io.BytesIO(content)) as opened:
        opened.draft("RGB", (PICTURE_PIXELS, PICTURE_PIXELS))
        upright = ImageOps.exif_transpose(opened)
        upright.thumbnail((PICTURE_PIXELS, PICTURE_PIXELS))
        plain = Image.new("RGB", upright.size, "white")
        shown = upright.convert("RGBA")
        plain.paste(shown, mask=shown.getchannel("A"))
    made = io.BytesIO()
    plain.save(made, "JPEG", quality=85)
    return made.getvalue()


_KINDS = {
    "pdf": _Kind(_pdf, zipped=False),
    "docx": _Kind(_docx),
    "xlsx": _Kind(_xlsx),
    "pptx": _Kind(_pptx),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
