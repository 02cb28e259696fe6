"""What a review asks about the way the work was done, and what it found to overlap.

Running it is agent/review's work; when it is due, the house's; what its tools refuse stands with the tools.
"""

import re

from trunkline.agent.scope import Scope
from trunkline.agent.skills.edits import Change, Changed, Origin
from trunkline.agent.skills.store import Shelf, SkillPage, SkillShelves

QUESTIONS = """\
Ask yourself about the way the work was done:
- Did the person complain about style, format, length or the way you went about it? Then change the skill \
that governs such a task, not only memory.
- Did a technique, a fix or a way around an obstacle come up that the next task of this kind will need?
- Did a skill that you worked by prove wrong, outdated or incomplete? Then mend it now.

Where the answer is yes, save it with the tool `skill_manage`. Be active rather than shy. Take the first \
of these that fits: patch a skill that was loaded in this conversation; patch another skill of theirs \
that covers the matter; add a file beneath references/, templates/ or scripts/ with a line in SKILL.md \
that points to it; create a skill for a whole class of task, never one named after a ticket, an error or \
a date. `skills_list` shows what there is. Read a skill with `skill_view` in this review before you \
change it, keep every rule in it that still holds, and take nothing away but what proved wrong. Shared \
and pinned skills stay as they are. A failure of this one time, such as a server that was down, is no \
reason for a rule.

If two skills of theirs do the same, change neither for that, and end your reply with a line for each pair: \
`Overlap: first-name, second-name`."""

_OVERLAP = re.compile(
    r"^[ \t`*-]*overlap[ \t]*[:：][ \t`]*([\w-]+)[ \t`]*[,，、][ \t`]*([\w-]+)[ \t`.*]*$",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_OVERLAPS = 10


def overlaps_in(said: str) -> tuple[tuple[str, str], ...]:
    """The pairs that a review's last reply names."""
    return tuple((one.lower(), other.lower()) for one, other in _OVERLAP.findall(said)[:_MAX_OVERLAPS])


class WatchedShelves:
    """Shelves that note which changes went through them."""

    def __init__(self, shelves: SkillShelves) -> None:
        self._shelves = shelves
        self.changed: list[Changed] = []

    async def shelf(self, scope: Scope) -> Shelf:
        return await self._shelves.shelf(scope)

    async def open(self, scope: Scope, name: str, path: str | None) -> SkillPage:
        return await self._shelves.open(scope, name, path)

    async def change(self, owner: Scope, change: Change, origin: Origin) -> Changed:
        done = await self._shelves.change(owner, change, origin)
        self.changed.append(done)
        return done

    async def note_use(self, scope: Scope, name: str, origin: Origin) -> None:
        """A review uses no skill."""
