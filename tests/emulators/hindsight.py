"""Hindsight's HTTP API (1.1) on loopback: documents by bank, facts drawn from each, observations of facts.

Where the real server has a model draw facts out of a document, this takes each sentence of the person; facts
that say the same become one observation. Documents are worked on at once, or when `hold` is lifted.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.by_words import likeness, sentences, words
from tests.emulators.provider import ProviderServer

STAMP = "2026-11-30T12:00:00+00:00"
FIELDS = {
    "retain": {"items", "async", "operation_id", "document_tags"},
    "item": {"content", "timestamp", "context", "metadata", "document_id", "tags", "update_mode"}
    | {"resolve_entities", "entities"},
    "recall": {"query", "types", "budget", "max_tokens", "trace", "include", "tags_match"}
    | {"prefer_observations"},
    "reflect": {"query", "budget", "tags_match", "max_tokens", "context"},
    "bank": {"retain_mission"},
}
FEATURES = (
    "observations",
    "mcp",
    "worker",
    "bank_config_api",
    "bank_llm_health",
    "file_upload_api",
    "document_export_api",
    "document_import_api",
    "audit_log",
    "llm_trace",
    "store_document_text",
)


@dataclass(slots=True)
class Document:
    text: str
    context: str
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Bank:
    mission: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    observations: dict[str, tuple[str, set[str]]] = field(default_factory=dict)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    operations: set[str] = field(default_factory=set)


class HindsightEmulator(ProviderServer):
    """One server with one key, which may be empty: then it asks for none."""

    def __init__(self, key: str = "") -> None:
        super().__init__()
        self.key = key
        self.banks: dict[str, Bank] = {}
        self.hold = False
        self._numbers = count(1)
        self.app.middlewares.append(self._checked)
        route, bank = self.app.router, "/v1/default/banks/{bank}"
        route.add_get("/version", self._version)
        route.add_get("/v1/default/banks", self._list_banks)
        route.add_put(bank, self._make_bank)
        route.add_delete(bank, self._delete_bank)
        route.add_post(f"{bank}/memories", self._retain)
        route.add_post(f"{bank}/memories/recall", self._recall)
        route.add_get(f"{bank}/memories/list", self._list_memories)
        route.add_delete(f"{bank}/memories/{{memory}}/observations", self._clear_observations)
        route.add_post(f"{bank}/reflect", self._reflect)
        route.add_get(f"{bank}/documents", self._list_documents)
        route.add_get(f"{bank}/documents/{{document}}", self._get_document)
        route.add_delete(f"{bank}/documents/{{document}}", self._delete_document)
        route.add_get(f"{bank}/operations", self._list_operations)

    def release(self) -> None:
        """Works on all that was handed over."""
        self.hold = False
        for bank in self.banks.values():
            for item in bank.waiting:
                self._work_on(bank, item)
            bank.waiting.clear()

    def observe(self, bank: str, text: str, *facts_with: str) -> None:
        """Has the server make an observation of the facts that hold these texts."""
        kept = self.banks[bank]
        sources = {
            one
            for document in kept.documents.values()
            for one, fact in document.facts.items()
            if any(part in fact for part in facts_with)
        }
        kept.observations[f"obs-{next(self._numbers)}"] = (text, sources)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"detail": "Invalid API key"}, status=401)
        return await handler(request)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self._check(kind, body)
        await self.record(kind, {"bank": request.match_info["bank"], **body})
        return body

    def _check(self, kind: str, body: dict[str, Any]) -> None:
        """The SDK sends a null for what it was not given."""
        given = {name for name, value in body.items() if value is not None}
        self.violations += [f"{kind}: unexpected field {name}" for name in given - FIELDS[kind]]

    def _bank(self, request: web.Request) -> Bank:
        name = request.match_info["bank"]
        if name not in self.banks:
            raise web.HTTPNotFound(
                text=f'{{"detail": "Bank {name} not found"}}', content_type="application/json"
            )
        return self.banks[name]

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"api_version": "1.1.0", "features": dict.fromkeys(FEATURES, True)})

    async def _list_banks(self, _: web.Request) -> web.Response:
        await self.record("list_banks", {})
        return web.json_response({"banks": [], "total": 0, "limit": 1, "offset": 0})

    async def _make_bank(self, request: web.Request) -> web.Response:
        body = await self._body(request, "bank")
        name = request.match_info["bank"]
        bank = self.banks.setdefault(name, Bank())
        bank.mission = body.get("retain_mission", bank.mission)
        traits = {"skepticism": 3, "literalism": 3, "empathy": 3}
        profile = {"bank_id": name, "name": name, "disposition": traits, "mission": ""}
        return web.json_response({**profile, "background": ""})

    async def _delete_bank(self, request: web.Request) -> web.Response:
        self._bank(request)
        del self.banks[request.match_info["bank"]]
        return web.json_response({"success": True, "message": "gone", "deleted_count": 1})

    async def _retain(self, request: web.Request) -> web.Response:
        body = await self._body(request, "retain")
        name = request.match_info["bank"]
        bank = self.banks.setdefault(name, Bank())
        operation = body.get("operation_id") or f"op-{next(self._numbers)}"
        if operation not in bank.operations:
            bank.operations.add(operation)
            for item in body["items"]:
                self._check("item", item)
                bank.waiting.append(item)
        if not self.hold:
            for item in bank.waiting:
                self._work_on(bank, item)
            bank.waiting.clear()
        told = {"success": True, "bank_id": name, "items_count": len(body["items"]), "async": True}
        return web.json_response({**told, "operation_id": operation})

    def _work_on(self, bank: Bank, item: dict[str, Any]) -> None:
        known = item["document_id"]
        self._drop(bank, known)
        document = Document(item["content"], item.get("context") or "")
        for text in _drawn_from(item["content"]):
            fact = f"fact-{next(self._numbers)}"
            document.facts[fact] = text
            said = [one for one, (words, _) in bank.observations.items() if words == text]
            name = said[0] if said else f"obs-{next(self._numbers)}"
            bank.observations.setdefault(name, (text, set()))[1].add(fact)
        bank.documents[known] = document

    def _drop(self, bank: Bank, name: str) -> int:
        """Deletes a document with its facts, and the observations that have no fact left."""
        document = bank.documents.pop(name, None)
        if document is None:
            return 0
        for one, (_, sources) in list(bank.observations.items()):
            lost = sources & document.facts.keys()
            sources -= lost
            if lost and not sources:
                del bank.observations[one]
        return len(document.facts)

    async def _recall(self, request: web.Request) -> web.Response:
        body = await self._body(request, "recall")
        bank = self._bank(request)
        if len(body["query"].encode()) > 2_000:
            return web.json_response({"detail": "Query too long: at most 500 tokens"}, status=400)
        if not words(body["query"]):
            return web.json_response({"detail": "query must contain a word character"}, status=422)
        observed = {one for _, sources in bank.observations.values() for one in sources}
        texts = [(one, "observation", text, None) for one, (text, _) in bank.observations.items()]
        texts += [
            (one, "world", text, name)
            for name, document in bank.documents.items()
            for one, text in document.facts.items()
            if one not in observed or not body.get("prefer_observations")
        ]
        found = [
            {"id": one, "text": text, "type": kind, "document_id": name, "scores": {"final": score}}
            for one, kind, text, name in texts
            if kind in body["types"] and (score := likeness(body["query"], text))
        ]
        return web.json_response({"results": sorted(found, key=lambda one: -one["scores"]["final"])})

    async def _reflect(self, request: web.Request) -> web.Response:
        body = await self._body(request, "reflect")
        texts = [text for text, _ in self._bank(request).observations.values()]
        return web.json_response({"text": " ".join(one for one in texts if likeness(body["query"], one))})

    async def _list_memories(self, request: web.Request) -> web.Response:
        bank, wanted = self._bank(request), request.query.get("q", "").casefold()
        assert request.query["type"] == "observation"
        items = [
            {"id": one, "text": text, "fact_type": "observation", "source_memory_ids": sorted(sources)}
            for one, (text, sources) in bank.observations.items()
            if wanted in text.casefold()
        ]
        return web.json_response({"items": items, "total": len(items), "limit": 100, "offset": 0})

    async def _clear_observations(self, request: web.Request) -> web.Response:
        bank, fact = self._bank(request), request.match_info["memory"]
        gone = [one for one, (_, sources) in bank.observations.items() if fact in sources]
        for one in gone:
            del bank.observations[one]
        return web.json_response({"deleted_count": len(gone)})

    async def _list_documents(self, request: web.Request) -> web.Response:
        bank, wanted = self._bank(request), request.query.get("q", "").casefold()
        found = [
            {"id": name, "bank_id": request.match_info["bank"], "created_at": STAMP, "updated_at": STAMP}
            for name, document in bank.documents.items()
            if wanted in document.text.casefold() or wanted in name
        ]
        limit = int(request.query["limit"])
        listed = {"items": found[:limit], "total": len(found), "limit": limit, "offset": 0}
        return web.json_response(listed)

    def _document(self, request: web.Request) -> Document:
        bank, name = self._bank(request), request.match_info["document"]
        if name not in bank.documents:
            raise web.HTTPNotFound(text='{"detail": "Document not found"}', content_type="application/json")
        return bank.documents[name]

    async def _get_document(self, request: web.Request) -> web.Response:
        document = self._document(request)
        return web.json_response(
            {
                "id": request.match_info["document"],
                "bank_id": request.match_info["bank"],
                "original_text": document.text,
                "content_hash": None,
                "created_at": STAMP,
                "updated_at": STAMP,
                "memory_unit_count": len(document.facts),
            }
        )

    async def _delete_document(self, request: web.Request) -> web.Response:
        self._document(request)
        name = request.match_info["document"]
        await self.record("delete_document", {"bank": request.match_info["bank"], "document": name})
        number = self._drop(self._bank(request), name)
        told = {"success": True, "message": "gone", "document_id": name, "memory_units_deleted": number}
        return web.json_response(told)

    async def _list_operations(self, request: web.Request) -> web.Response:
        bank, status = self._bank(request), request.query["status"]
        items = bank.waiting if status == "pending" else []
        operations = [
            {
                "id": f"op-{number}",
                "task_type": "retain",
                "items_count": 1,
                "document_id": item["document_id"],
                "created_at": STAMP,
                "status": status,
                "error_message": None,
            }
            for number, item in enumerate(items)
        ]
        listed = {"total": len(operations), "limit": 100, "offset": 0, "operations": operations}
        return web.json_response({"bank_id": request.match_info["bank"], **listed})


def _drawn_from(content: str) -> list[str]:
    said = content.split("\n\nassistant: ")[0]
    return sentences(said.removeprefix("user: "))
