"""Shows an answer while it is written, at the pace the platform allows; the latest text wins.

By edits of its messages, or by the platform's own drafts or stream where its adapter offers them; where those
are refused, by edits for the rest of the turn. The final text is delivery's work; it takes over the messages
that were made here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from trunkline.adapters.base import Adapter, AdapterError, Chunk, RateLimited, Receipt, Rejected, Uncertain
from trunkline.adapters.streaming import ShowsDrafts, StoppedByReader, Streams
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import (
    SEND_TIMEOUT_S,
    Delivery,
    Destination,
    made_at,
    may_have_arrived,
    nonce_of,
    payloads,
)
from trunkline.gateway.drafting import Drafts
from trunkline.gateway.long_answers import PARTS_MOST
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import OutboxRow

log = logging.getLogger(__name__)

FIRST_CHARS = 12
"""A preview begins when this many characters are there: two letters popping up look like a fault."""

BEHIND_S = 0.3
"""Between two looks at whether the answer before this one has been sent."""


class Preview:
    """One turn's messages in the making. `run` shows what `update` was last given until `finish`.

    `stop` ends the turn: its reader asked for that by the platform's own means.
    """

    def __init__(
        self,
        database: Database,
        delivery: Delivery,
        adapter: Adapter,
        where: Destination,
        plan: Plan,
        stop: Callable[[], object] = lambda: None,
    ) -> None:
        self._database = database
        self._delivery = delivery
        self._adapter = adapter
        self._where = where
        self._plan = plan
        self._stop = stop
        self._has_chosen = False
        self._drafts: Drafts | None = None
        self._streams: Streams | None = None
        self._streamed = ""
        self._text = ""
        self._changed = asyncio.Event()
        self._finishing = False
        self.has_begun = False
        """Whether something of it is on the platform, or on its way."""
        self._ids: dict[int, str] = {}
        self.shown: dict[int, str] = {}
        """The payload that stands on the platform, by place."""

    def update(self, text: str) -> None:
        self._text = text
        self._changed.set()

    def finish(self) -> None:
        """Ends `run` after the call that is under way, so that its message id is known."""
        self._finishing = True
        self._changed.set()

    async def run(self) -> None:
        """Shows the text until `finish`. Whatever goes wrong ends the preview only, never its turn."""
        if not self._adapter.limits.can_edit:
            return
        limits = self._adapter.limits
        interval_s = limits.group_edit_interval_s if self._where.group else limits.edit_interval_s
        wait_s = 0.0
        try:
            while True:
                await self._wait_for_words()
                await self._pause(max(wait_s, self._held_s()))
                if self._finishing:
                    return
                self._changed.clear()
                wait_s = await self._show(interval_s)
        except (AdapterError, TimeoutError) as error:
            log.info("preview given up: %s on %s", type(error).__name__, self._where.platform)
        except Exception:  # boundary: delivery
            log.exception("preview failed: %s", self._where.platform)

    def _held_s(self) -> float:
        return self._delivery.held_s(self._where.platform, self._where.to.chat)

    async def _wait_for_words(self) -> None:
        """Until there is something to show; a draft is shown again before it fades."""
        renew_at_s = None if self._drafts is None else self._drafts.renew_at_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(renew_at_s):
                await self._changed.wait()

    async def _pause(self, wait_s: float) -> None:
        """Waits between two calls, but not when the answer is finished meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while not self._finishing and (left_s := until - loop.time()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _show(self, interval_s: float) -> float:
        """One round of calls; returns how long to wait before the next."""
        if len(self._text.strip()) < FIRST_CHARS and not self._ids:
            return 0.0
        if not self._ids and await self._database.read(lambda c: outbox.is_before(c, self._plan)):
            # An earlier answer of this chat is still to be sent, and goes first.
            self._changed.set()
            return BEHIND_S
        await self._choose()
        loop = asyncio.get_running_loop()
        began_s, text = loop.time(), self._text
        chunks = await asyncio.to_thread(self._adapter.render, text)
        interval_s = max(interval_s, loop.time() - began_s)
        try:
            # The last place is kept for the sentence that the rest is in a file.
            await self._put(text, chunks[: PARTS_MOST - 1])
        except RateLimited as error:
            self._delivery.hold(self._where.platform, self._where.to.chat, error.retry_after_s)
            self._changed.set()
        return interval_s

    async def _choose(self) -> None:
        """Once for each turn. One that has a message already, as after a crash, goes on in it by edits; what
        one person alone may read is no draft and no stream."""
        if self._has_chosen:
            return
        self._has_chosen = True
        adapter, to, source = self._adapter, self._where.to, self._plan.source
        drafts = adapter if isinstance(adapter, ShowsDrafts) and adapter.shows_drafts(to) else None
        streams = adapter if isinstance(adapter, Streams) and adapter.streams_in(to) else None
        if (drafts or streams) is None or self._where.ephemeral or self._where.private:
            return
        if await self._database.read(lambda c: outbox.find(c, source, 0)) is not None:
            return
        self._drafts = None if drafts is None else Drafts(drafts, to, source)
        self._streams = streams

    async def _put(self, text: str, chunks: Sequence[Chunk]) -> None:
        try:
            if self._drafts is not None and chunks:
                await self._draft(self._drafts, chunks)
                return
            if self._streams is not None and len(chunks) == 1:
                await self._stream(self._streams, text)
                return
        except StoppedByReader:
            self._stop()
            return
        except Rejected as error:
            log.info("shown by edits from now on: %s on %s", error, self._where.platform)
        self._drafts = self._streams = None
        await self._put_messages(payloads(self._where, chunks, self._where.while_running))

    async def _put_messages(self, planned: Sequence[str]) -> None:
        for seq, payload in enumerate(planned):
            if self.shown.get(seq) == payload or self._finishing:
                continue
            await (self._edit(seq, payload) if seq in self._ids else self._send(seq, payload))

    async def _draft(self, drafts: Drafts, chunks: Sequence[Chunk]) -> None:
        """The parts that are full as messages, which stay, and the last one as a draft."""
        await self._put_messages(payloads(self._where, chunks[:-1]))
        if self._finishing:
            return
        self.has_begun = True
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await drafts.show(len(chunks) - 1, chunks[-1])

    async def _stream(self, streams: Streams, text: str) -> None:
        """Adds the words that are new. What was said otherwise meanwhile is the final text's to put right."""
        if not self._ids:
            await self._begin_stream(streams)
        if self._finishing or not text.startswith(self._streamed) or not text[len(self._streamed) :].strip():
            return
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await streams.add_to_stream(self._where.to, self._ids[0], text, len(self._streamed))
        self._streamed = text

    async def _begin_stream(self, streams: Streams) -> None:
        """An empty message first, so that its id is known before a word stands in it: it can't be found again
        by a nonce."""
        self.has_begun = True
        where = self._where
        payload = payloads(where, [Chunk("")])[0]
        row = await self._database.write(lambda c: outbox.begin_preview(c, self._plan, 0, payload, now_ms()))
        try:
            reader = where.mention or ""
            await self._post(row, payload, streams.begin_stream(where.to, reader, where.realm))
        except RateLimited as error:
            # The limit is that of streams alone: nothing else has to wait for it.
            raise Rejected(str(error)) from error

    async def _edit(self, seq: int, payload: str) -> None:
        # From the call on nobody knows what stands there, until it has come back.
        self.shown.pop(seq, None)
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await self._adapter.edit(self._ids[seq], load_outbound(payload))
        self.shown[seq] = payload

    async def _send(self, seq: int, payload: str) -> None:
        self.has_begun = True
        known = await self._database.read(lambda c: outbox.find(c, self._plan.source, seq))
        if known is not None and known.message_id is not None:
            self._ids[seq] = known.message_id  # a turn that is resumed goes on in the message it had
            await self._edit(seq, payload)
            return
        if known is not None and not self._adapter.limits.repeats_safely:
            raise Uncertain("an earlier preview may have arrived")
        if known is not None:
            await self._post(known, payload, self._call(known, payload, made_at(known)))
            self._changed.set()  # under its nonce the earlier message may have come back, with its own text
            return
        row = await self._database.write(
            lambda c: outbox.begin_preview(c, self._plan, seq, payload, now_ms())
        )
        await self._post(row, payload, self._call(row, payload))
        self.shown[seq] = payload

    def _call(self, row: OutboxRow, payload: str, tried_since: datetime | None = None) -> Awaitable[Receipt]:
        message = replace(load_outbound(payload), nonce=nonce_of(row), tried_since=tried_since)
        return self._adapter.send(message)

    async def _post(self, row: OutboxRow, payload: str, call: Awaitable[Receipt]) -> None:
        """Makes the call that brings a message into the chat, and keeps what came of it."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                receipt = await call
        except (AdapterError, TimeoutError) as error:
            reason = str(error)
            if may_have_arrived(error, self._adapter):
                await self._database.write(lambda c: outbox.mark_ended(c, row.id, "unknown", reason))
            else:
                await self._database.write(lambda c: outbox.drop_preview(c, row.id))
            raise
        self._ids[row.seq] = receipt.message_id
        self._delivery.note_post(self._where.platform, self._where.to)
        await self._database.write(
            lambda c: outbox.mark_sent(c, row.id, receipt.message_id, payload, now_ms())
        )
