"""The skills of a scope as the model is told of them: the index in its prompt, and what changed since."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from trunkline.agent.recall import disarm
from trunkline.agent.skills.store import Shelf, Skill

INDEX_CHARS = 4_000
LINE_CHARS = 200
CHANGES_SHOWN = 10

HEADING = """\
# Skills there are
When one of these fits what is asked, load it with skill_view before you begin, and work by it."""

_TOLD = TypeAdapter(dict[str, str])


def render_index(shelf: Shelf) -> str:
    """The part of the system prompt, at most INDEX_CHARS; stale skills are left to skills_list."""
    skills = [skill for skill in shelf.skills if not skill.record.stale]
    if not skills:
        return ""
    lines, left = [HEADING], INDEX_CHARS - len(HEADING)
    for place, skill in enumerate(skills):
        line = f"- {describe(skill)}"
        if len(line) + 1 > left - 80:
            lines.append(f"- … and {len(skills) - place} more: skills_list shows all")
            break
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


def describe(skill: Skill) -> str:
    """Name and description on one line of at most LINE_CHARS."""
    line = disarm(f"{skill.name}: {skill.description}")
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


def dump_told(shelf: Shelf) -> str:
    """What a model that read the index of this shelf knows, for `describe_changes`."""
    told = {skill.name: describe(skill) for skill in shelf.skills if not skill.record.stale}
    return _TOLD.dump_json(told).decode()


def describe_changes(told: str, shelf: Shelf) -> str | None:
    """A line for each skill that is new, described anew or gone since `told`; None when nothing changed."""
    try:
        before = _TOLD.validate_json(told or "{}")
    except ValidationError:
        before = {}
    now = {skill.name: describe(skill) for skill in shelf.skills}
    fresh = {skill.name for skill in shelf.skills if not skill.record.stale}
    lines = [f"- new skill, {now[name]}" for name in now if name in fresh and name not in before]
    lines += [
        f"- skill described anew, {now[name]}" for name in now if before.get(name, now[name]) != now[name]
    ]
    lines += [f"- skill that is gone: {name}" for name in before if name not in now]
    return _bounded(lines)


def _bounded(lines: Sequence[str]) -> str | None:
    if not lines:
        return None
    more = len(lines) - CHANGES_SHOWN
    return "\n".join([*lines[:CHANGES_SHOWN], *([f"- and {more} more: skills_list"] if more > 0 else [])])
