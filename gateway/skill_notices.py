"""What of skills a review needs of the house, and the line that tells a person what of them has changed."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trunkline.agent.scope import Scope
from trunkline.agent.skills.edits import Changed
from trunkline.agent.skills.store import SkillShelves
from trunkline.gateway.sentences import say

NAMES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class SkillReviews:
    """Reviews of skills: due after `rounds` steps with tool calls, on `shelves` as models may change them."""

    rounds: int
    shelves: SkillShelves
    note_overlaps: Callable[[Scope, tuple[tuple[str, str], ...]], Awaitable[None]]


def skill_notice(changed: Sequence[Changed], language: str, *, in_room: bool) -> str | None:
    """One line on the skills that changed and how to take it back; None when none did."""
    if not changed:
        return None
    made = list(dict.fromkeys(one.name for one in changed if one.action == "create"))
    mended = [name for name in dict.fromkeys(one.name for one in changed) if name not in made]
    parts = [
        say(key, language, names=_listed(names, language))
        for key, names in (("skills_made", made), ("skills_mended", mended))
        if names
    ]
    if in_room:
        undo = say("review_undo_room", language)
    elif len(changed) == 1:
        undo = say("skills_undo_hint", language)
    else:
        undo = say("skills_undo_hint_several", language, count=len(changed))
    return f"{' · '.join(parts)} — {undo}"


def _listed(names: Sequence[str], language: str) -> str:
    left = len(names) - NAMES_SHOWN
    shown = list(names[:NAMES_SHOWN])
    return ", ".join([*shown, say("review_more", language, count=left)] if left > 0 else shown)
