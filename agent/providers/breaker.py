"""When a provider is left alone: after failures in a row, until a trial succeeds. Says nothing to anybody."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

FAILURES_TO_OPEN = 5
PAUSE_S = 120.0

State = Literal["ok", "failing", "open"]


@dataclass(frozen=True, slots=True)
class Health:
    """How a provider has fared since the start. `reason` is of the last failure."""

    name: str
    state: State
    failures: int
    reason: str


class Breaker:
    """Opens after FAILURES_TO_OPEN failures in a row; every PAUSE_S seconds one call may try again.

    `clock` gives seconds that only grow.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._in_a_row = 0
        self._failures = 0
        self._reason = ""
        self._closed_until_s = 0.0

    def admits(self) -> bool:
        """Whether a call may go out now; a true answer while open takes the one trial."""
        if self._in_a_row < FAILURES_TO_OPEN:
            return True
        now_s = self._clock()
        if now_s < self._closed_until_s:
            return False
        self._closed_until_s = now_s + PAUSE_S
        return True

    @property
    def waits_s(self) -> float:
        """How long no call is admitted, 0 when one is."""
        if self._in_a_row < FAILURES_TO_OPEN:
            return 0.0
        return max(0.0, self._closed_until_s - self._clock())

    def succeeded(self) -> bool:
        """Whether this ended a failure."""
        was_failing = self._in_a_row > 0
        self._in_a_row = 0
        return was_failing

    def failed(self, reason: str) -> bool:
        """Whether this was the first of several."""
        self._in_a_row += 1
        self._failures += 1
        self._reason = reason
        if self._in_a_row >= FAILURES_TO_OPEN:
            self._closed_until_s = self._clock() + PAUSE_S
        return self._in_a_row == 1

    @property
    def health(self) -> Health:
        state: State = "ok"
        if self._in_a_row:
            state = "open" if self._in_a_row >= FAILURES_TO_OPEN else "failing"
        return Health(self._name, state, self._failures, self._reason)
