"""ByteRover's context trees on this disk: a folder for each bank, with markdown files found by their words.

The files are those that the vendor's program keeps and searches. Reading them here starts no program for each
message, works without a network, and leaves no record of the question. Blocking: for threads.
"""

import errno
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trunkline.agent.providers.base import ProviderDown, ProviderLocked
from trunkline.agent.providers.terms import terms_of
from trunkline.agent.providers.texts import same, states

NOTES = "trunkline/notes"
TURNS = "trunkline/turns"
"""Where what we write lies in a tree."""
SUFFIX = ".md"
MAX_TURNS = 1_500
"""So many of the newest turns are searched; of everything else, all."""
MAX_FILE_BYTES = 256_000
PASSAGE_CHARS = 1_500
_DERIVED = re.compile(r"(^|/)_index\.md$|\.(abstract|overview|full)\.md$")
"""Summaries that the vendor's program makes of other files."""
_MADE_OF_IT = re.compile(r"\.(abstract|overview|full|stub)$")
_KINDS = ("", ".abstract", ".overview", ".full", ".stub")
"""What the vendor's program adds to a topic's name for what it makes of that, and of the topic itself."""
_INDEX = "_index.md"
"""Its summary of a folder and all below."""
_FRONT_MATTER = re.compile(r"\A---\r?\n.*?\r?\n---\r?\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Note:
    """A file, by its path in the tree without suffix, and the part of it that answers a question best."""

    id: str
    text: str
    score: float = 0.0


class _Project(BaseModel):
    model_config = ConfigDict(extra="ignore")

    path: Path = Field(alias="projectPath")
    storage: Path = Field(alias="storagePath")


class _Registry(BaseModel):
    projects: dict[str, _Project] = {}


class Trees:
    """The trees below a folder. `records` is where the vendor's program keeps its own, by project."""

    def __init__(self, folder: Path, records: Path) -> None:
        self._folder = folder
        self._records = records

    def made(self) -> Path:
        """The folder of all trees, which is there afterwards."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder

    def project(self, bank: str) -> Path:
        """The bank's folder, which is there afterwards: the vendor's program runs in it."""
        self._tree(bank).mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / bank

    def write(self, bank: str, one: str, text: str) -> None:
        """Keeps a text under an id that we made."""
        path = self._path(bank, one)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        half_done = path.with_suffix(".tmp")
        half_done.write_bytes(text.encode())
        half_done.chmod(0o600)
        half_done.replace(path)

    def search(self, bank: str, query: str, limit: int) -> list[Note]:
        """What shares words with the question, rare ones first."""
        wanted = set(terms_of(query))
        passages = [
            (name, passage, wanted & terms)
            for name, path, stamp in self._searched(bank)
            for passage, terms in _passages(path, *stamp)
        ]
        spread = Counter(term for *_, shared in passages for term in shared)
        best: dict[str, Note] = {}
        for name, passage, shared in passages:
            score = sum(math.log(1 + len(passages) / spread[term]) for term in shared)
            if shared and (name not in best or best[name].score < score):
                best[name] = Note(name, passage, score)
        return sorted(best.values(), key=lambda note: -note.score)[:limit]

    def count(self, bank: str) -> int:
        return sum(not _DERIVED.search(f"{name}{SUFFIX}") for name, _ in self._files(bank))

    def named(self, bank: str, ids: Sequence[str]) -> list[str]:
        """Those of the ids that are files of the bank."""
        tree = self._tree(bank).resolve()
        return [one for one in dict.fromkeys(ids) if _is_file_in(tree, self._path(bank, one))]

    def stating(self, bank: str, wordings: Sequence[str]) -> list[str]:
        return [name for name, path in self._files(bank) if states(_read(path), wordings)]

    def same_as(self, bank: str, text: str) -> list[str]:
        return [
            name
            for name, path in self._files(bank)
            if name.startswith(f"{NOTES}/") and same(_read(path), text)
        ]

    def remove(self, bank: str, ids: Sequence[str]) -> int:
        """Removes files with what the vendor's program made of them, in its own words; the number named."""
        gone, tree = self.named(bank, ids), self._tree(bank)
        for one in gone:
            path = self._path(bank, one)
            topic = _MADE_OF_IT.sub("", path.stem)
            for kind in _KINDS:
                path.with_name(f"{topic}{kind}{SUFFIX}").unlink(missing_ok=True)
            for folder in path.parents:
                (folder / _INDEX).unlink(missing_ok=True)
                if folder == tree:
                    break
        return len(gone)

    def remove_records(self, bank: str, wordings: Sequence[str]) -> None:
        """Removes what the vendor's program noted down beside the tree, wherever it states a wording."""
        tree = self._tree(bank)
        for root in (self._folder / bank / ".brv", *self._storages(bank)):
            for path in _walk(root):
                if tree not in path.parents and states(_read(path), wordings):
                    path.unlink(missing_ok=True)

    def remove_all(self, bank: str) -> int:
        number = self.count(bank)
        for folder in (self._folder / bank, *self._storages(bank)):
            if folder.exists():
                shutil.rmtree(folder)
        return number

    def is_known(self, bank: str) -> bool:
        """Whether the vendor's program was ever run for the bank."""
        return bool(self._storages(bank))

    def has_history(self, bank: str) -> bool:
        """Whether the operator put the tree under the vendor's version control."""
        return (self._tree(bank) / ".git").exists()

    def _tree(self, bank: str) -> Path:
        return self._folder / bank / ".brv" / "context-tree"

    def _path(self, bank: str, one: str) -> Path:
        return self._tree(bank) / f"{one}{SUFFIX}"

    def _files(self, bank: str) -> list[tuple[str, Path]]:
        tree = self._tree(bank)
        return [
            (path.relative_to(tree).with_suffix("").as_posix(), path)
            for path in _walk(tree)
            if path.suffix == SUFFIX
        ]

    def _searched(self, bank: str) -> list[tuple[str, Path, tuple[int, int]]]:
        """The files that may be recalled, the newest first, each with what changes when it does."""
        files = [
            (name, path, _stamp(path))
            for name, path in self._files(bank)
            if not _DERIVED.search(f"{name}{SUFFIX}")
        ]
        files.sort(key=lambda file: file[2], reverse=True)
        turns = [file for file in files if file[0].startswith(f"{TURNS}/")]
        return [file for file in files if not file[0].startswith(f"{TURNS}/")] + turns[:MAX_TURNS]

    def _storages(self, bank: str) -> list[Path]:
        try:
            registry = _Registry.model_validate_json((self._records / "registry.json").read_bytes())
        except (FileNotFoundError, ValidationError):
            return []
        here, records = (self._folder / bank).resolve(), self._records.resolve()
        return [
            one.storage
            for one in registry.projects.values()
            if one.path == here and records in one.storage.resolve().parents
        ]


def _is_file_in(tree: Path, path: Path) -> bool:
    """Whether a path, which may be anybody's invention, leads to a file of the tree."""
    try:
        return path.is_file() and path.resolve().is_relative_to(tree)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


@contextmanager
def disk_reported() -> Iterator[None]:
    """What the disk refuses as the providers' own errors."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise ProviderLocked(
            f"the folder of the context trees is not ours ({type(error).__name__})"
        ) from error
    except OSError as error:
        raise ProviderDown(f"the context trees can't be used ({type(error).__name__})") from error


def _walk(root: Path) -> Iterator[Path]:
    """Regular files below a folder, without links, the order always the same; nothing where it isn't."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git":
                yield from _walk(Path(entry.path))
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino


@lru_cache(maxsize=4_096)
def _passages(path: Path, changed_ns: int, inode: int) -> tuple[tuple[str, frozenset[str]], ...]:
    """A file's passages with their terms; read again when it was changed."""
    text = _read(path)
    if not path.parent.match(NOTES) and not path.parent.match(TURNS):
        text = _FRONT_MATTER.sub("", text).strip()
    return tuple((passage, frozenset(terms_of(passage))) for passage in passages_of(text))


def passages_of(text: str) -> list[str]:
    """A text in parts of PASSAGE_CHARS at most, cut between paragraphs, lines or words."""
    parts = []
    while len(text) > PASSAGE_CHARS:
        at = max(text.rfind(mark, PASSAGE_CHARS // 2, PASSAGE_CHARS) for mark in ("\n\n", "\n", " "))
        at = at if at > 0 else PASSAGE_CHARS
        parts.append(text[:at])
        text = text[at:].lstrip()
    return [*parts, text] if text.strip() else parts
