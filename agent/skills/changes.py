"""Changes of one shelf, under its lock: every one is written down first and replaces or moves one thing.

So a crash leaves the old or the new. What was before is in `.archive`: `<number>-<name>` was moved there
whole, `<number>+<name>` holds the file that a change replaced. Who may change what is decided here too.
"""

import contextlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from trunkline.agent.disk import replace_file, sync_folder
from trunkline.agent.skills import curator
from trunkline.agent.skills.curator import Curated
from trunkline.agent.skills.edits import Change, Changed, Origin, new_text, skill_text
from trunkline.agent.skills.folder import (
    check_all_texts,
    digest,
    read_folder,
    read_text,
)
from trunkline.agent.skills.format import (
    SKILL_FILE,
    BadSkill,
    check_name,
)
from trunkline.agent.skills.records import (
    RECORDS_FILE,
    Action,
    Actor,
    Records,
    RecordsUnreadable,
    SkillRecord,
    SkillStep,
    dump_records,
    read_records,
)

MAX_OWN_SKILLS = 100
VERSIONS_KEPT = 50
"""Earlier versions of one skill's files; folders that were deleted or archived are kept for ever."""
ARCHIVE = ".archive"

_KEPT = re.compile(r"(\d+)([-+])(.+)")


class ShelfWriter:
    """One shelf, held by its lock as long as the context lasts. All of it raises BadSkill."""

    def __init__(self, root: Path, lock_timeout_s: float) -> None:
        self._root = root
        self._lock_timeout_s = lock_timeout_s
        self._records = Records()

    @contextmanager
    def held(self) -> Iterator["ShelfWriter"]:
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = FileLock(self._root / ".skills.lock", timeout=self._lock_timeout_s, thread_local=False)
            with lock:
                self._records = read_records(self._root)
                yield self
        except Timeout as error:
            raise BadSkill("Another process is changing these skills; try again in a moment.") from error
        except RecordsUnreadable as error:
            raise BadSkill(f"Nothing was changed: {error}; the operator has to look at it.") from error
        except OSError as error:
            raise BadSkill(f"The skills can't be written: {error.strerror or 'I/O error'}.") from error

    def change(self, change: Change, origin: Origin) -> Changed:
        name = check_name(change.name)
        folder = self._root / name
        if change.action == "create":
            return self._create(change, name, origin)
        if not folder.is_dir():
            raise BadSkill(f"There is no skill called {name} to change; skills_list shows which there are.")
        self._check_rights(name, origin.by, change.action)
        if change.action == "delete":
            return self._move_away(name, "delete", origin)
        current = read_folder(folder)
        path, before, after = new_text(folder, current, change)
        if change.seen is not None and change.seen != _digest_of(before):
            raise BadSkill(
                f"{name} has changed since you read it; read it again with skill_view, then change it."
            )
        if after is not None and len(after) < change.least_chars:
            raise BadSkill(
                "That would take most of the text away. Keep every rule that still holds, and change only "
                "the passage that is wrong, with patch."
            )
        if before == after:
            raise BadSkill("Nothing to change: the text is the same already.")
        self._keep_version(name, path, before)
        step = self._step(name, change.action, origin, path, _digest_of(before), _digest_of(after))
        self._put(folder / path, after)
        return Changed(name, change.action, path, step.number, step.after)

    def _create(self, change: Change, name: str, origin: Origin) -> Changed:
        folder = self._root / name
        if folder.exists() or folder.is_symlink():
            raise BadSkill(f"There is a skill called {name} already: change that one, with patch or edit.")
        if len(self._names()) >= MAX_OWN_SKILLS:
            raise BadSkill(f"There are {MAX_OWN_SKILLS} skills already; extend one of them instead.")
        text = skill_text(name, change.content, change.description)
        staged = self._stage()
        (staged / name).mkdir()
        self._put(staged / name / SKILL_FILE, text)
        made_by: Literal["agent", "person"] = "person" if origin.by == "command" else "agent"
        record = SkillRecord(made_by=made_by, created_ms=origin.at_ms, used_ms=origin.at_ms)
        self._records = self._records.with_skill(name, record)
        step = self._step(name, "create", origin, "", None, digest(text))
        self._rename(staged / name, folder)
        return Changed(name, "create", "", step.number, step.after)

    def _check_rights(self, name: str, by: Actor, action: Action) -> None:
        if by == "command":
            return
        if self._records.of(name).pinned:
            raise BadSkill(f"{name} is pinned: only the person changes it, by hand. Leave it as it is.")
        if by == "review" and action in ("delete", "remove_file"):
            raise BadSkill("A review takes nothing away: mend the text with patch, or leave it.")

    # The archive

    def archive(self, name: str, origin: Origin) -> Changed:
        if not (self._root / name).is_dir():
            raise BadSkill(f"There is no skill called {name} here.")
        self._check_rights(name, origin.by, "archive")
        return self._move_away(name, "archive", origin)

    def archived(self) -> tuple[str, ...]:
        gone = {name for _, name in self._kept("-")} - set(self._names())
        return tuple(sorted(gone))

    def restore(self, name: str, at_ms: int) -> Changed:
        """What was archived last under the name, put back where that is free."""
        numbers = [number for number, kept in self._kept("-") if kept == name]
        if not numbers:
            raise BadSkill(f"The archive has no skill called {name}.")
        if (self._root / name).exists():
            raise BadSkill(f"There is a skill called {name}; archive that one first.")
        last = max(numbers)
        record = next((step.record for step in self._records.steps if step.number == last), None)
        self._take_up(name, record, at_ms)
        step = self._step(name, "restore", Origin("command", at_ms))
        self._rename(self._archive_folder() / f"{last}-{name}", self._root / name)
        return Changed(name, "restore", "", step.number)

    def _take_up(self, name: str, record: SkillRecord | None, at_ms: int) -> None:
        """Gives a skill that comes back what was known of it, used as of now; else it is a person's."""
        known = record or SkillRecord(created_ms=at_ms)
        known = known.model_copy(update={"used_ms": at_ms, "stale": False})
        self._records = self._records.with_skill(name, known)

    def _move_away(self, name: str, action: Action, origin: Origin) -> Changed:
        step = self._step(name, action, origin)
        # A folder that comes to stand here later is another skill.
        self._records = self._records.without_skill(name)
        self._archive_folder().mkdir(mode=0o700, exist_ok=True)
        self._rename(self._root / name, self._archive_folder() / f"{step.number}-{name}")
        self._save()
        return Changed(name, action, "", step.number)

    # Undo

    def undo(self, at_ms: int) -> Changed | None:
        """Takes back the last change of a model that really happened. A file changed since stays as it is."""
        for step in reversed(self._records.steps):
            if step.by == "command":
                continue
            self._records = self._records.without_step(step)
            done = self._taken_back(step, at_ms)
            self._save()
            if done is not None:
                return done
        return None

    def _taken_back(self, step: SkillStep, at_ms: int) -> Changed | None:
        folder = self._root / step.name
        kept = self._archive_folder() / f"{step.number}-{step.name}"
        version = self._archive_folder() / f"{step.number}+{step.name}"
        if step.action in ("delete", "archive"):
            if not kept.is_dir():
                return None
            if folder.exists():
                raise BadSkill(f"There is a new skill called {step.name}; archive that one first.")
            self._take_up(step.name, step.record, at_ms)
            self._rename(kept, folder)
        elif step.action == "create":
            if not folder.is_dir():
                return None
            self._archive_folder().mkdir(mode=0o700, exist_ok=True)
            self._rename(folder, kept)
            self._records = self._records.without_skill(step.name)
        elif not self._put_back(step, folder, version):
            return None
        return Changed(step.name, step.action, step.path, step.number, undone=True)

    def _put_back(self, step: SkillStep, folder: Path, version: Path) -> bool:
        """Whether there was anything to put back."""
        now = _text_of(folder, step.path)
        if _digest_of(now) == step.before:
            return False  # the change was written down, and then not made
        if _digest_of(now) != step.after:
            raise BadSkill(f"{step.name} has been changed by hand since, so it stays as it is.")
        before = None if step.before is None else _text_of(version, step.path)
        if step.before is not None and before is None:
            raise BadSkill(f"The version of {step.name} before that is gone from the archive.")
        self._put(folder / step.path, before)
        return True

    # What is known of a skill

    def pin(self, name: str, *, pinned: bool) -> None:
        if not (self._root / name).is_dir():
            raise BadSkill(f"There is no skill called {name} here.")
        self._update(name, pinned=pinned, stale=False)
        self._save()

    def note_use(self, name: str, at_ms: int) -> None:
        self._update(name, uses=self._records.of(name).uses + 1, used_ms=at_ms, stale=False)
        self._save()

    def note_overlaps(self, pairs: tuple[tuple[str, str], ...]) -> None:
        names = set(self._names())
        good = {(min(pair), max(pair)) for pair in pairs if names >= set(pair) and len(set(pair)) == 2}
        known = {pair for pair in self._records.overlaps if names >= set(pair)}
        self._records = self._records.model_copy(update={"overlaps": tuple(sorted(known | good))})
        self._save()

    def curate(self, at_ms: int, *, dry: bool) -> Curated:
        """See curator: what it plans is done here, each part reversible."""
        skills = {}
        for name in self._names():
            with contextlib.suppress(BadSkill):
                skills[name] = read_folder(self._root / name)
        found = curator.plan(skills, self._records, at_ms)
        if not dry:
            for name in found.stale:
                self._update(name, stale=True)
            self._save()
            for name in found.archived:
                self._move_away(name, "archive", Origin("curator", at_ms))
        return found

    def install(self, source: Path, at_ms: int, reserved: frozenset[str]) -> Changed:
        """Copies a folder made elsewhere, if it may be used, without what begins with a dot."""
        source = source.resolve()
        try:
            found = read_folder(source)
            check_all_texts(source, found)
        except OSError as error:
            raise BadSkill(f"{source.name} can't be read.") from error
        name = found.head.name
        if name in reserved:
            raise BadSkill(f"/{name} is a command already; the skill needs another name.")
        if (self._root / name).exists():
            raise BadSkill(f"There is a skill called {name} already; archive that one first.")
        staged = self._stage() / name
        for path in (found.skill_file, *(file.path for file in found.files)):
            target = staged / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, target)
        read_folder(staged)
        self._records = self._records.with_skill(name, SkillRecord(created_ms=at_ms, used_ms=at_ms))
        step = self._step(name, "create", Origin("command", at_ms))
        self._rename(staged, self._root / name)
        return Changed(name, "create", "", step.number)

    def take_from(self, other: Path, whose: str) -> None:
        """Moves another shelf's skills here, with what is known of them."""
        theirs = read_records(other)
        moved = [name for name in _names_in(other) if not (self._root / name).exists()]
        self._records = self._records.model_copy(
            update={
                "skills": {**self._records.skills, **{name: theirs.of(name) for name in moved}},
                "joined": {**self._records.joined, whose: tuple(moved)},
            }
        )
        self._save()
        for name in moved:
            self._rename(other / name, self._root / name)

    def give_back(self, other: Path, whose: str) -> None:
        moved = self._records.joined.get(whose, ())
        other.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in moved:
            if (self._root / name).is_dir() and not (other / name).exists():
                self._rename(self._root / name, other / name)
        self._records = self._records.model_copy(
            update={"joined": {name: them for name, them in self._records.joined.items() if name != whose}}
        )
        self._save()

    def _update(self, name: str, **changes: object) -> None:
        self._records = self._records.with_skill(name, self._records.of(name).model_copy(update=changes))

    # Files

    def _names(self) -> list[str]:
        return _names_in(self._root)

    def _archive_folder(self) -> Path:
        return self._root / ARCHIVE

    def _kept(self, kind: Literal["-", "+"]) -> list[tuple[int, str]]:
        """Number and name of each folder of one kind in the archive."""
        if not self._archive_folder().is_dir():
            return []
        found = (_KEPT.fullmatch(path.name) for path in self._archive_folder().iterdir())
        return sorted((int(match[1]), match[3]) for match in found if match and match[2] == kind)

    def _keep_version(self, name: str, path: str, text: str | None) -> None:
        """Keeps the file that is about to change in the archive, under the number of the step that comes."""
        if text is None:
            return
        staged = self._stage() / name
        self._put(staged / path, text)
        self._archive_folder().mkdir(mode=0o700, exist_ok=True)
        target = self._archive_folder() / f"{self._records.next}+{name}"
        if target.exists():
            shutil.rmtree(target)  # of a step that never came to be
        self._rename(staged, target)
        copies = [number for number, kept in self._kept("+") if kept == name]
        for number in copies[:-VERSIONS_KEPT]:
            shutil.rmtree(self._archive_folder() / f"{number}+{name}")

    def _step(
        self,
        name: str,
        action: Action,
        origin: Origin,
        path: str = "",
        before: str | None = None,
        after: str | None = None,
    ) -> SkillStep:
        """Writes down what is about to be done."""
        step = SkillStep(
            number=self._records.next,
            name=name,
            action=action,
            by=origin.by,
            at_ms=origin.at_ms,
            path=path,
            before=before,
            after=after,
            record=self._records.skills.get(name),
        )
        self._records = self._records.with_step(step)
        self._save()
        return step

    def _save(self) -> None:
        replace_file(self._root / RECORDS_FILE, dump_records(self._records))

    def _stage(self) -> Path:
        """An empty folder on the same file system, where a new folder is made before it gets its place."""
        staged = self._root / ".new"
        if staged.exists():
            shutil.rmtree(staged)
        staged.mkdir(mode=0o700)
        return staged

    def _put(self, path: Path, text: str | None) -> None:
        """Replaces one file's text whole; with None the file goes, its copy is in the archive."""
        if text is None:
            path.unlink()
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, text.encode("utf-8"))

    def _rename(self, source: Path, target: Path) -> None:
        source.rename(target)
        sync_folder(target.parent)


def _names_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def _text_of(folder: Path, path: str) -> str | None:
    try:
        return read_text(folder, path)
    except BadSkill:
        return None


def _digest_of(text: str | None) -> str | None:
    return None if text is None else digest(text)
