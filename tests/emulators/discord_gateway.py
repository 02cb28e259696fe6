"""The gateway half of the Discord emulator: sessions, numbered events, replay, and the ways it hangs up."""

import asyncio
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.emulators.discord_world import MESSAGE_CONTENT, Json, World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES = 1, 1 << 9, 1 << 12
GUILD_REACTIONS, DIRECT_REACTIONS = 1 << 10, 1 << 13
MAX_FRAME_BYTES = 4096
"""What a client may send in one frame (Discord, Gateway, Sending events)."""


@dataclass(slots=True)
class Connection:
    """One socket, with the one compression stream that lasts as long as it does."""

    socket: web.WebSocketResponse
    compressed: bool
    transport: asyncio.Transport | None = None
    _stream: Any = field(default_factory=zlib.compressobj)

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload)
        if self.socket.closed or (self.transport is not None and self.transport.is_closing()):
            return  # the session keeps the event for whoever resumes
        if not self.compressed:
            await self.socket.send_str(text)
            return
        packed = self._stream.compress(text.encode()) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        await self.socket.send_bytes(packed)


@dataclass(slots=True)
class GatewaySession:
    """What outlives a socket: the numbered events, so that RESUME can replay what was missed."""

    id: str
    intents: int
    events: list[Json] = field(default_factory=list)
    connection: Connection | None = None


class DiscordGateway:
    """Serves wss://gateway.discord.gg. Tests steer it through the emulator."""

    def __init__(self, world: World, token: str, changed: Callable[[], Any]) -> None:
        self.world = world
        self.token = token
        self.heartbeat_ms = 41_250
        self.content_allowed = True
        self.acks = True
        self.sessions: dict[str, GatewaySession] = {}
        self.received: list[Json] = []
        self.frames: list[tuple[str, Json]] = []
        self.identifies = 0
        self.resumes = 0
        self.spec_breaches: Callable[[str, Json], None] = lambda side, payload: None
        self._changed = changed
        self._sockets: set[web.WebSocketResponse] = set()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES * 4, autoping=True)
        await socket.prepare(request)
        self._sockets.add(socket)
        connection = Connection(socket, request.query.get("compress") == "zlib-stream", request.transport)
        hello = {
            "op": HELLO,
            "d": {"heartbeat_interval": self.heartbeat_ms, "_trace": []},
            "s": None,
            "t": None,
        }
        try:
            self.spec_breaches("hello", hello)
            await connection.send(hello)
            await self._listen(connection)
        finally:
            self._sockets.discard(socket)
            for session in self.sessions.values():
                if session.connection is connection:
                    session.connection = None
            await self._changed()
        return socket

    async def _listen(self, connection: Connection) -> None:
        async for frame in connection.socket:
            if frame.type is not WSMsgType.TEXT:
                continue
            if len(frame.data.encode()) > MAX_FRAME_BYTES:
                await connection.socket.close(code=4002)
                return
            payload = json.loads(frame.data)
            self.received.append(payload)
            self.spec_breaches("client", payload)
            match payload["op"]:
                case 1 if self.acks:
                    await connection.send({"op": ACK, "d": None, "s": None, "t": None})
                case 2:
                    await self._identify(connection, payload["d"])
                case 6:
                    await self._resume(connection, payload["d"])
            await self._changed()

    async def _identify(self, connection: Connection, asked: Json) -> None:
        if asked["token"] != self.token:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
            return
        if asked["intents"] & MESSAGE_CONTENT and not self.content_allowed:
            await connection.socket.close(code=4014, message=b"Disallowed intent(s).")
            return
        self.identifies += 1
        session = GatewaySession(f"session{len(self.sessions)}", asked["intents"], connection=connection)
        self.sessions[session.id] = session
        world = self.world
        ready = {
            "v": 10,
            "user": {**world.users[world.bot_id], "mfa_enabled": False, "verified": True, "email": None},
            "guilds": [{"id": world.guild_id, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": "wss://gateway-resume.discord.gg",
            "application": {"id": world.application_id, "flags": 1 << 19, "flags_new": str(1 << 19)},
        }
        await self._emit(session, "READY", ready)
        await self._emit(session, "GUILD_CREATE", world.guild())

    async def _resume(self, connection: Connection, asked: Json) -> None:
        session = self.sessions.get(asked["session_id"])
        if asked["token"] != self.token:
            await connection.socket.close(code=4004)
        elif session is None:
            await connection.send({"op": INVALID, "d": False, "s": None, "t": None})
        else:
            self.resumes += 1
            session.connection = connection
            for event in [e for e in session.events if e["s"] > asked["seq"]]:
                await connection.send(event)
            await self._emit(session, "RESUMED", {})

    async def dispatch(self, name: str, body: Callable[[int], Json] | Json, intent: int = GUILDS) -> None:
        """Sends an event to every session that asked for it, or keeps it for one that is to resume."""
        for session in self.sessions.values():
            if session.intents & intent:
                await self._emit(session, name, body(session.intents) if callable(body) else body)

    async def _emit(self, session: GatewaySession, name: str, body: Json) -> None:
        event = {"op": DISPATCH, "t": name, "s": len(session.events) + 1, "d": body}
        session.events.append(event)
        self.spec_breaches("event", event)
        if session.connection is not None:
            await session.connection.send(event)

    async def reconnect(self) -> None:
        """Op 7: Discord asks for a new socket; the session goes on."""
        await self._to_all({"op": RECONNECT, "d": None, "s": None, "t": None})

    async def invalidate(self) -> None:
        """Op 9: the session is lost; only a fresh IDENTIFY helps, and nothing is replayed."""
        live = [s.connection for s in self.sessions.values() if s.connection]
        self.sessions.clear()
        for connection in live:
            await connection.send({"op": INVALID, "d": False, "s": None, "t": None})

    async def hang_up(self, code: int) -> None:
        for socket in list(self._sockets):
            await socket.close(code=code)

    async def cut(self) -> None:
        """Ends the sockets as a lost line does, without a closing frame."""
        for session in self.sessions.values():
            if session.connection is not None and session.connection.transport is not None:
                session.connection.transport.abort()

    def forget_lost(self) -> None:
        """Sessions whose socket is gone are over: who comes back must begin anew, and nothing is replayed."""
        self.sessions = {name: held for name, held in self.sessions.items() if held.connection is not None}

    @property
    def connected(self) -> bool:
        return any(session.connection is not None for session in self.sessions.values())

    async def _to_all(self, payload: Json) -> None:
        for session in list(self.sessions.values()):
            if session.connection is not None:
                await session.connection.send(payload)

    async def close(self) -> None:
        sockets = list(self._sockets)
        await asyncio.gather(*(socket.close(code=1001) for socket in sockets), return_exceptions=True)
