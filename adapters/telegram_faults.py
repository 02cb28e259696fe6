"""Telegram's failures: what each means to the caller, and how long polling waits or when it gives up."""

import logging
import random
import re
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from trunkline.adapters.base import (
    AdapterError,
    RateLimited,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)

logger = logging.getLogger(__name__)

_NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_CHAT_GONE = re.compile(
    r"chat not found|peer_id_invalid|user is deactivated|group chat was deactivated|chat_write_forbidden|"
    r"not enough rights to send|no rights to send|need administrator rights"
)


@dataclass(frozen=True, slots=True)
class PollPacing:
    """How polling waits and gives up. A poll that takes `grace_s` longer than asked counts as dead.

    `conflicts_most` in `conflict_window_s` are another poller, not the end of an old one: the old process of
    a deployment lives on for half a minute at most, which is five conflicts at this back-off.
    """

    poll_s: int = 50
    grace_s: float = 15.0
    backoff_min_s: float = 1.0
    backoff_max_s: float = 30.0
    failures_most: int = 12
    conflicts_most: int = 8
    conflict_window_s: float = 300.0


@dataclass(slots=True)
class Setbacks:
    """Failed polls in a row, and the conflicts of the last while."""

    pacing: PollPacing
    failures: int = 0
    conflicts: deque[float] = field(default_factory=deque)

    def wait_s(self, exc: TelegramError | TimeoutError, now: float) -> float:
        """How long to wait before the next poll; raises AdapterError when this connection is lost."""
        if isinstance(exc, InvalidToken):
            raise refused_token() from exc
        if isinstance(exc, Conflict):
            self._count_conflict(exc, now)
        self.failures += 1
        if self.failures >= self.pacing.failures_most:
            raise Unavailable(
                f"Telegram didn't answer {self.failures} polls in a row: {_short(exc)}"
            ) from exc
        logger.warning("poll failed, %d in a row: %s", self.failures, _short(exc))
        backoff_s = self.pacing.backoff_min_s * 2.0 ** (self.failures - 1)
        jittered_s = min(backoff_s, self.pacing.backoff_max_s) * random.uniform(0.5, 1.0)
        return jittered_s + (_seconds(exc) if isinstance(exc, RetryAfter) else 0.0)

    def _count_conflict(self, exc: Conflict, now: float) -> None:
        self.conflicts.append(now)
        while self.conflicts[0] < now - self.pacing.conflict_window_s:
            self.conflicts.popleft()
        if len(self.conflicts) >= self.pacing.conflicts_most:
            raise AdapterError(
                "Another program receives this Telegram bot's messages. "
                "Stop it, or give this one a bot of its own."
            ) from exc


def _seconds(exc: RetryAfter) -> float:
    """The library gives seconds or, by an environment variable of its own, a timedelta."""
    wait = exc.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def _short(exc: Exception) -> str:
    return str(exc)[:200] or type(exc).__name__


def _never_left(exc: NetworkError) -> bool:
    """A refused connection, no free one, or a client that is closed between two runs."""
    return isinstance(exc.__cause__, _NEVER_LEFT) or "not initialized" in exc.message


def refused_token() -> Unauthorized:
    return Unauthorized(
        "Telegram refused the bot token. Ask BotFather for the current one and set TELEGRAM_BOT_TOKEN."
    )


def translated(exc: TelegramError, doing: str) -> AdapterError:
    """The library's error as ours, by what the caller may do next."""
    said = f"{doing}: {_short(exc)}"
    match exc:
        case RetryAfter():
            return RateLimited(said, _seconds(exc))
        case InvalidToken():
            return refused_token()
        case Forbidden():
            return Unreachable(said)
        case BadRequest():
            return Unreachable(said) if _CHAT_GONE.search(exc.message.lower()) else Rejected(said)
        case NetworkError() if _never_left(exc):
            return Unavailable(said)
        case NetworkError() if "(413)" in exc.message:
            return Rejected(said)
        case NetworkError():
            return Uncertain(said)
    return Uncertain(said) if exc.message == "Invalid server response" else Rejected(said)
