"""Brings a text into the one form that the scan's rules are written for: composed, without odd characters.

Linear in the length, whatever the text. Invisible characters are taken out before.
"""

import re
import unicodedata

MAX_MARKS = 30
LONG_LIGATURES = ("\ufdfa", "\ufdfb")
"""Two Arabic honorifics are one character each that stands for a whole phrase; no rule has their words."""
MAX_KINDS = 8
"""Where fewer kinds of characters have another form, each is replaced by itself, which is faster."""

_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)

# Every character that may follow a base, and others of the same scripts: found quickly, told apart later.
_AFTER_A_BASE = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0711-\u074a\u07eb-\u07fd"
    "\u0816-\u10a0\u135d-\u135f\u1714-\u1c37\u1cd0-\u1dff\u20d0-\u20f0\u2cef-\u2cf1\u2d7f\u2de0-\u2dff\u302a-\u302f"
    "\u3099\u309a\ua66f-\ua69f\ua6f0\ua6f1\ua806-\uabed\ufb1e\ufe20-\ufe2f\U000101fd-\U0001e94a"
)
_MAY_COMPOSE = re.compile(f"[{_AFTER_A_BASE}\u1160-\u11ff]")
_RUN = re.compile(f"{_MAY_COMPOSE.pattern}+")
_LONG_RUN = re.compile(f"[{_AFTER_A_BASE}][{_AFTER_A_BASE}]{{{MAX_MARKS}}}")
# Most of what people write in most scripts: each is its own compatible form and joins no base before it.
SETTLED = (
    "\x00-\x9f\xbf-\u0131\u014a-\u017e\u0180-\u01c3\u0391-\u03c9\u0400-\u0482\u048a-\u052f\u05d0-\u05ea\u0621-\u064a"
    "\u0679-\u06d3\u1ea0-\u1ef9\u2012-\u2016\u2018-\u2023\u20ac\u2190-\u221e\u2500-\u27bf\u3001-\u3029\u3041-\u3096"
    "\u30a1-\u30fa\u30fc-\u30fe\u3400-\u9fff\uac00-\ud7a3\U0001f300-\U0001faff\U00020000-\U0002a6df"
)
_UNSETTLED = re.compile(f"[^{SETTLED}]")


def compatible(text: str) -> str:
    """NFKC, but for runs of more than MAX_MARKS marks, which are cut, and for LONG_LIGATURES."""
    if text.isascii():
        return text
    for ligature in LONG_LIGATURES:
        text = text.replace(ligature, " ")
    begin = 0
    for _ in range(MAX_KINDS):
        odd = _UNSETTLED.search(text, begin)
        if odd is None:
            return text
        piece, begin = _with_base(text, odd.start())
        settled = unicodedata.normalize("NFKC", piece)
        if settled == piece or len(piece) > MAX_MARKS:
            break
        text = text.replace(piece, settled)
    return _normalised(text)


def _with_base(text: str, place: int) -> tuple[str, int]:
    """The character there, or the marks there and what they stand on; and where that begins.

    No more than MAX_MARKS + 1 characters of it.
    """
    run = _RUN.match(text, place, place + MAX_MARKS)
    begin = place if run is None else max(0, place - 1)
    return text[begin : place + 1 if run is None else run.end()], begin


def _normalised(text: str) -> str:
    if _MAY_COMPOSE.search(text) is not None:
        return unicodedata.normalize("NFKC", _with_short_runs(text) if _LONG_RUN.search(text) else text)
    if unicodedata.is_normalized("NFKC", text):
        return text
    # In two steps: composing is slow, and after the first most texts have nothing to compose.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text))


def _with_short_runs(text: str) -> str:
    # A long run of marks takes quadratic time to put in order, and no script needs one.
    marks = "".join(filter(unicodedata.combining, set(text)))
    return re.sub(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+", r"\1", text) if marks else text


def single_spaced(text: str) -> str:
    """`" ".join(text.split())`, without making a string of each word."""
    for space in _SPACES:
        if space in text:
            text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")
