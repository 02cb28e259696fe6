"""The threat scan of what enters the prompt: memory entries, recalled text, skills, context files.

Says what it found and how bad it is; whether to refuse, mark or leave out is the caller's decision. The rules
are tables of their own (threat_english.py, threat_languages.py), credentials too (credentials.py).
"""

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from trunkline.agent.memory.credentials import first_credential, is_flooded
from trunkline.agent.memory.threat_english import ENGLISH
from trunkline.agent.memory.threat_languages import CHINESE, OTHER_LANGUAGES
from trunkline.agent.memory.threat_rules import Category, Severity

MAX_SPAN_CHARS = 80
MIN_TRIES = 3000
CHARS_A_TRY = 80
"""Rules are tried at so many places, and one more for so many characters. Chats take half of it; a text that
takes more is refused unread, since reading it would take long."""

_LETTER_RUN = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True)
class _Search:
    """One anchor of a rule. A text that holds it has the word `gate` and all of `characters` in it.

    `tail` is what follows the anchor.
    """

    anchor: str
    gate: str | None
    characters: frozenset[str]
    tail: re.Pattern[str]


def _prepare(anchor: str, tail: re.Pattern[str]) -> _Search:
    run = _LETTER_RUN.search(anchor) if anchor.isascii() else None
    return _Search(anchor, run[0] if run else None, frozenset(anchor) - set(string.printable), tail)


_COMPILED = tuple(
    (rule, tuple(_prepare(*pair) for pair in rule.tails())) for rule in (*ENGLISH, *CHINESE, *OTHER_LANGUAGES)
)
_GATES = frozenset(
    search.gate.encode() for _, searches in _COMPILED for search in searches if search.gate is not None
)
_LETTERS = frozenset(letter.encode() for letter in string.ascii_lowercase)
_ONLY_LETTERS = bytes(byte if 97 <= byte <= 122 else 32 for byte in range(256))

_TAGS = "\U000e0000-\U000e007f"
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    f"\ufff9-\ufffb\U0001d173-\U0001d17a{_TAGS}\U000e0100-\U000e01ef"
)
_ANY_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_ALL_INVISIBLE = re.compile(f"[{_INVISIBLE}]+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
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
_SELECTOR_RUN = re.compile(
    "[\ufe00-\ufe0f]{2,}|[\U000e0100-\U000e01ef]{2,}"
    "|(?:^|[^\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
_INVISIBLE_RUN = re.compile("[\u200b-\u200f\u2060-\u2064\u3164\ufeff\u115f\u1160\uffa0\u180e]{4,}")
_LATIN = "A-Za-z0-9\u00c0-\u024f\uff21-\uff5a"
_INSIDE_WORD = re.compile(
    f"[{_LATIN}][\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\u3164\ufeff\uffa0]+[{_LATIN}]"
)
_SPACED_LETTERS = re.compile(r"(?<!\w)\w(?:[ ._*|-]\w){2,}(?!\w)")
_SECTION_LINE = re.compile(
    r"^[ \t]{0,3}(?:[#>*\[=-]{1,6} ?(?:system|developer)(?: (?:prompt|message|instructions?|override))?"
    r"[\]*=-]{0,6} ?(?:[:：]|$)|(?:system|developer)(?: (?:prompt|message|instructions?))? ?[:：] ?"
    r"(?:you\b|your\b|ignore|obey|from now|override|disregard|always|never|do not|don't|new\b))",
    re.IGNORECASE | re.MULTILINE,
)
_NO_SEPARATORS = str.maketrans("", "", " ._*|-")
_MIN_SPACED_LETTERS = 5
_MAX_REPLACED_KINDS = 12
# Beyond them it is quicker to normalise the text than to find what changes in it.
MAX_KINDS = 3000
MAX_MARKS = 30
# Two Arabic honorifics are one character each that stands for a whole phrase; no rule has their words.
LONG_LIGATURES = ("\ufdfa", "\ufdfb")
_MIXED_SCRIPT = re.compile("[a-z][\u0370-\u03ff\u0400-\u04ff]|[\u0370-\u03ff\u0400-\u04ff][a-z]")
# Greek and Cyrillic letters that look like Latin ones; used only on texts that mix scripts within a word.
_LOOKALIKES = dict(zip("аеорсухіјѕһԁԛԝгпктвнмαενορτυικχβ", "aeopcyxijshdqwrnktbhmaevoptuikxb", strict=True))
# What a text's characters are asked for.
_TELLING_CHARACTERS = frozenset(_LOOKALIKES).union(
    *(search.characters for _, searches in _COMPILED for search in searches)
)


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
    if is_flooded(text):
        yield _finding(Category.FLOOD, Severity.HIGH, text)
        return
    credential = first_credential(text)
    if credential is not None:
        # The value itself is what must not travel, so only its kind is shown.
        yield Finding(Category.CREDENTIAL, Severity.HIGH, credential.kind)
    yield from _find_hidden(text)
    line = _SECTION_LINE.search(text)
    if line is not None:
        yield _finding(Category.ROLE, Severity.HIGH, line[0])
    for plain in _plain_forms(text):
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
    return text if text.isascii() else _ALL_INVISIBLE.sub("", text)


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


def _find_hidden(text: str) -> Iterator[Finding]:
    control = _CONTROL.search(text)
    if control is not None:
        yield _finding(Category.HIDDEN_TEXT, Severity.HIGH, control[0])
    if text.isascii() or _ANY_INVISIBLE.search(text) is None:
        return
    body = _TAG_FLAG.sub("", text.removeprefix("\ufeff"))
    for pattern in (_TAG, _BIDI_CONTROL, _SELECTOR_RUN, _INVISIBLE_RUN, _INSIDE_WORD):
        match = pattern.search(body)
        if match is not None:
            yield _finding(Category.HIDDEN_TEXT, Severity.HIGH, match[0])
            return


def _plain_forms(text: str) -> Iterator["_Plain"]:
    folded = _compatible(strip_invisible(text)).casefold()
    plain = _Plain.of(" ".join(folded.split()))
    yield plain
    if plain.single_letters >= _MIN_SPACED_LETTERS:
        # Words spelt letter by letter lie two spaces or a line apart, so the text with its spaces is read.
        closed, count = _SPACED_LETTERS.subn(_close_up, folded, _tries(folded))
        if count:
            yield replace(_Plain.of(" ".join(closed.split())), is_flooded=count >= _tries(folded))
    mixed = 0 if plain.characters.isdisjoint(_LOOKALIKES) else _count_mixed(plain.text)
    if mixed >= _tries(plain.text):
        yield replace(plain, is_flooded=True)
    elif mixed:
        yield _Plain.of(
            _replace_all(plain.text, {c: _LOOKALIKES[c] for c in plain.characters & _LOOKALIKES.keys()})
        )


def _count_mixed(text: str) -> int:
    """How often Latin letters stand beside Greek or Cyrillic ones, as far as it matters."""
    return sum(1 for _ in islice(_MIXED_SCRIPT.finditer(text), _tries(text)))


def _close_up(match: re.Match[str]) -> str:
    return match[0].translate(_NO_SEPARATORS)


def _compatible(text: str) -> str:
    """NFKC, in linear time and with little growth; a text with few kinds of characters to change is quick."""
    if text.isascii():
        return text
    for ligature in LONG_LIGATURES:
        text = text.replace(ligature, " ")
    kinds = set(text)
    marks = "".join(filter(unicodedata.combining, kinds))
    if marks:
        # A long run of marks takes quadratic time to put in order, and no script needs one.
        text = re.sub(f"([{marks}]{{{MAX_MARKS}}})[{marks}]+", r"\1", text)
    if len(kinds) > MAX_KINDS:
        return unicodedata.normalize("NFKC", text)
    changing = {c: n for c in kinds if (n := unicodedata.normalize("NFKC", c)) != c}
    if len(changing) > _MAX_REPLACED_KINDS:
        return unicodedata.normalize("NFKC", text)
    text = _replace_all(text, changing)
    composes = (
        marks or any(map(_is_jamo, kinds)) or any(map(unicodedata.combining, "".join(changing.values())))
    )
    return unicodedata.normalize("NFC", text) if composes else text


def _is_jamo(character: str) -> bool:
    return "\u1100" <= character <= "\u11ff"


def _replace_all(text: str, replacements: Mapping[str, str]) -> str:
    # For few kinds of characters this is many times faster than str.translate.
    for character, replacement in replacements.items():
        text = text.replace(character, replacement)
    return text


@dataclass(frozen=True, slots=True)
class _Plain:
    """A text as the rules see it, with those words and characters in it that rules begin with.

    `required` remembers what was looked for; `is_flooded` says that only a part of it was made plain.
    """

    text: str
    gates: frozenset[str]
    single_letters: int
    characters: frozenset[str]
    required: dict[str, bool] = field(default_factory=dict)
    is_flooded: bool = False

    @classmethod
    def of(cls, text: str) -> "_Plain":
        words = text.encode("ascii", "replace").translate(_ONLY_LETTERS).split()
        gates = frozenset(word.decode("ascii") for word in _GATES.intersection(words))
        characters = frozenset() if text.isascii() else _TELLING_CHARACTERS.intersection(text)
        return cls(text, gates, len(_LETTERS.intersection(words)), characters)

    def may_hold(self, search: _Search) -> bool:
        if search.gate is not None and search.gate not in self.gates:
            return False
        return search.characters <= self.characters

    def holds_any(self, required: Sequence[str]) -> bool:
        for word in required:
            if word not in self.required:
                self.required[word] = word in self.text
            if self.required[word]:
                return True
        return False


@dataclass(slots=True)
class _Budget:
    """How many more places rules may be tried at."""

    left: int


def _tries(text: str) -> int:
    return MIN_TRIES + len(text) // CHARS_A_TRY


def _apply_rules(plain: _Plain) -> Iterator[Finding]:
    if plain.is_flooded:
        yield _finding(Category.FLOOD, Severity.HIGH, plain.text)
        return
    budget = _Budget(_tries(plain.text))
    for rule, searches in _COMPILED:
        possible = [search for search in searches if plain.may_hold(search)]
        if not possible or (rule.requires and not plain.holds_any(rule.requires)):
            continue
        found = next(
            filter(None, (_search(plain.text, search, rule.word_start, budget) for search in possible)), None
        )
        if found is not None:
            yield _finding(rule.category, rule.severity, found)
        if budget.left <= 0:
            yield _finding(Category.FLOOD, Severity.HIGH, plain.text)
            return


def _search(plain: str, search: _Search, word_start: bool, budget: _Budget) -> str | None:
    anchor = search.anchor
    start = plain.find(anchor)
    while start >= 0 and budget.left > 0:
        budget.left -= 1
        end = start + len(anchor)
        match = search.tail.match(plain, end)
        if match is not None:
            inside_word = (
                start > 0 and plain[start - 1].isalnum() and plain[start - 1].isascii() == anchor.isascii()
            )
            if not (word_start and inside_word):
                return plain[start : match.end()]
            end = match.end()
        start = plain.find(anchor, max(end, start + 1))
    return None
