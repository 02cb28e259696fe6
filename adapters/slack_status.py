"""The status of a Slack thread, such as "is thinking…": a courtesy, whatever Slack says to it."""

import asyncio
import logging

from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import AdapterError, ChatRef, RateLimited, Unavailable
from trunkline.adapters.slack_errors import translated

_log = logging.getLogger(__name__)

_STATUS = "is thinking…"
_PAUSE_S = 600.0
_MOST_PAUSES = 1000


class Status:
    """Only threads have one. Where Slack refuses it, nothing is asked again for a while."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self._paused_until: dict[tuple[str, str], float] = {}

    async def show(self, to: ChatRef, *, on: bool) -> None:
        where = (to.chat, to.thread or "")
        now = asyncio.get_running_loop().time()
        if to.thread is None or self._paused_until.get(where, 0.0) > now:
            return
        try:
            with translated("the status"):
                await self._web.assistant_threads_setStatus(
                    channel_id=to.chat, thread_ts=to.thread, status=_STATUS if on else ""
                )
        except AdapterError as exc:
            pause_s = exc.retry_after_s if isinstance(exc, RateLimited) else _PAUSE_S
            self._pause(where, now, pause_s if not isinstance(exc, Unavailable) else 0.0)
            _log.debug("slack status not set cause=%s", exc)

    def _pause(self, where: tuple[str, str], now: float, pause_s: float) -> None:
        if len(self._paused_until) >= _MOST_PAUSES:
            kept = {key: until for key, until in self._paused_until.items() if until > now}
            self._paused_until = kept if len(kept) < _MOST_PAUSES else {}
        self._paused_until[where] = now + pause_s
