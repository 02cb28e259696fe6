"""The draft that shows the last part of an answer, on platforms that have such a thing."""

import asyncio
from zlib import crc32

from trunkline.adapters.base import ChatRef, Chunk
from trunkline.adapters.streaming import ShowsDrafts

_IDS = 2**31 - 1


class Drafts:
    """The drafts of one answer, one for each of its parts. A turn that is resumed draws on the same ones."""

    def __init__(self, adapter: ShowsDrafts, to: ChatRef, source: str) -> None:
        self._adapter = adapter
        self._to = to
        self._source = source
        self._shown: tuple[int, Chunk] | None = None
        self.renew_at_s: float | None = None
        """By the loop's clock: when what is shown must be shown again, lest it fade."""

    async def show(self, seq: int, chunk: Chunk) -> None:
        """Shows a part, unless it stands there. Raises AdapterError."""
        now_s = asyncio.get_running_loop().time()
        if self._shown == (seq, chunk) and self.renew_at_s is not None and now_s < self.renew_at_s:
            return
        draft_id = crc32(f"{self._source}:{seq}".encode()) % _IDS + 1
        await self._adapter.show_draft(self._to, draft_id, chunk)
        self._shown, self.renew_at_s = (seq, chunk), now_s + self._adapter.draft_fades_s * 2 / 3
