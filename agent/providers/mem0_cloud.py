"""Mem0's hosted API through the vendor's SDK: its calls, its errors as ours. Only this module loads it.

It is loaded after `mem0_sdk.prepare_sdk`, and by nobody but `mem0.make`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import httpx
from mem0.client.main import AsyncMemoryClient
from mem0.exceptions import MemoryError as Mem0Error
from mem0.exceptions import MemoryNotFoundError, NetworkError

from trunkline.agent.providers.base import ProviderDown, ProviderRefused
from trunkline.agent.providers.http import failure_of
from trunkline.agent.providers.mem0_values import INSTRUCTIONS, KEY, Memory, Role

QUERY_CHARS = 2_000
PAGE = 100
MOST_PAGES = 20
FIRST_LOOK_S = 0.1
LONGEST_LOOK_S = 2.0
WORKED_ON_S = 20.0
"""The vendor works on what it was given after it has taken it; so long that is waited for."""


class Mem0Cloud:
    """`mem0_values.Wire` over HTTP. It makes its connections when first asked."""

    def __init__(self, base_url: str, key: str, timeout_s: float) -> None:
        self._base_url = base_url
        self._key = key
        self._timeout_s = timeout_s
        self._client: _Client | None = None
        self._worked_on: dict[tuple[str, str], str] = {}

    @property
    def _api(self) -> Any:
        if self._client is None:
            connections = httpx.AsyncClient(timeout=self._timeout_s)
            self._client = _Client(api_key=self._key, host=self._base_url, client=connections)
        return self._client

    async def check(self) -> None:
        with _translated():
            answer = await self._api.async_client.get("/v1/ping/")
            answer.raise_for_status()

    async def add(
        self,
        bank: str,
        key: str,
        said: Sequence[tuple[Role, str]],
        *,
        as_it_is: bool,
        date: datetime | None = None,
    ) -> None:
        event = self._worked_on.get((bank, key))
        if event is None:
            with _translated():
                answer = await self._api.add(
                    [{"role": role, "content": text} for role, text in said],
                    user_id=bank,
                    infer=not as_it_is,
                    metadata={KEY: key},
                    timestamp=None if date is None else int(date.timestamp()),
                    custom_instructions=None if as_it_is else INSTRUCTIONS,
                )
                event = str(answer.get("event_id") or "")
        if event:
            self._worked_on[bank, key] = event
            await self._let_finish(event)
            self._worked_on.pop((bank, key), None)

    async def search(self, bank: str, query: str, limit: int) -> list[Memory]:
        with _translated():
            answer = await self._api.search(
                query[:QUERY_CHARS], filters={"user_id": bank}, top_k=limit, threshold=0.0
            )
            return [_memory(one) for one in answer["results"] if one.get("user_id", bank) == bank]

    async def with_key(self, bank: str, key: str) -> list[Memory]:
        filters = {"AND": [{"user_id": bank}, {"metadata": {KEY: key}}]}
        found: list[Memory] = []
        for page in range(1, MOST_PAGES + 1):
            with _translated():
                answer = await self._api.get_all(filters=filters, page=page, page_size=PAGE)
                listed = answer["results"]
                found += [
                    _memory(one)
                    for one in listed
                    if (one.get("metadata") or {}).get(KEY) == key and one.get("user_id", bank) == bank
                ]
                if not answer.get("next"):
                    break
        return found

    async def get(self, bank: str, memory: str) -> Memory | None:
        with _translated(), _unless_missing():
            found = await self._api.get(memory)
            return _memory(found) if found.get("user_id") == bank else None
        return None

    async def update(self, memory: str, text: str) -> None:
        with _translated():
            await self._api.update(memory, text=text)

    async def delete(self, memory: str) -> bool:
        with _translated(), _unless_missing():
            await self._api.delete(memory)
            return True
        return False

    async def delete_all(self, bank: str) -> None:
        with _translated(), _unless_missing():
            await self._api.delete_all(user_id=bank)
        with _translated(), _unless_missing():
            await self._api.delete_users(user_id=bank)

    async def count(self, bank: str) -> int | None:
        with _translated():
            answer = await self._api.get_all(filters={"user_id": bank}, page=1, page_size=1)
            return int(answer["count"])

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.async_client.aclose()

    async def _let_finish(self, event: str) -> None:
        """Returns when what was given has been worked on; raises ProviderDown when that takes too long."""
        wait_s, left_s = FIRST_LOOK_S, WORKED_ON_S
        while True:
            with _translated():
                answer = await self._api.async_client.get(f"/v1/event/{event}/")
                answer.raise_for_status()
                status = str(answer.json()["status"])
            if status == "FAILED":
                raise ProviderRefused("Mem0 could not work on it")
            if status == "SUCCEEDED":
                return
            if left_s <= 0:
                raise ProviderDown("Mem0 is still at work on it")
            await asyncio.sleep(wait_s)
            left_s -= wait_s
            wait_s = min(2 * wait_s, LONGEST_LOOK_S)


class _Client(AsyncMemoryClient):  # type: ignore[misc]  # the SDK has no types
    """The SDK's client, which would ask the vendor about the key while it is made, holding up everything."""

    def _validate_api_key(self) -> None:
        self.org_id = self.project_id = "of the key"  # wanted by its constructor; the server goes by the key


@contextmanager
def _translated() -> Iterator[None]:
    """What the SDK raises as the providers' own errors."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        answer = error.response
        raise failure_of(answer.status_code, answer.headers.get("Retry-After")) from error
    except NetworkError as error:
        status = error.debug_info.get("status_code")
        if status is not None:
            raise failure_of(int(status), None) from error
        raise ProviderDown("Mem0 does not answer") from error
    except Mem0Error as error:
        wait_s = error.debug_info.get("retry_after")
        status = int(error.debug_info.get("status_code") or 500)
        raise failure_of(status, None if wait_s is None else str(wait_s)) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderDown(f"Mem0 does not answer ({type(error).__name__})") from error
    except (ValueError, KeyError) as error:  # no JSON, or a part is missing in it: the SDK checks no answer
        raise ProviderDown("Mem0 answered with something unknown") from error


@contextmanager
def _unless_missing() -> Iterator[None]:
    """What is not there ends the block in silence."""
    try:
        yield
    except MemoryNotFoundError:
        return


def _memory(one: Any) -> Memory:
    return Memory(str(one["id"]), str(one["memory"]), float(one.get("score") or 0.0))
