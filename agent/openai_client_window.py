"""How large a model's context is, from what servers say of it: in their list of models, and in refusals.

The API itself has no place for it. The fields are those of vLLM, OpenRouter, Together, Groq, Mistral,
LM Studio and llama.cpp.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openai.types

_FIELDS = ("loaded_context_length", "max_model_len", "context_window", "context_length", "max_context_length")
_META_FIELDS = ("n_ctx",)
"""In llama.cpp's `meta`; what a model was trained for stands there too, and is not what its server allows."""

LEAST_TOKENS = 512
"""Less than any model has: a number below it counts something else."""

_LIMITS = (
    re.compile(r"(?:context (?:length|size|window)|maximum)[^0-9]{1,40}([0-9][0-9,]{2,9})", re.IGNORECASE),
    re.compile(r"(?:> ?|<= ?|should be \[\d+, ?|token limit:? ?)([0-9][0-9,]{2,9})", re.IGNORECASE),
)


def said_window(listed: "Iterable[openai.types.Model]", model: str) -> int | None:
    """The context of one of the models in a server's list."""
    for one in listed:
        if one.id == model:
            return _window_of(one.model_dump())
    return None


def limit_in(refusal: str) -> int | None:
    """The limit that an endpoint names when it refuses a request as too long."""
    for pattern in _LIMITS:
        if match := pattern.search(refusal):
            limit = int(match[1].replace(",", ""))
            return limit if limit >= LEAST_TOKENS else None
    return None


def _window_of(entry: Mapping[str, Any]) -> int | None:
    meta = entry.get("meta")
    named = [entry.get(name) for name in _FIELDS]
    if isinstance(meta, Mapping):
        named = [*(meta.get(name) for name in _META_FIELDS), *named]
    return next((one for one in named if isinstance(one, int) and one >= LEAST_TOKENS), None)
