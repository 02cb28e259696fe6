"""What a file is, by its bytes; what names are made of; how documents that harm are read."""

import io
import zipfile
from pathlib import Path

import pytest

from trunkline.gateway import documents
from trunkline.gateway.documents import Unreadable
from trunkline.gateway.file_desk import fit_name
from trunkline.gateway.file_kinds import decoded, kind_of
from trunkline.gateway.file_store import FileStore


def packed(**parts: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name.replace("__", "/").replace("_xml", ".xml"), content)
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "mime", "nature"),
    [
        (b"\x89PNG\r\n\x1a\n...", "text/plain", "picture"),
        (b"RIFF1234WEBP", "", "picture"),
        (b"<svg xmlns='x'/>", "image/svg+xml", "text"),
        (b"\x00\x00\x00\x18ftypheic", "image/heic", "odd_picture"),
        (b"BMW cars are on sale", "", "text"),
        (b"MZ is how it begins", "text/plain", "text"),
        (b"MZ\x90\x00\x03", "", "program"),
        (packed(a_xml=b"x"), "application/zip", "archive"),
        (packed(word__document_xml=b"x"), "", "docx"),
        ("Grüße".encode("cp1252"), "", "text"),
        ("你好".encode("gb18030"), "", "text"),
        (bytes(range(256)), "", "other"),
        (b"OggS", "audio/ogg", "audio"),
    ],
)
def test_the_bytes_of_a_file_tell_what_it_is(content: bytes, mime: str, nature: str) -> None:
    assert kind_of(content, mime).nature == nature


def test_a_text_is_read_in_the_encoding_it_has() -> None:
    assert decoded("你好".encode("utf-16")) == decoded("你好".encode("utf-8-sig")) == "你好"
    assert decoded("世界和平".encode("gb18030")) == "世界和平"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\notes.txt", "notes.txt"),
        ("a\nb:c?.md", "a b_c_.md"),
        ("...", "file.txt"),
        ("旅行.csv", "旅行.csv"),
        ("x" * 300 + ".tar.gz", "x" * 77 + ".gz"),
    ],
)
def test_a_name_leads_nowhere(given: str, made: str) -> None:
    assert fit_name(given, "file.txt") == made


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (packed(word__document_xml=bytes(documents.UNPACKED_BYTES + 1)), "unpacks"),
        (packed(word__document_xml=b"<not a document"), "broken"),
    ],
)
async def test_a_document_that_is_a_bomb_or_broken_is_not_read(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Unreadable) as caught:
        await documents.read_text("docx", path)
    assert caught.value.reason == reason


def test_the_same_content_is_kept_once_and_whole(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "files")
    first, again = store.put(b"content"), store.put(b"content")
    assert first == again
    assert [kept.sha256 for kept in store.kept()] == [first]
    assert store.read(first) == b"content"
    assert [path.stat().st_mode & 0o077 for path in (tmp_path / "files").rglob("**/*")] == [0, 0]
    assert (tmp_path / "files").stat().st_mode & 0o077 == 0
    store.remove(first)
    assert store.read(first) is None
    with pytest.raises(ValueError, match="hash"):
        store.path("../../etc/passwd")
