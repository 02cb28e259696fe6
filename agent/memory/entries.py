"""The text format of a memory store: entries in, file text out, and how full a store is.

Pure functions. Reading and writing files is store.py's work, deciding about a write operations.py's.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.agent.ports import Target

MARK = "§"
DELIMITER = f"\n{MARK}\n"

_LIST_ITEM = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s+\S")
_FACT_LINE_CHARS = 60
_BULLET = re.compile(r"^[-*+•]\s+")
_CODE_FENCE = re.compile(r"\s*(?:```|~~~)")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'})


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Sizes of the two stores in code points of the joined entries, and which of them are in use."""

    memory_chars: int = 2_200
    user_chars: int = 1_375
    memory_enabled: bool = True
    user_enabled: bool = True

    def chars_of(self, target: Target) -> int:
        return self.memory_chars if target == "memory" else self.user_chars

    def allows(self, target: Target) -> bool:
        return self.memory_enabled if target == "memory" else self.user_enabled


@dataclass(frozen=True, slots=True)
class ParsedStore:
    """The entries of a file. `free_form` says that the file holds no delimiter line: it was never ours."""

    entries: tuple[str, ...]
    free_form: bool


def parse_entries(text: str) -> ParsedStore:
    """Reads a store's whole text. A file without a delimiter line is read by paragraph and list item."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not any(line.strip() == MARK for line in lines):
        entries = _split_free_form(lines)
        return ParsedStore(entries, free_form=bool(entries))
    groups: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == MARK:
            groups.append([])
        else:
            groups[-1].append(line)
    entries = tuple(entry for group in groups if (entry := "\n".join(group).strip()))
    return ParsedStore(entries, free_form=False)


def join_entries(entries: Sequence[str]) -> str:
    """The file's text: every entry, the last included, is followed by the delimiter."""
    return "".join(entry + DELIMITER for entry in entries)


def count_chars(entries: Sequence[str]) -> int:
    """Code points that count against the limit; the mark after the last entry does not."""
    return len(DELIMITER.join(entries))


def usage_text(entries: Sequence[str], limit_chars: int) -> str:
    """For example `72% — 990/1,375 chars`."""
    current = count_chars(entries)
    share = current * 100 // limit_chars if limit_chars else 100
    return f"{share}% — {current:,}/{limit_chars:,} chars"


def tidy(content: str) -> str:
    """An entry as it is stored: one kind of line end, no white space around it."""
    return content.replace("\r\n", "\n").replace("\r", "\n").strip()


def holds_delimiter(content: str) -> bool:
    """Whether a line of the text would end the entry; every character that breaks a line counts."""
    return any(line.strip() == MARK for line in content.splitlines())


def normalise(entry: str) -> str:
    """What two entries are compared by: composed, white space and case folded, no bullet."""
    return " ".join(_BULLET.sub("", unicodedata.normalize("NFC", entry).strip()).split()).casefold()


def squeeze(text: str) -> str:
    """Letters and digits only, case folded: what is the same in every rendering of a text."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def fold_loosely(text: str) -> str:
    """`normalise` for a text that a model typed from memory: kinds of quotes are one, widths too."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).split()).casefold()


def preview(entry: str, max_chars: int = 80) -> str:
    """The entry's start on one line."""
    line = " ".join(entry.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _split_free_form(lines: Sequence[str]) -> tuple[str, ...]:
    groups: list[list[str]] = [[]]
    fenced = False
    for line in lines:
        fence_line = _CODE_FENCE.match(line) is not None
        if not fenced:
            if not line.strip():
                groups.append([])
                continue
            after_heading = len(groups[-1]) == 1 and groups[-1][0].startswith("#")
            if after_heading or _opens_item(line, groups[-1]) or line.startswith("#"):
                groups.append([])
        fenced ^= fence_line
        groups[-1].append(line)
    facts = (fact for group in groups for fact in _split_paragraph(group))
    return tuple(entry for fact in facts if (entry := fact.strip()))


def _split_paragraph(group: list[str]) -> list[str]:
    # Short lines that each begin like a sentence are facts put below each other, not wrapped prose; so are
    # those that all begin small, since prose would begin with a capital.
    short = len(group) > 1 and all(len(line) <= _FACT_LINE_CHARS and _is_plain(line) for line in group)
    loose = short and len({line[0].islower() for line in group}) == 1
    return group if loose else ["\n".join(group)]


def _starts_item(line: str) -> bool:
    return _LIST_ITEM.match(line) is not None


def _opens_item(line: str, group: Sequence[str]) -> bool:
    """Whether a line begins a list item that is no part of the item before it, which is less indented."""
    if not _starts_item(line.lstrip()):
        return False
    return not (group and _starts_item(group[0].lstrip()) and _indent(line) > _indent(group[0]))


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())


def _is_plain(line: str) -> bool:
    return line[:1].isalnum() and not _starts_item(line)
