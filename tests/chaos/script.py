"""The scripted model: what it says names the question's number, the part, and the attempt.

No two attempts at an answer are alike, as with a real model; so what a person sees tells which attempts
reached them, and how much of each.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.emulators.openai import Reply, ToolUse

NAMER = "namer"
_QUESTION = re.compile(r"\bQ(\d+)q\b")
_PART = re.compile(r"\bA(\d+)x(\d+)of(\d+)t(\d+)z\b")
_BEGUN = re.compile(r"\bB(\d+)t(\d+)z\b")
_WORDS = "the boats lie in the harbour and wait for the evening tide to lift them off the sand "


def question(number: int) -> str:
    return f"Q{number}q, what about it?"


def questions_in(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _QUESTION.findall(text))


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer as it is seen: of which question, which part of how many, of which attempt."""

    question: int
    at: int
    of: int
    attempt: int


def parts_in(text: str) -> tuple[Part, ...]:
    """The pieces that are there to their end."""
    return tuple(Part(*map(int, found)) for found in _PART.findall(text))


def begun_in(text: str) -> tuple[tuple[int, int], ...]:
    """Of which questions an answer begins here, and which attempt it is."""
    return tuple((int(number), int(attempt)) for number, attempt in _BEGUN.findall(text))


class Script:
    """Replies by the seed and the question's number; `attempts` counts the answers begun to each."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.attempts: Counter[int] = Counter()

    def reply(self, body: Mapping[str, Any]) -> Reply:
        if body["model"] == NAMER:
            return Reply("A talk of boats")
        messages = body["messages"]
        turn = _open_turn(messages)
        asked = questions_in("\n".join(str(one["content"]) for one in turn if one["role"] == "user"))
        if not asked:
            return Reply("There was no question.")
        chance = random.Random(f"{self._seed} {asked[0]}")
        kind = chance.choices(["short", "middling", "long", "memory", "search"], [30, 25, 20, 15, 10])[0]
        fresh = all(one["role"] == "user" for one in turn)
        if kind == "memory" and fresh:
            note = {"target": "memory", "action": "add", "content": f"Boat {asked[0]} has a blue hull."}
            return self._call(chance, "memory", note)
        if kind == "search" and fresh:
            return self._call(chance, "session_search", {"query": "harbour tide", "summarize": False})
        return self._answer(chance, asked, {"long": 12, "middling": 3}.get(kind, 1))

    def _call(self, chance: random.Random, name: str, arguments: Mapping[str, object]) -> Reply:
        return Reply(
            "I look." if chance.random() < 0.3 else "",
            tools=[ToolUse(name, json.dumps(arguments))],
            delay_s=chance.uniform(0, 0.15),
            chunk_chars=30,
            chunk_delay_s=0.02,
            checked=False,
        )

    def _answer(self, chance: random.Random, asked: Sequence[int], parts: int) -> Reply:
        self.attempts.update(asked)
        parts = max(1, parts // len(asked))  # what is too long for messages goes out as a file
        words = _WORDS * (6 if parts > 1 else 1)
        paragraphs = []
        for number in asked:
            attempt = self.attempts[number]
            pieces = [f"{words}A{number}x{at}of{parts}t{attempt}z" for at in range(1, parts + 1)]
            paragraphs += [f"B{number}t{attempt}z {pieces[0]}", *pieces[1:]]
        return Reply(
            "\n\n".join(paragraphs),
            delay_s=chance.uniform(0, 0.3),
            chunk_chars=150 if parts > 1 else 25,
            chunk_delay_s=0.04,
            checked=False,
        )


def _open_turn(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What was said and done since the last answer; a question may have joined the turn at any step."""
    answered = [
        at for at, one in enumerate(messages) if one["role"] == "assistant" and not one.get("tool_calls")
    ]
    return messages[max(answered, default=0) + 1 :]
