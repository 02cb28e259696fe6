"""Looks for many words at once in one pass over a text, however many they are."""

import re
from collections.abc import Iterable

from ahocorasick_rs import AhoCorasick, Implementation

PIECE_CHARS = 65_536
MOST_IN_A_PIECE = PIECE_CHARS // 10
_SURROGATE = re.compile("[\ud800-\udfff]")

Places = dict[str, list[int]]
"""Where each word that is in a text begins, in order; a word that isn't there is left out."""


class Needles:
    """Words that texts are searched for together."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(dict.fromkeys(words))
        self._reach = max(map(len, self._words)) - 1
        self._automaton = AhoCorasick(self._words, implementation=Implementation.ContiguousNFA)

    def places(self, text: str) -> Places:
        """Every place of every word, those inside other words too."""
        found: Places = {}
        for begin in range(0, len(text), PIECE_CHARS):
            self._look(text, begin, found)
        return found

    def sparse_places(self, text: str) -> Places | None:
        """The places, or None for a text with a stretch that holds next to nothing but such words."""
        found: Places = {}
        for begin in range(0, len(text), PIECE_CHARS):
            if self._look(text, begin, found) > MOST_IN_A_PIECE:
                return None
        return found

    def _look(self, text: str, begin: int, found: Places) -> int:
        """Adds what begins in one piece of the text; returns how many words that were."""
        piece = text[begin : begin + PIECE_CHARS + self._reach]
        try:
            matches = self._automaton.find_matches_as_indexes(piece, overlapping=True)
        except UnicodeEncodeError:  # half a character, which only broken texts have; no word has one
            piece = _SURROGATE.sub("\ufffd", piece)
            matches = self._automaton.find_matches_as_indexes(piece, overlapping=True)
        words = self._words
        for index, start, _ in matches:
            if start < PIECE_CHARS:
                places = found.get(words[index])
                if places is None:
                    found[words[index]] = [begin + start]
                else:
                    places.append(begin + start)
        return len(matches)
