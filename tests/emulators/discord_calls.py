"""One call of the REST API: how it is parsed and answered, and what Discord says of its content."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.emulators.discord_world import Json

MAX_CONTENT_CHARS = 2000


class ApiError(Exception):
    """An answer outside 2xx, in Discord's own form."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"message": message, "code": code, **({"errors": errors} if errors else {})}


def form_error(field_name: str, code: str, message: str) -> ApiError:
    errors = {field_name: {"_errors": [{"code": code, "message": message}]}}
    return ApiError(400, 50035, "Invalid Form Body", errors)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, parsed: the path's parts, the query, the body, and the files of a multipart one."""

    path: dict[str, str]
    query: dict[str, str]
    body: Any
    files: tuple[tuple[str, bytes, str], ...] = ()


Answer = tuple[int, Any]
Operation = Callable[[Asked], Awaitable[Answer]]


@dataclass(slots=True)
class Rules:
    """What tests may turn. `rate_limits` maps a method's name to calls and seconds of its window."""

    token: str
    ack_deadline_s: float = 3.0
    interaction_life_s: float = 900.0
    rate_limits: dict[str, tuple[int, float]] = field(default_factory=dict)
    calls_per_s: int = 50
    creations_per_day: int = 200
    refused_users: set[str] = field(default_factory=set)
    hidden_channels: set[str] = field(default_factory=set)
    read_only_channels: set[str] = field(default_factory=set)
    threadless_channels: set[str] = field(default_factory=set)
    """Where the bot may open no threads."""


def check_content(body: Json, *, has_files: bool) -> None:
    content = body.get("content") or ""
    if len(content) > MAX_CONTENT_CHARS:
        raise form_error("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
    if not content.strip() and not has_files and not body.get("embeds"):
        raise ApiError(400, 50006, "Cannot send an empty message")


def checked_components(body: Json) -> list[Json]:
    """Rows of buttons with the ids Discord gives them; refuses what it refuses of them."""
    rows = body.get("components") or []
    if len(rows) > 5 or any(not 1 <= len(row["components"]) <= 5 for row in rows):
        raise form_error("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    buttons = [button for row in rows for button in row["components"]]
    if any(len(button["custom_id"]) > 100 or len(button.get("label") or "") > 80 for button in buttons):
        raise form_error("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    if len({button["custom_id"] for button in buttons}) < len(buttons):
        raise form_error("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id duplicated")
    ids = iter(range(1, 41))
    return [
        {**row, "id": next(ids), "components": [{**button, "id": next(ids)} for button in row["components"]]}
        for row in rows
    ]


def pinged(body: Json, reply: Json) -> tuple[str, ...]:
    """Who is notified, by the policy sent along; without one Discord parses everything in the text."""
    policy = body.get("allowed_mentions")
    content = body.get("content") or ""
    if policy is None:
        return ("everyone",) if "@everyone" in content or "@here" in content else ()
    pinged = [str(user) for user in policy.get("users", []) if f"<@{user}>" in content]
    if "everyone" in policy.get("parse", []):
        pinged.append("everyone")
    replied = (reply.get("referenced_message") or {}).get("author", {}).get("id")
    if policy.get("replied_user") and replied:
        pinged.append(replied)
    return tuple(pinged)


async def parsed(request: web.Request) -> Asked:
    path, query = dict(request.match_info), dict(request.query)
    if request.content_type != "multipart/form-data":
        text = await request.text()
        return Asked(path, query, json.loads(text) if text else None)
    body: Any = None
    files: list[tuple[str, bytes, str]] = []
    async for part in await request.multipart():
        content = await part.read()  # type: ignore[union-attr]
        if part.name == "payload_json":  # type: ignore[union-attr]
            body = json.loads(content)
        else:
            files.append((part.filename or "file", bytes(content), "application/octet-stream"))  # type: ignore[union-attr]
    return Asked(path, query, body, tuple(files))


def respond(status: int, body: Any, headers: dict[str, str]) -> web.Response:
    if body is None:
        return web.Response(status=status, headers=headers)
    # Exactly this content type: with a charset discord.py takes the body for text.
    return web.Response(
        status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers
    )


def cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
