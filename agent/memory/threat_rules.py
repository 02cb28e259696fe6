"""What a rule of the threat scan is: literal words, what may follow them, and how bad that is.

A rule starts from literal words and then reads a bounded stretch, so that a scan's time is linear. Rules see
text that is composed (NFKC), case-folded, free of invisible characters, with single spaces. The tables are
threat_english.py and threat_languages.py; scan.py applies them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Category(StrEnum):
    """What a text tries; the value is what the model and people read."""

    OVERRIDE = "instruction override"
    ROLE = "role change"
    CONCEAL = "hiding from the user"
    EXFILTRATION = "sending data out"
    PERSISTENCE = "backdoor or persistence"
    HIDDEN_TEXT = "hidden text"
    CREDENTIAL = "credential"
    FLOOD = "a flood of words that attacks are made of"


class Severity(StrEnum):
    """High is hostile in any place; medium is refused only in what stays in the prompt for ever."""

    HIGH = "high"
    MEDIUM = "medium"


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches one of `anchors` where `tail` follows directly.

    `requires`: one of these must be in the text. `word_start`: an anchor inside a longer word does not count.
    """

    category: Category
    severity: Severity
    anchors: tuple[str, ...]
    tail: str
    requires: tuple[str, ...] = ()
    word_start: bool = True

    def tails(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """What follows each anchor; no gap runs over the same anchor again, so no stretch is read twice."""
        return tuple(
            (anchor, re.compile(self.tail.replace("GAP", f"(?!{re.escape(anchor)})")))
            for anchor in self.anchors
        )


def rule(
    category: Category,
    severity: Severity,
    anchors: Sequence[str],
    tail: str,
    *,
    requires: Sequence[str] = (),
    word_start: bool = True,
) -> Rule:
    return Rule(category, severity, tuple(anchors), tail, tuple(requires), word_start)


def words(count: int) -> str:
    """Up to `count` words, each after one space."""
    return rf"(?: GAP[\w'’,/\"-]{{1,20}}){{0,{count}}}?"


def span(count: int) -> str:
    """Up to `count` characters of one sentence, for scripts without spaces."""
    return rf"(?:GAP[^.!?。！？]){{0,{count}}}?"
