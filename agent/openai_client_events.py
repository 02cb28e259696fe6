"""The SDK's client with another reading of what a server streams: bounded, and less strict about its form.

It imports the SDK, so `openai_client_sdk` loads it with that, when a client is first opened.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Protocol

import openai

from trunkline.agent.model import FailureKind
from trunkline.agent.openai_client_errors import Failed, failure, refuse_error

MOST_EVENT_BYTES = 8_000_000
"""Of one event; an answer of a million characters, each escaped, takes six bytes for each."""

_IN_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class _Event(Protocol):
    @property
    def data(self) -> str: ...


class _Decoder(Protocol):
    def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[_Event]: ...


class TolerantClient(openai.AsyncOpenAI):
    """Reads the streams of all servers there are; the SDK's own reading is made for one."""

    def _make_sse_decoder(self) -> Any:
        return EventReader(super()._make_sse_decoder())


class EventReader:
    """The events that hold anything: a time to reconnect, a name or an id alone are none for us.

    A body that is one JSON object, of a server that doesn't stream, is one event. Raises Failed for an event
    without end, and for an error in place of such a body.
    """

    def __init__(self, decoder: _Decoder) -> None:
        self._decoder = decoder
        self._waiting_bytes = 0
        self._is_whole = False

    async def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncGenerator[_Event]:
        async with aclosing(self._bounded(iterator)) as pieces:
            async for event in self._decoder.aiter_bytes(pieces):
                if event.data.strip():
                    self._waiting_bytes = 0
                    if self._is_whole:
                        refuse_error(json.loads(event.data))
                    yield event

    async def _bounded(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        began = False
        async for piece in pieces:
            if not began and piece.strip():
                began, self._is_whole = True, piece.lstrip().startswith(b"{")
                if self._is_whole:
                    yield b"data: "
            self._waiting_bytes += len(piece)
            if self._waiting_bytes > MOST_EVENT_BYTES:
                raise Failed(failure(FailureKind.BROKEN_STREAM, "an event without end"))
            yield piece.translate(_IN_ONE_LINE) if self._is_whole else piece
        if self._is_whole:
            yield b"\n\n"
