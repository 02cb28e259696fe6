"""RetainDB's API on loopback: memories by project and user, found by words, marked when they are deleted.

Three editions answer as theirs do: `admin`, whose key may have deleted memories dropped; `server`, the
vendor's open server, where nobody may; `local`, which knows fewer calls and other shapes. As in all of them a
project's own knowledge is seen by each of its users, and deleting asks for nothing but an id.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.by_words import likeness
from tests.emulators.provider import ProviderServer

Edition = Literal["admin", "server", "local"]
FIELDS = {
    "memory": {
        "project",
        "content",
        "memory_type",
        "user_id",
        "session_id",
        "importance",
        "confidence",
        "write_mode",
    },
    "search": {
        "project",
        "query",
        "user_id",
        "session_id",
        "top_k",
        "include_pending",
        "memory_types",
        "profile",
    },
    "context": {"project", "query", "user_id", "session_id", "include_memories", "max_tokens"},
    "cleanup": {"project_id", "dry_run"},
}
TYPES = {"factual", "preference", "goal", "instruction", "event", "opinion"}
CONTENT_CHARS, QUERY_CHARS = 10_000, 5_000


@dataclass(slots=True)
class Memory:
    id: str
    content: str
    user_id: str | None
    session_id: str | None
    active: bool = True


class RetainDbEmulator(ProviderServer):
    """One account with one key. `projects` are its memories, those that were only marked among them."""

    def __init__(self, key: str, edition: Edition = "admin") -> None:
        super().__init__()
        self.key = key
        self.edition = edition
        self.pending = False
        """Whether what is written is only taken, and not kept yet."""
        self.projects: dict[str, list[Memory]] = defaultdict(list)
        self._replays: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._numbers = count(1)
        self.app.middlewares.append(self._checked)
        route = self.app.router
        route.add_get("/v1/projects", self._projects)
        route.add_post("/v1/memory", self._add)
        route.add_post("/v1/memory/search", self._search)
        route.add_post("/v1/context/query", self._context)
        route.add_get("/v1/memory/profile/{user}", self._profile)
        route.add_get("/v1/memory/session/{session}", self._session)
        route.add_delete("/v1/memory/{memory}", self._delete)
        if edition != "local":
            route.add_get("/v1/projects/resolve", self._resolve)
            route.add_delete("/v1/projects/{project}", self._delete_project)
            route.add_get("/v1/memory/graph", self._graph)
            route.add_post("/v1/admin/memory/cleanup", self._clean_up)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            return web.json_response({"error": {"code": "NOT_FOUND"}}, status=404)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.violations += [f"{kind}: unknown field {name}" for name in body.keys() - FIELDS[kind]]
        if "query" in body and not 1 <= len(body["query"]) <= QUERY_CHARS:
            self.violations.append(f"{kind}: a query of {len(body['query'])}")
        await self.record(kind, {**body, "key": request.headers.get("Idempotency-Key", "")})
        return body

    async def _projects(self, _: web.Request) -> web.Response:
        return web.json_response({"projects": [{"id": f"id-{one}", "slug": one} for one in self.projects]})

    async def _add(self, request: web.Request) -> web.Response:
        body = await self._body(request, "memory")
        if not 1 <= len(body["content"]) <= CONTENT_CHARS or body["memory_type"] not in TYPES:
            self.violations.append(f"memory: {body['memory_type']} of {len(body['content'])}")
        key = request.headers.get("Idempotency-Key", "")
        if key in self._replays and self.edition != "local":
            before, answer = self._replays[key]
            if before != body:
                return web.json_response({"error": {"message": "key reuse"}}, status=409)
            return web.json_response(answer)
        kept = self.projects[body["project"]]
        user, session = body.get("user_id"), body.get("session_id")
        known = (one for one in kept if one.active and one.session_id == session)
        made = next((one for one in known if one.content.casefold() == body["content"].casefold()), None)
        if made is None:
            number = next(self._numbers)
            made = Memory(
                f"pending:job{number}:0" if self.pending else f"mem{number}", body["content"], user, session
            )
            kept.append(made)
        answer = {"success": True, "mode": "sync", "memory_id": made.id, "memory": self._shown(made)}
        self._replays[key] = (body, answer)
        return web.json_response(answer)

    async def _search(self, request: web.Request) -> web.Response:
        body = await self._body(request, "search")
        if (fault := self.take_fault("search")) is not None:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        found = self._found(body)[: body["top_k"]]
        if self.edition == "local":
            results = [
                {"id": one.id, "score": score * 9, "content": one.content, "memory": self._shown(one)}
                for score, one in found
            ]
        else:
            results = [{"memory": self._shown(one), "similarity": score} for score, one in found]
        return web.json_response({"results": results, "count": len(results)})

    async def _context(self, request: web.Request) -> web.Response:
        body = await self._body(request, "context")
        return web.json_response({"context": "\n".join(f"- {one.content}" for _, one in self._found(body))})

    async def _profile(self, request: web.Request) -> web.Response:
        user = request.match_info["user"]
        seen = [one for one in self._active(request.query["project"]) if one.user_id in (user, None)]
        return web.json_response({"memories": list(map(self._shown, seen)), "count": len(seen)})

    async def _session(self, request: web.Request) -> web.Response:
        session = request.match_info["session"]
        seen = [one for one in self._active(request.query["project"]) if one.session_id == session]
        return web.json_response({"memories": list(map(self._shown, seen)), "count": len(seen)})

    async def _graph(self, request: web.Request) -> web.Response:
        nodes = [self._shown(one) for one in self._active(request.query["project"])]
        return web.json_response({"nodes": nodes, "edges": []})

    async def _delete(self, request: web.Request) -> web.Response:
        wanted = request.match_info["memory"]
        known = next((one for kept in self.projects.values() for one in kept if one.id == wanted), None)
        if self.edition == "local":
            if known is not None:
                known.active = False
            return web.json_response({"success": True, "deleted": known.id if known else None})
        if known is None:
            return web.json_response({"error": "Memory not found"}, status=404)
        known.active = False
        return web.json_response({"success": True, "message": "Memory deleted", "memory_id": known.id})

    async def _resolve(self, request: web.Request) -> web.Response:
        name = request.query["project"]
        if name not in self.projects:
            return web.json_response({"error": "Project not found"}, status=404)
        return web.json_response({"input": name, "resolved": {"id": f"id-{name}", "slug": name}})

    async def _delete_project(self, request: web.Request) -> web.Response:
        if self.projects.pop(request.match_info["project"], None) is None:
            return web.json_response({"error": "Project not found"}, status=404)
        return web.json_response({"deleted": True})

    async def _clean_up(self, request: web.Request) -> web.Response:
        if self.edition == "server":
            return web.json_response({"error": "Admin access required"}, status=403)
        body = await self._body(request, "cleanup")
        name = body["project_id"].removeprefix("id-")
        before = self.projects[name]
        self.projects[name] = [one for one in before if one.active]
        return web.json_response({"success": True, "deleted": len(before) - len(self.projects[name])})

    def _active(self, project: str) -> list[Memory]:
        return [one for one in self.projects.get(project, []) if one.active]

    def _found(self, body: dict[str, Any]) -> list[tuple[float, Memory]]:
        seen = [one for one in self._active(body["project"]) if one.user_id in (body["user_id"], None)]
        scored = [(likeness(body["query"], one.content), one) for one in seen]
        return sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])

    def _shown(self, memory: Memory) -> dict[str, Any]:
        return {
            "id": memory.id,
            "content": memory.content,
            "user_id": memory.user_id,
            "session_id": memory.session_id,
            "confidence": 0.9,
        }
