"""How many tokens a text will cost, guessed by its script: for what no provider has counted yet.

A tokenizer of the model's own would be exact, but hosted models publish none, and theirs differ. The weights
are fitted to o200k_base; `python -m bench.tokens` measures the error, docs/benchmarks.md has it.
"""

import json
import re
from collections.abc import Iterable

from trunkline.agent.messages import AssistantMessage, Message, UserMessage
from trunkline.agent.model import ModelRequest, ToolSpec

_PIECE = re.compile(
    r"(?P<han>[\u2e80-\u2fdf\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+)"
    r"|(?P<syllable>[\u3040-\u30ff\uac00-\ud7af]+)"
    r"|(?P<word>[A-ZÀ-Þ]?[a-zß-ɏ]+|[A-ZÀ-Þ]+(?![a-zß-ɏ]))"
    r"|(?P<digits>[0-9]+)"
    r"|(?P<line>\s*\n\s*)"
    r"|(?P<gap>\s{2,})"
    r"|(?P<space>\s)"
    r"|(?P<wide>[\u2010-\u2027\u3000-\u303f\uff00-\uffef]+)"
    r"|(?P<mark>[!-/:-@\[-`{-~]+)"
    r"|(?P<letter>[^\W\d_]+)"
    r"|(?P<other>.)"
)

# Tokens for each piece, and for each character of a piece.
_WEIGHTS = {
    "han": (0.0, 0.7),
    "syllable": (0.0, 0.65),
    "word": (0.97, 0.0),
    "digits": (0.6, 0.5),
    "line": (2.1, 0.0),
    "gap": (2.0, 0.0),
    "space": (0.0, 0.0),
    "wide": (0.0, 0.8),
    "mark": (0.2, 0.52 / 2),
    "letter": (0.2, 0.33),
    "other": (1.5, 0.0),
}
LONG_WORD_CHARS = 18
"""Longer runs of letters are no words, such as the text of keys and of encoded files."""
_CHARS_OF_LONG = 3.0

MESSAGE_TOKENS = 5
"""What a provider puts around each message."""
PICTURE_TOKENS = 900
"""A guess: providers count a picture by its size, most of them at 300 to 1,600."""


def estimate_text(text: str) -> int:
    """Takes time in proportion to the text: about 40 ms for 100,000 characters."""
    total = 0.0
    for piece in _PIECE.finditer(text):
        kind, chars = piece.lastgroup or "other", piece.end() - piece.start()
        if kind == "word" and chars > LONG_WORD_CHARS:
            total += chars / _CHARS_OF_LONG
            continue
        each, every = _WEIGHTS[kind]
        total += each + every * chars
    return round(total)


def estimate_message(message: Message) -> int:
    match message:
        case UserMessage(sent=sent, pictures=pictures):
            return MESSAGE_TOKENS + estimate_text(sent) + PICTURE_TOKENS * len(pictures)
        case AssistantMessage(text=text, tool_calls=calls):
            called = sum(MESSAGE_TOKENS + estimate_text(call.name + call.arguments) for call in calls)
            return MESSAGE_TOKENS + estimate_text(text) + called
        case _:
            return MESSAGE_TOKENS + estimate_text(message.content)


def estimate_messages(messages: Iterable[Message]) -> int:
    return sum(map(estimate_message, messages))


def estimate_tools(specs: Iterable[ToolSpec]) -> int:
    """What the tools' names, descriptions and schemas cost in each call."""
    return sum(
        MESSAGE_TOKENS + estimate_text(spec.name + spec.description + json.dumps(spec.parameters))
        for spec in specs
    )


def estimate_request(request: ModelRequest) -> int:
    """All that one call sends."""
    return estimate_text(request.system) + estimate_messages(request.messages) + estimate_tools(request.tools)
