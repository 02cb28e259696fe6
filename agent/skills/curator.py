"""What becomes of skills that the agent made and nobody uses, and which of them do the same.

Only plans: doing it is the shelf's. What a person wrote, installed or pinned is never named.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from trunkline.agent.skills.folder import SkillFolder
from trunkline.agent.skills.records import Records

DAY_MS = 86_400_000
STALE_DAYS = 30
ARCHIVE_DAYS = 90
LIKENESS = 0.5
"""Two skills overlap when they share so much of the words in their names and descriptions."""

_WORD = re.compile(r"\w+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class Curated:
    """Names that became stale, names that were archived, and pairs that could be one."""

    stale: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    overlaps: tuple[tuple[str, str], ...] = ()


def plan(skills: Mapping[str, SkillFolder], records: Records, at_ms: int) -> Curated:
    """Counts from the last use, which creation and restoring are too."""
    own = [
        name for name in sorted(skills) if records.of(name).made_by == "agent" and not records.of(name).pinned
    ]
    idle_days = {name: (at_ms - records.of(name).used_ms) / DAY_MS for name in own}
    archived = tuple(name for name in own if idle_days[name] >= ARCHIVE_DAYS)
    stale = tuple(
        name for name in own if STALE_DAYS <= idle_days[name] < ARCHIVE_DAYS and not records.of(name).stale
    )
    left = [name for name in own if name not in archived]
    alike = {pair for pair in combinations(left, 2) if _likeness(skills, *pair) >= LIKENESS}
    said = {pair for pair in records.overlaps if set(pair) <= set(left)}
    return Curated(stale, archived, tuple(sorted(alike | said)))


def _likeness(skills: Mapping[str, SkillFolder], one: str, other: str) -> float:
    first, second = _words(skills[one]), _words(skills[other])
    return len(first & second) / max(1, len(first | second))


def _words(skill: SkillFolder) -> set[str]:
    """Words of the name and description; where a script has no spaces, pairs of characters."""
    head = skill.head
    text = unicodedata.normalize(
        "NFKC", f"{head.name.replace('-', ' ').replace('_', ' ')} {head.description}"
    )
    found: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.search(word):
            found |= {word[at : at + 2] for at in range(len(word) - 1)} or {word}
        elif len(word) > 2:
            found.add(word)
    return found
