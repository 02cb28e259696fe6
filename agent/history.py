"""The invariants of a conversation that goes to a model: pairs of call and result, and whose turn it is.

`mend` makes any stored sequence legal without dropping what anybody said; storing the mended results is the
caller's work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trunkline.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

UNKNOWN_OUTCOME = (
    "Interrupted: the process stopped while this call ran, so its outcome is unknown. It was not run again. "
    "Check before you repeat it, or ask the person."
)
UNANSWERED = "[The message above was never answered. A newer message follows.]"
BOUNDARY = f"\n\n{UNANSWERED}\n\n"
OPENING = "[This conversation begins with a message of yours.]"


@dataclass(frozen=True, slots=True)
class Mended:
    """`messages` is legal for every provider; `missing` are results put in for calls without one."""

    messages: tuple[Message, ...]
    missing: tuple[ToolMessage, ...] = ()


def unanswered(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that have no result after it, in their order."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage):
            answered = {later.call_id for later in messages[at:] if isinstance(later, ToolMessage)}
            return tuple(call for call in message.tool_calls if call.id not in answered)
    return ()


def mend(messages: Sequence[Message]) -> Mended:
    """Pairs every call with exactly one result, drops results and messages of nothing, joins what alternation
    forbids: two user messages with a visible boundary, two answers with a blank line."""
    paired, missing = _paired(messages)
    return Mended(_alternating(paired), tuple(missing))


def _paired(messages: Sequence[Message]) -> tuple[list[Message], list[ToolMessage]]:
    paired: list[Message] = []
    missing: list[ToolMessage] = []
    for at, message in enumerate(messages):
        match message:
            case ToolMessage():
                continue
            case AssistantMessage(tool_calls=calls) if calls:
                unique = tuple({call.id: call for call in calls}.values())
                paired.append(message if unique == calls else replace(message, tool_calls=unique))
                given = _results_after(messages, at)
                for call in unique:
                    result = given.get(call.id)
                    if result is None:
                        result = ToolMessage(call.id, call.name, UNKNOWN_OUTCOME, is_error=True)
                        missing.append(result)
                    paired.append(result)
            case AssistantMessage(text=text) if not text.strip():
                continue
            case _:
                paired.append(message)
    return paired, missing


def _results_after(messages: Sequence[Message], at: int) -> dict[str, ToolMessage]:
    """The first result of each call between this assistant message and the next one."""
    found: dict[str, ToolMessage] = {}
    for message in messages[at + 1 :]:
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolMessage):
            found.setdefault(message.call_id, message)
    return found


def _alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    result: list[Message] = []
    for message in messages:
        last = result[-1] if result else None
        if last is None and isinstance(message, AssistantMessage):
            result.append(UserMessage(OPENING, OPENING))
            result.append(message)
        elif isinstance(last, UserMessage) and isinstance(message, UserMessage):
            result[-1] = UserMessage(
                last.text + BOUNDARY + message.text,
                last.sent + BOUNDARY + message.sent,
                last.pictures + message.pictures,
            )
        elif (
            isinstance(last, AssistantMessage)
            and not last.tool_calls
            and isinstance(message, AssistantMessage)
        ):
            text = f"{last.text}\n\n{message.text}".strip()
            result[-1] = replace(message, text=text, interrupted=last.interrupted or message.interrupted)
        else:
            result.append(message)
    return tuple(result)
