"""How an emulated memory server finds texts: by the words they share with a question, in every script."""

import re

_DENSE = re.compile(r"[\u3040-\u9fff]+")
_WORD = re.compile(r"[^\W\u3040-\u9fff]+")


def words(text: str) -> set[str]:
    """Words, and pairs of letters where a script has no spaces."""
    folded = text.casefold()
    pairs = {run[at : at + 2] for run in _DENSE.findall(folded) for at in range(len(run))}
    return {*_WORD.findall(folded), *pairs}


def likeness(query: str, text: str) -> float:
    """The part of the question's words that the text has, 0 to 1."""
    wanted = words(query)
    return len(wanted & words(text)) / (len(wanted) or 1)


def sentences(text: str) -> list[str]:
    return [one.strip() for one in re.split(r"(?<=[.!?。！？])\s*", text) if one.strip()]
