"""Slack on loopback: Web API, files, response URLs and Socket Mode, for the real slack_bolt and slack_sdk.

Point the library at `api_url`. What people do in the workspace is a method here; what the bot said is `sent`.
Every request, answer and event is checked by tests.emulators.slack_spec where the schemas are at hand.
"""

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web

from tests.emulators import slack_spec
from tests.emulators.base import Emulator, Fault
from tests.emulators.slack_api import NEEDED_SCOPE, WebApi, parse_arguments
from tests.emulators.slack_socket import Delivery, SocketMode
from tests.emulators.slack_workspace import Channel, Post, Refused, StoredFile, Whisper, Workspace

TEAM, APP, BOT_USER, BOT_ID = "T0TEAM", "A0APP", "U0BOT", "B0BOT"
BOT_TOKEN, APP_TOKEN = "xoxb-1-emulated", "xapp-1-emulated"
SCOPES = frozenset({"chat:write", "files:read", "files:write", "reactions:write", "users:read", "commands"})
_RESPONSE_URL_USES = 5


class SlackEmulator(Emulator):
    """One workspace with one app installed. `ack_timeout_s` is how long an envelope waits before a repeat.

    `socket_place` is where sockets are said to be, for a client that comes through a proxy.
    """

    def __init__(self, *, ack_timeout_s: float = 3.0, retries: int = 3) -> None:
        super().__init__()
        self.granted: tuple[str, ...] = ()
        """The scopes that auth.test names; by default none, as older servers do."""
        self.workspace = Workspace(team=TEAM, bot_user=BOT_USER, bot_id=BOT_ID)
        self.web = WebApi(self.workspace, APP, self._echo, lambda: self.url)
        self.socket = SocketMode(self.notify, ack_timeout_s=ack_timeout_s, retries=retries)
        self.bot_tokens = {BOT_TOKEN}
        self.app_tokens = {APP_TOKEN}
        self.revoked: str | None = None
        self.socket_place = ""
        self.scopes = set(SCOPES)
        self.rates: dict[str, tuple[int, float]] = {}
        """How many calls of a method, in a channel where it has one, are taken in how many seconds."""
        self._taken: dict[tuple[str, str], deque[float]] = {}
        self.slow_downloads_s = 0.0
        self.downloads_cut = 0
        self._urls: dict[str, tuple[str, str, int]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._events = 0
        self.app.router.add_route("*", "/api/{method}", self._call)
        self.app.router.add_get("/socket", self.socket.serve)
        self.app.router.add_post("/upload/{file}", self._upload)
        self.app.router.add_get("/files-pri/{tail:.+}", self._download)
        self.app.router.add_post("/response/{key}", self._respond)

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Self]:
        async with super().running(port), asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield self
            finally:
                for task in self._running:
                    task.cancel()

    async def close_connections(self) -> None:
        await self.socket.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "the emulator is not running"
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await self._arguments(request)
        token = str(arguments.pop("token", "")) or request.headers.get("Authorization", "")[len("Bearer ") :]
        await self.record(method, arguments)
        fault = self.take_fault(method)
        if fault is not None and fault.serve:
            await asyncio.sleep(fault.delay_s)
        elif fault is not None and not fault.accept_then_drop:
            return await self._fail(request, fault)
        wait_s = self._wait_s(method, str(arguments.get("channel") or ""))
        if wait_s:
            body = {"ok": False, "error": "ratelimited"}
            return web.json_response(body, status=429, headers={"Retry-After": str(wait_s)})
        answer = self._answer_of(method, token, arguments)
        body = await answer
        await self.notify()
        if fault is not None and fault.accept_then_drop:
            return self._cut(request)
        granted = {"X-OAuth-Scopes": ",".join(self.granted)} if method == "auth.test" else {}
        return web.json_response(body, headers=granted)

    def _wait_s(self, method: str, channel: str) -> int:
        """How long this call must wait; 0 where it need not, and then it counts."""
        if method not in self.rates:
            return 0
        most, window_s = self.rates[method]
        taken, now = self._taken.setdefault((method, channel), deque()), time.monotonic()
        while taken and taken[0] <= now - window_s:
            taken.popleft()
        if len(taken) >= most:
            return math.ceil(taken[0] + window_s - now)
        taken.append(now)
        return 0

    async def _arguments(self, request: web.Request) -> dict[str, Any]:
        fields = {name: value for name, value in request.query.items() if isinstance(value, str)}
        if request.content_type == "application/json":
            posted_json: dict[str, Any] = await request.json()
            return parse_arguments(fields) | posted_json
        posted = await request.post()
        return parse_arguments(fields | {name: str(value) for name, value in posted.items()})

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.drop:
            return self._cut(request)
        return web.json_response(fault.body, status=fault.status, headers=fault.headers)

    def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    async def _answer_of(self, method: str, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.violations += slack_spec.check_request(method, arguments)
        try:
            self._check_token(method, token)
            if method == "apps.connections.open":
                place = self.socket_place or f"ws://127.0.0.1:{self.port}"
                link = f"{place}/socket?ticket={self.socket.ticket()}"
                body: dict[str, Any] = {"ok": True, "url": link}
            else:
                body = {"ok": True, **await self.web.methods[method](arguments)}
        except Refused as refused:
            body = {"ok": False, "error": refused.error, **refused.more}
        self.violations += slack_spec.check_response(method, body)
        return body

    def _check_token(self, method: str, token: str) -> None:
        if not token:
            raise Refused("not_authed")
        if token not in self.bot_tokens | self.app_tokens:
            raise Refused("invalid_auth")
        if (method == "apps.connections.open") != (token in self.app_tokens):
            raise Refused("not_allowed_token_type")
        if method != "apps.connections.open" and method not in self.web.methods:
            raise Refused("unknown_method")
        if self.revoked:
            raise Refused(self.revoked)
        needed = NEEDED_SCOPE.get(method) or NEEDED_SCOPE.get(method.split(".")[0])
        if needed is not None and needed not in self.scopes:
            raise Refused("missing_scope", needed=needed, provided=",".join(sorted(self.scopes)))

    def limit_next(self, method: str, retry_after_s: int, times: int = 1) -> None:
        """The next calls of `method` get 429 with a Retry-After."""
        body = {"ok": False, "error": "ratelimited"}
        fault = Fault(status=429, body=body, headers={"Retry-After": str(retry_after_s)})
        self.fail_next(method, fault, times)

    def refuse_next(self, method: str, error: str, times: int = 1) -> None:
        """The next calls of `method` get `ok: false` with `error`."""
        self.fail_next(method, Fault(status=200, body={"ok": False, "error": error}), times)

    # Files and response URLs

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        stored = self.workspace.files[request.match_info["file"]]
        stored.content = await request.read()
        stored.uploaded = True
        return web.Response(text=f"OK - {len(stored.content)}")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        await self.record("download", {"path": request.path})
        fault = self.take_fault("download")
        if fault is not None:
            return await self._fail(request, fault)
        token = request.headers.get("Authorization", "")[len("Bearer ") :]
        if token not in self.bot_tokens or "files:read" not in self.scopes:
            return web.Response(
                text="<!DOCTYPE html><title>Sign in to Slack</title>", content_type="text/html"
            )
        file = request.match_info["tail"].split("/")[0].rpartition("-")[2]
        stored = self.workspace.files.get(file)
        if stored is None:
            return web.Response(status=404)
        if self.slow_downloads_s:
            return await self._download_slowly(request, stored.content)
        return web.Response(body=stored.content, content_type=stored.mime or "application/octet-stream")

    async def _download_slowly(self, request: web.Request, content: bytes) -> web.StreamResponse:
        """Spreads a file over `slow_downloads_s`; counts in `downloads_cut` when the client goes away."""
        pieces = 1000
        size = len(content) // pieces + 1
        response = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await response.prepare(request)
        try:
            for start in range(0, len(content), size):
                if request.transport is None or request.transport.is_closing():
                    raise ConnectionResetError
                await response.write(content[start : start + size])
                await asyncio.sleep(self.slow_downloads_s / pieces)
        except (ConnectionResetError, asyncio.CancelledError) as cut:
            self.downloads_cut += 1
            await self.notify()
            if isinstance(cut, asyncio.CancelledError):
                raise
        return response

    def response_url(self, channel: str, user: str) -> str:
        key = f"{len(self._urls)}"
        self._urls[key] = (channel, user, _RESPONSE_URL_USES)
        return f"{self.url}/response/{key}"

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        arguments = await request.json()
        await self.record("response_url", arguments)
        fault = self.take_fault("response_url")
        if fault is not None:
            return await self._fail(request, fault)
        channel, user, left = self._urls.get(request.match_info["key"], ("", "", 0))
        if not left:
            return web.Response(status=404, text="used_url")
        self._urls[request.match_info["key"]] = (channel, user, left - 1)
        text = str(arguments.get("text", ""))
        if arguments.get("response_type") == "in_channel":
            stamp = self.workspace.stamp()
            post = Post(stamp, BOT_USER, [text], bot_id=BOT_ID)
            self.workspace.channel(channel).posts[stamp] = post
        else:
            self.workspace.whispers.append(Whisper(channel, user, text, "response_url"))
        await self.notify()
        return web.Response(text="ok")

    # What the bot did

    def sent(self, channel: str, thread: str | None = None) -> list[Post]:
        """The bot's messages in a channel's top level or one of its threads, as they read now."""
        found = self.workspace.channels.get(channel)
        posts = found.posts.values() if found is not None else ()
        return [post for post in posts if post.bot_id == BOT_ID and post.thread == thread]

    def texts(self, channel: str, thread: str | None = None) -> list[str]:
        return [post.text for post in self.sent(channel, thread)]

    @property
    def whispers(self) -> list[Whisper]:
        return self.workspace.whispers

    # What people do

    async def direct_message(
        self,
        user: str,
        text: str,
        *,
        thread: str | None = None,
        team: str = TEAM,
        files: list[str] | None = None,
    ) -> str:
        """A person writes to the bot; returns the message's ts."""
        self.workspace.users.setdefault(user, user.lower())
        channel = self.workspace.direct_channel(user)
        return await self._say(channel, user, text, thread, team, files or [])

    async def channel_message(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        mention: bool = True,
        thread: str | None = None,
        team: str = TEAM,
        files: list[str] | None = None,
    ) -> str:
        """A person writes in a channel; with `mention` both app_mention and message arrive, as with Slack."""
        found = self.workspace.add_channel(channel, "channel", (user,))
        said = f"<@{BOT_USER}> {text}" if mention else text
        return await self._say(found, user, said, thread, team, files or [])

    async def _say(
        self, channel: Channel, user: str, text: str, thread: str | None, team: str, files: list[str]
    ) -> str:
        post = Post(self.workspace.stamp(), user, [text], thread)
        post.files = [self._file_of(file) for file in files]
        channel.posts[post.ts] = post
        event = self.workspace.message(post) | {"channel": channel.id, "event_ts": post.ts, "team": team}
        if files:
            event["subtype"] = "file_share"
        if thread is not None:
            event["parent_user_id"] = channel.posts[thread].user if thread in channel.posts else "U0GONE"
        mentioned = f"<@{BOT_USER}>" in text and channel.kind != "im"
        twin = {name: value for name, value in event.items() if name != "parent_user_id"}
        client_id = {"client_msg_id": f"msg-{post.ts}"} if not files else {}
        if mentioned:
            await self.emit(twin | {"type": "app_mention"} | client_id, team)
        await self.emit(event | {"channel_type": channel.kind} | client_id, team)
        return post.ts

    async def message_changed(self, channel: str, ts: str, text: str) -> None:
        """A person edits a message."""
        found = self.workspace.channels[channel]
        post = found.posts[ts]
        before = self._full(found, post)
        post.texts.append(text)
        post.edited = self.workspace.stamp()
        await self._emit_change(found, before, self._full(found, post))

    async def link_unfurled(self, channel: str, ts: str) -> None:
        """Slack adds a link card: message_changed with the same text and no edit stamp."""
        found = self.workspace.channels[channel]
        before = self._full(found, found.posts[ts])
        card = {"fallback": "Example", "title": "Example", "title_link": "https://example.com"}
        await self._emit_change(found, before, before | {"attachments": [card]})

    async def message_deleted(self, channel: str, ts: str) -> None:
        found = self.workspace.channels[channel]
        await self._emit_deletion(found, found.posts.pop(ts))

    async def bot_message(
        self, channel: str, text: str, *, bot_id: str = "B0OTHER", user: str | None = None
    ) -> str:
        """Another app posts, as a classic bot_message or, with `user`, as a bot user."""
        found = self.workspace.add_channel(channel)
        stamp = self.workspace.stamp()
        event = {"type": "message", "ts": stamp, "event_ts": stamp, "channel": channel, "text": text}
        event |= {"channel_type": found.kind, "bot_id": bot_id}
        event |= {"user": user} if user else {"subtype": "bot_message", "username": "Other bot"}
        await self.emit(event)
        return stamp

    def store_file(
        self, name: str, mime: str, content: bytes, *, stub: bool = False, external_url: str | None = None
    ) -> str:
        """A file for `files=` of a message. A stub is shown as Slack Connect shows it: an id and no more."""
        file = f"F{len(self.workspace.files):04d}IN"
        self.workspace.files[file] = StoredFile(file, name, mime, content, stub, external_url)
        return file

    async def slash(self, user: str, channel: str, text: str, command: str = "/trunkline") -> Delivery:
        """A person runs the slash command; `Delivery.acked` and `.answer` tell of the acknowledgement."""
        if channel not in self.workspace.channels:
            self.workspace.add_channel(channel, "im" if channel.startswith("D") else "channel", (user,))
        payload = {
            "token": "verification",
            "team_id": TEAM,
            "channel_id": channel,
            "channel_name": "directmessage" if channel.startswith("D") else channel.lower(),
            "user_id": user,
            "user_name": user.lower(),
            "command": command,
            "text": text,
            "api_app_id": APP,
            "response_url": self.response_url(channel, user),
            "trigger_id": f"trigger.{self.workspace.stamp()}",
        }
        return await self._deliver("slash_commands", payload)

    async def press(self, user: str, channel: str, ts: str, action: str, value: str) -> Delivery:
        """A person presses a button under a message of the bot."""
        thread = self.workspace.channels[channel].posts[ts].thread
        container = {"type": "message", "message_ts": ts, "channel_id": channel}
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "team_id": TEAM},
            "team": {"id": TEAM, "domain": "example"},
            "channel": {"id": channel, "name": channel.lower()},
            "container": container | ({"thread_ts": thread} if thread else {}),
            "actions": [{"type": "button", "action_id": action, "block_id": "b", "value": value}],
            "response_url": self.response_url(channel, user),
            "trigger_id": f"trigger.{self.workspace.stamp()}",
            "api_app_id": APP,
            "token": "verification",
        }
        return await self._deliver("interactive", payload)

    async def react(self, user: str, channel: str, ts: str, name: str, *, taken: bool = False) -> Delivery:
        """A person puts a reaction on a message, or takes it back."""
        event = {
            "type": "reaction_removed" if taken else "reaction_added",
            "user": user,
            "reaction": name,
            "item": {"type": "message", "channel": channel, "ts": ts},
            "item_user": self.workspace.channels[channel].posts[ts].user,
            "event_ts": self.workspace.stamp(),
        }
        return await self.emit(event)

    async def open_pane(self, user: str) -> str:
        """A person opens the assistant's pane; returns the ts of its thread."""
        channel = self.workspace.direct_channel(user)
        thread = Post(self.workspace.stamp(), BOT_USER, ["New assistant thread"], bot_id=BOT_ID)
        channel.posts[thread.ts] = thread
        pane = {"user_id": user, "context": {}, "channel_id": channel.id, "thread_ts": thread.ts}
        await self.emit({"type": "assistant_thread_started", "assistant_thread": pane, "event_ts": thread.ts})
        return thread.ts

    async def member_joined(self, channel: str, user: str, inviter: str | None = None) -> None:
        found = self.workspace.add_channel(channel, "channel", (user,))
        invited = {"inviter": inviter} if inviter else {}
        await self.emit(self._membership("member_joined_channel", found, user) | invited)

    async def member_left(self, channel: str, user: str) -> None:
        found = self.workspace.channels[channel]
        found.members.discard(user)
        await self.emit(self._membership("member_left_channel", found, user))

    def _membership(self, kind: str, channel: Channel, user: str) -> dict[str, Any]:
        event = {"type": kind, "user": user, "channel": channel.id, "team": TEAM}
        return event | {"channel_type": "C", "event_ts": self.workspace.stamp()}

    # Events

    async def emit(self, event: dict[str, Any], team: str = TEAM, *, checked: bool = True) -> Delivery:
        """Sends any event the methods above do not know; `checked=False` for one that is wrong on purpose."""
        if checked:
            self.violations += slack_spec.check_event(event)
        self._events += 1
        authorization = {"enterprise_id": None, "team_id": team, "user_id": BOT_USER, "is_bot": True}
        payload = {
            "token": "verification",
            "team_id": team,
            "api_app_id": APP,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{self._events:08d}",
            "event_time": int(float(event.get("event_ts", "0"))),
            "authorizations": [authorization | {"is_enterprise_install": False}],
            "is_ext_shared_channel": False,
        }
        return await self._deliver("events_api", payload)

    async def again(self, delivery: Delivery) -> Delivery:
        """The same event once more, long after it was settled."""
        return await self._deliver(delivery.kind, json.loads(json.dumps(delivery.payload)))

    async def _deliver(self, kind: str, payload: dict[str, Any]) -> Delivery:
        delivery = Delivery(kind, payload)
        await self.socket.send(delivery)
        self._spawn(self.socket.see_through(delivery))
        return delivery

    async def all_acked(self) -> None:
        """Returns when every envelope so far is acknowledged."""
        await self.wait_for(lambda: all(d.acked.is_set() for d in self.socket.deliveries))

    async def _echo(self, what: str, channel: Channel, post: Post) -> None:
        if what == "posted":
            event = self._full(channel, post) | {"team": TEAM}
            await self.emit(event)
        elif what == "edited":
            before = self._full(channel, post) | {"text": post.texts[-2]}
            await self._emit_change(channel, before, self._full(channel, post))
        else:
            await self._emit_deletion(channel, post)

    def _full(self, channel: Channel, post: Post) -> dict[str, Any]:
        where = {"channel": channel.id, "channel_type": channel.kind, "event_ts": post.ts}
        return self.workspace.message(post) | where

    async def _emit_change(self, channel: Channel, before: dict[str, Any], after: dict[str, Any]) -> None:
        event = self._hidden("message_changed", channel)
        await self.emit(event | {"message": after, "previous_message": before})

    async def _emit_deletion(self, channel: Channel, post: Post) -> None:
        event = self._hidden("message_deleted", channel) | {"deleted_ts": post.ts}
        await self.emit(event | {"previous_message": self._full(channel, post)})

    def _hidden(self, subtype: str, channel: Channel) -> dict[str, Any]:
        stamp = self.workspace.stamp()
        event = {"type": "message", "subtype": subtype, "hidden": True, "channel": channel.id}
        return event | {"channel_type": channel.kind, "ts": stamp, "event_ts": stamp}

    def _file_of(self, file: str) -> dict[str, Any]:
        stored = self.workspace.files[file]
        if stored.stub:
            return {"id": stored.id, "created": 0, "mode": "file_access", "file_access": "check_file_info"}
        return self.web.file_record(stored)
