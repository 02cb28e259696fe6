"""Slack's own streams: a message of a thread that grows by what is appended, until it is stopped.

An open one takes no edit and no deletion. Slack stops one by itself that nothing was appended to for a while.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import ChatRef, Receipt, Rejected
from trunkline.adapters.markup.marks import INVISIBLE
from trunkline.adapters.slack_errors import error_of, translated
from trunkline.adapters.streaming import StoppedByReader

_MOST_OPEN = 1000
"""Open streams kept in mind; Slack itself tells of one that was forgotten."""
# What would call people, user groups or everybody in a channel. Each looks one character ahead only, so that
# a text that has grown begins with what was made of it before.
_PING = re.compile(r"<(?=[!@])|(?<!\w)@(?=\w)")
_STOPPED = "stopped_by_user"
_ENDED = {"message_not_in_streaming_state", _STOPPED}
_T = TypeVar("_T")


def calling_nobody(markdown: str) -> str:
    """Standard Markdown, as streams take it, in which nobody is mentioned."""
    return _PING.sub(r"\g<0>" + INVISIBLE, markdown)


class SlackStreams:
    """The streams of one app. `wanted`: it uses them; false from when Slack said that it knows no streams."""

    def __init__(self, web: AsyncWebClient, *, wanted: bool) -> None:
        self._web = web
        self.wanted = wanted
        self._open: dict[tuple[str, str], None] = {}

    def possible_in(self, to: ChatRef) -> bool:
        """Only a thread has streams."""
        return self.wanted and to.thread is not None

    async def begin(self, to: ChatRef, reader: str, realm: str) -> Receipt:
        if not reader and not to.chat.startswith("D"):
            raise Rejected("Slack streams in a channel only to somebody.")
        with self._translated("the stream"):
            answer = await self._web.chat_startStream(
                channel=to.chat,
                thread_ts=to.thread or "",
                recipient_user_id=reader or None,
                recipient_team_id=realm or None if reader else None,
            )
        begun = str(answer["ts"])
        if len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[to.chat, begun] = None
        return Receipt(begun)

    async def add(self, to: ChatRef, message_id: str, markdown: str, shown_chars: int) -> None:
        stands = len(calling_nobody(markdown[:shown_chars]))
        with self._translated("the addition"):
            await self._web.chat_appendStream(
                channel=to.chat, ts=message_id, markdown_text=calling_nobody(markdown)[stands:]
            )

    async def once_ended(self, channel: str, ts: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Makes a call that an open stream refuses. Of one begun before a restart only its refusal tells."""
        if (channel, ts) in self._open:
            await self._end(channel, ts)
        try:
            return await call()
        except SlackApiError as exc:
            if error_of(exc) != "streaming_state_conflict":
                raise
        await self._end(channel, ts)
        return await call()

    async def _end(self, channel: str, ts: str) -> None:
        try:
            await self._web.chat_stopStream(channel=channel, ts=ts)
        except SlackApiError as exc:
            if error_of(exc) not in _ENDED:
                raise
        self._open.pop((channel, ts), None)

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        with translated(what, repeatable=False):
            try:
                yield
            except SlackApiError as exc:
                if error_of(exc) == _STOPPED:
                    raise StoppedByReader("Slack's own button has stopped the answer.") from exc
                if error_of(exc) == "unknown_method":
                    self.wanted = False
                raise
