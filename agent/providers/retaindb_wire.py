"""RetainDB's API, which has no SDK for Python: its calls over plain HTTP, its answers as values.

The hosted service, the vendor's open server and its local edition answer a little differently; what all of
them say is read, but for what bears another user's name. Ids hold for a whole account there, so nothing is
deleted that is not in the asker's bank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from trunkline.agent.providers.base import ProviderDown, ProviderLocked, ProviderRefused
from trunkline.agent.providers.http import JsonHttp

Kind = Literal["factual", "preference", "goal", "instruction", "event", "opinion"]
T = TypeVar("T", bound=BaseModel)

QUERY_CHARS = 2_000
CONTENT_CHARS = 10_000
LISTED = 1_000
CONTEXT_TOKENS = 1_500
TRY_AGAIN_S = 3.0
PENDING = "pending:"
"""So begin the ids of what the server has taken and not kept yet."""

_Text = Annotated[str, BeforeValidator(lambda text: text or "")]


@dataclass(frozen=True, slots=True)
class Memory:
    """What is kept, and its id. `session` is the name it was kept under, empty for none."""

    id: str
    text: str
    session: str = ""
    score: float = 0.0


class _Memory(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: _Text = ""
    content: _Text = ""
    session_id: _Text = ""
    user_id: _Text = ""


class _Kept(BaseModel):
    memory_id: _Text = ""
    memory: _Memory = _Memory()


class _Match(BaseModel):
    memory: _Memory
    similarity: float = 0.0
    score: float = 0.0


class _Matches(BaseModel):
    results: list[_Match] = []


class _Listed(BaseModel):
    memories: list[_Memory] = []


class _Graph(BaseModel):
    nodes: list[_Memory] = []


class _Deleted(BaseModel):
    """The local edition names the memory in `deleted`, the others in `memory_id`."""

    deleted: _Text = ""
    memory_id: _Text = ""


class _Packed(BaseModel):
    context: _Text = ""


class _Project(BaseModel):
    id: str


class _Resolved(BaseModel):
    resolved: _Project


class RetainDbWire:
    """One account. Each bank is a project of it, and the only user of that project.

    A project to itself, because the service lets everybody in a project see what it takes for knowledge of
    the project, whoever said it.
    """

    def __init__(self, base_url: str, key: str, timeout_s: float) -> None:
        keys = {"Authorization": f"Bearer {key}", "X-API-Key": key} if key else {}
        self._http = JsonHttp(base_url, keys, timeout_s)

    async def check(self) -> None:
        await self._http.ask("GET", "/v1/projects")

    async def keep(self, bank: str, key: str, text: str, kind: Kind, session: str = "") -> str:
        """Keeps a text and gives its id, empty where the service gives none. The same key keeps it once."""
        body: dict[str, object] = {
            "project": bank,
            "user_id": bank,
            "content": text[:CONTENT_CHARS],
            "memory_type": kind,
            "confidence": 1.0,
            "write_mode": "sync",
        }
        if session:
            body["session_id"] = session
        answer = await self._http.ask("POST", "/v1/memory", json=body, headers={"Idempotency-Key": key})
        kept = _read(_Kept, answer)
        return kept.memory_id or kept.memory.id

    async def search(self, bank: str, query: str, limit: int) -> list[Memory]:
        body = {
            "project": bank,
            "user_id": bank,
            "query": query[:QUERY_CHARS].strip() or "?",
            "top_k": limit,
            "include_pending": True,
        }
        found = _read(_Matches, await self._http.ask("POST", "/v1/memory/search", json=body)).results
        return [
            Memory(one.memory.id, one.memory.content, one.memory.session_id, one.similarity or one.score)
            for one in found
            if _is_of(one.memory, bank)
        ]

    async def context(self, bank: str, query: str) -> str:
        """A text that the service packs from what bears on the question."""
        body = {
            "project": bank,
            "user_id": bank,
            "query": query[:QUERY_CHARS].strip() or "?",
            "include_memories": True,
            "max_tokens": CONTEXT_TOKENS,
        }
        return _read(_Packed, await self._http.ask("POST", "/v1/context/query", json=body)).context

    async def listed(self, bank: str, session: str = "") -> dict[str, Memory]:
        """What the bank holds by id, as far as the service lists it; or what it lists of a session."""
        path = (
            f"/v1/memory/profile/{bank}" if not session else f"/v1/memory/session/{quote(session, safe='')}"
        )
        params: dict[str, str | int] = {"project": bank, "limit": LISTED}
        answer = await self._http.ask("GET", path, params=params, missing_ok=True)
        found = _read(_Listed, answer).memories
        if not session:
            graph = await self._http.ask("GET", "/v1/memory/graph", params=params, missing_ok=True)
            found += _read(_Graph, graph).nodes
        return {
            one.id: Memory(one.id, one.content, one.session_id or session)
            for one in found
            if one.id and _is_of(one, bank)
        }

    async def delete(self, ids: Sequence[str]) -> int:
        """Deletes memories, as the service understands it; unknown ones count for nothing.

        The ids must be of the asker's bank: the service deletes whatever the account holds.
        """
        deleted = 0
        for one in ids:
            if one.startswith(PENDING):
                raise ProviderDown("RetainDB is still at work on what is to be deleted", TRY_AGAIN_S)
            path = f"/v1/memory/{quote(one, safe='')}"
            answer = await self._http.ask("DELETE", path, missing_ok=True)
            known = _read(_Deleted, answer)
            deleted += bool(known.deleted or known.memory_id)
        return deleted

    async def purge(self, bank: str) -> bool:
        """Has the service drop what was deleted from the bank; False where our key may not ask for that."""
        try:
            where = {"project": bank}
            answer = await self._http.ask("GET", "/v1/projects/resolve", params=where, missing_ok=True)
            if answer is None:
                return False
            body = {"project_id": _read(_Resolved, answer).resolved.id, "dry_run": False}
            await self._http.ask("POST", "/v1/admin/memory/cleanup", json=body)
        except (ProviderLocked, ProviderRefused):
            return False
        return True

    async def delete_project(self, bank: str) -> bool:
        """Deletes the bank's project with all in it; False where the service has no such call."""
        try:
            answer = await self._http.ask("DELETE", f"/v1/projects/{bank}", missing_ok=True)
        except (ProviderLocked, ProviderRefused):
            return False
        return answer is not None

    async def aclose(self) -> None:
        await self._http.aclose()


def _is_of(memory: _Memory, bank: str) -> bool:
    return memory.user_id in ("", bank)


def _read(model: type[T], answer: Any) -> T:
    """An answer's parts; where there was none, an empty one."""
    try:
        return TypeAdapter(model).validate_python({} if answer is None else answer)
    except ValidationError as error:
        raise ProviderDown("RetainDB answered with something unknown") from error
