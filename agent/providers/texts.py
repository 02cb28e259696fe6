"""Comparing what providers give back with what is known: equal texts, and texts that state a fact."""

from collections.abc import Iterable

from trunkline.agent.memory.entries import normalise, squeeze
from trunkline.agent.providers.terms import terms_of

MIN_STATED_CHARS = 10
MIN_STATED_CHARS_DENSE = 4
"""Fewer letters than this may stand in a sentence by chance; Chinese says more with fewer."""
MEANS_THE_SAME = 0.6
"""A text that shares so much of its terms with a fact says the same in other words."""


def states(text: str, wordings: Iterable[str]) -> bool:
    """Whether the text is one of the wordings, or holds one that is long enough to be no accident."""
    whole = squeeze(text)
    return any(_is_in(squeeze(wording), whole) for wording in wordings)


def says(text: str, wording: str) -> bool:
    """Whether the text states a fact, in these words or in nearly these."""
    if states(text, (wording,)):
        return True
    mine, theirs = set(terms_of(text)), set(terms_of(wording))
    return bool(mine and theirs) and len(mine & theirs) / len(mine | theirs) >= MEANS_THE_SAME


def same(one: str, other: str) -> bool:
    return normalise(one) == normalise(other)


def _is_in(wording: str, whole: str) -> bool:
    least = MIN_STATED_CHARS if wording.isascii() else MIN_STATED_CHARS_DENSE
    return bool(wording) and (wording == whole or (len(wording) >= least and wording in whole))
