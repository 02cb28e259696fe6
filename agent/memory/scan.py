"""The threat scan of what enters the prompt: memory entries, recalled text, skills, context files.

Says what it found and how bad it is; whether to refuse, mark or leave out is the caller's decision. The rules
are tables of their own (threat_english.py, threat_languages.py), credentials too (credentials.py).
"""

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from trunkline.agent.memory.credentials import SPOKEN, first_credential, in_small_letters, is_flooded
from trunkline.agent.memory.needles import Needles, Places
from trunkline.agent.memory.plain_text import compatible, single_spaced
from trunkline.agent.memory.threat_english import ENGLISH
from trunkline.agent.memory.threat_languages import CHINESE, OTHER_LANGUAGES
from trunkline.agent.memory.threat_rules import Category, Rule, Severity

MAX_SPAN_CHARS = 80
MIN_TRIES = 3000
CHARS_A_TRY = 80
"""Rules are tried at so many places, and one more for so many characters. Chats take half of it; a text that
takes more is refused unread, since reading it would take long."""

_LETTER_RUN = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True)
class _Anchor:
    """Where a rule may begin, and what has to follow.

    Beside a letter of `not_after` or `not_before` it is a part of other words; so it is `in_word` after a
    letter or digit beyond ASCII.
    """

    text: str
    not_after: frozenset[str]
    not_before: frozenset[str]
    in_word: bool
    tail: re.Pattern[str]


def _prepare(rule: Rule, anchor: str, tail: re.Pattern[str]) -> _Anchor:
    if not anchor.isascii():
        return _Anchor(anchor, frozenset(), frozenset(), rule.word_start, tail)
    run = _LETTER_RUN.search(anchor)
    opens, closes = run is not None and run.start() == 0, run is not None and run.end() == len(anchor)
    not_after = _LETTERS_AND_DIGITS if rule.word_start else _LETTERS if opens else frozenset()
    return _Anchor(anchor, not_after, _LETTERS if closes else frozenset(), False, tail)


_LETTERS = frozenset(string.ascii_lowercase)
_LETTERS_AND_DIGITS = _LETTERS.union(string.digits)
_RULES = tuple(
    (rule, tuple(_prepare(rule, *pair) for pair in rule.tails()))
    for rule in (*ENGLISH, *CHINESE, *OTHER_LANGUAGES)
)
# Single characters that a rule requires are asked for when it comes to that: they stand everywhere.
_NEEDLES = Needles(
    word
    for rule, anchors in _RULES
    for word in (*(anchor.text for anchor in anchors), *(one for one in rule.requires if len(one) > 1))
)

_TAGS = "\U000e0000-\U000e007f"
_NON_JOINER, _JOINER, _EMOJI_SELECTOR = "\u200c", "\u200d", "\ufe0f"
_COMMON_INVISIBLE = (_NON_JOINER, _JOINER, _EMOJI_SELECTOR)
"""All that honest texts have of them."""
_ODD_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e"
    f"\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a{_TAGS}\U000e0100-\U000e01ef"
)
_INVISIBLE = f"{_ODD_INVISIBLE}{''.join(_COMMON_INVISIBLE)}"
_ANY_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_ALL_INVISIBLE = re.compile(f"[{_INVISIBLE}]+")
# Half of a character is no text either, and can't be stored.
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff"
_CONTROL = re.compile(f"[{_CONTROLS}]")
_ODD = re.compile(f"[{_CONTROLS}{_ODD_INVISIBLE}]")
# The three flags that Unicode makes of tag characters: England, Scotland, Wales.
_TAG_FLAG = re.compile(
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
# Stands for such a flag while other tag characters are removed; a noncharacter, which no text may hold.
_FLAG_PLACE = "\ufdd0"
_FLAG_PART = re.compile(_FLAG_PLACE)
_NEVER_NEEDED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    f"\ufff9-\ufffb\U0001d173-\U0001d17a{_TAGS}\U000e0100-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)
_BIDI_CONTROL = re.compile("[\u202a-\u202e\u2066-\u2069]")
_TAG = re.compile(f"[{_TAGS}]")
_SELECTOR_RUN = re.compile("[\ufe00-\ufe0f]{2,}")
_ANY_SELECTOR_RUN = re.compile(
    f"{_SELECTOR_RUN.pattern}|[\U000e0100-\U000e01ef]{{2,}}"
    "|(?:^|[^\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
_FLAG = "\U0001f3f4"
_HIGH_INVISIBLE = re.compile("[\U000e0000-\U000e01ef]")
_MANY_INVISIBLE = 4
_INVISIBLE_RUN = re.compile(
    f"[\u200b-\u200f\u2060-\u2064\u3164\ufeff\u115f\u1160\uffa0\u180e]{{{_MANY_INVISIBLE},}}"
)
_LATIN = "A-Za-z0-9\u00c0-\u024f\uff21-\uff5a"
_INSIDE_WORD = re.compile(
    f"[{_LATIN}][\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0]+[{_LATIN}]"
)
_JOINED_WORD = re.compile(f"{_JOINER}(?<=[{_LATIN}]{_JOINER}){_JOINER}*[{_LATIN}]")
_APART = r"[ ._*|-]"
# What follows the first of some letters that stand apart: a separator is found quickly, a letter is not.
_SPACED_LETTERS = re.compile(
    rf"{_APART}\w{_APART}(?<=\w{_APART}\w{_APART})(?<!\w\w{_APART}\w{_APART})\w(?:{_APART}\w)*(?!\w)"
)
_SECTION_LINE = re.compile(
    r"^[ \t]{0,3}(?:[#>*\[=-]{1,6} ?(?:system|developer)(?: (?:prompt|message|instructions?|override))?"
    r"[\]*=-]{0,6} ?(?:[:：]|$)|(?:system|developer)(?: (?:prompt|message|instructions?))? ?[:：] ?"
    r"(?:you\b|your\b|ignore|obey|from now|override|disregard|always|never|do not|don't|new\b))",
    re.IGNORECASE | re.MULTILINE,
)
_NO_SEPARATORS = str.maketrans("", "", " ._*|-")
_LETTERS_ONLY = (
    bytes(120 if chr(byte).isalpha() or chr(byte) == "?" else 32 for byte in range(128)) + b"x" * 128
)
_SPELT_OUT = b" x x x "
"""Three letters apart in a text of which each letter, and each character beyond ASCII, is an x."""
_BESIDE = (
    bytes(97 if chr(byte).isalpha() else byte if chr(byte) == "?" else 32 for byte in range(128)) + b" " * 128
)
_MIXED_SCRIPT = re.compile("[a-z][\u0370-\u03ff\u0400-\u04ff]|[\u0370-\u03ff\u0400-\u04ff][a-z]")
# Greek and Cyrillic letters that look like Latin ones; used only on texts that mix scripts within a word.
LOOKALIKES = dict(zip("аеорсухіјѕһԁԛԝгпктвнмαενορτυικχβ", "aeopcyxijshdqwrnktbhmaevoptuikxb", strict=True))


@dataclass(frozen=True, slots=True)
class Finding:
    """One threat: `span` is the start of what matched, invisible characters escaped."""

    category: Category
    severity: Severity
    span: str


def scan(text: str, least: Severity = Severity.MEDIUM) -> Finding | None:
    """The first threat of at least that severity, or None. Linear in the text's length."""
    allowed = (Severity.HIGH,) if least is Severity.HIGH else (Severity.HIGH, Severity.MEDIUM)
    return next((finding for finding in find_threats(text) if finding.severity in allowed), None)


def find_threats(text: str) -> Iterator[Finding]:
    """Each kind of threat in the text, hidden characters first, at most one per rule; lazily."""
    spoken = SPOKEN.sparse_places(in_small_letters(text))
    if spoken is None or is_flooded(text, spoken):
        yield _finding(Category.FLOOD, Severity.HIGH, text)
        return
    credential = first_credential(text, spoken)
    if credential is not None:
        # The value itself is what must not travel, so only its kind is shown.
        yield Finding(Category.CREDENTIAL, Severity.HIGH, credential.kind)
    odd = _ODD.search(text)
    control = None if odd is None else _CONTROL.search(text, odd.start())
    if control is not None:
        yield _finding(Category.HIDDEN_TEXT, Severity.HIGH, control[0])
    if odd is not None or _hides_by_joiners(text):
        yield from _find_hidden(text)
    text = _without(_COMMON_INVISIBLE, text) if odd is None else strip_invisible(text)
    composed = compatible(text)
    may_open_section = "system" in spoken or "developer" in spoken or composed != text
    line = _SECTION_LINE.search(composed) if may_open_section else None
    if line is not None:
        yield _finding(Category.ROLE, Severity.HIGH, line[0])
    for plain in _plain_forms(composed.casefold()):
        yield from _apply_rules(plain)


def refusal(finding: Finding) -> str:
    """What the model reads when a text is refused."""
    if finding.category is Category.CREDENTIAL:
        return (
            f"Refused: the text holds a credential ({finding.span}). Never store the value; store where it "
            "is kept instead, for example 'the deploy token is in the team's password manager'."
        )
    return (
        f"Refused: the text reads like {finding.category} (severity {finding.severity}): '{finding.span}'. "
        "Memory is part of every prompt. If this is a fact about the user or the environment, rephrase it "
        "as a plain statement without that part."
    )


def strip_invisible(text: str) -> str:
    """The text without characters that have no shape of their own."""
    return text if text.isascii() else _ALL_INVISIBLE.sub("", _without(_COMMON_INVISIBLE, text))


def clean_invisible(text: str) -> str:
    """The text without hidden characters; those that emoji and joining scripts are written with stay."""
    if text.isascii():
        return text
    flags = iter(_TAG_FLAG.findall(text))
    plain = _NEVER_NEEDED.sub("", _TAG_FLAG.sub(_FLAG_PLACE, text.replace(_FLAG_PLACE, "")))
    return _FLAG_PART.sub(lambda _: next(flags), plain)


def _finding(category: Category, severity: Severity, span: str) -> Finding:
    shown = "".join(f"\\u{{{ord(c):x}}}" if _is_unseen(c) else c for c in span[:MAX_SPAN_CHARS])
    return Finding(category, severity, " ".join(shown.split()))


def _is_unseen(character: str) -> bool:
    return _ANY_INVISIBLE.match(character) is not None or _CONTROL.match(character) is not None


def _without(characters: Sequence[str], text: str) -> str:
    for character in characters:
        text = text.replace(character, "")
    return text


def _hides_by_joiners(text: str) -> bool:
    """Whether _find_hidden finds anything in a text of which no character is odd."""
    if text.isascii():
        return False
    joined = text.replace(_NON_JOINER, _JOINER)
    return (
        _EMOJI_SELECTOR * 2 in text
        or _JOINER * _MANY_INVISIBLE in joined
        or _JOINED_WORD.search(joined) is not None
    )


def _find_hidden(text: str) -> Iterator[Finding]:
    body = text.removeprefix("\ufeff")
    if _FLAG in body:
        body = _TAG_FLAG.sub("", body)
    high = _HIGH_INVISIBLE.search(body) is not None
    first = (_TAG, _BIDI_CONTROL, _ANY_SELECTOR_RUN) if high else (_BIDI_CONTROL, _SELECTOR_RUN)
    patterns = (*first, _INVISIBLE_RUN, _INSIDE_WORD)
    found = next(filter(None, (pattern.search(body) for pattern in patterns)), None)
    if found is not None:
        yield _finding(Category.HIDDEN_TEXT, Severity.HIGH, found[0])


def _plain_forms(folded: str) -> Iterator["_Plain"]:
    """The text, composed and in small letters, and then without the ways to hide words from the rules."""
    plain = _Plain.of(single_spaced(folded))
    yield plain
    open_text, hides = folded, 0
    if _SPELT_OUT in b" " + _narrow(folded).translate(_LETTERS_ONLY) + b" ":
        # Words spelt letter by letter lie two spaces or a line apart, so the text with its spaces is read.
        open_text, hides = _SPACED_LETTERS.subn(_close_up, folded, _tries(folded))
    mixed = _count_mixed(open_text)
    if max(hides, mixed) >= _tries(folded):
        yield replace(plain, places=None)
    elif hides or mixed:
        yield _Plain.of(single_spaced(_replace_all(open_text, LOOKALIKES) if mixed else open_text))


def _count_mixed(text: str) -> int:
    """How often Latin letters stand beside Greek or Cyrillic ones, as far as it matters: 1 for a few."""
    beside = b"" if text.isascii() else _narrow(text).translate(_BESIDE)
    most = beside.count(b"a?") + beside.count(b"?a")
    if not most or not any(character in text for character in LOOKALIKES):
        return 0
    enough = 1 if most < _tries(text) else _tries(text)
    return sum(1 for _ in islice(_MIXED_SCRIPT.finditer(text), enough))


def _narrow(text: str) -> bytes:
    return text.encode("ascii", "replace")


def _close_up(match: re.Match[str]) -> str:
    return match[0].translate(_NO_SEPARATORS)


def _replace_all(text: str, replacements: Mapping[str, str]) -> str:
    # For few kinds of characters this is many times faster than str.translate.
    for character, replacement in replacements.items():
        text = text.replace(character, replacement)
    return text


@dataclass(frozen=True, slots=True)
class _Plain:
    """A text as the rules see it, with the places of the words that they begin with or require.

    Without places it is a flood of such words. `required` remembers which single characters were found.
    """

    text: str
    places: Places | None
    required: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> "_Plain":
        return cls(text, _NEEDLES.sparse_places(text))

    def holds_any(self, required: Sequence[str], places: Places) -> bool:
        return any(word in places if len(word) > 1 else self._holds(word) for word in required)

    def _holds(self, character: str) -> bool:
        if character not in self.required:
            self.required[character] = character in self.text
        return self.required[character]


@dataclass(slots=True)
class _Budget:
    """How many more places rules may be tried at."""

    left: int


def _tries(text: str) -> int:
    return MIN_TRIES + len(text) // CHARS_A_TRY


def _apply_rules(plain: _Plain) -> Iterator[Finding]:
    if plain.places is None:
        yield _finding(Category.FLOOD, Severity.HIGH, plain.text)
        return
    budget = _Budget(_tries(plain.text))
    for rule, anchors in _RULES:
        possible = [anchor for anchor in anchors if anchor.text in plain.places]
        if not possible or (rule.requires and not plain.holds_any(rule.requires, plain.places)):
            continue
        searches = (_search(plain.text, plain.places[anchor.text], anchor, budget) for anchor in possible)
        found = next(filter(None, searches), None)
        if found is not None:
            yield _finding(rule.category, rule.severity, found)
        if budget.left <= 0:
            yield _finding(Category.FLOOD, Severity.HIGH, plain.text)
            return


def _search(plain: str, places: Sequence[int], anchor: _Anchor, budget: _Budget) -> str | None:
    for place in places:
        end = place + len(anchor.text)
        before = plain[place - 1] if place else " "
        if before in anchor.not_after or (anchor.in_word and before.isalnum() and not before.isascii()):
            continue
        if anchor.not_before and plain[end : end + 1] in anchor.not_before:
            continue
        if budget.left <= 0:
            return None
        budget.left -= 1
        match = anchor.tail.match(plain, end)
        if match is not None:
            return plain[place : match.end()]
    return None
