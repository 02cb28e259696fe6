"""The transcript's values: what a person said, what the model said, what a tool returned."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for. `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that came with a message, by the name of its bytes; the model client looks them up."""

    sha256: str
    mime: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """`text` is what the person wrote; `sent` is the exact text the model got (date line, recall).

    `pictures` go after `sent`, to models that see.
    """

    text: str
    sent: str
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """`interrupted` marks text that a person saw of a turn that was stopped or failed."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The one result of the call `call_id`."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as the provider counted them; `cached_tokens` are part of the prompt's."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )
