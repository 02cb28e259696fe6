"""Hindsight's API through the vendor's SDK: its calls, its errors as ours. Only this module loads it."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

import aiohttp
from hindsight_client import Hindsight
from hindsight_client_api.exceptions import ApiException, OpenApiException

from trunkline.agent.providers.base import ProviderDown
from trunkline.agent.providers.hindsight_values import Budget, Found
from trunkline.agent.providers.http import failure_of

TYPES = ["world", "experience", "observation"]
QUERY_BYTES = 1_200
"""The server refuses questions of over 500 tokens."""
LISTED = 100
UNDER_WAY = ("pending", "processing")
_OPERATIONS = uuid.UUID("6f0f3c8e-0c1c-5c58-9a0e-5f9d5a4c2b11")


class HindsightWire:
    """`hindsight_values.Wire` over HTTP. It makes its connections when first asked."""

    def __init__(self, base_url: str, key: str, timeout_s: float) -> None:
        self._base_url = base_url
        self._key = key
        self._timeout_s = timeout_s
        self._client: Hindsight | None = None
        self._ready: set[str] = set()

    @property
    def _api(self) -> Hindsight:
        if self._client is None:
            self._client = Hindsight(
                base_url=self._base_url, api_key=self._key or None, timeout=self._timeout_s, max_attempts=1
            )
        return self._client

    async def check(self) -> None:
        with _translated():
            await self._api.aget_version()
            await self._api.banks.list_banks(limit=1, _request_timeout=self._timeout_s)

    async def retain(
        self,
        bank: str,
        document: str,
        content: str,
        *,
        mission: str,
        context: str = "",
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        with _translated():
            if bank not in self._ready:
                await self._api.acreate_bank(bank, retain_mission=mission)
                self._ready.add(bank)
            await self._api.aretain(
                bank,
                content,
                timestamp=date,
                context=context or None,
                document_id=document,
                metadata=dict(metadata or {}),
                retain_async=True,
                operation_id=str(uuid.uuid5(_OPERATIONS, f"{document}\n{content}")),
            )

    async def recall(self, bank: str, query: str, *, budget: Budget, max_tokens: int) -> list[Found]:
        if not _has_word(query):
            return []
        with _translated(missing_ok=True):
            answer = await self._api.arecall(
                bank,
                as_query(query),
                types=TYPES,
                budget=budget,
                max_tokens=max_tokens,
                prefer_observations=True,
            )
            return [
                Found(one.id, one.text, one.scores.final if one.scores else 0.0, one.document_id or "")
                for one in answer.results
            ]
        return []

    async def reflect(self, bank: str, query: str, *, budget: Budget) -> str:
        if not _has_word(query):
            return ""
        with _translated(missing_ok=True):
            return str((await self._api.areflect(bank, as_query(query), budget=budget)).text)
        return ""

    async def documents_with(self, bank: str, text: str) -> dict[str, str]:
        with _translated(missing_ok=True):
            listed = await self._api.documents.list_documents(
                bank, q=text, limit=LISTED, _request_timeout=self._timeout_s
            )
            found = {}
            for item in listed.items:
                document = await self._api.documents.get_document(
                    bank, item.id, _request_timeout=self._timeout_s
                )
                found[item.id] = document.original_text or ""
            return found
        return {}

    async def observations_with(self, bank: str, text: str) -> list[Found]:
        with _translated(missing_ok=True):
            listed = await self._api.alist_memories(bank, type="observation", search_query=text, limit=LISTED)
            return [
                Found(one.id, one.text or "", sources=tuple(one.source_memory_ids or ()))
                for one in listed.items
            ]
        return []

    async def clear_observations(self, bank: str, fact: str) -> None:
        with _translated(missing_ok=True):
            await self._api.memory.clear_memory_observations(bank, fact, _request_timeout=self._timeout_s)

    async def being_drawn_from(self, bank: str) -> frozenset[str]:
        found: set[str] = set()
        with _translated(missing_ok=True):
            for status in UNDER_WAY:
                listed = await self._api.operations.list_operations(
                    bank, status=status, type="retain", limit=LISTED, _request_timeout=self._timeout_s
                )
                found.update(one.document_id or "" for one in listed.operations)
        return frozenset(found)

    async def delete_documents(self, bank: str, ids: Sequence[str]) -> int:
        removed = 0
        for one in ids:
            with _translated(missing_ok=True):
                await self._api.documents.delete_document(bank, one, _request_timeout=self._timeout_s)
                removed += 1
        return removed

    async def delete_bank(self, bank: str) -> None:
        self._ready.discard(bank)
        with _translated(missing_ok=True):
            await self._api.adelete_bank(bank)

    async def count_documents(self, bank: str) -> int:
        with _translated(missing_ok=True):
            listed = await self._api.documents.list_documents(bank, limit=1, _request_timeout=self._timeout_s)
            return int(listed.total)
        return 0

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()  # type: ignore[no-untyped-call]


@contextmanager
def _translated(*, missing_ok: bool = False) -> Iterator[None]:
    """What the SDK raises as the providers' own errors. With `missing_ok` a 404 ends the block in silence."""
    try:
        yield
    except ApiException as error:
        if error.status == 404 and missing_ok:
            return
        headers = {name.casefold(): value for name, value in dict(error.headers or {}).items()}
        raise failure_of(error.status or 500, headers.get("retry-after")) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ProviderDown(f"Hindsight does not answer ({type(error).__name__})") from error
    except (OpenApiException, ValueError) as error:
        raise ProviderDown("Hindsight answered with something unknown") from error


def as_query(text: str) -> str:
    """A question that is short enough."""
    return text.encode()[:QUERY_BYTES].decode(errors="ignore").strip()


def _has_word(text: str) -> bool:
    """The server refuses a question of signs and pictures alone."""
    return any(map(str.isalnum, as_query(text)))
