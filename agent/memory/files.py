"""Where each scope's memory lies in the home folder, and its files: read whole, replaced whole, kept beside.

Everything here blocks. Who may write when is the stores' to see to.
"""

import hashlib
import re
import shutil
import stat
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from trunkline.agent.disk import replace_file
from trunkline.agent.memory.entries import ParsedStore, parse_entries
from trunkline.agent.ports import Target
from trunkline.agent.scope import PersonScope, RoomScope, Scope

FILE_NAMES: dict[Target, str] = {"memory": "MEMORY.md", "user": "USER.md"}
MAX_FILE_BYTES = 1_000_000

_PLAIN_FOLDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Unreadable(Exception):
    """The text is there but holds nothing that may be trusted; the argument says why."""


@dataclass(frozen=True, slots=True)
class FileText:
    """What a store's file held: its bytes, or None where there is no file."""

    raw: bytes | None
    store: ParsedStore


@dataclass(frozen=True, slots=True)
class MemoryFolders:
    """`memories/<person>/` and `memories/rooms/<room>/` under the home folder."""

    home: Path

    def folder_of(self, scope: Scope) -> Path:
        """Raises ValueError for an empty name."""
        root = self.home / "memories"
        match scope:
            case PersonScope(person):
                return root / folder_name(person)
            case RoomScope(room, _):
                return root / "rooms" / folder_name(room)

    def path_of(self, scope: Scope, target: Target) -> Path:
        """The file of a store. Raises ValueError for a room's user store and for an empty name."""
        if target == "user" and isinstance(scope, RoomScope):
            raise ValueError("a room has no user store")
        return self.folder_of(scope) / FILE_NAMES[target]

    def erase_backups(self, scope: Scope) -> None:
        """Deletes what `keep_original` kept, and drafts of the person's editor."""
        for name in FILE_NAMES.values():
            for backup in self.folder_of(scope).glob(f"{name}.bak*"):
                backup.unlink(missing_ok=True)

    def erase(self, scope: Scope) -> None:
        """Deletes the whole folder."""
        shutil.rmtree(self.folder_of(scope), ignore_errors=True)


def folder_name(slug: str) -> str:
    """A folder for a person's or room's slug, distinct for distinct slugs, never outside its parent.

    Raises ValueError for an empty slug. `rooms` is taken by the rooms' own folder.
    """
    if not slug:
        raise ValueError("a person or room without a name has no memory folder")
    if _PLAIN_FOLDER.fullmatch(slug) and slug != "rooms":
        return slug
    readable = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:24]
    return f"{readable}~{hashlib.sha256(slug.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def read_file(path: Path) -> FileText:
    """Raises Unreadable; a file that is not there is an empty store."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # reading a pipe would never end
            raise Unreadable("not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return FileText(None, ParsedStore((), free_form=False))
    except OSError as error:
        raise Unreadable(error.strerror or "I/O error") from error
    if len(raw) > MAX_FILE_BYTES:
        raise Unreadable(f"larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return FileText(raw, parse_entries(raw.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def keep_original(path: Path, raw: bytes) -> None:
    """Keeps a hand-written file's bytes beside it, never over an older original."""
    backup, number = path.with_name(f"{path.name}.bak"), 1
    while backup.exists():
        if backup.read_bytes() == raw:
            return
        backup, number = path.with_name(f"{path.name}.bak{number}"), number + 1
    replace_file(backup, raw)


def put_aside(path: Path) -> str | None:
    """Gives a file the first free name of a backup; returns it, or None for no file. Raises OSError."""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
    free = next(name for name in names if not name.exists())
    try:
        path.rename(free)
    except FileNotFoundError:
        return None
    return free.name


def replace_memory(path: Path, content: bytes) -> None:
    """Puts a whole new text in place of the old, as `replace_file` does, with the old one's rights.

    A link stays one: what it leads to is replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = 0o600
    replace_file(path, content, mode)
