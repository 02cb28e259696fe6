"""The one analyser of text for the index and for queries: a text becomes a stream of tokens with positions.

It knows nothing of databases. `fulltext` stores the tokens; `query` decides what a query means.
"""

import re
import threading
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import snowballstemmer

from trunkline.gateway.state.irregular import PLAIN_FORMS
from trunkline.gateway.state.simplified import SIMPLE

# Raised when tokens change, so that an index of another version is rebuilt (`messages.reindex`). An index
# that was never rebuilt has no record of its version: once there is a release, a migration makes it first.
ANALYSER_VERSION = "4"

MAX_TOKEN_CHARS = 64
MAX_COMPOUND_CHARS = 96

# Scripts without spaces between words, and Hangul: indexed by single characters.
_SINGLE = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Kana and iteration marks
    "\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
HAN = "\u3005-\u3007\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Vowel signs and points, which belong to their word although they are no letters to `re`.
_MARKS = (
    "\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83"
    "\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b4d\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c4d"
    "\u0c81-\u0c83\u0cbc-\u0ccd\u0d00-\u0d03\u0d3b-\u0d4d\u0d82\u0d83\u0dca-\u0ddf"
)
_SYMBOLS = "\u2190-\u21ff\u2600-\u27bf\U0001f000-\U0001faff"
_LETTER = rf"(?:[^\W_{_SINGLE}]|[{_MARKS}])"
_WORD = rf"{_LETTER}+(?:['\u2019]{_LETTER}+)*"
_JOINT = r"[-_./:@#+&=\\~]{1,3}"

_TOKEN = re.compile(
    rf"(?P<compound>{_WORD}(?:{_JOINT}{_WORD})+(?:\+\+|\#)?)"
    rf"|(?P<word>{_WORD}(?:\+\+|\#(?!\w))?)"
    rf"|(?P<single>[{_SINGLE}])"
    rf"|(?P<symbol>[{_SYMBOLS}])"
)
_PART = re.compile(_WORD)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PIECE = re.compile(r"\S{1,256}\s{0,256}|\s{1,256}")
# Accents, and characters without a width: who searches types neither.
_UNTYPED = re.compile("[\u0300-\u036f\u00ad\u200b\u200d\u200e\u200f\u2060\ufeff]")
_APOSTROPHE = re.compile("['\u2019]")
_CONTRACTIONS = {"s", "t", "re", "ve", "ll", "d", "m"}
_SIMPLE_BY_CODE = str.maketrans(dict(SIMPLE))
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_stemmer = snowballstemmer.stemmer("english")
_stemmer_lock = threading.Lock()  # a stemmer keeps the word it works on in itself


@dataclass(frozen=True, slots=True)
class Analysis:
    """`words` stand at positions 0, 1, 2…; `wholes` are identifiers as one token each, without position."""

    words: tuple[str, ...]
    wholes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """One word of a query as written: `words` in a row, or `whole` as one token.

    `surface` is folded, not stemmed; `joined` says that it follows the unit before without a gap.
    """

    surface: str
    words: tuple[str, ...]
    whole: str | None
    is_single: bool
    joined: bool


def storable(text: str) -> str:
    """The text without what a database can't hold: NUL and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def analyse(text: str) -> Analysis:
    """The tokens of a text of any size and any content, in linear time."""
    words: list[str] = []
    wholes: list[str] = []
    for match in _TOKEN.finditer(_fold_width(text)):
        kind, written = match.lastgroup, match.group()
        if kind in ("single", "symbol"):
            words.append(SIMPLE.get(written, written))
            continue
        parts, whole = _split(written)
        words.extend(parts)
        if whole is not None:
            wholes.append(whole)
    return Analysis(tuple(words), tuple(wholes))


def units(text: str) -> tuple[Unit, ...]:
    """The same tokens as `analyse`, kept together as they were written; for queries."""
    found: list[Unit] = []
    end = -1
    for match in _TOKEN.finditer(_fold_width(text)):
        written, joined, end = match.group(), match.start() == end, match.end()
        if match.lastgroup in ("single", "symbol"):
            written = SIMPLE.get(written, written)
            found.append(Unit(written, (written,), None, match.lastgroup == "single", joined))
            continue
        parts, whole = _split(written)
        found.append(Unit(fold(written), parts, whole, is_single=False, joined=joined))
    return tuple(found)


def fold(text: str) -> str:
    """Case, diacritics and kinds of Chinese folded: `Ärger` is `arger`, `蘇州` is `苏州`."""
    if text.isascii():
        return text.lower()
    bare = _UNTYPED.sub("", unicodedata.normalize("NFD", text.casefold()))
    return unicodedata.normalize("NFC", bare).translate(_SIMPLE_BY_CODE)


def _fold_width(text: str) -> str:
    # Piece by piece: normalising a long run of combining marks is quadratic.
    if text.isascii():
        return text
    return "".join([_normal_piece(piece) for piece in _PIECE.findall(storable(text))])


def _normal_piece(piece: str) -> str:
    if piece.isascii():
        return piece
    normal = unicodedata.normalize("NFKC", piece)
    bare = _UNTYPED.sub("", unicodedata.normalize("NFD", normal))
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=65536)
def _split(written: str) -> tuple[tuple[str, ...], str | None]:
    """The parts of a word or identifier, and the whole where it says more than its parts."""
    parts: list[str] = []
    for part in _PART.findall(written):
        pieces = _CAMEL.split(part) if len(part) <= MAX_COMPOUND_CHARS else [part]
        for piece in pieces:
            parts.extend(_plain_words(piece))
    whole = fold(written)
    if len(parts) == 1 and whole.rstrip("+#") == whole:
        return tuple(parts), None
    if len(whole) > MAX_COMPOUND_CHARS or (len(parts) > 1 and _APOSTROPHE.search(whole)):
        return tuple(parts), None
    return tuple(parts), stem(whole)


def _plain_words(word: str) -> list[str]:
    pieces = _APOSTROPHE.split(fold(word))
    if len(pieces) > 1 and pieces[-1] == "s":
        pieces.pop()
    elif len(pieces) > 1 and pieces[-1] in _CONTRACTIONS:
        pieces[-2:] = [pieces[-2] + pieces[-1]]
    return [stem(piece) for piece in pieces if piece]


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The English stem of a folded word; other words as they are, at most MAX_TOKEN_CHARS long."""
    if len(word) > MAX_TOKEN_CHARS:
        return word[:MAX_TOKEN_CHARS]
    if word.isascii() and word.isalpha():
        with _stemmer_lock:
            return str(_stemmer.stemWord(PLAIN_FORMS.get(word, word)))
    return word
