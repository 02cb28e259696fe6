"""Honcho's v3 API on loopback: workspaces with sessions, messages and conclusions, and a model that answers.

Where the real server has models draw conclusions and answer, this concludes each sentence of an observed peer
at once, and answers with the conclusions it has, or with what a test has put into `answers`; while
`may_answer` is cleared it thinks, but for `free_answers`.
"""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from tests.emulators.base import Handler
from tests.emulators.by_words import likeness, sentences
from tests.emulators.provider import ProviderServer

STAMP = "2026-11-30T12:00:00+00:00"
MESSAGE_CHARS = 25_000
FIELDS = {
    "workspace": {"id"},
    "peer": {"id"},
    "session": {"id", "metadata", "peers"},
    "messages": {"messages"},
    "list": {"filters"},
    "search": {"query", "filters", "limit"},
    "conclude": {"conclusions"},
    "query": {"query", "top_k", "filters"},
    "card": {"peer_card"},
    "chat": {"query", "stream", "reasoning_level"},
}


@dataclass(slots=True)
class Session:
    conversation: str
    observed: set[str]
    messages: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Workspace:
    sessions: dict[str, Session] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    conclusions: dict[str, dict[str, Any]] = field(default_factory=dict)
    card: list[str] = field(default_factory=list)


class HonchoEmulator(ProviderServer):
    """One server with one key. A deleted workspace is still listed `linger` times."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.workspaces: dict[str, Workspace] = {}
        self.answers: deque[str] = deque()
        self.linger = 0
        self.free_answers = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._going: dict[str, int] = defaultdict(int)
        self._numbers = count(1)
        self.app.middlewares.append(self._checked)
        route, place = self.app.router, "/v3/workspaces/{w}"
        route.add_post("/v3/workspaces", self._workspace)
        route.add_post("/v3/workspaces/list", self._list_workspaces)
        route.add_delete(place, self._delete_workspace)
        route.add_post(f"{place}/peers", self._peer)
        route.add_post(f"{place}/sessions", self._session)
        route.add_post(f"{place}/sessions/list", self._list_sessions)
        route.add_delete(f"{place}/sessions/{{s}}", self._delete_session)
        route.add_post(f"{place}/sessions/{{s}}/messages", self._add_messages)
        route.add_post(f"{place}/sessions/{{s}}/messages/list", self._list_messages)
        route.add_post(f"{place}/search", self._search)
        route.add_post(f"{place}/conclusions", self._conclude)
        route.add_post(f"{place}/conclusions/list", self._list_conclusions)
        route.add_post(f"{place}/conclusions/query", self._query)
        route.add_delete(f"{place}/conclusions/{{c}}", self._delete_conclusion)
        route.add_get(f"{place}/peers/{{p}}/card", self._card)
        route.add_put(f"{place}/peers/{{p}}/card", self._set_card)
        route.add_get(f"{place}/peers/{{p}}/context", self._context)
        route.add_post(f"{place}/peers/{{p}}/chat", self._chat)

    def deduce(self, workspace: str, text: str, *sources_with: str) -> None:
        """Has the server conclude something from the conclusions that hold these texts."""
        kept = self.workspaces[workspace].conclusions
        sources = [name for name, one in kept.items() if any(part in one["content"] for part in sources_with)]
        self._concluded(workspace, text, None, sources)

    @web.middleware
    async def _checked(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({"detail": "Invalid API key"}, status=401)
        return await handler(request)

    async def _body(self, request: web.Request, kind: str) -> dict[str, Any]:
        body: dict[str, Any] = await request.json() if request.can_read_body else {}
        given = {name for name, value in body.items() if value is not None}
        self.violations += [f"{kind}: unexpected field {name}" for name in given - FIELDS[kind]]
        await self.record(kind, {"workspace": request.match_info.get("w", ""), **body})
        return body

    def _at(self, request: web.Request) -> Workspace:
        name = request.match_info["w"]
        if name not in self.workspaces:
            raise _missing(f"Workspace {name} not found")
        return self.workspaces[name]

    def _session_at(self, request: web.Request) -> Session:
        sessions, name = self._at(request).sessions, request.match_info["s"]
        if name not in sessions:
            raise _missing(f"Session {name} not found")
        return sessions[name]

    # Workspaces and peers.

    async def _workspace(self, request: web.Request) -> web.Response:
        body = await self._body(request, "workspace")
        self.workspaces.setdefault(body["id"], Workspace())
        return web.json_response({"id": body["id"], "metadata": {}, "configuration": {}, "created_at": STAMP})

    async def _list_workspaces(self, request: web.Request) -> web.Response:
        body = await self._body(request, "list")
        wanted = (body.get("filters") or {}).get("id")
        names = [one for one in self.workspaces if wanted in (None, one)]
        for name in [one for one in self._going if wanted == one]:
            names.append(name)
            self._going[name] -= 1
            if self._going[name] <= 0:
                del self._going[name]
        return _page([{"id": one, "metadata": {}, "created_at": STAMP} for one in names])

    async def _delete_workspace(self, request: web.Request) -> web.Response:
        if request.match_info["w"] in self._going:
            return web.json_response({"detail": "not found"}, status=404)
        if self._at(request).sessions:
            return web.json_response({"detail": "Workspace contains active sessions"}, status=409)
        name = request.match_info["w"]
        del self.workspaces[name]
        if self.linger:
            self._going[name] = self.linger
        return web.json_response({"message": "accepted"}, status=202)

    async def _peer(self, request: web.Request) -> web.Response:
        body = await self._body(request, "peer")
        self._at(request)
        told = {"id": body["id"], "workspace_id": request.match_info["w"], "created_at": STAMP}
        return web.json_response({**told, "metadata": {}, "configuration": {}})

    # Sessions and messages.

    async def _session(self, request: web.Request) -> web.Response:
        body = await self._body(request, "session")
        place, name = self._at(request), body["id"]
        if name in place.deleted:
            raise _missing(f"Session {name} not found")
        if name not in place.sessions:
            observed = {peer for peer, known in (body.get("peers") or {}).items() if known.get("observe_me")}
            conversation = (body.get("metadata") or {}).get("conversation", "")
            place.sessions[name] = Session(conversation, observed)
        return web.json_response(self._told(request, name, place.sessions[name]))

    def _told(self, request: web.Request, name: str, session: Session) -> dict[str, Any]:
        metadata = {"conversation": session.conversation}
        told = {"id": name, "is_active": True, "workspace_id": request.match_info["w"], "created_at": STAMP}
        return {**told, "metadata": metadata, "configuration": {}}

    async def _list_sessions(self, request: web.Request) -> web.Response:
        body = await self._body(request, "list")
        wanted = ((body.get("filters") or {}).get("metadata") or {}).get("conversation")
        found = [
            self._told(request, name, one)
            for name, one in self._at(request).sessions.items()
            if wanted in (None, one.conversation)
        ]
        return _page(found)

    async def _delete_session(self, request: web.Request) -> web.Response:
        self._session_at(request)
        place, name = self._at(request), request.match_info["s"]
        await self.record("delete_session", {"workspace": request.match_info["w"], "session": name})
        del place.sessions[name]
        place.deleted.add(name)
        for one in [key for key, known in place.conclusions.items() if known["session_id"] == name]:
            del place.conclusions[one]
        return web.json_response({"message": "accepted"}, status=202)

    async def _add_messages(self, request: web.Request) -> web.Response:
        body = await self._body(request, "messages")
        session, made = self._session_at(request), []
        for given in body["messages"]:
            if len(given["content"]) > MESSAGE_CHARS:
                return web.json_response({"detail": "content: at most 25000 characters"}, status=422)
            message = {
                "id": f"msg-{next(self._numbers)}",
                "session_id": request.match_info["s"],
                "workspace_id": request.match_info["w"],
                "token_count": len(given["content"]) // 4,
                "created_at": STAMP,
                "metadata": {},
                **given,
            }
            made.append(message)
            if given["peer_id"] in session.observed:
                for text in sentences(given["content"]):
                    self._concluded(request.match_info["w"], text, request.match_info["s"], [])
        session.messages += made
        return web.json_response(made, status=201)

    async def _list_messages(self, request: web.Request) -> web.Response:
        body = await self._body(request, "list")
        filters = body.get("filters")
        wanted = None if filters is None else {one["metadata"]["turn"] for one in filters["OR"]}
        found = [
            one
            for one in self._session_at(request).messages
            if wanted is None or one["metadata"].get("turn") in wanted
        ]
        return _page(found)

    async def _search(self, request: web.Request) -> web.Response:
        body = await self._body(request, "search")
        found = [one for session in self._at(request).sessions.values() for one in session.messages]
        return web.json_response(_best(body["query"], found, body["limit"]))

    # Conclusions, the card, the model.

    def _concluded(
        self, workspace: str, text: str, session: str | None, sources: list[str]
    ) -> dict[str, Any]:
        made = {
            "id": f"con-{next(self._numbers)}",
            "content": text,
            "session_id": session,
            "level": "deductive" if sources else "explicit",
            "source_ids": sources,
            "created_at": STAMP,
        }
        self.workspaces[workspace].conclusions[made["id"]] = made
        return made

    async def _conclude(self, request: web.Request) -> web.Response:
        body = await self._body(request, "conclude")
        self._at(request)
        made = [
            self._concluded(request.match_info["w"], one["content"], one.get("session_id"), [])
            for one in body["conclusions"]
        ]
        return web.json_response([_shown(one) for one in made], status=201)

    async def _list_conclusions(self, request: web.Request) -> web.Response:
        body = await self._body(request, "list")
        source = (body["filters"].get("source_ids") or {}).get("contains")
        found = [
            _shown(one)
            for one in self._at(request).conclusions.values()
            if source is None or source in one["source_ids"]
        ]
        return _page(found[::-1])

    async def _query(self, request: web.Request) -> web.Response:
        body = await self._body(request, "query")
        found = [_shown(one) for one in self._at(request).conclusions.values()]
        return web.json_response(_best(body["query"], found, body["top_k"]))

    async def _delete_conclusion(self, request: web.Request) -> web.Response:
        if self._at(request).conclusions.pop(request.match_info["c"], None) is None:
            raise _missing("Conclusion not found")
        return web.Response(status=204)

    async def _card(self, request: web.Request) -> web.Response:
        return web.json_response({"peer_card": self._at(request).card or None})

    async def _set_card(self, request: web.Request) -> web.Response:
        body = await self._body(request, "card")
        place = self._at(request)
        place.card = body["peer_card"]
        return web.json_response({"peer_card": place.card})

    async def _context(self, request: web.Request) -> web.Response:
        place, peer = self._at(request), request.match_info["p"]
        texts = [one["content"] for one in place.conclusions.values()]
        told = {"peer_id": peer, "target_id": peer, "peer_card": place.card or None}
        return web.json_response({**told, "representation": "\n".join(texts)})

    async def _chat(self, request: web.Request) -> web.Response:
        await self._body(request, "chat")
        texts = [one["content"] for one in self._at(request).conclusions.values()]
        if self.free_answers:
            self.free_answers -= 1
        else:
            await self.may_answer.wait()
        answer = self.answers.popleft() if self.answers else "\n".join(dict.fromkeys(texts))[:2_000]
        return web.json_response({"content": answer or None})


def _shown(conclusion: dict[str, Any]) -> dict[str, Any]:
    return {**conclusion, "observer_id": "user", "observed_id": "user"}


def _best(query: str, found: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    liked = [(likeness(query, one["content"]), one) for one in found]
    return [one for score, one in sorted(liked, key=lambda pair: -pair[0]) if score][:limit]


def _page(items: list[dict[str, Any]]) -> web.Response:
    size = max(1, len(items))
    return web.json_response({"items": items, "page": 1, "size": size, "total": len(items), "pages": 1})


def _missing(what: str) -> web.HTTPNotFound:
    return web.HTTPNotFound(text=f'{{"detail": "{what}"}}', content_type="application/json")
