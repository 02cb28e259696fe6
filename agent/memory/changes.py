"""What a write did to a store, entry by entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Change:
    """An entry that came, went, or took another's place; None where there is none."""

    old: str | None
    new: str | None


def entry_changes(before: Sequence[str], after: Sequence[str]) -> tuple[Change, ...]:
    """The changes between two states of a store; an entry that took another's place is one change."""
    changes: list[Change] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind == "equal":
            continue
        old, new = before[old_from:old_to], after[new_from:new_to]
        pairs = min(len(old), len(new))
        changes += [Change(*pair) for pair in zip(old, new, strict=False)]
        changes += [Change(gone, None) for gone in old[pairs:]]
        changes += [Change(None, come) for come in new[pairs:]]
    return tuple(changes)
