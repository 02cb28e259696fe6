"""A Bot API server on loopback, as python-telegram-bot sees it: HTTP, polling, and what a test reads.

What people do is in `telegram_people`, what the methods do in `telegram_methods`, what the published
description and TDLib decide in `telegram_spec`.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_request import FileField

from tests.emulators.base import Fault
from tests.emulators.telegram_methods import FloodLimits, Refused, TelegramMethods, visible
from tests.emulators.telegram_people import Json
from tests.emulators.telegram_spec import UPLOADED

Uploads = dict[str, tuple[str, bytes]]

PLAIN_ARGUMENTS = frozenset(
    [
        "text",
        "caption",
        "parse_mode",
        "action",
        "file_id",
        "callback_query_id",
        "url",
        "document",
        "photo",
        "voice",
        "language_code",
    ]
)
"""Arguments that are strings as they stand; all others arrive as JSON."""

OTHER_POLLER = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; "
    "use deleteWebhook to delete the webhook first"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the bot as a person sees it now."""

    message_id: int
    text: str
    entities: tuple[Json, ...] = ()
    thread: int | None = None
    reply_to: int | None = None
    quiet: bool = False
    edited: bool = False
    file_name: str | None = None
    album: str | None = None
    reactions: tuple[str, ...] = ()
    buttons: tuple[tuple[str, str], ...] = ()
    """Label and payload of each button under it."""


class TelegramEmulator(TelegramMethods):
    """The server for one bot. `flood` switches rate limits on; `conflict_delay_s` is how long the server
    holds back a second conflict within three seconds (3.0 in production)."""

    def __init__(
        self,
        *,
        token: str = "123456789:AAFakeTokenForTheEmulatorOnly",
        username: str = "TrunklineBot",
        privacy: bool = False,
        flood: FloodLimits | None = None,
        conflict_delay_s: float = 0.0,
    ) -> None:
        super().__init__(username=username, privacy=privacy, flood=flood)
        self.token = token
        self.confirmed_offset = 0
        self._conflict_delay_s = conflict_delay_s
        self._next_conflict_at = 0.0
        self._poller: asyncio.Event | None = None
        self._closing = False
        self._methods = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(type(self))
            if name.startswith("_on_")
        }
        self.app.router.add_route("*", r"/bot{token}/{method}", self._serve)
        self.app.router.add_get(r"/file/bot{token}/{path:.+}", self._serve_file)

    # what a test reads

    def sent(self, chat_id: int) -> list[Shown]:
        """The bot's messages in a chat, in order, edits applied and deleted ones gone."""
        messages = self.chats[chat_id].messages if chat_id in self.chats else {}
        return [self._shown(chat_id, message) for message in messages.values() if self.is_own(message)]

    def texts(self, chat_id: int) -> list[str]:
        return [shown.text for shown in self.sent(chat_id)]

    @property
    def is_polled(self) -> bool:
        """Whether a long poll waits right now."""
        return self._poller is not None

    async def close_connections(self) -> None:
        self._closing = True
        if self._poller is not None:
            self._poller.set()
        await self.notify()

    def _shown(self, chat_id: int, message: Json) -> Shown:
        return Shown(
            message_id=message["message_id"],
            text=message.get("text") or message.get("caption") or "",
            entities=tuple(message.get("entities") or message.get("caption_entities") or ()),
            thread=message.get("message_thread_id"),
            reply_to=message.get("reply_to_message", {}).get("message_id"),
            quiet=message.get("_quiet", False),
            edited="edit_date" in message,
            file_name=message.get("document", {}).get("file_name"),
            album=message.get("media_group_id"),
            reactions=self.reactions.get((chat_id, message["message_id"]), ()),
            buttons=tuple(
                (button["text"], button["callback_data"])
                for row in message.get("reply_markup", {}).get("inline_keyboard", [])
                for button in row
            ),
        )

    # HTTP

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        arguments, uploads = await self._arguments(request)
        asked = request.match_info["method"]
        name = next((known for known in self._methods if known.lower() == asked.lower()), asked)
        await self.record(name, arguments)
        fault = self.take_fault(name)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            if fault.drop:
                return self._cut(request)
            if not (fault.accept_then_drop or fault.serve):
                return self._faulty(fault)
        answer = await self._answer(request.match_info["token"], name, arguments, uploads)
        await self.notify()
        return self._cut(request) if fault is not None and fault.accept_then_drop else answer

    async def _answer(self, token: str, name: str, arguments: Json, uploads: Uploads) -> web.Response:
        try:
            if token != self.token:
                well_formed = re.fullmatch(r"\d+:[\w-]+", token)
                raise Refused(401, "Unauthorized") if well_formed else Refused(404, "Not Found")
            method = self._methods.get(name)
            if method is None:
                raise Refused(404, "Not Found: method not found")
            if self.spec is not None:
                self.violations.extend(self.spec.call_breaches(name, arguments))
            self.uploads = uploads
            result = method(arguments)
            if isinstance(result, Awaitable):
                result = await result
        except Refused as refusal:
            return self._refusal(refusal)
        if isinstance(result, dict):
            result = visible(result)
        if name == "sendMediaGroup":
            result = [visible(message) for message in result]
        if self.spec is not None and name != "getUpdates":
            self.violations.extend(self.spec.answer_breaches(name, result))
        return web.json_response({"ok": True, "result": result})

    def _refusal(self, refusal: Refused) -> web.Response:
        body: Json = {"ok": False, "error_code": refusal.status, "description": refusal.description}
        headers = {}
        if refusal.parameters:
            body["parameters"] = refusal.parameters
        if "retry_after" in refusal.parameters:
            headers["Retry-After"] = str(refusal.parameters["retry_after"])
        return web.json_response(body, status=refusal.status, headers=headers)

    def _faulty(self, fault: Fault) -> web.Response:
        if fault.body is None:
            page = f"<html><body><h1>{fault.status}</h1></body></html>"
            return web.Response(
                status=fault.status, text=page, content_type="text/html", headers=fault.headers
            )
        return web.json_response(fault.body, status=fault.status, headers=fault.headers)

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _arguments(self, request: web.Request) -> tuple[Json, Uploads]:
        arguments: Json = {}
        uploads: Uploads = {}
        posted = {**request.query, **await request.post()}
        request_media = posted.get("media", "")
        for name, value in posted.items():
            if isinstance(value, FileField):
                if f"attach://{name}" not in str(request_media):
                    arguments[name] = UPLOADED
                uploads[name] = (value.filename, value.file.read())
            elif isinstance(value, str) and name not in PLAIN_ARGUMENTS:
                arguments[name] = _parsed(value)
            else:
                arguments[name] = value
        return arguments, uploads

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        file_id = request.match_info["path"].rpartition("/")[2]
        await self.record("file", {"file_id": file_id})
        fault = self.take_fault("file")
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
        if fault is not None and fault.drop:
            return self._cut(request)
        if fault is not None and not fault.serve:
            return self._faulty(fault)
        if request.match_info["token"] != self.token or file_id not in self.files:
            return self._refusal(Refused(404, "Not Found"))
        return web.Response(body=self.files[file_id])

    # polling

    async def _on_getUpdates(self, arguments: Json) -> list[Json]:
        if self.webhook_url:
            raise Refused(409, WEBHOOK_ACTIVE)
        if self._poller is not None:
            self._poller.set()
        mine = asyncio.Event()
        self._poller = mine
        await self.notify()
        self._confirm(arguments.get("offset", 0))
        if "allowed_updates" in arguments:
            self.allowed = frozenset(arguments["allowed_updates"]) or self.allowed
        wait_s = min(max(arguments.get("timeout", 0), 0), 50)
        try:
            async with asyncio.timeout(wait_s):
                async with self._changed:
                    await self._changed.wait_for(lambda: self.pending or mine.is_set())
        except TimeoutError:
            pass
        if mine.is_set() and not self._closing:
            await self._conflict()
        if self._poller is mine:
            self._poller = None
        await self.notify()
        limit = min(max(arguments.get("limit", 100), 1), 100)
        return [] if self._closing else self.pending[:limit]

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self.pending = self.pending[offset:]
        elif offset:
            self.pending = [update for update in self.pending if update["update_id"] >= offset]
            self.confirmed_offset = max(self.confirmed_offset, offset)

    async def _conflict(self) -> None:
        now = time.monotonic()
        if now < self._next_conflict_at:
            await asyncio.sleep(self._conflict_delay_s)
        else:
            self._next_conflict_at = now + 3.0
        raise Refused(409, OTHER_POLLER)


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
