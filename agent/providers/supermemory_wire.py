"""Supermemory's API through the vendor's SDK: its calls, its errors as ours. Only this module loads it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

import httpx
from supermemory import APIStatusError, AsyncSupermemory, SupermemoryError
from supermemory.core.parse_error import ParsingError
from supermemory.types import ProfileFact, SearchResult

from trunkline.agent.providers.base import ProviderDown
from trunkline.agent.providers.http import failure_of
from trunkline.agent.providers.supermemory_values import Found

QUERY_CHARS = 2_000
IDS_IN_A_CALL = 500


class SupermemoryWire:
    """`supermemory_values.Wire` over HTTP. It makes its connections when first asked."""

    def __init__(
        self, base_url: str, key: str, timeout_s: float, dreaming: Literal["dynamic", "instant"]
    ) -> None:
        self._base_url = base_url
        self._key = key
        self._timeout_s = timeout_s
        self._dreaming = dreaming
        self._http: httpx.AsyncClient | None = None
        self._client: AsyncSupermemory | None = None

    @property
    def _api(self) -> AsyncSupermemory:
        if self._client is None:
            self._http = httpx.AsyncClient(timeout=self._timeout_s)
            self._client = AsyncSupermemory(
                base_url=self._base_url,
                api_key=self._key,
                timeout=self._timeout_s,
                max_retries=0,
                http_client=self._http,
            )
        return self._client

    async def check(self) -> None:
        with _translated():
            await self._api.namespaces.list(limit=1)

    async def add(
        self,
        bank: str,
        document: str,
        content: str,
        *,
        context: str = "",
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        when = datetime.now(UTC) if date is None else date
        with _translated():
            await self._api.add(
                bank,
                content=content,
                id=document,
                supporting_context=context,
                date=when.isoformat(),
                metadata=dict(metadata or {}),
                dreaming=self._dreaming,
            )

    async def search(
        self, bank: str, query: str, *, limit: int, mode: Literal["hybrid", "memories", "chunks"]
    ) -> list[Found]:
        with _translated():
            answer = await self._api.search(
                bank,
                query=query[:QUERY_CHARS],
                limit=limit,
                search_mode=mode,
                include={"documents": True},
            )
            return [_found(one) for one in answer.results if one.is_latest or one.chunk]

    async def profile(self, bank: str) -> tuple[list[Found], list[Found]]:
        with _translated():
            known = (await self._api.profile(bank)).profile
            return [_fact(one) for one in known.static], [_fact(one) for one in known.dynamic]

    async def find_to_forget(self, bank: str, query: str) -> list[Found]:
        with _translated():
            answer = await self._api.memories.forget_matching(bank, query=query[:QUERY_CHARS], dry_run=True)
            return [Found(one.id, one.memory) for one in answer.matches]

    async def forget_memories(self, bank: str, ids: Sequence[str]) -> int:
        with _translated():
            answer = await self._api.memories.forget(bank, ids=list(ids)[:IDS_IN_A_CALL])
            return int(answer.count)

    async def delete_documents(self, bank: str, ids: Sequence[str]) -> int:
        with _translated():
            answer = await self._api.documents.delete(bank, ids=list(ids)[:IDS_IN_A_CALL])
            return int(answer.count)

    async def delete_namespace(self, bank: str) -> int:
        try:
            with _translated():
                done = await self._api.namespaces.delete(bank)
        except _NotThere:
            return 0
        if done.status == "queued":
            raise ProviderDown("Supermemory has only queued the deletion")
        return int(done.deleted_documents_count) + int(done.deleted_memories_count)

    async def count_documents(self, bank: str) -> int:
        with _translated():
            page = await self._api.list(bank, "documents", limit=1)
            return int(page.pagination.total_items)

    async def aclose(self) -> None:
        http, self._http, self._client = self._http, None, None
        if http is not None:
            await http.aclose()


class _NotThere(ProviderDown):
    """The namespace does not exist."""


@contextmanager
def _translated() -> Iterator[None]:
    """What the SDK raises as the providers' own errors."""
    try:
        yield
    except APIStatusError as error:
        status = error.status_code
        if status == 404:
            raise _NotThere("HTTP 404") from error
        if 200 <= status < 300:
            raise ProviderDown("Supermemory answered with something that is no JSON") from error
        headers = {name.casefold(): value for name, value in (error.headers or {}).items()}
        raise failure_of(status, headers.get("retry-after")) from error
    except ParsingError as error:
        raise ProviderDown("Supermemory answered with something unknown") from error
    except (SupermemoryError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderDown(f"Supermemory does not answer ({type(error).__name__})") from error
    except (AttributeError, TypeError) as error:  # the SDK checks no answer: a part is missing in it
        raise ProviderDown("Supermemory's answer lacks a part") from error


def _found(result: SearchResult) -> Found:
    document = result.included.document if result.included is not None else None
    return Found(
        result.id,
        result.memory or result.chunk or "",
        result.similarity,
        result.memory is not None,
        "" if document is None else document.id,
    )


def _fact(fact: ProfileFact) -> Found:
    return Found(fact.id, fact.memory)
