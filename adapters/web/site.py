"""The pages and calls of the web chat. What they know of a conversation comes from the hub and the house."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trunkline.adapters.base import Button, CommandSpec, NotStored, Rejected, TooLarge
from trunkline.adapters.web.conversations import Conversations, Said
from trunkline.adapters.web.files import Uploads, as_download, file_link, is_hash
from trunkline.adapters.web.guard import HEADERS, Guard
from trunkline.adapters.web.hub import Changes, Entry, Hub
from trunkline.adapters.web.markdown import to_html
from trunkline.adapters.web.side import Side

_HERE = Path(__file__).parent
_HEARTBEAT_S = 15.0
_HOUSE_TIMEOUT_S = 10.0
_BODY_BYTES_MOST = 512 * 1024
_FILE_BYTES_MOST = 20 * 2**20
_UPLOAD_TIMEOUT_S = 300.0
_THREAD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Posted(BaseModel):
    """What the page sends. `id` is made by the page, so that sending again can't double a message.

    A press has the button's payload as its text, and is `under` a message.
    """

    model_config = ConfigDict(extra="forbid")

    id: str = Field(pattern=r"^[A-Za-z0-9-]{8,64}$")
    kind: Literal["message", "stop", "press"] = "message"
    text: str = Field(default="", max_length=100_000)
    files: tuple[str, ...] = Field(default=(), max_length=10)
    under: str = Field(default="", max_length=64)


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as the page draws it."""

    id: str
    by_person: bool
    body: str
    at: str
    buttons: tuple[Button, ...] = ()


Receiver = Callable[[str, Posted, str], Awaitable[None]]
"""Takes (conversation, what was posted, language) and returns once it is committed."""


class Site:
    """Answers the browser's requests for one person."""

    def __init__(
        self,
        person: str,
        guard: Guard,
        hub: Hub,
        receive: Receiver,
        house: Conversations | None,
        uploads: Uploads | None = None,
        commands: Sequence[CommandSpec] = (),
    ) -> None:
        self._person = person
        self._guard = guard
        self._hub = hub
        self._receive = receive
        self._house = house
        self._uploads = uploads
        self._commands = commands
        self._templates = Jinja2Templates(directory=_HERE / "templates")
        self._side = Side(person, hub, house, self._templates)

    def app(self) -> Starlette:
        routes = [
            Route("/healthz", _health),
            Route("/", self._home),
            Route("/new", self._new),
            *self._side.routes(),
            Route("/c/{thread}", self._page),
            Route("/c/{thread}/events", self._events),
            Route("/c/{thread}/messages", self._post, methods=["POST"]),
            Route("/c/{thread}/files", self._take_file, methods=["POST"]),
            Route("/c/{thread}/files/{sha256}/{name}", self._give_file),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]
        return Starlette(
            routes=routes, middleware=[Middleware(_Door, guard=self._guard, locked=self._locked)]
        )

    async def _home(self, request: Request) -> Response:
        listed = await self._side.listed()
        return RedirectResponse(f"/c/{listed[0].thread}" if listed else "/new", status_code=303)

    async def _new(self, request: Request) -> Response:
        return RedirectResponse(f"/c/{secrets.token_hex(6)}", status_code=303)

    async def _page(self, request: Request) -> Response:
        thread = request.path_params["thread"]
        if not _THREAD.match(thread):
            return PlainTextResponse("There is no such conversation.", status_code=404)
        changes = self._hub.since(thread, 0)
        context = {
            "thread": thread,
            "conversations": await self._side.listed(),
            "commands": self._commands,
            "language": _language(request)[:2].lower(),
            "messages": await self._messages(thread, changes),
            "typing": changes.typing,
            "place": f"{self._hub.epoch}-{changes.place}",
        }
        return self._templates.TemplateResponse(request, "chat.html", context)

    async def _messages(self, thread: str, changes: Changes) -> list[Shown]:
        """Earlier messages from the house up to the first the hub knows, then the hub's, in order."""
        entries = sorted(changes.entries, key=lambda entry: entry.at)
        said: Sequence[Said] = ()
        if self._house is not None:
            async with asyncio.timeout(_HOUSE_TIMEOUT_S):
                said = await self._house.history(self._person, thread)
        # Some texts take a second to draw.
        return await asyncio.to_thread(_drawn, thread, said, entries)

    async def _post(self, request: Request) -> Response:
        thread = request.path_params["thread"]
        if not _THREAD.match(thread):
            return _refusal(404, "There is no such conversation.")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MOST:
                return _refusal(413, "That message is too long. Send it in parts.")
        try:
            posted = Posted.model_validate_json(bytes(body))
        except ValidationError:
            return _refusal(400, "That message could not be read. Reload the page and try again.")
        if posted.kind == "message" and not (posted.text.strip() or posted.files):
            return _refusal(400, "There is nothing to send.")
        if posted.files and (self._uploads is None or self._uploads.find(posted.files) is None):
            return _refusal(409, "A file of this message is gone. Add it again.")
        try:
            await self._receive(thread, posted, _language(request))
        except NotStored:
            return _refusal(
                503, "Not sent: it could not be stored just now. Your text is still here; try again."
            )
        return JSONResponse({"id": posted.id}, status_code=202)

    async def _take_file(self, request: Request) -> Response:
        """A file that the next message names by the id it gets here."""
        if self._uploads is None or not _THREAD.match(request.path_params["thread"]):
            return _refusal(404, "There is no such conversation.")
        try:
            async with asyncio.timeout(_UPLOAD_TIMEOUT_S):
                upload = await self._uploads.take(request, _FILE_BYTES_MOST)
        except TooLarge as error:
            return _refusal(413, str(error))
        except Rejected as error:
            return _refusal(400, str(error))
        except OSError:
            return _refusal(507, "That file could not be stored. Is the disk full?")
        return JSONResponse({"id": upload.id}, status_code=201)

    async def _give_file(self, request: Request) -> Response:
        thread, sha256 = request.path_params["thread"], request.path_params["sha256"]
        absent = PlainTextResponse("There is no such file.", status_code=404)
        if self._uploads is None or self._house is None or not (_THREAD.match(thread) and is_hash(sha256)):
            return absent
        async with asyncio.timeout(_HOUSE_TIMEOUT_S):
            if not await self._house.has_file(self._person, thread, sha256):
                return absent
            content = await self._uploads.kept(sha256)
        return absent if content is None else as_download(request.path_params["name"], content)

    async def _events(self, request: Request) -> Response:
        thread = request.path_params["thread"]
        if not _THREAD.match(thread):
            return PlainTextResponse("There is no such conversation.", status_code=404)
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        epoch, _, place = last.partition("-")
        known = epoch == self._hub.epoch and place.isdecimal() and len(place) < 16
        stream = self._stream(thread, int(place) if known else None)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _stream(self, thread: str, place: int | None) -> AsyncIterator[str]:
        """Everything after `place`; a page whose place is unknown is told to load itself anew."""
        if place is None:
            yield "event: reset\ndata: {}\n\n"
            return
        yield "retry: 1500\n\n"
        while not self._hub.closed:
            changes = self._hub.since(thread, place)
            if not changes.complete:
                yield "event: reset\ndata: {}\n\n"
                return
            for entry in changes.entries:
                shown = await asyncio.to_thread(_of_entry, entry)
                yield _event("message", f"{self._hub.epoch}-{entry.place}", _as_json(shown))
            place = max(place, changes.place)
            yield _event("typing", f"{self._hub.epoch}-{place}", {"on": changes.typing})
            await self._beat(thread, place)

    async def _beat(self, thread: str, place: int) -> None:
        """Waits for a change, or for so long that a sign of life is due."""
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                await self._hub.wait(thread, place)
        except TimeoutError:
            return

    def _locked(self, request: Request) -> Response:
        return self._templates.TemplateResponse(request, "locked.html", status_code=401)


class _Door:
    """Lets nobody in without the right host, origin and cookie, and puts our headers on every answer."""

    def __init__(self, app: ASGIApp, guard: Guard, locked: Callable[[Request], Response]) -> None:
        self._app = app
        self._guard = guard
        self._locked = locked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        request = Request(scope, receive)
        answer = self._judge(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _judge(self, request: Request) -> Response | None:
        """The answer to a request that may not pass, or None."""
        path = request.url.path
        if path == "/healthz":
            return None
        if not self._guard.knows_host(request):
            return _refusal(421, "This address is not one of Trunkline's. Open the link it printed at start.")
        if request.method == "POST" and not self._guard.is_own_origin(request):
            return _refusal(403, "Only Trunkline's own page may send messages.")
        if path.startswith("/static/"):
            return None
        token = request.query_params.get("token")
        if request.method == "GET" and token is not None and self._guard.is_token(token):
            return self._let_in(request)
        return None if self._guard.has_cookie(request) else self._locked(request)

    def _let_in(self, request: Request) -> Response:
        answer = RedirectResponse(
            request.url.path if request.url.path.startswith("/c/") else "/", status_code=303
        )
        guard = self._guard
        answer.set_cookie(
            guard.cookie, guard.cookie_value, max_age=guard.cookie_age_s, httponly=True, samesite="strict"
        )
        return answer


async def _health(request: Request) -> Response:
    return JSONResponse({"product": "trunkline", "status": "ok"})


def _language(request: Request) -> str:
    """The first that the browser asks for."""
    return request.headers.get("accept-language", "").split(",")[0].split(";")[0].strip()[:16]


def _refusal(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def _drawn(thread: str, said: Sequence[Said], entries: Sequence[Entry]) -> list[Shown]:
    shown: list[Shown] = []
    lately = {entry.id for entry in entries}
    for number, one in enumerate(said):
        if one.id not in lately and (not entries or one.at < entries[0].at):
            links = (file_link(thread, name, sha256) for name, sha256 in one.files)
            shown.append(_shown(f"h{number}", one.by_person, "\n\n".join((one.text, *links)), one.at))
    return shown + [_of_entry(entry) for entry in entries]


def _of_entry(entry: Entry) -> Shown:
    return replace(_shown(entry.id, entry.by_person, entry.text, entry.at), buttons=entry.buttons)


def _shown(id: str, by_person: bool, text: str, at: datetime) -> Shown:
    return Shown(id, by_person, text if by_person else to_html(text), at.isoformat(timespec="seconds"))


def _as_json(shown: Shown) -> dict[str, object]:
    buttons = [{"label": button.label, "payload": button.payload} for button in shown.buttons]
    return {
        "id": shown.id,
        "by_person": shown.by_person,
        "body": shown.body,
        "at": shown.at,
        "buttons": buttons,
    }


def _event(name: str, id: str, content: Mapping[str, object]) -> str:
    return f"id: {id}\nevent: {name}\ndata: {json.dumps(content)}\n\n"
