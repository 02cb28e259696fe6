"""What a short text is found by: stemmed words, pairs of characters in scripts without spaces, and names."""

import re
import unicodedata
from functools import cache
from typing import Any

import snowballstemmer

MAX_TERMS = 200
ENTITY_CHARS = 60

_DENSE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_DENSE_RUN = re.compile(f"[{_DENSE}]+")
_WORD = re.compile(rf"[^\W{_DENSE}_]+(?:[_.@:/-][^\W{_DENSE}_]+)*")
_NAME_RUN = re.compile(r"[^\W\d_][\w'’.&-]*(?: [^\W\d_][\w'’.&-]*)*")
_QUOTED = re.compile(r"[\"“«「『《]([^\"”»」』》]{2,60})[\"”»」』》]")
_COMPOUND = re.compile(r"\b(?=\w*[A-Za-z])\w*(?:\d|_|[a-z][A-Z])\w*\b")
_COMMON_WORDS = """
a an and are as at be but by can do does for from had has have he her his how i if in is it its me
my no not of on or our she so that the their them then there they this to user user's us was we were
what when where which who why will with you your"""
_COMMON = frozenset(_COMMON_WORDS.split())


def terms_of(text: str) -> tuple[str, ...]:
    """The search terms of a text, each once, in order; at most MAX_TERMS."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: dict[str, None] = {}
    for word in _WORD.findall(folded):
        if word in _COMMON:
            continue
        parts = re.split(r"[_.@:/-]", word)
        for part in (word, *parts) if len(parts) > 1 else (word,):
            if part and part not in _COMMON:
                found.setdefault(_stemmed(part))
    for run in _DENSE_RUN.findall(folded):
        pairs = (run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else (run,)
        for pair in pairs:
            found.setdefault(pair)
        if len(found) > MAX_TERMS:
            break
    return tuple(found)[:MAX_TERMS]


def entities_of(text: str) -> tuple[str, ...]:
    """The names in a text, folded: quoted words, capitalised words in a sentence, compounds like ab_12."""
    composed = unicodedata.normalize("NFKC", text)
    found: dict[str, None] = {}
    for match in (*_QUOTED.finditer(composed), *_COMPOUND.finditer(composed)):
        found.setdefault(fold_entity(match[match.lastindex or 0]))
    for sentence in re.split(r"[.!?。！？\n]\s*", composed):
        for run in _NAME_RUN.findall(sentence):
            for name in _capitalised(run.split(" ")):
                found.setdefault(fold_entity(name))
    return tuple(name for name in found if name and name not in _COMMON)


def fold_entity(name: str) -> str:
    """A name as it is compared."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split()).strip(".'’-")[:ENTITY_CHARS]


def _capitalised(words: list[str]) -> list[str]:
    """Runs of capitalised words; a sentence's first word counts only where it is no common one."""
    names: list[list[str]] = [[]]
    for word in words:
        if word[:1].isupper() and word.casefold() not in _COMMON:
            names[-1].append(word)
        elif names[-1]:
            names.append([])
    return [" ".join(name) for name in names if name]


def _stemmed(word: str) -> str:
    return str(_stemmer().stemWord(word)) if word.isascii() and word.isalpha() else word


@cache
def _stemmer() -> Any:
    return snowballstemmer.stemmer("english")
