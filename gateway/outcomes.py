"""What a turn has given so far, and how it ended: for the person, and for the transcript."""

from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.agent.messages import AssistantMessage, Usage
from trunkline.agent.model import FailureKind, ModelFailure
from trunkline.agent.turn import CallUsage
from trunkline.gateway.sentences import describe_wait, say
from trunkline.gateway.state.turns import Spent


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended: the text for the person, and the message for the transcript."""

    state: str
    reason: str
    answer: str
    message: AssistantMessage | None
    spent: tuple[Spent, ...] = ()


@dataclass(slots=True)
class Shown:
    """What a running turn has given so far; read when it is stopped. `unrecorded` is of the open step."""

    text: str = ""
    unrecorded: str = ""
    outcome: Outcome | None = None
    voice: bytes | None = None
    """The answer as a voice note."""
    failure: ModelFailure | None = None
    """Why the model gave none."""

    def add(self, text: str) -> None:
        self.text += text
        self.unrecorded += text


def uncounted(calls: Sequence[CallUsage], counted: Usage) -> Sequence[CallUsage]:
    """The calls after those whose tokens were counted with their steps."""
    total = Usage()
    for place, call in enumerate(calls):
        if total == counted:
            return calls[place:]
        total += call.usage
    return ()


def stopped(shown: Shown, language: str) -> Outcome:
    """The end of a turn that was stopped: what was shown is kept, and says that it breaks off."""
    seen = shown.text.strip()
    answer = f"{seen}\n\n{say('interrupted_note', language)}" if seen else ""
    last = shown.unrecorded.strip()
    message = AssistantMessage(last, finish_reason="stopped", interrupted=True) if last else None
    return Outcome("stopped", "stopped", answer, message)


def describe_failure(failure: ModelFailure, language: str) -> str:
    """One sentence for a person: what happened and what to do."""
    wait = ""
    if failure.kind is FailureKind.RATE_LIMITED:
        wait = describe_wait(failure.retry_after_s, language)
    return say(f"model_{failure.kind}", language, wait=wait)
