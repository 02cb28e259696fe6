"""The REST half of the Discord emulator: API v10 as discord.py uses it, refusing what Discord refuses."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from aiohttp import web

from tests.emulators.base import Emulator
from tests.emulators.discord_calls import (
    Answer,
    ApiError,
    Asked,
    Operation,
    Rules,
    check_content,
    checked_components,
    cut,
    form_error,
    parsed,
    pinged,
    respond,
)
from tests.emulators.discord_interactions import Interactions
from tests.emulators.discord_spec import DiscordSpec
from tests.emulators.discord_world import (
    DM,
    FORUM,
    PRIVATE_THREAD,
    PUBLIC_THREAD,
    TEXT,
    Json,
    World,
    now_text,
)

MAX_FILE_BYTES = 10 * 2**20
MAX_REQUEST_BYTES = 25 * 2**20
MAX_FILES = 10
NONCE_CHARS = 25
HISTORY_MOST = 100

Emit = Callable[..., Awaitable[None]]


@dataclass(slots=True)
class Bucket:
    """A rate limit's window: how many calls it had, and when it opens anew."""

    used: int = 0
    ends_at: float = 0.0


class DiscordRest:
    """Adds its routes to the emulator's application; `emit` hands events to the gateway."""

    def __init__(
        self, emulator: Emulator, world: World, rules: Rules, emit: Emit, spec: DiscordSpec | None
    ) -> None:
        self.emulator = emulator
        self.world = world
        self.rules = rules
        self.emit = emit
        self.spec = spec
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._every = Bucket()
        self._deleted_nonces: set[tuple[str, str]] = set()
        channel = "/channels/{channel_id}"
        message = channel + "/messages/{message_id}"
        calls = Interactions(world, rules, self._announce)
        commands = "/applications/{application_id}/commands"
        hook = "/webhooks/{webhook_id}/{webhook_token}"
        routes: list[tuple[str, str, str, Operation]] = [
            ("GET", "/users/@me", "get_me", self._get_me),
            ("GET", "/applications/@me", "get_application", self._get_application),
            ("GET", "/oauth2/applications/@me", "get_application", self._get_application),
            ("GET", "/gateway/bot", "get_gateway_bot", self._get_gateway_bot),
            ("GET", "/users/@me/guilds", "get_guilds", self._get_guilds),
            ("POST", "/users/@me/channels", "create_dm", self._create_dm),
            ("GET", channel, "get_channel", self._get_channel),
            ("GET", "/guilds/{guild_id}/members/{user_id}", "get_member", self._get_member),
            ("POST", channel + "/typing", "typing", self._typing),
            ("POST", channel + "/threads", "start_thread", self._start_thread),
            ("GET", channel + "/messages", "list_messages", self._list_messages),
            ("POST", channel + "/messages", "create_message", self._create_message),
            ("GET", message, "get_message", self._get_message),
            ("PATCH", message, "edit_message", self._edit_message),
            ("DELETE", message, "delete_message", self._delete_message),
            ("POST", message + "/threads", "start_thread", self._start_thread),
            ("PUT", message + "/reactions/{emoji_name}/@me", "add_reaction", self._add_reaction),
            ("DELETE", message + "/reactions/{emoji_name}/@me", "remove_reaction", self._remove_reaction),
            ("GET", commands, "get_commands", calls.get_commands),
            ("PUT", commands, "put_commands", calls.put_commands),
            ("POST", commands, "create_command", calls.create_command),
            ("DELETE", commands + "/{command_id}", "delete_command", calls.delete_command),
            (
                "POST",
                "/interactions/{interaction_id}/{interaction_token}/callback",
                "interaction_callback",
                calls.callback,
            ),
            ("POST", hook, "followup", calls.followup),
            ("GET", hook + "/messages/@original", "get_original", calls.get_answer),
            ("PATCH", hook + "/messages/@original", "edit_original", calls.edit_answer),
            ("DELETE", hook + "/messages/@original", "delete_original", calls.delete_answer),
            ("PATCH", hook + "/messages/{message_id}", "edit_followup", calls.edit_answer),
            ("DELETE", hook + "/messages/{message_id}", "delete_followup", calls.delete_answer),
        ]
        for verb, path, name, operation in routes:
            handler = self._handler(verb, path, name, operation)
            emulator.app.router.add_route(verb, "/api/v10" + path, handler)
        emulator.app.router.add_route("*", "/api/{tail:.*}", self._unknown)
        emulator.app.router.add_get("/attachments/{tail:.*}", self._download)

    # The frame around every operation

    def _handler(
        self, verb: str, path: str, name: str, operation: Operation
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            asked = await parsed(request)
            await self.emulator.record(name, {**asked.path, **asked.query, "body": asked.body})
            fault = self.emulator.take_fault(name)
            if fault is not None:
                await asyncio.sleep(fault.delay_s)
                if fault.drop:
                    cut(request)
                    return web.Response()
                serves = fault.accept_then_drop or fault.serve
                if not serves and (fault.body is not None or not fault.delay_s):
                    return respond(fault.status, fault.body or {"message": "fault", "code": 0}, fault.headers)
            status, body, headers = await self._answered(request, verb, path, name, operation, asked)
            await self.emulator.notify()
            if fault is not None and fault.accept_then_drop:
                cut(request)
            return respond(status, body, headers)

        return handle

    async def _answered(
        self, request: web.Request, verb: str, path: str, name: str, operation: Operation, asked: Asked
    ) -> tuple[int, Any, dict[str, str]]:
        public = "webhook_token" in asked.path or "interaction_token" in asked.path
        # The global limit is for what a bot does as such, not for its answers to interactions.
        limited, headers = (None, {}) if public else self._counted_over_all()
        if limited is None:
            limited, headers = self._counted(name, asked.path.get("channel_id", ""))
        if limited is not None:
            return 429, limited, {**headers, "Via": "1.1 emulator"}
        if not public and request.headers.get("Authorization") != f"Bot {self.rules.token}":
            return 401, {"message": "401: Unauthorized", "code": 0}, headers
        if self.spec is not None:
            self.emulator.violations += self.spec.request(verb, path, asked.body)
        try:
            status, body = await operation(asked)
        except ApiError as error:
            return error.status, error.body, headers
        if self.spec is not None:
            self.emulator.violations += self.spec.response(verb, path, status, body)
        return status, body, headers

    def _counted_over_all(self) -> tuple[Json | None, dict[str, str]]:
        now = time.monotonic()
        if now >= self._every.ends_at:
            self._every.used, self._every.ends_at = 0, now + 1
        self._every.used += 1
        if self._every.used <= self.rules.calls_per_s:
            return None, {}
        limited = {"message": "You are being rate limited.", "retry_after": 1.0, "global": True}
        return limited, {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global", "Retry-After": "1"}

    def _counted(self, name: str, channel: str) -> tuple[Json | None, dict[str, str]]:
        if name not in self.rules.rate_limits:
            return None, {}
        limit, window_s = self.rules.rate_limits[name]
        bucket = self._buckets.setdefault((name, channel), Bucket())
        now = time.monotonic()
        if now >= bucket.ends_at:
            bucket.used, bucket.ends_at = 0, now + window_s
        # Rounded up: a client that waits exactly this long must not be early.
        left_s = ceil((bucket.ends_at - now) * 1000) / 1000
        full = bucket.used >= limit
        bucket.used += not full
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(limit - bucket.used),
            "X-RateLimit-Reset": str(time.time() + left_s),
            "X-RateLimit-Reset-After": str(left_s),
            "X-RateLimit-Bucket": f"bucket-{name}",
        }
        if full:
            headers |= {"X-RateLimit-Scope": "user", "Retry-After": str(ceil(left_s))}
            limited = {"message": "You are being rate limited.", "retry_after": left_s, "global": False}
            return limited, headers
        return None, headers

    async def _unknown(self, request: web.Request) -> web.Response:
        self.emulator.violations.append(f"{request.method} {request.path}: the emulator does not know it")
        return respond(404, {"message": "404: Not Found", "code": 0}, {})

    # Who and what

    async def _get_me(self, asked: Asked) -> Answer:
        me = self.world.users[self.world.bot_id]
        return 200, {**me, "mfa_enabled": False, "locale": "en-US", "verified": True, "email": None}

    async def _get_application(self, asked: Asked) -> Answer:
        return 200, self.world.application()

    async def _get_gateway_bot(self, asked: Asked) -> Answer:
        starts = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
        return 200, {"url": "wss://gateway.discord.gg", "session_start_limit": starts, "shards": 1}

    async def _get_guilds(self, asked: Asked) -> Answer:
        guild = self.world.guild()
        shown = {name: guild.get(name) for name in ("id", "name", "icon", "banner", "features")}
        return 200, [{**shown, "owner": False, "permissions": str(self.world.granted)}]

    async def _create_dm(self, asked: Asked) -> Answer:
        user_id = str(asked.body["recipient_id"])
        return 200, self.world.channels[self.world.direct_channel(user_id)]

    async def _get_channel(self, asked: Asked) -> Answer:
        return 200, self._channel(asked)

    def _channel(self, asked: Asked, *, writing: bool = False) -> Json:
        channel_id = asked.path["channel_id"]
        channel = self.world.channels.get(channel_id)
        if channel is None:
            raise ApiError(404, 10003, "Unknown Channel")
        if channel_id in self.rules.hidden_channels:
            raise ApiError(403, 50001, "Missing Access")
        if not writing:
            return channel
        if channel_id in self.rules.read_only_channels:
            raise ApiError(403, 50013, "Missing Permissions")
        if channel["type"] == DM and channel["recipients"][0]["id"] in self.rules.refused_users:
            raise ApiError(403, 50007, "Cannot send messages to this user")
        if channel["type"] == FORUM:
            raise ApiError(400, 50008, "Cannot send messages in a non-text channel")
        if channel.get("thread_metadata", {}).get("locked"):
            raise ApiError(400, 50083, "Thread is archived")
        return channel

    async def _typing(self, asked: Asked) -> Answer:
        self._channel(asked, writing=True)
        return 204, None

    async def _start_thread(self, asked: Asked) -> Answer:
        parent, under = self._channel(asked), asked.path.get("message_id")
        self._check_thread(asked, parent, under)
        kind = asked.body.get("type", PRIVATE_THREAD if under is None else PUBLIC_THREAD)
        thread = self.world.add_thread(parent["id"], asked.body["name"], self.world.bot_id, kind, under)
        await self.emit("THREAD_CREATE", {**thread, "newly_created": True})
        if under is not None:
            first = self.world.messages[parent["id"]][under]
            twin = {**self.world.reference(parent["id"], under), "type": 21}
            await self._announce(
                "MESSAGE_CREATE", self.world.new_message(thread["id"], first["author"], "", **twin)
            )
        return 201, thread

    def _check_thread(self, asked: Asked, parent: Json, under: str | None) -> None:
        if not 1 <= len(asked.body["name"]) <= 100:
            raise form_error("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if parent["type"] != TEXT:
            raise ApiError(400, 50024, "Cannot execute action on this channel type")
        if parent["id"] in self.rules.threadless_channels:
            raise ApiError(403, 50013, "Missing Permissions")
        if under is not None and under not in self.world.messages[parent["id"]]:
            raise ApiError(404, 10008, "Unknown Message")
        if under is not None and under in self.world.channels:
            raise ApiError(400, 160004, "A thread has already been created for this message")

    # Messages

    async def _list_messages(self, asked: Asked) -> Answer:
        held = list(self.world.messages[self._channel(asked)["id"]].values())
        limit = int(asked.query.get("limit", 50))
        if not 1 <= limit <= HISTORY_MOST:
            raise form_error("limit", "NUMBER_TYPE_MAX", f"int value should be at most {HISTORY_MOST}.")
        if "after" in asked.query:
            held = [m for m in held if int(m["id"]) > int(asked.query["after"])][:limit]
        elif "before" in asked.query:
            held = [m for m in held if int(m["id"]) < int(asked.query["before"])]
        return 200, held[-limit:][::-1]

    def _message(self, asked: Asked) -> Json:
        held = self.world.messages[self._channel(asked)["id"]].get(asked.path["message_id"])
        if held is None:
            raise ApiError(404, 10008, "Unknown Message")
        return held

    async def _get_message(self, asked: Asked) -> Answer:
        return 200, self._message(asked)

    async def _create_message(self, asked: Asked) -> Answer:
        channel = self._channel(asked, writing=True)
        body: Json = asked.body or {}
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > NONCE_CHARS:
            raise form_error("nonce", "NONCE_TYPE_TOO_LONG", "nonce must be 25 or fewer in length.")
        if body.get("enforce_nonce") and (channel["id"], nonce) in self._deleted_nonces:
            raise ApiError(404, 10008, "Unknown Message")
        if body.get("enforce_nonce") and nonce is not None:
            for held in self.world.messages[channel["id"]].values():
                if held.get("nonce") == nonce and held["author"]["id"] == self.world.bot_id:
                    return 200, held
        attachments = self._uploads(asked)
        check_content(body, has_files=bool(attachments))
        extra: Json = {"flags": body.get("flags", 0), "attachments": attachments}
        extra["components"] = checked_components(body)
        extra |= self._reply(channel["id"], body.get("message_reference"))
        if nonce is not None:
            extra["nonce"] = nonce
        author = self.world.users[self.world.bot_id]
        message = self.world.new_message(channel["id"], author, body.get("content") or "", **extra)
        self.world.pings[message["id"]] = pinged(body, extra)
        await self._announce("MESSAGE_CREATE", message)
        return 200, message

    def _reply(self, channel_id: str, reference: Json | None) -> Json:
        if reference is None:
            return {}
        target = str(reference["message_id"])
        found = self.world.messages[channel_id].get(target)
        if found is None and reference.get("fail_if_not_exists", True):
            raise form_error("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return self.world.reference(channel_id, target) if found else {}

    def _uploads(self, asked: Asked) -> list[Json]:
        if len(asked.files) > MAX_FILES:
            raise form_error("attachments", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
        sizes = [len(content) for _, content, _ in asked.files]
        if sum(sizes) > MAX_REQUEST_BYTES or any(size > MAX_FILE_BYTES for size in sizes):
            raise ApiError(413, 40005, "Request entity too large")
        return [self.world.add_file(*file) for file in asked.files]

    async def _edit_message(self, asked: Asked) -> Answer:
        held = self._message(asked)
        if held["author"]["id"] != self.world.bot_id:
            raise ApiError(403, 50005, "Cannot edit a message authored by another user")
        check_content(asked.body, has_files=bool(held["attachments"]))
        held |= {"content": asked.body["content"], "edited_timestamp": now_text()}
        if "components" in asked.body:
            held["components"] = checked_components(asked.body)
        await self._announce("MESSAGE_UPDATE", held)
        return 200, held

    async def _delete_message(self, asked: Asked) -> Answer:
        held = self._message(asked)
        del self.world.messages[held["channel_id"]][held["id"]]
        self._deleted_nonces.add((held["channel_id"], held.get("nonce") or ""))
        body = {"id": held["id"], "channel_id": held["channel_id"]}
        if not self.world.is_direct(held["channel_id"]):
            body["guild_id"] = self.world.guild_id
        await self.emit("MESSAGE_DELETE", body, held["channel_id"])
        return 204, None

    async def _announce(self, event: str, message: Json) -> None:
        await self.emit(
            event, lambda intents: self.world.for_gateway(message, intents), message["channel_id"]
        )

    async def _get_member(self, asked: Asked) -> Answer:
        if asked.path["user_id"] in self.world.gone:
            raise ApiError(404, 10007, "Unknown Member")
        return 200, self.world.member(asked.path["user_id"])

    async def _add_reaction(self, asked: Asked) -> Answer:
        held = self._message(asked)
        self.world.reactions.append((held["id"], asked.path["emoji_name"]))
        return 204, None

    async def _remove_reaction(self, asked: Asked) -> Answer:
        with contextlib.suppress(ValueError):
            self.world.reactions.remove((self._message(asked)["id"], asked.path["emoji_name"]))
        return 204, None

    async def _download(self, request: web.Request) -> web.Response:
        await self.emulator.record("download", {"path": request.path})
        fault = self.emulator.take_fault("download")
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            return web.Response(status=fault.status)
        content = self.world.files.get(request.path)
        return web.Response(status=404) if content is None else web.Response(body=content)
