"""Makes one short list of what several providers recalled: fused by rank, without repeats, under one cap."""

from collections.abc import Iterable, Sequence

from trunkline.agent.memory.entries import squeeze
from trunkline.agent.memory.scan import clean_invisible
from trunkline.agent.providers.texts import states

RANK_CONSTANT = 60
"""Reciprocal rank fusion's usual constant: the first place counts a little more than the tenth."""
MAX_PASSAGES = 20
PASSAGE_CHARS = 1_200


def fuse(
    ranked: Sequence[Sequence[str]], *, known: Iterable[str], withheld: Sequence[str], cap_chars: int
) -> tuple[str, ...]:
    """The best passages of all lists, whole, at most `cap_chars` characters together.

    Leaves out what is in the prompt anyway (`known`), what states something withheld, and what another
    passage says already.
    """
    in_prompt = {squeeze(entry) for entry in known}
    ranked = [[text for text in passages if not states(text, withheld)] for passages in ranked]
    scores: dict[str, float] = {}
    texts: dict[str, str] = {}
    for passages in ranked:
        places = {squeeze(text): text for text in map(_tidy, passages)}
        for rank, (key, text) in enumerate(places.items()):
            texts.setdefault(key, text)
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + rank + 1)
    kept: list[str] = []
    left_chars = cap_chars
    for key in sorted(scores, key=lambda one: -scores[one]):
        text = texts[key]
        if not key or key in in_prompt or any(key in squeeze(other) for other in kept):
            continue
        if len(text) > left_chars:
            continue
        kept.append(text)
        left_chars -= len(text) + 2
        if len(kept) == MAX_PASSAGES:
            break
    return tuple(kept)


def _tidy(text: str) -> str:
    tidy = clean_invisible(text).strip()
    return tidy if len(tidy) <= PASSAGE_CHARS else f"{tidy[: PASSAGE_CHARS - 1].rstrip()}…"
