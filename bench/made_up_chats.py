"""Chats that nobody had: people, rooms and sessions of words drawn at random, alike in every run.

Words follow Zipf's law over 200,000 of them, as large collections do: in proportion to 1 / rank among the
common ones, falling faster beyond. The commonest are those of English talk; every tenth session is Chinese,
and every other one has a title. What a text says means nothing: this is for speed and size, not for quality.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

VOCABULARY = 200_000
# Where the faster fall begins, and how fast it is (Ferrer i Cancho and Solé, 2001). 150,000 words of text
# then have 18,000 different ones; LoCoMo's have 6,000, so this is the harder set.
COMMON, FALL = 5000, 1.9
CHINESE_SHARE = 0.1
BIGGEST_MESSAGES = 50_000
ROOMS = 40
ROOM_SHARE = 0.15
MESSAGES_PER_SESSION = 22
# Words in a message, as in chats of people with an assistant: half have under 22, the mean is about 27.
MEDIAN_WORDS, SPREAD = 22.0, 0.6
CHINESE_WORDS = 24
START_MS = 1_700_000_000_000
SESSION_MS = 20_000

# The commonest words of English talk, in about this order; the rest of the vocabulary is made up.
_HEAD = """
i you the to a and it that is of in my was so for have me be we on do what with this your just like not are
but know really at they about can been all how good get think had some time there going as from great that's
it's would if love out one see or don't he she them when got want has her yeah did i'm new make right well his
more lot feel work day too thanks here up sure sounds nice an go now their us thing things who life by way
help much people will need something fun always take could our little hey were these any things last then
after family week first maybe hope glad try even best friends home still around started been back other made
where let keep look next happy better today long very tell than only kids year yes amazing two year night ever
dog cat car dinner coffee music running gym cake soup guitar piano rain snow beach puppy pizza band song
"""
_ONSETS = (
    *"bcdfghjklmnprstvwz",
    "bl",
    "br",
    "ch",
    "cl",
    "cr",
    "dr",
    "fl",
    "gr",
    "pl",
    "sh",
    "st",
    "th",
    "tr",
)
_VOWELS = (*"aeiou", "ai", "ea", "ee", "oo", "ou")
_CODAS = ("", "", *"bdglmnprstx", "ck", "ll", "nd", "nt", "rk", "st")
_FIRST_HAN = 0x4E00
_HAN = 3500


@dataclass(frozen=True, slots=True)
class MadeUpStream:
    """Direct chats of `members[0]`, or a room of several; members are numbers of people."""

    number: int
    members: tuple[int, ...]
    is_room: bool
    messages: int


@dataclass(frozen=True, slots=True)
class MadeUpSession:
    """A session to be filled: which stream it belongs to, how many messages, when it begins."""

    number: int
    stream: MadeUpStream
    messages: int
    started_ms: int
    is_chinese: bool
    title: str


class Words:
    """The vocabulary, common words first, and how often each is used."""

    def __init__(self, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.english = list(dict.fromkeys(_HEAD.split()))
        known = set(self.english)
        while len(self.english) < VOCABULARY:
            word = _made_up(chance, 1 + (len(self.english) > 3000) + (chance.random() < 0.5))
            if word not in known:
                known.add(word)
                self.english.append(word)
        self.chinese = _chinese_words(chance)
        self._english_sums = list(accumulate(_use(rank) for rank in range(1, VOCABULARY + 1)))
        self._chinese_sums = list(accumulate(1 / (rank + 2.7) for rank in range(1, len(self.chinese) + 1)))

    def rank_seen_at_most(self, times: int, messages: int) -> int:
        """The rank from which on an English word is expected at most `times` in so many messages."""
        drawn = messages * (1 - CHINESE_SHARE) * 27 / self._english_sums[-1]
        return next((rank for rank in range(1, VOCABULARY) if drawn * _use(rank) <= times), VOCABULARY - 1)

    def text(self, chance: random.Random, *, is_chinese: bool) -> str:
        if is_chinese:
            size = max(2, int(chance.gauss(CHINESE_WORDS, CHINESE_WORDS / 2)))
            drawn = chance.choices(self.chinese, cum_weights=self._chinese_sums, k=size)
            return "".join(word + ("，" if place % 7 == 6 else "") for place, word in enumerate(drawn)) + "。"
        size = max(1, int(chance.lognormvariate(0, SPREAD) * MEDIAN_WORDS))
        drawn = chance.choices(self.english, cum_weights=self._english_sums, k=size)
        for place in range(0, size, 9):
            drawn[place] = drawn[place].capitalize()
        return " ".join(word + ("." if place % 9 == 8 else "") for place, word in enumerate(drawn)) + "."


def made_up_streams(messages: int, people: int, seed: int = 2) -> list[MadeUpStream]:
    """The streams of a house of so many people and messages; person 0 is by far its biggest talker.

    Person 0 reads BIGGEST_MESSAGES, or half of what there is: mostly direct chats, the rest in two rooms.
    """
    chance = random.Random(seed)
    biggest = min(BIGGEST_MESSAGES, messages // 2)
    rooms = [(biggest * 15 // 100, (0, *chance.sample(range(1, people), min(4, people - 1))))] * 2
    rest = messages - biggest
    direct = _shares(int(rest * (1 - ROOM_SHARE)), people - 1)
    for size in _shares(rest - sum(direct), ROOMS):
        rooms.append(
            (size, tuple(chance.sample(range(1, people), min(1 + chance.randrange(2, 9), people - 1))))
        )
    own = biggest - rooms[0][0] - rooms[1][0]
    sizes: list[tuple[tuple[int, ...], bool, int]] = [
        ((member,), False, size) for member, size in enumerate((own, *direct))
    ]
    sizes += [(members, True, size) for size, members in rooms]
    return [MadeUpStream(number, *one) for number, one in enumerate(sizes)]


def made_up_sessions(streams: Sequence[MadeUpStream], words: Words, seed: int = 3) -> Iterator[MadeUpSession]:
    """Their sessions in the order in which they happened: the streams' interleaved."""
    chance = random.Random(seed)
    planned: list[tuple[MadeUpStream, int]] = []
    for stream in streams:
        left = stream.messages
        while left > 0:
            size = min(left, chance.randrange(6, 2 * MESSAGES_PER_SESSION - 5))
            planned.append((stream, size))
            left -= size
    chance.shuffle(planned)
    for number, (stream, size) in enumerate(planned):
        is_chinese = chance.random() < CHINESE_SHARE
        title = words.text(chance, is_chinese=is_chinese)[:40] if number % 2 else ""
        yield MadeUpSession(number, stream, size, START_MS + number * SESSION_MS, is_chinese, title)


def name_of(person: int) -> str:
    """A name of its own for each person, which no text holds."""
    return f"q{_made_up(random.Random(person), 2)}{person}".capitalize()


def _use(rank: int) -> float:
    """How often a word is used, beside the others."""
    near = 1 / (min(rank, COMMON) + 2.7)
    return near if rank <= COMMON else near * (COMMON / rank) ** FALL


def _shares(whole: int, parts: int) -> list[int]:
    """`whole` in `parts` of very different sizes, all of it."""
    weights = [1 / (place + 3) ** 0.7 for place in range(parts)]
    sizes = [int(whole * weight / sum(weights)) for weight in weights]
    sizes[0] += whole - sum(sizes)
    return sizes


def _made_up(chance: random.Random, syllables: int) -> str:
    return "".join(
        chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_CODAS) for _ in range(syllables)
    )


def _chinese_words(chance: random.Random) -> list[str]:
    """The commonest words are single characters, most others pairs."""
    han = [chr(_FIRST_HAN + place * 5) for place in range(_HAN)]
    weights = list(accumulate(1 / (rank + 20) for rank in range(_HAN)))
    found = dict.fromkeys(han[:30])
    while len(found) < 30_000:
        size = chance.choice((2, 2, 2, 2, 3))
        found["".join(chance.choices(han[30:], cum_weights=weights[30:], k=size))] = None
    return list(found)
