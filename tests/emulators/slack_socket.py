"""The Socket Mode half of the emulated Slack: sockets, envelopes, acknowledgements and redelivery."""

import asyncio
import itertools
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

SOCKETS_MOST = 10
"""Slack: of one app at once."""


@dataclass(slots=True)
class Delivery:
    """One envelope on its way: `attempts` counts how often it was sent, `answer` is what the ack carried."""

    kind: str
    payload: dict[str, Any]
    attempts: int = 0
    envelopes: list[str] = field(default_factory=list)
    acked: asyncio.Event = field(default_factory=asyncio.Event)
    answer: dict[str, Any] | None = None
    lost: bool = False

    @property
    def event_id(self) -> str:
        return str(self.payload.get("event_id", ""))


class SocketMode:
    """Hands each envelope to one open socket and repeats an event that is not acknowledged in time.

    Slash commands and interactions are never repeated, as with Slack. An event that finds no socket is
    an attempt that failed; after `retries` repeats it is lost. Its first repeat waits for a socket, unless
    `waits_for_socket` is false: then time goes on while nobody is connected.
    """

    def __init__(self, notify: Callable[[], Awaitable[None]], *, ack_timeout_s: float, retries: int) -> None:
        self._notify = notify
        self.ack_timeout_s = ack_timeout_s
        self.retries = retries
        self.sockets: list[web.WebSocketResponse] = []
        self.deliveries: list[Delivery] = []
        self.connections = 0
        self.silent = False
        self.pongs = True
        self.waits_for_socket = True
        self._tickets: set[str] = set()
        self._by_envelope: dict[str, Delivery] = {}
        self._turn = itertools.count()
        self._opened = asyncio.Condition()

    def ticket(self) -> str:
        """A new ticket for one connection; it is good once."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        return ticket

    async def serve(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403, text="this ticket was used or never given")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=self.pongs)
        await socket.prepare(request)
        self.connections += 1
        if len(self.sockets) >= SOCKETS_MOST:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets", "debug_info": {}})
            await socket.close()
            return socket
        if not self.silent:
            await socket.send_json(self._hello())
        self.sockets.append(socket)
        async with self._opened:
            self._opened.notify_all()
        await self._notify()
        try:
            await self._read(socket)
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
            await self._notify()
        return socket

    async def _read(self, socket: web.WebSocketResponse) -> None:
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                continue
            answer = json.loads(frame.data)
            delivery = self._by_envelope.get(answer.get("envelope_id", ""))
            if delivery is not None:
                delivery.answer = answer.get("payload")
                delivery.acked.set()
                await self._notify()

    def _hello(self) -> dict[str, Any]:
        debug = {"host": "emulator", "build_number": 1, "approximate_connection_time": 18060}
        count = len(self.sockets) + 1
        return {"type": "hello", "num_connections": count, "debug_info": debug, "connection_info": {}}

    async def send(self, delivery: Delivery) -> None:
        """The first attempt; returns when the envelope is on its way or no socket is open."""
        self.deliveries.append(delivery)
        await self._attempt(delivery, None)

    async def see_through(self, delivery: Delivery) -> None:
        """Repeats the envelope until it is acknowledged or given up."""
        for _ in range(self.retries if delivery.kind == "events_api" else 0):
            reason = "timeout"
            if not delivery.envelopes:
                reason = "http_error"
                if self.waits_for_socket:
                    await self._await_socket()
                else:
                    await asyncio.sleep(self.ack_timeout_s)
            elif await self._acked(delivery):
                return
            await self._attempt(delivery, reason)
        if not await self._acked(delivery):
            delivery.lost = True
            await self._notify()

    async def _acked(self, delivery: Delivery) -> bool:
        try:
            async with asyncio.timeout(self.ack_timeout_s):
                await delivery.acked.wait()
        except TimeoutError:
            return False
        return True

    async def _await_socket(self) -> None:
        async with self._opened:
            await self._opened.wait_for(lambda: bool(self.sockets))

    async def _attempt(self, delivery: Delivery, reason: str | None) -> None:
        socket = self._next_socket()
        delivery.attempts += 1
        await self._notify()
        if socket is None:
            return
        envelope: dict[str, Any] = {
            "type": delivery.kind,
            "envelope_id": secrets.token_hex(16),
            "payload": delivery.payload,
            "accepts_response_payload": delivery.kind != "events_api",
        }
        if delivery.kind == "events_api":
            envelope["retry_attempt"] = delivery.attempts - 1
            envelope["retry_reason"] = reason or ""
        delivery.envelopes.append(envelope["envelope_id"])
        self._by_envelope[envelope["envelope_id"]] = delivery
        try:
            await socket.send_json(envelope)
        except ConnectionError:
            delivery.envelopes.pop()

    def _next_socket(self) -> web.WebSocketResponse | None:
        alive = [socket for socket in self.sockets if not socket.closed]
        return alive[next(self._turn) % len(alive)] if alive else None

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Asks every client to connect anew, then closes the old sockets."""
        for socket in list(self.sockets):
            await socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "emulator"}}
            )

    async def drop(self) -> None:
        """Cuts every socket without a word."""
        for socket in list(self.sockets):
            self.sockets.remove(socket)
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.close()

    async def close(self) -> None:
        for socket in list(self.sockets):
            await socket.close()
