"""Hands every request to a real Hindsight server, so that the same outages can be played before it."""

import asyncio
from typing import Any

import httpx
from aiohttp import web

from tests.emulators.provider import ProviderServer

BANKS = "/v1/default/banks"
LOOKS = 600


class HindsightRelay(ProviderServer):
    def __init__(self, behind: str) -> None:
        super().__init__()
        self._behind = httpx.AsyncClient(base_url=behind, timeout=60)
        self.app.router.add_route("*", "/{path:.*}", self._pass)

    async def close_connections(self) -> None:
        await super().close_connections()
        await self._behind.aclose()

    async def stored(self, bank: str) -> list[str]:
        listed = await self._behind.get(f"{BANKS}/{bank}/documents", params={"limit": 100})
        if listed.status_code == 404:
            return []
        names = [one["id"] for one in listed.json()["items"]]
        return [(await self._asked(f"{BANKS}/{bank}/documents/{one}"))["original_text"] for one in names]

    async def settled(self, namespace: str) -> None:
        """Returns when all that was handed over has been worked on."""
        for bank in (await self._asked(BANKS, q=namespace))["banks"]:
            for _ in range(LOOKS):
                under_way = [
                    (await self._asked(f"{BANKS}/{bank['bank_id']}/operations", status=status, type="retain"))
                    for status in ("pending", "processing")
                ]
                if not any(one["total"] for one in under_way):
                    break
                await asyncio.sleep(0.1)

    async def _asked(self, path: str, **params: str) -> Any:
        return (await self._behind.get(path, params=params)).json()

    async def _pass(self, request: web.Request) -> web.Response:
        kept = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        answer = await self._behind.request(
            request.method, request.path_qs, content=await request.read(), headers=kept
        )
        return web.Response(status=answer.status_code, body=answer.content, content_type="application/json")
