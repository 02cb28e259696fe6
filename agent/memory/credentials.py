"""Finds credentials (API keys, tokens, private keys, passwords) in a text, and masks them.

Patterns of our own for the published key shapes, and random-looking values beside a telling word. One pass
finds the literals that all of them start from, and each reads a bounded stretch: the time is linear.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from trunkline.agent.memory.needles import Needles, Places

_MIN_RANDOM_CHARS = 16
_MIN_WORD_PASSWORD_CHARS = 14
_MIN_ENTROPY_BITS = 3.2

MIN_TELLING_WORDS = 1500
CHARS_A_TELLING_WORD = 150
"""A text may say "password" and the like so often, and once more for so many characters."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential at `[start, end)` of the scanned text; `kind` is a short name for people."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    literal: str
    pattern: re.Pattern[str]


def _shape(kind: str, literal: str, rest: str) -> _Shape:
    alone = r"(?<![A-Za-z0-9_])" if literal[0].isalnum() else ""
    return _Shape(kind, literal, re.compile(alone + re.escape(literal) + rest))


_EDGE = r"(?![A-Za-z0-9])"
_SHAPES = (
    _shape("Anthropic key", "sk-ant-", r"[\w-]{20,200}"),
    _shape("OpenAI key", "sk-proj-", r"[\w-]{20,250}"),
    _shape("OpenAI key", "sk-svcacct-", r"[\w-]{20,250}"),
    _shape("OpenRouter key", "sk-or-", r"[\w-]{20,120}"),
    _shape("API key", "sk-", r"[A-Za-z0-9]{20,120}" + _EDGE),
    _shape("Stripe key", "sk_live_", r"[A-Za-z0-9]{16,120}"),
    _shape("Stripe key", "sk_test_", r"[A-Za-z0-9]{16,120}"),
    _shape("Stripe key", "rk_live_", r"[A-Za-z0-9]{16,120}"),
    _shape("webhook secret", "whsec_", r"[A-Za-z0-9+/=]{20,80}"),
    *(_shape("GitHub token", f"gh{kind}_", r"[A-Za-z0-9]{30,255}") for kind in "pousr"),
    _shape("GitHub token", "github_pat_", r"\w{40,120}"),
    _shape("GitLab token", "glpat-", r"[\w.-]{20,80}"),
    *(_shape("Slack token", f"xox{kind}-", r"[A-Za-z0-9-]{10,200}") for kind in "abeoprs"),
    _shape("Slack app token", "xapp-", r"\d-[A-Za-z0-9-]{20,200}"),
    _shape("Slack webhook", "hooks.slack.com/services/T", r"\w{6,14}/B\w{6,14}/\w{16,40}"),
    _shape("Discord webhook", "/api/webhooks/", r"\d{15,21}/[\w-]{40,90}"),
    _shape("AWS key", "AKIA", r"[A-Z2-7]{16}" + _EDGE),
    _shape("AWS key", "ASIA", r"[A-Z2-7]{16}" + _EDGE),
    _shape("Google key", "AIza", r"[\w-]{35}"),
    _shape("Google token", "ya29.", r"[\w-]{30,250}"),
    _shape("Google secret", "GOCSPX-", r"[\w-]{24,40}"),
    _shape("Azure key", "AccountKey=", r"[A-Za-z0-9+/=]{40,100}"),
    _shape("SendGrid key", "SG.", r"[\w-]{16,32}\.[\w-]{16,64}"),
    _shape("npm token", "npm_", r"[A-Za-z0-9]{30,60}"),
    _shape("PyPI token", "pypi-AgE", r"[\w-]{40,250}"),
    _shape("Hugging Face token", "hf_", r"[A-Za-z0-9]{30,60}"),
    _shape("Groq key", "gsk_", r"[A-Za-z0-9]{40,80}"),
    _shape("xAI key", "xai-", r"[A-Za-z0-9]{40,120}"),
    _shape("Replicate token", "r8_", r"[A-Za-z0-9]{30,60}"),
    _shape("DigitalOcean token", "dop_v1_", r"[a-f0-9]{60,70}"),
    _shape("Shopify token", "shpat_", r"[a-fA-F0-9]{30,40}"),
    _shape("Tailscale key", "tskey-", r"[A-Za-z0-9-]{20,80}"),
    _shape("Notion token", "ntn_", r"[A-Za-z0-9]{30,60}"),
    _shape("Linear key", "lin_api_", r"[A-Za-z0-9]{30,60}"),
    _shape("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{40,80}"),
    # The first part is read only from its beginning: from each of many it would be read again and again.
    _shape("JSON web token", "eyJ", r"(?<![\w-]eyJ)[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}"),
    _shape("private key", "-----BEGIN ", r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    _shape("private key", "PuTTY-User-Key-File-", r"\d"),
)
_LAST_LINES = {
    "-----BEGIN ": ("-----END ", re.compile(r"-----END [A-Z0-9 ]{0,50}-{0,5}")),
    "PuTTY-User-Key-File-": ("Private-MAC:", re.compile(r"Private-MAC: ?[0-9a-f]{0,80}")),
}
_KEY_GAP = r"(?:[\s>]|\\[nr]){0,8}+"
# Header lines, full lines, and a last line that is shorter, with nothing else on it.
_KEY_BODY = re.compile(
    rf"(?:: ?[\w-]{{1,40}})?+(?:(?:{_KEY_GAP}[A-Z][A-Za-z-]{{1,30}}: [^\n\\]{{0,200}}+){{0,8}}+"
    rf"(?:{_KEY_GAP}[A-Za-z0-9+/=]{{40,}}+)++"
    r"(?:(?:\r?\n|(?:\\r)?\\n)(?:> ?)?[A-Za-z0-9+/=]++(?=[ \t]*(?:[\r\n\\\"'`]|\Z)))?+)++"
)
_AFTER_BASIC_AUTH = re.compile(r"://([^\s:/@]{1,80}):([^\s:/@]{3,120})@")
_TELEGRAM = re.compile(r":[\w-]{35}(?![\w-])")
_TELEGRAM_BEFORE = re.compile(r"(?<!\w)\d{8,12}\Z")
_DISCORD = re.compile(r"\.[\w-]{6}\.[\w-]{27,40}(?![\w-])")
_DISCORD_BEFORE = re.compile(r"(?<![\w-])[MNO][\w-]{22,28}\Z")
_PLACEHOLDER = re.compile(r"(?:[xX*.•_-]{3,}|<|\{|\$|%|your[_-]|example|placeholder|redacted)", re.IGNORECASE)

TELLING_WORDS = (
    *(
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "token",
        "api key",
        "api_key",
        "apikey",
        "api-key",
    ),
    *(
        "access key",
        "access_key",
        "private key",
        "private_key",
        "credential",
        "bearer",
        "contraseña",
        "mot de passe",
    ),
    *("passwort", "kennwort", "senha", "parola", "пароль", "密码", "密碼", "口令", "密钥", "密鑰", "令牌"),
    *(
        "パスワード",
        "トークン",
        "비밀번호",
        "كلمة المرور",
        "رمز عبور",
        "şifre",
        "mật khẩu",
        "hasło",
        "wachtwoord",
    ),
)
_WORDS_FOR_PASSWORDS = frozenset(TELLING_WORDS) - {
    *(
        "secret",
        "token",
        "credential",
        "bearer",
        "api key",
        "api_key",
        "apikey",
        "api-key",
        "access key",
        "access_key",
    ),
    *("private key", "private_key", "密钥", "密鑰", "令牌", "トークン"),
}
# After the word: up to four more words ("for the staging box"), then a sign or verb that gives the value.
_GIVES_VALUE = re.compile(
    r"\w{0,3}"
    r"(?![ -]?(?:manager|polic|hint|reset|vault|app\b|store|generator|rotation|length|limit|budget|rule))"
    r"(?:[ _-][\w'’./-]{1,20}){0,4}?[\"'’`*]{0,2}"
    r"(?:\s?(?:[:=：＝]|=>)\s?|\s(?:is|was|are|equals|ist|lautet|es|est|è|é|to)\s"
    r"|\s?(?:是|为|為|は|は、|는|은)\s?|\s[-–—]\s)"
    r"(?:now |still |currently )?[\"'’`“「『*]{0,3}(?P<value>[^\s\"'`“”「」『』,;，；。、]{4,300})"
)
_BARE_VALUE = re.compile(r"\s[\"'`]?(?P<value>[A-Za-z0-9+/=_.~-]{16,300})")
_REACH_CHARS = 24
_SCHEME = "://"
SPOKEN = Needles(
    (*TELLING_WORDS, *(shape.literal.lower() for shape in _SHAPES), _SCHEME, "system", "developer")
)
"""What the scan looks for in a text as it stands, in small letters; two words are for scan.py."""
_LONG_I = "\u0130"
"""The one capital that lowers to two characters."""


def in_small_letters(text: str) -> str:
    """The text for SPOKEN, every character in its place."""
    return text.replace(_LONG_I, "i").lower()


def first_credential(text: str, spoken: Places | None = None) -> Credential | None:
    """Some credential in the text, found without looking for the others. `spoken` is what SPOKEN finds."""
    return next(_credentials(text, SPOKEN.places(in_small_letters(text)) if spoken is None else spoken), None)


def is_flooded(text: str, spoken: Places) -> bool:
    """Whether a text speaks of secrets in too many places to look at each, as no honest one does."""
    allowed = MIN_TELLING_WORDS + len(text) // CHARS_A_TELLING_WORD
    return sum(len(spoken.get(word, ())) for word in TELLING_WORDS) > allowed


def find_credentials(text: str) -> tuple[Credential, ...]:
    """Every credential in the text, in order, none overlapping another."""
    found = sorted(_credentials(text, SPOKEN.places(in_small_letters(text))), key=lambda c: (c.start, -c.end))
    kept: list[Credential] = []
    for credential in found:
        if not kept or credential.start >= kept[-1].end:
            kept.append(credential)
    return tuple(kept)


def mask_credentials(text: str) -> str:
    """The text with each credential replaced by `[kind removed]`; other text is untouched."""
    pieces: list[str] = []
    position = 0
    for credential in find_credentials(text):
        pieces += text[position : credential.start], f"[{credential.kind} removed]"
        position = credential.end
    return "".join((*pieces, text[position:]))


def _credentials(text: str, spoken: Places) -> Iterator[Credential]:
    return chain(_by_shape(text, spoken), _by_place(text, spoken), _by_word(text, spoken))


def _by_shape(text: str, spoken: Places) -> Iterator[Credential]:
    for shape in _SHAPES:
        for match in _matches(shape, text, spoken.get(shape.literal.lower(), ())):
            start, end = match.span()
            if shape.kind == "private key":
                end = _end_of_key_block(text, end, shape.literal)
            elif _PLACEHOLDER.search(text, start + len(shape.literal), end):
                continue
            yield Credential(shape.kind, start, end)


def _matches(shape: _Shape, text: str, places: Sequence[int]) -> Iterator[re.Match[str]]:
    """The shape where it begins at one of the places, none of them inside the one before."""
    end = 0
    for place in places:
        match = shape.pattern.match(text, place) if place >= end else None
        if match is not None:
            end = match.end()
            yield match


def _end_of_key_block(text: str, position: int, first: str) -> int:
    """Where a key ends whose first line ends at `position`; one that was cut ends with its body."""
    another = text.find("-----BEGIN ", position, position + 20_000)  # has an end of its own
    limit = position + 20_000 if another < 0 else another
    literal, line = _LAST_LINES[first]
    at = text.find(literal, position, limit)
    found = _KEY_BODY.match(text, position, limit) if at < 0 else line.match(text, at)
    return position if found is None else found.end()


def _by_place(text: str, spoken: Places) -> Iterator[Credential]:
    if _SCHEME in spoken and "@" in text:
        for match in _AFTER_BASIC_AUTH.finditer(text):
            if not _PLACEHOLDER.match(match[2]) and match[2].casefold() not in ("password", "pass", "secret"):
                yield Credential("password in a URL", match.start(2), match.end(2))
    for kind, pattern, before, reach in (
        ("Telegram bot token", _TELEGRAM, _TELEGRAM_BEFORE, 13),
        ("Discord bot token", _DISCORD, _DISCORD_BEFORE, 30),
    ):
        for match in pattern.finditer(text):
            head = before.search(text[max(0, match.start() - reach) : match.start()])
            if head is not None:
                yield Credential(kind, match.start() - len(head[0]), match.end())


def _by_word(text: str, spoken: Places) -> Iterator[Credential]:
    for word in TELLING_WORDS:
        places = spoken.get(word, ())
        for place, following in zip_longest(places, places[1:]):
            # A word that comes again within reach leaves it to its later place to find the value.
            if following is None or following > place + _REACH_CHARS:
                yield from _value_after(text, word, place + len(word))


def _value_after(text: str, word: str, position: int) -> Iterator[Credential]:
    match = _GIVES_VALUE.match(text, position)
    if match is not None:
        value = match["value"].rstrip(".!?)]}*`’")
        start = match.start("value")
        if _is_secret_value(value, lenient=word in _WORDS_FOR_PASSWORDS):
            yield Credential(
                "password" if word in _WORDS_FOR_PASSWORDS else "secret", start, start + len(value)
            )
            return
    match = _BARE_VALUE.match(text, position)
    if match is not None and _looks_random(match["value"]):
        yield Credential("secret", match.start("value"), match.end("value"))


def _is_secret_value(value: str, *, lenient: bool) -> bool:
    if _PLACEHOLDER.match(value) or "://" in value or value.startswith(("/", "~", "./", "@")):
        return False
    if not lenient:
        return _looks_random(value)
    kinds = sum((any(map(str.isdigit, value)), any(map(str.isalpha, value)), not value.isalnum()))
    plain_word = value.replace("-", "").replace("_", "").isalpha()
    if plain_word:
        return value.isalpha() and len(value) >= _MIN_WORD_PASSWORD_CHARS
    return len(value) >= 6 and (kinds >= 2 or value.isdigit())


def _looks_random(value: str) -> bool:
    """Long, with digits and letters mixed, and more varied than words or paths are."""
    if len(value) < _MIN_RANDOM_CHARS or "/" in value[:2] or value.count("/") > len(value) // 12 + 1:
        return False
    digits = sum(map(str.isdigit, value))
    letters = sum(map(str.isalpha, value))
    return digits >= 3 and letters >= 3 and entropy_bits(value) >= _MIN_ENTROPY_BITS


def entropy_bits(value: str) -> float:
    """Shannon entropy per character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts) if value else 0.0
