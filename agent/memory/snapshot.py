"""Both stores of a scope as read at one moment: for the system prompt, and to tell what changed since."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from trunkline.agent.memory.entries import DELIMITER, MARK, MemoryLimits, normalise, usage_text
from trunkline.agent.memory.scan import scan, strip_invisible
from trunkline.agent.ports import Target

RULE = "═" * 46
_HEADINGS: dict[Target, str] = {
    "memory": "MEMORY (your personal notes)",
    "user": "USER PROFILE (who the user is)",
}
_MAX_DIFFERENCE_CHARS = 2_000
_MIN_LIKENESS = 0.6
_MOST_COMPARED = 40
"""Of more entries at once nobody is told which became which: each pair takes time."""
_MOST_SHOWN = 4
"""So many times its limit a store made too large by hand is shown; what is beyond would fill every prompt."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The entries of both stores. A store in `unreadable` exists but its file could not be read."""

    memory: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    unreadable: tuple[Target, ...] = ()

    def entries_of(self, target: Target) -> tuple[str, ...]:
        return self.memory if target == "memory" else self.user

    def to_json(self) -> str:
        """A text that `from_json` reads back equal."""
        return _JSON.dump_json(self).decode("utf-8")

    @staticmethod
    def from_json(text: str) -> "MemorySnapshot":
        """Raises pydantic's ValidationError for a text that `to_json` did not make."""
        return _JSON.validate_json(text)


_JSON = TypeAdapter(MemorySnapshot)


def render_blocks(snapshot: MemorySnapshot, limits: MemoryLimits) -> str:
    """The MEMORY block, then the USER PROFILE block; a store that is empty or off renders nothing."""
    order: tuple[Target, Target] = ("memory", "user")
    return "\n\n".join(block for target in order if (block := _render_block(snapshot, target, limits)))


def render_entry(entry: str) -> str:
    """An entry as data: its further lines are indented, and no line can pass for a heading, a rule or a mark.

    An entry that the scan rejects becomes a one-line marker; the file keeps its text, and it can be removed.
    """
    finding = scan(entry)
    if finding is not None:
        return (
            f"[entry not shown: it reads like {finding.category}; it is still in the file and can be removed]"
        )
    lines = [" ".join(line.split()) for line in strip_line_marks(entry).splitlines()]
    return "\n  ".join(_disarm_line(line) for line in lines if line)


def strip_line_marks(text: str) -> str:
    """The text without characters of the block's own rules."""
    return text.replace("═", "=")


def describe_changes(old: MemorySnapshot, new: MemorySnapshot) -> str | None:
    """What was added, changed and removed between two snapshots, a line each; None when nothing was."""
    targets: tuple[tuple[Target, str], ...] = (("memory", "your notes"), ("user", "the user profile"))
    lines = [
        line
        for target, store in targets
        if target not in new.unreadable and target not in old.unreadable
        for line in _changed_lines(old.entries_of(target), new.entries_of(target), store)
    ]
    return "\n".join(lines) or None


def _render_block(snapshot: MemorySnapshot, target: Target, limits: MemoryLimits) -> str:
    if not limits.allows(target):
        return ""
    entries = snapshot.entries_of(target)
    if target in snapshot.unreadable:
        body, usage = (
            "[this store's file can't be read at the moment; tell the user when it matters]",
            "unreadable",
        )
    elif not entries:
        return ""
    else:
        shown = _fitting(entries, _MOST_SHOWN * limits.chars_of(target))
        parts = [render_entry(entry) for entry in shown]
        if len(shown) < len(entries):
            left = len(entries) - len(shown)
            parts.append(f"[entries not shown: {left}; the file is far over its limit, tell the user]")
        body = DELIMITER.join(parts)
        usage = usage_text(entries, limits.chars_of(target))
    return f"{RULE}\n{_HEADINGS[target]} [{usage}]\n{RULE}\n{body}"


def _fitting(entries: Sequence[str], most_chars: int) -> Sequence[str]:
    chars = 0
    for place, entry in enumerate(entries):
        chars += len(entry) + len(DELIMITER)
        if chars > most_chars:
            return entries[:place]
    return entries


def _disarm_line(line: str) -> str:
    folded = strip_invisible(line).lstrip("\\ ")
    opens = folded.startswith(("#", "```", "~~~", "<", MARK, *_HEADINGS.values()))
    underlines = len(folded) >= 3 and not set(folded) - set("-=*_ ")
    return "\\" + line if opens or underlines else line


def _changed_lines(old: Sequence[str], new: Sequence[str], store: str) -> Iterator[str]:
    old_keys = {normalise(entry) for entry in old}
    new_keys = {normalise(entry) for entry in new}
    removed = [entry for entry in old if normalise(entry) not in new_keys]
    added = [entry for entry in new if normalise(entry) not in old_keys]
    compared = max(len(removed), len(added)) <= _MOST_COMPARED
    for entry in added:
        former = _likest(entry, removed) if compared else None
        if former is None:
            yield f"- added to {store}: {render_entry(entry)}"
        else:
            removed.remove(former)
            yield f"- changed in {store}: {render_entry(former)} → {render_entry(entry)}"
    for entry in removed:
        yield f"- removed from {store}: {render_entry(entry)}"


def _likest(entry: str, candidates: Sequence[str]) -> str | None:
    """The candidate that `entry` is most likely a new wording of."""
    best, likeness = None, _MIN_LIKENESS
    for candidate in candidates:
        matcher = difflib.SequenceMatcher(
            None, candidate[:_MAX_DIFFERENCE_CHARS], entry[:_MAX_DIFFERENCE_CHARS], autojunk=False
        )
        if matcher.real_quick_ratio() >= likeness and (ratio := matcher.ratio()) >= likeness:
            best, likeness = candidate, ratio
    return best
