"""A tool server reached over HTTP: the library's client, with a bound on what an answer may hold.

A stream of events is bounded by the library itself; a plain answer it would read whole, whatever its size.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

CONNECT_S, READ_S = 30.0, 300.0
MOST_ANSWER_BYTES = 4 * 2**20


@asynccontextmanager
async def http_transport(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Any]:
    """The streams that an MCP client speaks through."""
    async with (
        httpx2.AsyncClient(
            # Of a packed answer the size can't be told before it is unpacked.
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(CONNECT_S, read=READ_S),
            event_hooks={"response": [_bound]},
        ) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        await response.aclose()
        raise httpx2.StreamError("it packed its answer, though asked not to")
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_ANSWER_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"its answer is larger than {MOST_ANSWER_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
