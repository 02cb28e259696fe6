"""Reads one skill's folder as it came from anywhere, trusting nothing: links, sizes, bytes, hostile text.

A folder is refused whole, with its reason; a file in a good folder is checked once more when it is read.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trunkline.agent.memory.scan import scan
from trunkline.agent.memory.threat_rules import Severity
from trunkline.agent.skills.format import (
    SKILL_FILE,
    BadSkill,
    SkillHead,
    check_name,
    parse_skill,
)

MAX_FILES = 500
MAX_FOLDER_BYTES = 20_000_000
MAX_SKILL_FILE_BYTES = 256_000
MAX_TEXT_BYTES = 1_000_000
MAX_DEPTH = 6

_SKILL_FILES = (SKILL_FILE, "skill.md")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file beside SKILL.md: its path from the folder, with slashes."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill that may be used. `text` is the whole of SKILL.md."""

    head: SkillHead
    text: str
    files: tuple[SkillFile, ...]
    skill_file: str = SKILL_FILE


def read_folder(folder: Path) -> SkillFolder:
    """Raises BadSkill."""
    if not folder.is_symlink() and not folder.exists():
        raise BadSkill("There is no folder of that name.")
    if folder.is_symlink() or not folder.is_dir():
        raise BadSkill("It is no folder of its own: links to elsewhere are not followed.")
    name = check_name(folder.name)
    files = tuple(_files(folder))
    skill_file = next((one for one in _SKILL_FILES if any(file.path == one for file in files)), None)
    if skill_file is None:
        raise BadSkill(f"There is no {SKILL_FILE} in it.")
    text = read_text(folder, skill_file, MAX_SKILL_FILE_BYTES)
    head, _ = parse_skill(text)
    if head.name != name:
        raise BadSkill(f"Its folder is called {name}, but {SKILL_FILE} names it {head.name}.")
    check_text(text, head.description)
    return SkillFolder(head, text, tuple(file for file in files if file.path != skill_file), skill_file)


def read_text(folder: Path, path: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """A text file within the folder. Raises BadSkill for one that leads out, is too large or no text."""
    wanted = folder / path
    try:
        resolved = wanted.resolve(strict=True)
        if not resolved.is_relative_to(folder.resolve(strict=True)):
            raise BadSkill(f"{path} leads out of the skill's folder.")
        descriptor = os.open(resolved, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, RuntimeError) as error:
        raise BadSkill(f"{path} can't be read.") from error
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise BadSkill(f"{path} is no file.")
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise BadSkill(f"{path} is larger than {max_bytes:,} bytes.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSkill(f"{path} is not text.") from error
    if "\0" in text:
        raise BadSkill(f"{path} is not text.")
    return text


def check_text(text: str, description: str = "") -> None:
    """Raises BadSkill for hostile text; the description is judged more strictly: it is in every prompt."""
    finding = scan(text, least=Severity.HIGH) or scan(description)
    if finding is not None:
        raise BadSkill(f"Its text reads like {finding.category} ('{finding.span}').")


def check_all_texts(folder: Path, skill: SkillFolder) -> None:
    """Scans every file that is text, too: for what is about to be installed. Raises BadSkill."""
    for file in skill.files:
        if file.bytes > MAX_TEXT_BYTES or not _looks_like_text(folder / file.path):
            continue
        try:
            check_text(read_text(folder, file.path))
        except BadSkill as error:
            raise BadSkill(f"{file.path}: {error}") from error


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _files(folder: Path) -> Iterator[SkillFile]:
    """The files, but for names that begin with a dot. Raises BadSkill for what may not be there."""
    root = folder.resolve()
    total_bytes, count = 0, 0
    waiting = [folder]
    while waiting:
        at = waiting.pop()
        if len(at.relative_to(folder).parts) > MAX_DEPTH:
            raise BadSkill(f"Its folders are more than {MAX_DEPTH} deep.")
        for entry in _entries(at):
            path = Path(entry.path).relative_to(folder).as_posix()
            found = _looked_at(entry, path, root)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
                continue
            if not stat.S_ISREG(found.st_mode):
                if entry.is_symlink():
                    continue  # a link to a folder of its own, whose files are counted where they are
                raise BadSkill(f"{path} is neither a file nor a folder.")
            count, total_bytes = count + 1, total_bytes + found.st_size
            if count > MAX_FILES:
                raise BadSkill(f"It holds more than {MAX_FILES} files.")
            if total_bytes > MAX_FOLDER_BYTES:
                raise BadSkill(f"It is larger than {MAX_FOLDER_BYTES // 1_000_000} MB.")
            yield SkillFile(path, found.st_size)


def _looked_at(entry: os.DirEntry[str], path: str, root: Path) -> os.stat_result:
    try:
        path.encode()
        if not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(root):
            return entry.stat()
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise BadSkill(f"{path!a} can't be read.") from error
    raise BadSkill(f"{path} is a link that leads out of the skill's folder.")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(
                (entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name
            )
    except OSError as error:
        raise BadSkill("Its folder can't be read.") from error


def _looks_like_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(8192)
    except OSError:
        return False
