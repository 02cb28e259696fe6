"""How many tokens a text will cost, guessed by its script: for what no provider has counted yet.

A tokenizer of the model's own would be exact, but hosted models publish none. Theirs differ little but for
Chinese, where one takes twice what another does: that goes by the model's name. The weights are fitted to
published tokenizers; `python -m bench.tokens` measures the error, docs/benchmarks.md has it.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache

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
    "syllable": (0.0, 0.65),
    "word": (0.97, 0.0),
    "digits": (0.6, 0.5),
    "line": (2.1, 0.0),
    "gap": (2.0, 0.0),
    "space": (0.0, 0.0),
    "wide": (0.0, 0.8),
    "mark": (0.15, 0.5),
    "letter": (0.2, 0.33),
    "other": (1.5, 0.0),
}
CHINESE = 0.73
"""Tokens for a Chinese character: o200k_base, and most models of these years."""
_CHINESE_OF = (
    (re.compile(r"llama", re.I), CHINESE),
    (re.compile(r"gpt-4(?![o.\d])|gpt-3\.?5|claude", re.I), 1.1),
    (re.compile(r"qwen|qwq|deepseek", re.I), 0.55),
    (re.compile(r"gemma|gemini", re.I), 0.64),
)
"""The same for models whose names tell of another tokenizer; the first that fits counts. A DeepSeek that was
made from a Llama has that one's; Claude's is guessed by the last that was published."""
LONG_WORD_CHARS = 18
"""Longer runs of letters are no words, such as the text of keys and of encoded files."""
_CHARS_OF_LONG = 3.0

MESSAGE_TOKENS = 5
"""What a provider puts around each message."""
PICTURE_TOKENS = 900
"""A guess: providers count a picture by its size, most of them at 300 to 1,600."""


def estimate_text(text: str, model: str = "") -> int:
    """For the model of a name, or for most. 100,000 characters take about 40 ms, more take more."""
    total, chinese = 0.0, _chinese(model)
    for piece in _PIECE.finditer(text):
        kind, chars = piece.lastgroup or "other", piece.end() - piece.start()
        if kind == "han":
            total += chinese * chars
        elif kind == "word" and chars > LONG_WORD_CHARS:
            total += chars / _CHARS_OF_LONG
        else:
            each, every = _WEIGHTS[kind]
            total += each + every * chars
    return round(total)


@lru_cache(maxsize=64)
def _chinese(model: str) -> float:
    return next((weight for name, weight in _CHINESE_OF if name.search(model)), CHINESE)


def estimate_message(message: Message, model: str = "") -> int:
    match message:
        case UserMessage(sent=sent, pictures=pictures):
            return MESSAGE_TOKENS + estimate_text(sent, model) + PICTURE_TOKENS * len(pictures)
        case AssistantMessage(text=text, tool_calls=calls):
            called = sum(MESSAGE_TOKENS + estimate_text(call.name + call.arguments, model) for call in calls)
            return MESSAGE_TOKENS + estimate_text(text, model) + called
        case _:
            return MESSAGE_TOKENS + estimate_text(message.content, model)


def estimate_messages(messages: Iterable[Message], model: str = "") -> int:
    return sum(estimate_message(message, model) for message in messages)


def estimate_tools(specs: Iterable[ToolSpec], model: str = "") -> int:
    """What the tools' names, descriptions and schemas cost in each call."""
    return sum(
        MESSAGE_TOKENS + estimate_text(spec.name + spec.description + json.dumps(spec.parameters), model)
        for spec in specs
    )


def estimate_request(request: ModelRequest, model: str = "") -> int:
    """All that one call sends."""
    said = estimate_messages(request.messages, model)
    return estimate_text(request.system, model) + said + estimate_tools(request.tools, model)
