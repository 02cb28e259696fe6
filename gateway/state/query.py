"""What a search text asks for: words, "phrases", OR, NOT, prefix*. Every text is legal; nothing here raises.

It makes terms for `fulltext` out of the analyser's units. Which terms count how much belongs to `ranking`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trunkline.gateway.state.analyser import Unit, fold, stem, storable, units
from trunkline.gateway.state.fulltext import MAX_PHRASE_WORDS, Pattern, Phrase
from trunkline.gateway.state.segment import cut
from trunkline.gateway.state.stopwords import WORDS

# Longer queries are pasted texts: their first words are enough to find the place.
MAX_QUERY_CHARS = 4000
MAX_TERMS = 32
MIN_PREFIX_CHARS = 2

# A word that nobody said is tried again by its beginning.
MIN_BEGUN_CHARS = 6
BEGUN_SHARE = 0.7

_VERSION = re.compile(r"v?\d+\.\d")
_ITEM = re.compile(r'"([^"]*)"|([^\s"]+)|"')


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for. `surfaces` are its folded spellings, to find it in a text or a title.

    Terms of one `group` are alternatives (OR), numbered from 1; an `exact` one was quoted.
    """

    pattern: Pattern
    surfaces: tuple[str, ...]
    group: int
    exact: bool = False

    @property
    def begun(self) -> Pattern:
        """The beginning of a plain word in place of the word; nothing for other terms."""
        word = self.surfaces[0]
        if self.exact or len(self.pattern) != 1 or not (word.isascii() and word.isalpha()):
            return ()
        if len(word) < MIN_BEGUN_CHARS or self.pattern[0].is_prefix:
            return ()
        return (Phrase((word[: int(len(word) * BEGUN_SHARE)],), is_prefix=True),)


@dataclass(frozen=True, slots=True)
class Query:
    """`all_words` says that the text joined its words with AND."""

    terms: tuple[Term, ...]
    excluded: tuple[Term, ...] = ()
    all_words: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is words alone, without phrases and operators that demand or forbid some."""
        return not (self.excluded or self.all_words or any(term.exact for term in self.terms))


@dataclass(frozen=True, slots=True)
class _Found:
    pattern: Pattern
    surface: str
    exact: bool
    is_stop: bool


def parse(text: str) -> Query:
    """Reads a search text. A text without a single word gives a query without terms."""
    wanted: list[Term] = []
    excluded: list[Term] = []
    operators: set[str] = set()
    group, joins, negated = 1, False, False
    stopped: list[Term] = []
    for quoted, word in _ITEM.findall(storable(text[:MAX_QUERY_CHARS])):
        if word in ("AND", "OR", "NOT"):
            operators.add(word)
            joins, negated = word == "OR", word == "NOT" or (negated and word == "AND")
            continue
        found = list(_quoted(quoted) if quoted else _written(word))
        if not found:
            continue
        if not joins:
            group += 1
        for place, one in enumerate(found):
            term = Term(one.pattern, (one.surface,), group if joins else group + place, one.exact)
            (excluded if negated else stopped if one.is_stop else wanted).append(term)
        if not joins:
            group += len(found) - 1
        joins, negated = False, False
    return Query(_distinct(wanted or stopped), _distinct(excluded), "AND" in operators)


def _quoted(text: str) -> Iterator[_Found]:
    words: list[str] = []
    for unit in units(text):
        words.extend(unit.words)
    if words:
        yield _Found((_phrase(words),), fold(text).strip(), exact=True, is_stop=False)


def _written(word: str) -> Iterator[_Found]:
    """The words in what stands between two spaces."""
    if word.endswith("*"):
        prefix = _prefix(word.rstrip("*"))
        if prefix is not None:
            yield prefix
            return
    run = ""
    for unit in units(word):
        if run and not (unit.is_single and unit.joined):
            yield from _run(run)
            run = ""
        if unit.is_single:
            run += unit.surface
        elif unit.words or unit.whole:
            yield _Found(_pattern(unit), unit.surface, exact=False, is_stop=unit.surface in WORDS)
    if run:
        yield from _run(run)


def _run(run: str) -> Iterator[_Found]:
    for word in cut(run):
        yield _Found((_phrase(word),), word, exact=False, is_stop=word in WORDS)


def _pattern(unit: Unit) -> Pattern:
    parts = tuple(_phrase(words) for words in _spellings(unit))
    if unit.whole is None:
        return parts
    # `C++` has no other parts than `c`, which is another word.
    return (Phrase((unit.whole,)),) if len(unit.words) == 1 else (*parts, Phrase((unit.whole,)))


def _prefix(word: str) -> _Found | None:
    found = units(word)
    if len(found) != 1 or found[0].is_single or len(found[0].surface) < MIN_PREFIX_CHARS:
        return None
    unit = found[0]
    if len(unit.words) > 1:
        pattern: Pattern = tuple(_phrase(words, is_prefix=True) for words in _spellings(unit))
        return _Found(pattern, unit.surface, exact=False, is_stop=False)
    begun = Phrase((unit.surface,), is_prefix=True)
    stemmed = stem(unit.surface)
    pattern = (begun,) if stemmed.startswith(unit.surface) else (begun, Phrase((stemmed,)))
    return _Found(pattern, unit.surface, exact=False, is_stop=False)


def _spellings(unit: Unit) -> Iterator[tuple[str, ...]]:
    """The unit's words; of a version also those with the `v` that it lacks or without the one that it has."""
    if unit.words:
        yield unit.words
    if _VERSION.match(unit.surface):
        first, *rest = unit.words
        yield (first[1:] if first.startswith("v") else f"v{first}", *rest)


def _phrase(words: Sequence[str], *, is_prefix: bool = False) -> Phrase:
    """The words in a row; of a very long row the first ones, which are enough to find the place."""
    is_cut = len(words) > MAX_PHRASE_WORDS
    return Phrase(tuple(words[:MAX_PHRASE_WORDS]), is_prefix and not is_cut)


def _distinct(terms: Iterable[Term]) -> tuple[Term, ...]:
    known: dict[Pattern, Term] = {}
    for term in terms:
        known.setdefault(term.pattern, term)
    return tuple(known.values())[:MAX_TERMS]
