"""The web page's cabinet: contents of the file store, by hash."""

import asyncio

from trunkline.gateway.file_store import FileStore


class StoreCabinet:
    """Implements `Cabinet`. Which of the contents a person may have is `conversations`' to say."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    async def keep(self, content: bytes) -> str:
        return await asyncio.to_thread(self._store.put, content)

    async def read(self, sha256: str) -> bytes | None:
        return await asyncio.to_thread(self._store.read, sha256)
