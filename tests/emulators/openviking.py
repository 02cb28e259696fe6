"""An OpenViking server on loopback: files by address, found by words.

Field names and envelopes are those of server 0.5.2; a field that it would refuse is a violation.
"""

import re
from typing import Any

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.by_words import likeness
from tests.emulators.provider import ProviderServer

ADDRESS = re.compile(r"viking://user/default/peers/[a-z0-9-]{1,80}(/memories(/[a-z0-9-]{1,120}\.md)?)?")
FIELDS = {
    "write": {"uri", "content", "mode", "wait", "telemetry", "processing_mode", "tags", "tag_mode", "acl"},
    "find": {"query", "target_uri", "limit", "level", "read_content", "context_type", "score_threshold"},
    "grep": {"uri", "pattern", "case_insensitive", "node_limit", "level_limit", "exclude_uri", "tags"},
}
ABSTRACT_CHARS = 256


class OpenVikingEmulator(ProviderServer):
    """One user, `default`, with one key. `files` are its texts by address."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.files: dict[str, str] = {}
        self.app.middlewares.append(self._checked)
        route = self.app.router
        route.add_post("/api/v1/content/write", self._write)
        route.add_get("/api/v1/content/read", self._read)
        route.add_post("/api/v1/search/find", self._find)
        route.add_post("/api/v1/search/grep", self._grep)
        route.add_get("/api/v1/fs/ls", self._ls)
        route.add_delete("/api/v1/fs", self._delete)

    def stored(self, bank: str) -> list[str]:
        return list(self._below(f"viking://user/default/peers/{bank}").values())

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("X-API-Key") != self.key:
            return _error(401, "UNAUTHENTICATED", "Invalid API key")
        if request.headers.get("X-OpenViking-User") != "default":
            self.violations.append(f"user {request.headers.get('X-OpenViking-User')!r}")
        return await handler(request)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.violations += [f"{kind}: unknown field {name}" for name in body.keys() - FIELDS[kind]]
        self._address(kind, body.get("uri") or body.get("target_uri") or "")
        await self.record(kind, body)
        return body

    def _address(self, kind: str, uri: str) -> None:
        if ADDRESS.fullmatch(uri) is None:
            self.violations.append(f"{kind}: address {uri!r}")

    def _below(self, folder: str) -> dict[str, str]:
        return {uri: text for uri, text in self.files.items() if uri.startswith(f"{folder}/")}

    async def _write(self, request: web.Request) -> web.Response:
        body = await self._body(request, "write")
        self.files[body["uri"]] = body["content"]
        return _ok({"uri": body["uri"], "context_type": "memory", "mode": body["mode"]})

    async def _read(self, request: web.Request) -> web.Response:
        uri = request.query["uri"]
        self._address("read", uri)
        if uri not in self.files:
            return _error(404, "NOT_FOUND", f"File not found: {uri}", {"type": "file", "resource": uri})
        return _ok(self.files[uri])

    async def _find(self, request: web.Request) -> web.Response:
        body = await self._body(request, "find")
        if (fault := self.take_fault("find")) is not None:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        scored = [
            (likeness(body["query"], text), uri, text)
            for uri, text in self._below(body["target_uri"]).items()
        ]
        best = sorted((one for one in scored if one[0]), reverse=True)[: body["limit"]]
        memories = [
            {
                "context_type": "memory",
                "uri": uri,
                "level": 2,
                "score": score,
                "abstract": text[:ABSTRACT_CHARS],
                "tags": [],
                **({"content": text} if body.get("read_content") else {}),
            }
            for score, uri, text in best
        ]
        return _ok({"memories": memories, "resources": [], "skills": [], "total": len(memories)})

    async def _grep(self, request: web.Request) -> web.Response:
        body = await self._body(request, "grep")
        below = self._below(body["uri"])
        if not below:
            return _error(404, "NOT_FOUND", "File not found", {"type": "file", "resource": body["uri"]})
        pattern = re.compile(body["pattern"], re.IGNORECASE if body.get("case_insensitive") else 0)
        matches = [
            {"line": number, "uri": uri, "content": line}
            for uri, text in below.items()
            for number, line in enumerate(text.split("\n"), 1)
            if pattern.search(line)
        ]
        return _ok({"matches": matches, "count": len(matches), "files_scanned": len(below)})

    async def _ls(self, request: web.Request) -> web.Response:
        uri, begin = request.query["uri"], int(request.query.get("offset", 0))
        if uri == "viking://user/default":
            return _ok([{"uri": f"{uri}/peers", "isDir": True, "size": 0}], has_more=False)
        self._address("ls", uri)
        below = self._below(uri)
        if not below:
            return _error(404, "NOT_FOUND", "Directory not found", {"type": "directory", "resource": uri})
        end = begin + int(request.query.get("limit", 1000))
        listed = [{"uri": one, "isDir": False, "size": len(text)} for one, text in sorted(below.items())]
        return _ok(listed[begin:end], has_more=end < len(listed))

    async def _delete(self, request: web.Request) -> web.Response:
        uri = request.query["uri"]
        self._address("delete", uri)
        below = self._below(uri) if request.query.get("recursive") == "true" else {}
        gone = [one for one in (uri, *below) if self.files.pop(one, None) is not None]
        return _ok({"uri": uri, "estimated_deleted_count": len(gone)})


def _ok(result: object, **more: object) -> web.Response:
    return web.json_response({"status": "ok", "result": result, "error": None, **more})


def _error(status: int, code: str, message: str, details: dict[str, str] | None = None) -> web.Response:
    error = {"code": code, "message": message, "details": details or {}}
    return web.json_response({"status": "error", "result": None, "error": error}, status=status)
