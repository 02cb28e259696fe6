"""The invariants of a conversation that goes to a model: pairs of call and result, and whose turn it is.

`mend` makes any stored sequence legal without dropping what anybody said; storing the mended results is the
caller's work.
"""

import re
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
SAME_RESULT = "The same as an earlier result that stands above, unchanged ({chars:,} characters)."
GONE_RESULT = (
    "The same as an earlier result of {chars:,} characters, which was put away with the older part of this "
    "conversation. Make the call again if you need it."
)
REPEATED_RESULT_CHARS = 1000

_SAME_RESULT = re.compile(
    r"The same as an earlier result that stands above, unchanged \(([\d,]+) characters\)\."
)
_LEFT_OUT = "[… "
"""In what was cut since, of which more would not fit."""


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
    forbids: two user messages with a visible boundary, two answers with a blank line. A result that names one
    above it says so where compaction has put that one away."""
    paired, missing = _paired(messages)
    for at in lost_results(paired):
        lost = paired[at]
        if isinstance(lost, ToolMessage):
            paired[at] = replace(lost, content=GONE_RESULT.format(chars=_chars_named(lost)))
    return Mended(_alternating(paired), tuple(missing))


def lost_results(messages: Sequence[Message]) -> tuple[int, ...]:
    """The places of the results that name an equal one above them which doesn't stand there."""
    above: dict[str, list[str]] = {}
    lost: list[int] = []
    for at, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            continue
        if len(message.content) >= REPEATED_RESULT_CHARS:
            above.setdefault(message.name, []).append(message.content)
        elif (chars := _chars_named(message)) and not any(
            # What is masked since has about that length, and what was cut since has less.
            abs(len(content) - chars) <= chars // 20 or _LEFT_OUT in content
            for content in above.get(message.name, ())
        ):
            lost.append(at)
    return tuple(lost)


def _chars_named(result: ToolMessage) -> int:
    """The length of the result that this one names; 0 for one that is a result itself."""
    named = _SAME_RESULT.fullmatch(result.content)
    return int(named[1].replace(",", "")) if named else 0


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
