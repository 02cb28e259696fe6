"""A CONNECT proxy on loopback that is every platform at once, under the platforms' own host names.

It ends the TLS of each tunnel itself, with certificates of an authority made for the occasion, and hands the
plain bytes to an emulator. A program that is given the proxy's address and, in SSL_CERT_FILE, the authority,
needs no other setting; what it asks for beyond the known names is refused and noted.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import trustme

_PIECE_BYTES = 65_536


class PlatformProxy:
    """`ports` maps host names to plain ports on 127.0.0.1. `refused` lists what else was asked for."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self.ports = dict(ports)
        self.refused: list[str] = []
        self.tunnels: list[str] = []
        self.port = 0
        self._authority = trustme.CA()
        self._contexts = {host: self._context(host) for host in self.ports}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def write_authority(self, path: Path) -> Path:
        """Writes the authority's certificate, for SSL_CERT_FILE."""
        self._authority.cert_pem.write_to_path(path)
        return path

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    def _context(self, host: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(host).configure_cert(context)
        return context

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._tunnel(reader, writer)
        except* (OSError, asyncio.IncompleteReadError):
            pass  # one side hung up; the other is closed here and in `_copy`
        finally:
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        target = head.split()[1]
        host = target.removesuffix(":443")
        if not head.startswith("CONNECT ") or host not in self.ports:
            self.refused.append(target)
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        self.tunnels.append(host)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await writer.start_tls(self._contexts[host])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.ports[host])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(reader, far_writer))
            tasks.create_task(_copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    finally:
        with suppress(OSError):
            writer.close()
