"""What the model client needs to show pictures: their bytes, and what is known of a model's sight."""

import base64
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from trunkline.agent.messages import Message, Picture, UserMessage

UNSEEN = "[{count} that came with this message can't be shown to you: say so where it matters.]"
"""Stands for the pictures of a message that the model can't see, or that are no longer kept."""

# As endpoints word it: OpenAI, OpenRouter, llama.cpp, vLLM, Ollama, LM Studio, DeepSeek, Groq.
_NO_SIGHT = re.compile(
    r"(?:\bimage(?:_url| input)?s?\b|\bvision\b|multi-?modal\w*)(?!\s*(?:format|type|data|size))[^.]{0,60}"
    r"(?:not (?:be )?(?:support|available|enabled|allowed|permitted)|unsupported|only supported by)"
    r"|(?:not|n't|that) support\w*[^.]{0,40}(?:\bimages?\b|\bvision\b|multi-?modal)"
    r"|unsupported[^.]{0,30}image_url|not a (?:multi-?modal|vision)|unknown variant\W{0,3}image_url"
    r"|content\W{0,3}(?:must|should) be a (?:valid )?string",
    re.IGNORECASE,
)


PictureSource = Callable[[Picture], Awaitable[bytes | None]]
"""Gives the bytes of a picture; None for one that is kept no longer."""


class SightMemory(Protocol):
    """Keeps over restarts whether a model of an endpoint takes pictures; None: nobody knows yet."""

    async def recall(self, base_url: str, model: str) -> bool | None: ...

    async def remember(self, base_url: str, model: str, *, sees: bool) -> None: ...


class ForgetfulSight:
    """Keeps it while the process lives."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    async def recall(self, base_url: str, model: str) -> bool | None:
        return self._known.get((base_url, model))

    async def remember(self, base_url: str, model: str, *, sees: bool) -> None:
        self._known[base_url, model] = sees


@dataclass(frozen=True, slots=True)
class Sight:
    """Whether a model is shown pictures ("auto": until it refuses one), and where they are."""

    vision: bool | Literal["auto"] = "auto"
    pictures: PictureSource | None = None
    memory: SightMemory = field(default_factory=ForgetfulSight)


def says_no_pictures(refusal: str) -> bool:
    """Whether an endpoint's words mean that the model takes no pictures at all."""
    return _NO_SIGHT.search(refusal) is not None


def unseen(count: int) -> str:
    return UNSEEN.format(count="The picture" if count == 1 else f"The {count} pictures")


async def data_urls(messages: tuple[Message, ...], source: PictureSource | None) -> dict[str, str]:
    """The pictures of a request as data URLs, by their names; without those that are gone."""
    shown: dict[str, str] = {}
    wanted = {
        picture.sha256: picture
        for message in messages
        if isinstance(message, UserMessage)
        for picture in message.pictures
    }
    for name, picture in wanted.items():
        content = None if source is None else await source(picture)
        if content is not None:
            shown[name] = f"data:{picture.mime};base64,{base64.b64encode(content).decode()}"
    return shown
