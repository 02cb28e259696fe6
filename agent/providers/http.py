"""JSON over HTTP for providers without an SDK: one client, one time-out, errors as the providers' own.

What is asked and what an answer means belongs to each provider.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from trunkline.agent.providers.base import ProviderDown, ProviderError, ProviderLocked, ProviderRefused

LOCKED_STATUSES = frozenset({401, 402, 403})
RETRIED_STATUSES = frozenset({408, 425, 429})
MAX_RETRY_AFTER_S = 3600.0
EXCERPT_CHARS = 200


class JsonHttp:
    """One vendor's address. `headers` go with every request; redirects are not followed."""

    def __init__(self, base_url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, str | int | float | bool] | None = None,
        headers: Mapping[str, str] | None = None,
        missing_ok: bool = False,
    ) -> Any:
        """The answer's JSON; None for an empty one, and for 404 with `missing_ok`.

        Raises ProviderDown, ProviderLocked or ProviderRefused; no message holds what was sent.
        """
        if self._client is None:
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.request(
                    method, self._base_url + path, json=json, params=params, headers=headers
                )
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise ProviderDown(f"{self._base_url} does not answer ({type(error).__name__})") from error
        if answer.status_code == 404 and missing_ok:
            return None
        if not answer.is_success:
            raise failure_of(answer.status_code, answer.headers.get("Retry-After"), _excerpt(answer))
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError as error:
            raise ProviderDown(f"{self._base_url} answered with something that is no JSON") from error

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def failure_of(status: int, retry_after: str | None, reason: str = "") -> ProviderError:
    """The error that an HTTP status stands for; `retry_after` is the header's text."""
    told = f"HTTP {status}" + (f": {reason}" if reason else "")
    if status in LOCKED_STATUSES:
        return ProviderLocked(told)
    if status in RETRIED_STATUSES or status >= 500:
        return ProviderDown(told, _seconds(retry_after))
    return ProviderRefused(told)


def _seconds(retry_after: str | None) -> float | None:
    try:
        return None if retry_after is None else max(0.0, min(float(retry_after), MAX_RETRY_AFTER_S))
    except ValueError:
        return None


def _excerpt(answer: httpx.Response) -> str:
    """What a vendor says of a refusal, where it is short JSON with a message."""
    try:
        body = answer.json()
    except ValueError:
        return ""
    for name in ("error", "message", "detail"):
        said = body.get(name) if isinstance(body, dict) else None
        if isinstance(said, str):
            return said[:EXCERPT_CHARS]
    return ""
