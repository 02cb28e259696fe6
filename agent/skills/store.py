"""Where skills are kept: the operator's, which everybody reads, and each person's and room's own.

`skills/<name>` under the home folder is shared; `memories/<person>/skills/<name>` and
`memories/rooms/<room>/skills/<name>` belong to one. No name can lead from one of these to another.
"""

import asyncio
import logging
import shutil
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from trunkline.agent.memory.files import MemoryFolders
from trunkline.agent.scope import PersonScope, RoomScope, Scope
from trunkline.agent.skills.changes import ShelfWriter
from trunkline.agent.skills.curator import Curated
from trunkline.agent.skills.edits import Change, Changed, Origin
from trunkline.agent.skills.folder import SkillFile, SkillFolder, check_text, digest, read_folder, read_text
from trunkline.agent.skills.format import SKILL_FILE, BadSkill, check_name, check_path
from trunkline.agent.skills.records import Records, RecordsUnreadable, SkillRecord, read_records

T = TypeVar("T")
_Stamp = tuple[tuple[int, int, int], ...]
_Read = tuple[_Stamp, SkillFolder | BadSkill]

_logger = logging.getLogger(__name__)

MAX_SHELF = 200
"""Skills of one shelf that are read; the names after them, in order, are refused."""
MAX_CACHED_SHELVES = 256


@dataclass(frozen=True, slots=True)
class Shared:
    """The operator's shelf. No tool of a model ever writes to it."""


Owner = PersonScope | RoomScope | Shared
"""Whose shelf is meant. What reads for a turn takes a Scope, and gets its own shelf and the shared one."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that can be used. `record` is of its own shelf."""

    name: str
    description: str
    category: str
    place: Literal["own", "shared"]
    record: SkillRecord


@dataclass(frozen=True, slots=True)
class RefusedSkill:
    """A folder that is not used, and why."""

    name: str
    reason: str
    place: Literal["own", "shared"]


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a scope has: its own skills first, each by name. An own one stands before a shared namesake."""

    skills: tuple[Skill, ...] = ()
    refused: tuple[RefusedSkill, ...] = ()

    def find(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)


NO_SKILLS = Shelf()


@dataclass(frozen=True, slots=True)
class SkillPage:
    """One file of a skill. `files` are the others; `digest` names this very text."""

    skill: Skill
    path: str
    text: str
    files: tuple[SkillFile, ...]
    digest: str


class SkillShelves(Protocol):
    """What the tools of a model work with. Raises BadSkill with a sentence for what can't be done."""

    async def shelf(self, scope: Scope) -> Shelf: ...

    async def open(self, scope: Scope, name: str, path: str | None) -> SkillPage:
        """SKILL.md, or another text file of the skill."""
        ...

    async def change(self, owner: Scope, change: Change, origin: Origin) -> Changed: ...

    async def note_use(self, scope: Scope, name: str, origin: Origin) -> None: ...


class SkillStore(Protocol):
    """All there is to do with skills. Raises BadSkill with a sentence for what can't be done."""

    async def shelf(self, scope: Owner) -> Shelf: ...

    async def open(self, scope: Owner, name: str, path: str | None) -> SkillPage: ...

    async def change(self, owner: Owner, change: Change, origin: Origin) -> Changed: ...

    async def note_use(self, scope: Scope, name: str, origin: Origin) -> None: ...

    async def note_overlaps(self, scope: Scope, pairs: tuple[tuple[str, str], ...]) -> None:
        """Keeps which of the agent's own skills a review found to do the same."""
        ...

    async def undo(self, owner: Owner, at_ms: int) -> Changed | None:
        """Takes back the last change that a model or the curator made; None when there is none."""
        ...

    async def archive(self, owner: Owner, name: str, origin: Origin) -> Changed: ...

    async def restore(self, owner: Owner, name: str, at_ms: int) -> Changed: ...

    async def archived(self, owner: Owner) -> tuple[str, ...]:
        """Names that `restore` takes, each once."""
        ...

    async def pin(self, owner: Owner, name: str, *, pinned: bool) -> None: ...

    async def install(self, owner: Owner, folder: Path, at_ms: int) -> Changed:
        """Copies a folder made elsewhere onto the shelf, if every text in it may be used."""
        ...

    async def curate(self, owner: Owner, at_ms: int, *, dry: bool) -> Curated:
        """Marks and archives what the agent made and nobody used; with `dry` only says what would be done."""
        ...

    async def join(self, kept: PersonScope, gone: PersonScope) -> None:
        """Moves the skills of somebody who is the same person, where their names are free."""
        ...

    async def part(self, kept: PersonScope, gone: PersonScope) -> None:
        """Gives back what `join` moved and is still there."""
        ...

    async def erase(self, owner: PersonScope | RoomScope) -> None:
        """Removes a shelf with its archive, for good."""
        ...

    async def export(self, owner: PersonScope | RoomScope) -> Mapping[str, bytes]:
        """Every file of the skills that can be used, by `skills/<name>/<path>`."""
        ...


class FileSkillStore:
    """A SkillStore in files. `reserved` are names that commands have already."""

    def __init__(
        self, home: Path, reserved: frozenset[str] = frozenset(), lock_timeout_s: float = 10.0
    ) -> None:
        self._home = home
        self._reserved = reserved
        self._lock_timeout_s = lock_timeout_s
        self._read: OrderedDict[Path, dict[str, _Read]] = OrderedDict()

    def root_of(self, owner: Owner) -> Path:
        """The folder of a shelf."""
        match owner:
            case Shared():
                return self._home / "skills"
            case PersonScope() | RoomScope():
                return MemoryFolders(self._home).folder_of(owner) / "skills"

    async def shelf(self, scope: Owner) -> Shelf:
        return await asyncio.to_thread(self._shelf, scope)

    async def open(self, scope: Owner, name: str, path: str | None) -> SkillPage:
        return await asyncio.to_thread(self._open, scope, name, path)

    async def change(self, owner: Owner, change: Change, origin: Origin) -> Changed:
        def work() -> Changed:
            self._check_place(owner, change, origin)
            with self._writer(owner) as shelf:
                return shelf.change(change, origin)

        return await asyncio.to_thread(work)

    async def note_use(self, scope: Scope, name: str, origin: Origin) -> None:
        await asyncio.to_thread(self._note_use, scope, name, origin)

    async def note_overlaps(self, scope: Scope, pairs: tuple[tuple[str, str], ...]) -> None:
        await self._do(scope, lambda shelf: shelf.note_overlaps(pairs))

    async def undo(self, owner: Owner, at_ms: int) -> Changed | None:
        return await self._do(owner, lambda shelf: shelf.undo(at_ms))

    async def archive(self, owner: Owner, name: str, origin: Origin) -> Changed:
        return await self._do(owner, lambda shelf: shelf.archive(check_name(name), origin))

    async def restore(self, owner: Owner, name: str, at_ms: int) -> Changed:
        return await self._do(owner, lambda shelf: shelf.restore(check_name(name), at_ms))

    async def archived(self, owner: Owner) -> tuple[str, ...]:
        if not self.root_of(owner).is_dir():
            return ()
        return await self._do(owner, lambda shelf: shelf.archived())

    async def pin(self, owner: Owner, name: str, *, pinned: bool) -> None:
        await self._do(owner, lambda shelf: shelf.pin(check_name(name), pinned=pinned))

    async def install(self, owner: Owner, folder: Path, at_ms: int) -> Changed:
        return await self._do(owner, lambda shelf: shelf.install(folder, at_ms, self._reserved))

    async def curate(self, owner: Owner, at_ms: int, *, dry: bool) -> Curated:
        if not self.root_of(owner).is_dir():
            return Curated()
        return await self._do(owner, lambda shelf: shelf.curate(at_ms, dry=dry))

    async def join(self, kept: PersonScope, gone: PersonScope) -> None:
        if self.root_of(gone).is_dir():
            await self._do(kept, lambda shelf: shelf.take_from(self.root_of(gone), gone.person))

    async def part(self, kept: PersonScope, gone: PersonScope) -> None:
        if self.root_of(kept).is_dir():
            await self._do(kept, lambda shelf: shelf.give_back(self.root_of(gone), gone.person))

    async def erase(self, owner: PersonScope | RoomScope) -> None:
        await asyncio.to_thread(shutil.rmtree, self.root_of(owner), ignore_errors=True)

    async def export(self, owner: PersonScope | RoomScope) -> Mapping[str, bytes]:
        return await asyncio.to_thread(self._export, owner)

    async def _do(self, owner: Owner, work: Callable[[ShelfWriter], T]) -> T:
        def locked() -> T:
            with self._writer(owner) as shelf:
                return work(shelf)

        # The whole change is one thread's work: a cancelled caller leaves, the thread ends what it began.
        return await asyncio.to_thread(locked)

    def _writer(self, owner: Owner) -> AbstractContextManager[ShelfWriter]:
        return ShelfWriter(self.root_of(owner), self._lock_timeout_s).held()

    # What follows runs on threads.

    def _shelf(self, scope: Owner) -> Shelf:
        skills: list[Skill] = []
        refused: list[RefusedSkill] = []
        for place, owner in _places(scope):
            root = self.root_of(owner)
            records = _records(root)
            for name, found in self._folders(root):
                if isinstance(found, BadSkill):
                    refused.append(RefusedSkill(name, str(found), place))
                elif all(skill.name != found.head.name for skill in skills):
                    skills.append(_skill(found, place, records))
        return Shelf(tuple(skills), tuple(refused))

    def _open(self, scope: Owner, name: str, path: str | None) -> SkillPage:
        name = check_name(name)
        for place, owner in _places(scope):
            folder = self.root_of(owner) / name
            if not folder.is_dir():
                continue
            found = read_folder(folder)
            skill = _skill(found, place, _records(folder.parent))
            if path is None or path in (found.skill_file, SKILL_FILE):
                return SkillPage(skill, SKILL_FILE, found.text, found.files, digest(found.text))
            checked = str(check_path(_one_form(path)))
            real = next((file.path for file in found.files if _one_form(file.path) == checked), None)
            if real is None:
                there = ", ".join(file.path for file in found.files[:20]) or "none"
                raise BadSkill(f"The skill {name} has no file {checked}. It has: {there}.")
            text = read_text(folder, real)
            check_text(text)
            return SkillPage(skill, real, text, found.files, digest(text))
        raise BadSkill(f"There is no skill called {name}; skills_list shows which there are.")

    def _export(self, owner: Owner) -> Mapping[str, bytes]:
        root = self.root_of(owner)
        files: dict[str, bytes] = {}
        for name, known in self._folders(root):
            found = _judged(root / name)  # what is known is as old as SKILL.md
            if isinstance(known, SkillFolder) and isinstance(found, SkillFolder):
                for path in (found.skill_file, *(file.path for file in found.files)):
                    files[f"skills/{name}/{path}"] = (root / name / path).read_bytes()
        return files

    def _check_place(self, owner: Owner, change: Change, origin: Origin) -> None:
        """What stands against a change before the shelf itself is looked at."""
        name = check_name(change.name)
        if isinstance(owner, Shared):
            if origin.by != "command":
                raise BadSkill("Shared skills are the operator's; they can't be changed from a conversation.")
            return
        is_shared = (self.root_of(Shared()) / name).is_dir()
        if change.action == "create" and name in self._reserved:
            raise BadSkill(f"/{name} is a command already; choose another name.")
        if change.action == "create" and is_shared:
            raise BadSkill(f"There is a shared skill called {name} already; choose another name.")
        if is_shared and not (self.root_of(owner) / name).is_dir():
            raise BadSkill(f"{name} is a shared skill of the operator's; it can't be changed from here.")

    def _note_use(self, scope: Scope, name: str, origin: Origin) -> None:
        for _, owner in _places(scope):
            if not (self.root_of(owner) / name).is_dir():
                continue
            try:
                with self._writer(owner) as shelf:
                    shelf.note_use(name, origin.at_ms)
            except BadSkill as error:
                _logger.warning("use of a skill not counted: %s", type(error.__cause__).__name__)
            return

    def _folders(self, root: Path) -> tuple[tuple[str, SkillFolder | BadSkill], ...]:
        """Each folder of a shelf by name, read anew when its SKILL.md has changed."""
        known = self._read.get(root, {})
        try:
            names = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
        except OSError:
            return ()
        found: dict[str, _Read] = {}
        for name in names[:MAX_SHELF]:
            folder = root / name
            if not folder.is_dir() and not folder.is_symlink():
                continue  # a README beside the skills
            stamp = _stamp(folder)
            before = known.get(name)
            found[name] = before if before is not None and before[0] == stamp else (stamp, _judged(folder))
        self._read.pop(root, None)
        self._read[root] = found
        while len(self._read) > MAX_CACHED_SHELVES:
            self._read.popitem(last=False)
        too_many = BadSkill(f"Only the first {MAX_SHELF} skills are read.")
        return (
            *((name, judged) for name, (_, judged) in found.items()),
            *((name, too_many) for name in names[MAX_SHELF:]),
        )


def _places(scope: Owner) -> tuple[tuple[Literal["own", "shared"], Owner], ...]:
    if isinstance(scope, Shared):
        return (("shared", scope),)
    return (("own", scope), ("shared", Shared()))


def _one_form(path: str) -> str:
    """A path as people and models write it: disks may hold its accents as letters of their own."""
    return unicodedata.normalize("NFC", path)


def _judged(folder: Path) -> SkillFolder | BadSkill:
    try:
        return read_folder(folder)
    except BadSkill as refused:
        return BadSkill(str(refused))
    except OSError as error:
        return BadSkill(f"It can't be read: {error.strerror}.")


def _stamp(folder: Path) -> _Stamp:
    """What differs when the folder's list of names or its SKILL.md does."""
    stamps = []
    for path in (folder, folder / SKILL_FILE, folder / "skill.md"):
        try:
            found = path.lstat()
        except OSError:
            stamps.append((0, 0, 0))
        else:
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


def _records(root: Path) -> Records:
    """Without what can't be read: then every skill counts as a person's, which no machine touches."""
    try:
        return read_records(root)
    except RecordsUnreadable as error:
        _logger.warning("records of skills not read: %s", error)
        return Records()


def _skill(found: SkillFolder, place: Literal["own", "shared"], records: Records) -> Skill:
    head = found.head
    return Skill(head.name, head.description, head.category, place, records.of(head.name))
