"""Slack's refusals and broken connections as the `AdapterError` kinds, each with what to do about it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from pydantic import ValidationError
from slack_sdk.errors import SlackApiError

from trunkline.adapters.base import (
    AdapterError,
    RateLimited,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)

# What to wait when Slack says 'too fast' but not for how long.
_DEFAULT_RETRY_S = 10.0

_UNAUTHORIZED = {
    "account_inactive",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "token_expired",
    "token_revoked",
    "user_removed_from_team",
}
_UNREACHABLE = {
    "cannot_dm_bot": "bots can't be written to",
    "cannot_reply_to_message": "that message can't have a thread",
    "channel_not_found": "the channel is gone, or private and the bot is not in it",
    "is_archived": "the channel is archived",
    "messages_tab_disabled": "switch on the Messages tab under App Home in the app's settings",
    "not_in_channel": "invite the bot with /invite @its-name",
    "restricted_action": "the workspace's settings forbid posting there",
    "restricted_action_non_threadable_channel": "that channel has no threads",
    "restricted_action_read_only_channel": "only some people may post there",
    "restricted_action_thread_locked": "the thread is locked",
    "restricted_action_thread_only_channel": "only answers in threads may be posted there",
    "thread_not_found": "the thread is gone",
    "user_disabled": "the account is switched off",
    "user_not_found": "there is no such person",
    "user_not_in_channel": "that person is not in the channel",
}
# Slack: parts of the operation may have been done before the error was raised.
_MAYBE_DONE = {"fatal_error", "internal_error"}
_NOT_DONE = {"request_timeout", "service_unavailable"}
# The connection was never made, so nothing can have been done.
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


@contextmanager
def translated(what: str, *, repeatable: bool = True) -> Iterator[None]:
    """Raises AdapterError kinds for what goes wrong inside; `what` names the call in the sentence.

    A call that is `repeatable` without harm (a read, an edit, a deletion) is Unavailable when its answer was
    lost; any other is Uncertain.
    """
    try:
        yield
    except SlackApiError as exc:
        raise refusal(exc, what, repeatable=repeatable) from exc
    except _NEVER_SENT as exc:
        raise Unavailable(f"Slack could not be reached for {what}") from exc
    except ValidationError as exc:
        raise _lost(what, "an answer that makes no sense", repeatable=repeatable) from exc
    except _LOST as exc:
        raise _lost(what, type(exc).__name__, repeatable=repeatable) from exc


def refusal(exc: SlackApiError, what: str, *, repeatable: bool = True) -> AdapterError:
    """The kind that a refused call is of."""
    status, retry_after, answer = _read(exc)
    error = str(answer.get("error") or f"HTTP {status}")
    if status == 429 or error in {"ratelimited", "rate_limited"}:
        return RateLimited(f"Slack asks to wait before {what}", retry_after)
    if error in _UNAUTHORIZED:
        return Unauthorized(f"Slack refused the token ({error})")
    if error in _UNREACHABLE:
        return Unreachable(f"Slack refused {what} ({error}): {_UNREACHABLE[error]}")
    if error == "missing_scope":
        needed = answer.get("needed") or "a scope"
        return Rejected(f"Slack refused {what}: the app lacks {needed}; add it and install the app again")
    if error in _NOT_DONE:
        return Unavailable(f"Slack could not do {what} ({error})")
    if error in _MAYBE_DONE or status >= 500:
        return _lost(what, error, repeatable=repeatable)
    return Rejected(f"Slack refused {what} ({error})")


def error_of(exc: SlackApiError) -> str:
    """Slack's own name for the refusal; empty where its answer made no sense."""
    return str(_read(exc)[2].get("error") or "")


def _lost(what: str, why: str, *, repeatable: bool) -> AdapterError:
    if repeatable:
        return Unavailable(f"Slack's answer to {what} was lost ({why})")
    return Uncertain(f"Slack's answer to {what} was lost ({why}); it may have been done")


def _read(exc: SlackApiError) -> tuple[int, float, dict[str, object]]:
    """Status, seconds to wait, and the answer. The library attaches either its own or aiohttp's response."""
    response = exc.response
    headers = getattr(response, "headers", {})
    status = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    answer = getattr(response, "data", {})
    return int(status), wait_s(headers), answer if isinstance(answer, dict) else {}


def wait_s(headers: Mapping[str, str]) -> float:
    """The seconds that Slack asks to wait."""
    try:
        return float(headers.get("Retry-After", _DEFAULT_RETRY_S))
    except ValueError:
        return _DEFAULT_RETRY_S
