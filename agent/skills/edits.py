"""What a change makes of a skill's texts: the whole new text of the one file it touches, or why not.

Reads the skill as it is; writing the result is changes.py's.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trunkline.agent.skills.folder import SkillFolder, check_text, read_text
from trunkline.agent.skills.format import (
    SKILL_FILE,
    WRITABLE_FOLDERS,
    BadSkill,
    check_path,
    compose_skill,
    has_front_matter,
    parse_skill,
)
from trunkline.agent.skills.records import Action, Actor

MAX_WRITTEN_CHARS = 30_000
"""The largest text that a model may write: with it a file stays within what a tool's result shows whole."""
MAX_WRITTEN_FILES = 40


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changes or uses a skill, when, and in which session (its public id)."""

    by: Actor
    at_ms: int
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What `skill_manage` asks for. `content` is a whole text: a file's, or SKILL.md's, which may lack
    its front matter.

    `seen` is the digest of the text that the writer had read, where it has to have read one; the result must
    have at least `least_chars`.
    """

    action: Literal["create", "edit", "patch", "delete", "write_file", "remove_file"]
    name: str
    content: str = ""
    description: str = ""
    old_text: str = ""
    new_text: str = ""
    path: str = ""
    seen: str | None = None
    least_chars: int = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was made. `number` names it in the history; `digest` is of the text that is there now."""

    name: str
    action: Action
    path: str
    number: int
    digest: str | None = None
    undone: bool = False


def new_text(folder: Path, current: SkillFolder, change: Change) -> tuple[str, str | None, str | None]:
    """The path of the file that changes, its text now and its text then; None where there is no file."""
    name = current.head.name
    if change.action == "edit":
        return current.skill_file, current.text, _rewritten(current, change)
    if change.action == "patch":
        return _patched(folder, current, change)
    path = str(check_path(change.path, WRITABLE_FOLDERS))
    there = any(file.path == path for file in current.files)
    if change.action == "remove_file":
        if not there:
            raise BadSkill(f"{name} has no file {path}.")
        return path, read_text(folder, path), None
    if not there and len(current.files) >= MAX_WRITTEN_FILES:
        raise BadSkill(f"{name} has {MAX_WRITTEN_FILES} files already.")
    if (folder / path).is_symlink() or (folder / path).parent.is_symlink() or (folder / path).is_dir():
        raise BadSkill(f"{path} is no file that can be written.")
    return path, read_text(folder, path) if there else None, _checked(change.content)


def _rewritten(current: SkillFolder, change: Change) -> str:
    """A text without front matter keeps the one there is, with all that others wrote into it."""
    content = change.content
    if not has_front_matter(content) and not change.description.strip():
        whole = current.text.removeprefix("\ufeff").replace("\r\n", "\n")
        _, body = parse_skill(whole)
        content = f"{whole[: len(whole) - len(body)]}{content.strip()}\n"
    return skill_text(current.head.name, content, change.description)


def _patched(folder: Path, current: SkillFolder, change: Change) -> tuple[str, str, str]:
    path, text = current.skill_file, current.text
    if change.path and change.path not in (SKILL_FILE, current.skill_file):
        path = str(check_path(change.path, WRITABLE_FOLDERS))
        if all(file.path != path for file in current.files):
            raise BadSkill(f"{current.head.name} has no file {path}.")
        text = read_text(folder, path)
    before, text = text, text.replace("\r\n", "\n")
    old = change.old_text.replace("\r\n", "\n")
    found = text.count(old) if old else 0
    if found != 1:
        how = "does not stand in" if found == 0 else f"stands {found} times in"
        raise BadSkill(f"old_text {how} {path}: copy a passage of it exactly that stands there only once.")
    new = _checked(text.replace(old, change.new_text.replace("\r\n", "\n")))
    if path == current.skill_file:
        _check_skill_text(new, current.head.name)
    return path, before, new


def skill_text(name: str, content: str, description: str) -> str:
    """The SKILL.md that a writer means, who may have left the front matter to us."""
    if has_front_matter(content):
        text = content
    elif not description.strip():
        raise BadSkill("description is missing: one line that says what the skill does and when to use it.")
    else:
        text = compose_skill(name, description, content)
    _checked(text)
    _check_skill_text(text, name)
    return text


def _check_skill_text(text: str, name: str) -> None:
    head, body = parse_skill(text)
    if head.name != name:
        raise BadSkill(f"The front matter says {head.name}, but the skill is called {name}.")
    if not body.strip():
        raise BadSkill("The skill says nothing: below the front matter stands how the task is done.")
    check_text(text, head.description)


def _checked(text: str) -> str:
    if not text.strip():
        raise BadSkill("content is empty.")
    if len(text) > MAX_WRITTEN_CHARS:
        raise BadSkill(
            f"The text has {len(text):,} characters; {MAX_WRITTEN_CHARS:,} is the most. Put parts into files "
            "beneath references/ and name them in SKILL.md."
        )
    check_text(text)
    return text
