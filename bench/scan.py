"""Speed of the threat scan on the worst texts known: linear in the length, whatever the text.

Each shape of text is scanned whole at 1 MB. Beside the time stands its ratio to a plain pass over it
(case folding and splitting) of the same run, which tells a slow machine from a slow scan.
"""

import argparse
import json
import random
import string
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from rich.progress import track

from trunkline.agent.memory.credentials import TELLING_WORDS
from trunkline.agent.memory.scan import scan
from trunkline.agent.memory.threat_english import ENGLISH
from trunkline.agent.memory.threat_languages import CHINESE, OTHER_LANGUAGES

SIZE_BYTES = 1_000_000
RUNS = 3
SEED = 5

Shape = Callable[[random.Random], str]


def main(asked: Sequence[str] | None = None, shapes: Mapping[str, Shape] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scan", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    arguments = parser.parse_args(asked)
    chosen = SHAPES if shapes is None else shapes
    figures: dict[str, tuple[float, float]] = {}
    for name, shape in track(chosen.items(), "scanning", disable=arguments.json or not sys.stderr.isatty()):
        text = fill(shape(random.Random(SEED)))
        scan_ms = _fastest_ms(lambda text=text: scan(text))  # type: ignore[misc]
        plain_ms = _fastest_ms(lambda text=text: text.casefold().split())  # type: ignore[misc]
        figures[name] = scan_ms, scan_ms / plain_ms
    if arguments.json:
        worst = max(figures, key=lambda name: figures[name][0])
        numbers = {f"{name}_ms": round(one, 1) for name, (one, _) in figures.items()}
        print(
            json.dumps(
                numbers
                | {"worst_ms": round(figures[worst][0], 1), "worst_ratio": round(figures[worst][1], 1)}
            )
        )
        return
    for name, (scan_ms, ratio) in sorted(figures.items(), key=lambda pair: -pair[1][0]):
        print(f"{name:24} {scan_ms:7.1f} ms {ratio:6.1f} x")


def fill(unit: str) -> str:
    """The unit again and again, up to SIZE_BYTES of UTF-8."""
    encoded = unit.encode()
    return (encoded * (SIZE_BYTES // len(encoded) + 1))[:SIZE_BYTES].decode("utf-8", "ignore")


def _fastest_ms(work: Callable[[], object]) -> float:
    """Processor time of the fastest of a few runs: other work on the machine only adds to it."""
    times = []
    for _ in range(RUNS):
        began = time.thread_time()
        work()
        times.append((time.thread_time() - began) * 1000)
    return min(times)


def _words(alphabet: str, count: int = 20_000, length: int = 7) -> Shape:
    return lambda chance: "".join("".join(chance.choices(alphabet, k=length)) + " " for _ in range(count))


def _characters(first: int, last: int, count: int = 300_000) -> Shape:
    return lambda chance: "".join(chr(chance.randrange(first, last)) for _ in range(count))


def _anchors() -> str:
    return (
        " ".join(anchor for rule in (*ENGLISH, *CHINESE, *OTHER_LANGUAGES) for anchor in rule.anchors) + " "
    )


def _diluted() -> str:
    """The beginnings of attacks among harmless words, a little rarer than what is refused unread."""
    anchors = [anchor for rule in (*ENGLISH, *CHINESE, *OTHER_LANGUAGES) for anchor in rule.anchors]
    filler = "tea and rye, "
    return "".join(f"{anchor} {filler * 8}" for anchor in anchors)


def _mixed() -> str:
    """Ordinary words of many scripts with everything that has a way of being read of its own."""
    return (
        "The user drives a Шкода, a b c d e f g; the token's in the vault \U0001f469\u200d\U0001f4bb, "
        "the system: is at https://wiki.example.com/a-page-with-a-long-name… cafe\u0301 می\u200cخواهم "
        "用户喜欢喝茶，住在上海。 ignore the rain\n\nMacOС  is fine. "
    )


CYRILLIC = "".join(map(chr, range(0x430, 0x450)))
SHAPES: dict[str, Shape] = {
    "english": lambda _: "The user likes tea and lives in Porto. ",
    "chinese": lambda _: "用户喜欢喝茶，住在上海。",
    "chinese_random": _characters(0x4E00, 0x9FA5),
    "russian": _words(CYRILLIC),
    "persian": lambda _: "می\u200cخواهم ",
    "emoji": lambda _: "👩🏽\u200d💻 ❤️",
    "accents_apart": lambda _: "e\u0302\u0301 a\u0306\u0300 ",
    "latin_and_cyrillic": _words(string.ascii_lowercase + CYRILLIC),
    "latin_extended": _characters(0xA1, 0x250),
    "random_letters": _words(string.ascii_letters, 100_000, 6),
    "spelt_out": lambda _: "a b c d e  ",
    "marks_only": lambda _: "\u0301\u0323\u0316",
    "ligatures": lambda _: "\ufdfa",
    "any_character": _characters(0xE000, 0x10FFFF),
    "beginnings_of_attacks": lambda _: _anchors(),
    "just_under_a_flood": lambda _: _diluted(),
    "every_way_to_read": lambda _: _mixed(),
    "hindi": lambda _: "उपयोगकर्ता को चाय पसंद है और वह पुणे में रहता है। ",
    "korean_apart": lambda _: unicodedata.normalize("NFD", "사용자는 차를 좋아하고 부산에 삽니다. "),
    "arabic_vowels": lambda _: "يُحِبُّ الْمُسْتَخْدِمُ الشَّايَ ",
    "chinese_one_odd": lambda _: "用户喜欢喝茶，住在上海㈠。",
    "russian_quoted": lambda _: "Пользователь любит чай… и живёт в Твери. ",
    "words_and_spaces": lambda _: "a  b\n\nc \u2003 ",
    "one_beginning": lambda _: "ignore a b c d e f g h ",
    "words_for_secrets": lambda _: " ".join(TELLING_WORDS) + " a b c ",
    "almost_a_key": lambda _: "AGE-SECRET-KEY-1" + "a" * 18 + " ",
    "beginnings_of_tokens": lambda _: "-eyJ",
    "inside_words": lambda _: "nc",
    "almost_a_token": lambda _: "eyJ" + "a" * 11 + ".eyJ",
}


if __name__ == "__main__":
    main()
