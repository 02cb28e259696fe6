"""Mem0's hosted API (as its SDK 2.2 asks it) on loopback, and a server of embeddings for its own engine.

Where the real service has a model draw memories out of a turn, this takes each sentence of the person. What
is added is worked on when its event is asked about for the last time of `looks`.
"""

import math
import zlib
from dataclasses import dataclass
from itertools import count
from typing import Any

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.by_words import likeness, sentences, words
from tests.emulators.provider import ProviderServer

STAMP = "2026-11-30T12:00:00Z"
FIELDS = {
    "add": {"messages", "user_id", "infer", "metadata", "timestamp", "custom_instructions"},
    "search": {"query", "filters", "top_k", "threshold"},
    "list": {"filters"},
    "update": {"text"},
}


@dataclass(slots=True)
class Kept:
    user: str
    text: str
    metadata: dict[str, Any]


class Mem0Emulator(ProviderServer):
    """One project with one key. `memories` are everybody's, by id; `failing` events end as failures.

    A `careless` one finds other people's memories, too.
    """

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.memories: dict[str, Kept] = {}
        self.looks = 1
        self.failing = False
        self.careless = False
        self._events: dict[str, tuple[int, dict[str, Any]]] = {}
        self._numbers = count(1)
        self.app.middlewares.append(self._checked)
        route = self.app.router
        route.add_get("/v1/ping/", self._ping)
        route.add_post("/v3/memories/add/", self._add)
        route.add_get("/v1/event/{event}/", self._event)
        route.add_post("/v3/memories/search/", self._search)
        route.add_post("/v3/memories/", self._list)
        route.add_get("/v1/memories/{id}/", self._get)
        route.add_put("/v1/memories/{id}/", self._update)
        route.add_delete("/v1/memories/{id}/", self._delete)
        route.add_delete("/v1/memories/", self._delete_all)
        route.add_delete("/v2/entities/user/{user}/", self._delete_user)

    def finish(self) -> None:
        """Works on all that was added and not yet worked on."""
        for event, (left, body) in self._events.items():
            if left > 0:
                self._work_on(body)
                self._events[event] = (0, body)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Token {self.key}":
            return web.json_response({"detail": "Invalid API key"}, status=401)
        return await handler(request)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.violations += [f"{kind}: unexpected field {name}" for name in body.keys() - FIELDS[kind]]
        await self.record(kind, body)
        return body

    async def _ping(self, _: web.Request) -> web.Response:
        await self.record("ping", {})
        return web.json_response({"status": "ok", "org_id": "org-1", "project_id": "proj-1"})

    async def _add(self, request: web.Request) -> web.Response:
        body = await self._body(request, "add")
        event = f"evt-{next(self._numbers)}"
        self._events[event] = (self.looks, body)
        return web.json_response({"message": "queued", "status": "PENDING", "event_id": event})

    async def _event(self, request: web.Request) -> web.Response:
        event = request.match_info["event"]
        await self.record("event", {"event": event})
        left, body = self._events[event]
        if self.failing:
            return web.json_response({"id": event, "status": "FAILED"})
        if left == 1:
            self._work_on(body)
        self._events[event] = (left - 1, body)
        return web.json_response({"id": event, "status": "SUCCEEDED" if left <= 1 else "RUNNING"})

    def _work_on(self, body: dict[str, Any]) -> None:
        said = [one["content"] for one in body["messages"] if one["role"] == "user"]
        texts = said if not body["infer"] else [part for text in said for part in sentences(text)]
        for text in dict.fromkeys(texts):
            self.memories[f"mem-{next(self._numbers)}"] = Kept(body["user_id"], text, body["metadata"])

    def _fits(self, one: Kept, filters: dict[str, Any]) -> bool:
        conditions = filters.get("AND", [filters])
        user = [condition["user_id"] for condition in conditions if "user_id" in condition]
        metadata = [condition["metadata"] for condition in conditions if "metadata" in condition]
        is_theirs = self.careless or [one.user] == user
        return is_theirs and all(one.metadata.items() >= wanted.items() for wanted in metadata)

    async def _search(self, request: web.Request) -> web.Response:
        body = await self._body(request, "search")
        found = [
            {**_told(name, one), "score": score}
            for name, one in self.memories.items()
            if self._fits(one, body["filters"]) and (score := likeness(body["query"], one.text))
        ]
        found.sort(key=lambda one: -one["score"])
        return web.json_response({"results": found[: body["top_k"]]})

    async def _list(self, request: web.Request) -> web.Response:
        body = await self._body(request, "list")
        found = [_told(name, one) for name, one in self.memories.items() if self._fits(one, body["filters"])]
        size, page = int(request.query["page_size"]), int(request.query["page"])
        more = "more" if len(found) > size * page else None
        listed = found[size * (page - 1) : size * page]
        return web.json_response({"count": len(found), "next": more, "previous": None, "results": listed})

    def _named(self, request: web.Request) -> str:
        name = request.match_info["id"]
        if name not in self.memories:
            raise web.HTTPNotFound(text='{"detail": "No memory"}', content_type="application/json")
        return name

    async def _get(self, request: web.Request) -> web.Response:
        name = self._named(request)
        return web.json_response(_told(name, self.memories[name]))

    async def _update(self, request: web.Request) -> web.Response:
        body = await self._body(request, "update")
        name = self._named(request)
        self.memories[name].text = body["text"]
        return web.json_response(_told(name, self.memories[name]))

    async def _delete(self, request: web.Request) -> web.Response:
        name = self._named(request)
        await self.record("delete", {"id": name})
        del self.memories[name]
        return web.json_response({"message": "Memory deleted successfully!"})

    async def _delete_all(self, request: web.Request) -> web.Response:
        user = request.query["user_id"]
        for name in [name for name, one in self.memories.items() if one.user == user]:
            del self.memories[name]
        return web.json_response({"message": "Memories deleted successfully!"})

    async def _delete_user(self, request: web.Request) -> web.Response:
        await self.record("delete_user", {"user": request.match_info["user"]})
        return web.json_response({"message": "Entity deleted successfully!"})


class EmbeddingsEmulator(ProviderServer):
    """An OpenAI-compatible server of embeddings with one key: texts with the same words are alike."""

    def __init__(self, key: str, dimensions: int) -> None:
        super().__init__()
        self.key = key
        self.dimensions = dimensions
        self.app.router.add_post("/v1/embeddings", self._embed)

    async def _embed(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
        body = await request.json()
        await self.record("embeddings", body)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        listed = [
            {"object": "embedding", "index": number, "embedding": self._vector(text)}
            for number, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": listed, "model": body["model"], "usage": usage})

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        signs = {sign for sign in text if "\u3040" <= sign <= "\u9fff"}
        for word in words(text) | signs or {""}:
            vector[zlib.crc32(word.encode()) % self.dimensions] += 1.0
        length = math.sqrt(sum(part * part for part in vector))
        return [part / length for part in vector]


def _told(name: str, one: Kept) -> dict[str, Any]:
    stamps = {"created_at": STAMP, "updated_at": STAMP}
    return {"id": name, "memory": one.text, "user_id": one.user, "metadata": one.metadata, **stamps}
