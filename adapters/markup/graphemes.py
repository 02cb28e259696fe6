"""Where text may be cut: never inside what a reader sees as one character (UAX #29, mostly)."""

import unicodedata

_ZWJ = "\u200d"


def grapheme_cut(text: str, start: int, end: int) -> int:
    """The last place in (start, end] where `text` may be cut; `start` if there is none."""
    for at in range(end, start, -1):
        if at >= len(text) or _may_cut(text, start, at):
            return at
    return start


def _may_cut(text: str, start: int, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if after.isascii():
        return before != _ZWJ or not after.isalnum()
    if before == _ZWJ or _extends(after):
        return False
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, start, at) % 2 == 0
    return not _is_jamo_pair(before, after)


def _extends(char: str) -> bool:
    """Combining marks, joiners, variation selectors, skin tones and tag letters."""
    code = ord(char)
    return (
        char in ("\u200c", _ZWJ)
        or unicodedata.category(char).startswith("M")
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
        or 0xFF9E <= code <= 0xFF9F
    )


def _is_flag_letter(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _flag_letters_before(text: str, start: int, at: int) -> int:
    """How many flag letters stand in a row before `at`, from `start` on, where a character begins."""
    count = 0
    while at - count > start and _is_flag_letter(text[at - count - 1]):
        count += 1
    return count


def _is_jamo_pair(before: str, after: str) -> bool:
    """A Hangul vowel or final that belongs to the syllable before it."""
    if not (0x1160 <= ord(after) <= 0x11FF or 0xD7B0 <= ord(after) <= 0xD7FF):
        return False
    code = ord(before)
    return 0x1100 <= code <= 0x11FF or 0xA960 <= code <= 0xA97F or 0xAC00 <= code <= 0xD7FF
