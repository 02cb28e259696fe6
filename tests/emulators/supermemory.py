"""Supermemory's v5 API on loopback: documents by namespace, memories drawn from each, search by words.

Where the real service has a model draw memories out of a document, this takes each sentence of the person.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.provider import ProviderServer

STAMP = "2026-11-30T12:00:00.000Z"
NAMESPACE = re.compile(r"[A-Za-z0-9_:-]{1,100}")
FIELDS = {
    "document": {"content", "id", "supportingContext", "metadata", "group", "date", "taskType", "dreaming"},
    "search": {"query", "filter", "searchMode", "limit", "include", "threshold", "rerank", "rewriteQuery"},
    "profile": {"filter", "buckets"},
    "list": {"filter", "include"},
    "delete": {"ids"},
    "forget": {"ids"},
    "forget_matching": {"query", "dryRun"},
}


@dataclass(slots=True)
class Document:
    id: str
    content: str
    context: str
    metadata: dict[str, Any]
    memories: dict[str, str] = field(default_factory=dict)


class SupermemoryEmulator(ProviderServer):
    """One account with one key. `documents` are the namespaces' contents by id."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.documents: dict[str, dict[str, Document]] = defaultdict(dict)
        self._numbers = count(1)
        self.app.middlewares.append(self._checked)
        route = self.app.router
        route.add_post("/ns/{ns}/document", self._add)
        route.add_delete("/ns/{ns}/document", self._delete)
        route.add_post("/ns/{ns}/search", self._search)
        route.add_post("/ns/{ns}/profile", self._profile)
        route.add_post("/ns/{ns}/list/documents", self._list)
        route.add_delete("/ns/{ns}/memories", self._forget)
        route.add_delete("/ns/{ns}/memories/semantic", self._forget_matching)
        route.add_delete("/ns/{ns}", self._delete_namespace)
        route.add_get("/ns", self._namespaces)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        name = request.match_info.get("ns")
        if name is not None and NAMESPACE.fullmatch(name) is None:
            self.violations.append(f"namespace {name!r}")
        return await handler(request)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.violations += [f"{kind}: unknown field {name}" for name in body.keys() - FIELDS[kind]]
        await self.record(kind, {"namespace": request.match_info["ns"], **body})
        return body

    async def _add(self, request: web.Request) -> web.Response:
        body = await self._body(request, "document")
        if len(body.get("supportingContext", "")) > 1500:
            return web.json_response({"error": "supportingContext: at most 1500 characters"}, status=400)
        kept = self.documents[request.match_info["ns"]]
        document_id = body.get("id") or f"doc{next(self._numbers)}"
        known = kept.get(document_id)
        if known is not None and known.content == body["content"]:
            return web.json_response({"id": document_id, "status": "done"})
        content = body["content"] if known is None else f"{known.content}\n{body['content']}"
        made = Document(document_id, content, body.get("supportingContext", ""), body.get("metadata", {}))
        made.memories = {f"mem{next(self._numbers)}": text for text in _drawn_from(content)}
        kept[document_id] = made
        return web.json_response({"id": document_id, "status": "queued"})

    async def _delete(self, request: web.Request) -> web.Response:
        body = await self._body(request, "delete")
        kept = self.documents[request.match_info["ns"]]
        gone = [one for one in body["ids"] if kept.pop(one, None) is not None]
        errors = [{"id": one, "error": "Document not found"} for one in body["ids"] if one not in gone]
        return web.json_response({"count": len(gone), "errors": errors})

    async def _search(self, request: web.Request) -> web.Response:
        body = await self._body(request, "search")
        wanted = _words(body["query"])
        found = []
        for document in self.documents[request.match_info["ns"]].values():
            texts = [(one, "memory", text) for one, text in document.memories.items()]
            texts.append((f"chunk-{document.id}", "chunk", document.content))
            for result_id, kind, text in texts:
                shared = len(wanted & _words(text)) / (len(wanted) or 1)
                if shared and (kind == "memory" or body.get("searchMode") != "memories"):
                    found.append((shared, _result(result_id, kind, text, shared, document)))
        found.sort(key=lambda pair: -pair[0])
        results = [one for _, one in found[: body.get("limit", 10)]]
        return web.json_response({"results": results, "searchTime": 3.0})

    async def _profile(self, request: web.Request) -> web.Response:
        await self._body(request, "profile")
        facts = [
            {"id": one, "memory": text}
            for document in self.documents[request.match_info["ns"]].values()
            for one, text in document.memories.items()
        ]
        return web.json_response({"profile": {"static": facts, "dynamic": [], "buckets": {}}})

    async def _list(self, request: web.Request) -> web.Response:
        await self._body(request, "list")
        number = len(self.documents[request.match_info["ns"]])
        page = {"currentPage": 1, "limit": 1, "totalItems": number, "totalPages": number}
        return web.json_response({"documents": [], "chunks": [], "memories": [], "pagination": page})

    async def _forget(self, request: web.Request) -> web.Response:
        body = await self._body(request, "forget")
        matches, errors = [], []
        for wanted in body["ids"]:
            for document in self.documents[request.match_info["ns"]].values():
                text = document.memories.pop(wanted, None)
                if text is not None:
                    matches.append({"id": wanted, "memory": text})
                    break
            else:
                errors.append({"id": wanted, "error": "Memory not found"})
        return web.json_response({"count": len(matches), "matches": matches, "errors": errors})

    async def _forget_matching(self, request: web.Request) -> web.Response:
        body = await self._body(request, "forget_matching")
        wanted = _words(body["query"])
        matches = []
        for document in self.documents[request.match_info["ns"]].values():
            for one, text in list(document.memories.items()):
                if len(wanted & _words(text)) * 2 >= len(wanted):
                    matches.append({"id": one, "memory": text})
                    if not body["dryRun"]:
                        del document.memories[one]
        return web.json_response({"count": len(matches), "matches": matches, "errors": []})

    async def _delete_namespace(self, request: web.Request) -> web.Response:
        name = request.match_info["ns"]
        await self.record("delete_namespace", {"namespace": name})
        gone = self.documents.pop(name, None)
        if gone is None:
            return web.json_response({"error": "Namespace not found"}, status=404)
        memories = sum(len(document.memories) for document in gone.values())
        counts = {"deletedDocumentsCount": len(gone), "deletedMemoriesCount": memories}
        return web.json_response({"status": "deleted", "namespace": name, **counts})

    async def _namespaces(self, _: web.Request) -> web.Response:
        await self.record("namespaces", {})
        page = {"currentPage": 1, "totalItems": 0, "totalPages": 0}
        return web.json_response({"namespaces": [], "pagination": page})


def _drawn_from(content: str) -> list[str]:
    said = re.split(r"\n\n\[assistant\]\n", content)[0]
    said = re.sub(r"^\[user[^\]]*\]\n", "", said)
    return [one.strip() for one in re.split(r"(?<=[.!?。！？])\s*", said) if one.strip()]


def _words(text: str) -> set[str]:
    folded = text.casefold()
    dense = [run[at : at + 2] for run in re.findall(r"[\u3040-\u9fff]+", folded) for at in range(len(run))]
    return {*re.findall(r"[^\W\u3040-\u9fff]+", folded), *dense}


def _result(result_id: str, kind: str, text: str, shared: float, document: Document) -> dict[str, Any]:
    source = {
        "id": document.id,
        "title": None,
        "type": "text",
        "metadata": document.metadata,
        "summary": None,
        "system": {"createdAt": STAMP, "updatedAt": STAMP},
    }
    return {
        "id": result_id,
        kind: text,
        "metadata": document.metadata,
        "similarity": shared,
        "isLatest": kind == "memory",
        "isInference": False,
        "system": {"updatedAt": STAMP, "createdAt": STAMP},
        "included": {"document": source},
    }
