"""Hands every request to a provider's real server, so that the same outages can be played before it."""

import asyncio
from typing import Any

import httpx
from aiohttp import web

from tests.emulators.provider import ProviderServer

BANKS = "/v1/default/banks"
LOOK_S = 0.05
LOOKS = 2_400
PASSED = ("X-API-Key", "X-OpenViking-User", "Content-Type")


class ProviderRelay(ProviderServer):
    def __init__(self, behind: str) -> None:
        super().__init__()
        self._behind = httpx.AsyncClient(base_url=behind, timeout=100)
        self.app.router.add_route("*", "/{path:.*}", self._pass)

    async def close_connections(self) -> None:
        await super().close_connections()
        await self._behind.aclose()

    async def stored(self, bank: str) -> list[str]:
        """Every text that the server keeps in a bank."""
        raise NotImplementedError

    async def settled(self) -> None:
        """Returns when all that was handed over has been worked on."""
        raise NotImplementedError

    async def _asked(self, path: str, **params: str) -> Any:
        return (await self._behind.get(path, params=params)).json()

    async def _pass(self, request: web.Request) -> web.Response:
        kept = {name: value for name in PASSED if (value := request.headers.get(name)) is not None}
        answer = await self._behind.request(
            request.method, request.path_qs, content=await request.read(), headers=kept
        )
        return web.Response(status=answer.status_code, body=answer.content, content_type="application/json")


class HindsightRelay(ProviderRelay):
    """`working` are the banks that something was handed over for since all was settled."""

    def __init__(self, behind: str) -> None:
        super().__init__(behind)
        self.working: set[str] = set()

    async def stored(self, bank: str) -> list[str]:
        listed = await self._behind.get(f"{BANKS}/{bank}/documents", params={"limit": 100})
        if listed.status_code == 404:
            return []
        names = [one["id"] for one in listed.json()["items"]]
        return [(await self._asked(f"{BANKS}/{bank}/documents/{one}"))["original_text"] for one in names]

    async def settled(self) -> None:
        for bank in sorted(self.working):
            await self._idle(bank)
        self.working.clear()

    async def _idle(self, bank: str) -> None:
        for _ in range(LOOKS):
            under_way = [
                await self._asked(f"{BANKS}/{bank}/operations", status=status, type="retain")
                for status in ("pending", "processing")
            ]
            if not any(one.get("total") for one in under_way):
                return
            await asyncio.sleep(LOOK_S)
        raise AssertionError(f"still at work on {bank}")

    async def _pass(self, request: web.Request) -> web.Response:
        if request.method != "GET" and request.path.startswith(f"{BANKS}/"):
            self.working.add(request.path.removeprefix(f"{BANKS}/").partition("/")[0])
        return await super()._pass(request)


class OpenVikingRelay(ProviderRelay):
    async def stored(self, bank: str) -> list[str]:
        folder = f"viking://user/default/peers/{bank}/memories"
        listed = (await self._asked("/api/v1/fs/ls", uri=folder, recursive="true"))["result"] or []
        return [
            (await self._asked("/api/v1/content/read", uri=one["uri"]))["result"]
            for one in listed
            if not one["isDir"]
        ]

    async def settled(self) -> None:
        await self._behind.post("/api/v1/system/wait", json={})
