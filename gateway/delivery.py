"""Sends what the outbox holds, chat by chat, and keeps each message's outcome.

One lane per chat: a wait or a failure in one delays no other. Retrying a send lives here and nowhere else.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    Button,
    ChatRef,
    Chunk,
    Limits,
    OutboundFile,
    OutboundMessage,
    RateLimited,
    Receipt,
    Rejected,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.gateway import albums
from trunkline.gateway.clock import now_ms
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.identity import LOCAL_PLATFORMS
from trunkline.gateway.late_answers import send_late
from trunkline.gateway.payloads import dump_outbound, load_outbound
from trunkline.gateway.reminder_delivery import is_reminder, send_elsewhere
from trunkline.gateway.sentences import say
from trunkline.gateway.state import gone, outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import OutboxRow
from trunkline.gateway.undelivered import DOUBT, report_doubt, report_refusal

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 60
"""Calls for one message, waits that the platform asked for among them: about three quarters of an hour of a
platform out of reach. A platform whose adapter is not connected is not called at all."""
MAX_NONCE_ATTEMPTS = 8
"""Sends under one nonce: about a minute, since a platform knows a nonce again for minutes only."""
LOOK_BACK_LAG_S = 3.0
"""Before a message that may have arrived is looked for: a platform's reads may lag behind its writes."""
MAX_MESSAGES = 40
"""Messages of one answer, the last of which says that the rest is left out: more would be a flood."""
SEND_TIMEOUT_S = 60.0
UPLOAD_TIMEOUT_S = 240.0
FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 60.0
DATABASE_PAUSE_S = 1.0

Record = Callable[[Connection], None]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an answer goes on a platform. `reply_to` is quoted by its first message only; `realm` qualifies
    `mention`."""

    platform: str
    tenant: str
    to: ChatRef
    reply_to: str | None = None
    mention: str | None = None
    realm: str = ""
    ephemeral: bool = False
    group: bool = False
    private: bool = False
    while_running: tuple[Button, ...] = ()
    """What stands under the answer until it is complete."""

    def plan(self, source: str, turn: int | None = None) -> Plan:
        return Plan(source, self.platform, self.tenant, self.to.chat, self.to.thread or "", turn)


@dataclass(frozen=True, slots=True)
class Line:
    """A platform's adapter and the bot's own id there. `thread`: the one conversation it is for."""

    adapter: Adapter
    tenant: str
    thread: str | None = None


def payloads(
    where: Destination, chunks: Sequence[Chunk], buttons: tuple[Button, ...] = ()
) -> tuple[str, ...]:
    """The stored form of each chunk as a message to `where`; `buttons` stand under the last."""
    return tuple(
        dump_outbound(
            OutboundMessage(
                to=where.to,
                chunk=chunk,
                reply_to=where.reply_to if seq == 0 else None,
                mention=where.mention,
                ephemeral=where.ephemeral,
                private=where.private,
                buttons=buttons if seq == len(chunks) - 1 else (),
            )
        )
        for seq, chunk in enumerate(chunks)
    )


def nonce_of(row: OutboxRow) -> str:
    """Names an outbox row to the platform; at most 25 characters (Discord's limit)."""
    return f"tl{row.id}-{row.created_ms:x}"


def made_at(row: OutboxRow) -> datetime:
    return datetime.fromtimestamp(row.created_ms / 1000, UTC)


def may_have_arrived(error: Exception, adapter: Adapter) -> bool:
    """Whether a send that ended so may be on the platform. Where doubles are refused, adapters call a lost
    answer Unavailable, since repeating it is safe."""
    return isinstance(error, (Uncertain, TimeoutError)) or (
        adapter.limits.nonce and isinstance(error, Unavailable)
    )


class Delivery:
    """The lanes of every connected platform. `run` owns their tasks until it is cancelled."""

    def __init__(self, database: Database, store: FileStore | None = None) -> None:
        self._database = database
        self._store = store
        self._known: dict[str, Line] = {}
        self._lines: dict[str, Line] = {}
        self._lanes: dict[tuple[str, str], asyncio.Event] = {}
        self._held_until_s: dict[tuple[str, str], float] = {}
        self._waiting_for_posts: dict[asyncio.Event, tuple[str, str, str | None]] = {}
        self._lane_ended = asyncio.Event()
        self.newly_connected = asyncio.Event()
        """Set whenever a platform is connected."""
        self._group: asyncio.TaskGroup | None = None
        self._closing = False

    async def run(self) -> None:
        """Owns the lanes until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    @property
    def connected(self) -> dict[str, Line]:
        """The platforms that are connected now."""
        return dict(self._lines)

    @property
    def known(self) -> dict[str, Line]:
        """The platforms that have been connected at some time."""
        return dict(self._known)

    def adapter(self, platform: str) -> Adapter | None:
        """The platform's adapter while it is connected."""
        line = self._lines.get(platform)
        return None if line is None else line.adapter

    def render(self, platform: str, markdown: str, language: str = "") -> tuple[Chunk, ...]:
        """The text as the platform's chunks; the text itself on one that has never been connected.

        What `MAX_MESSAGES` can't hold is left out, and the last chunk says so. Some texts take seconds:
        those of a model are rendered in a thread.
        """
        line = self._known.get(platform)
        if line is None:
            return (Chunk(markdown),)
        chunks = line.adapter.render(markdown)
        if len(chunks) <= MAX_MESSAGES:
            return chunks
        return (*chunks[: MAX_MESSAGES - 1], Chunk(say("answer_cut", language)))

    def limits(self, platform: str) -> Limits | None:
        """What a platform allows; None for one that has never been connected."""
        line = self._known.get(platform)
        return None if line is None else line.adapter.limits

    def repeats_safely(self, platform: str) -> bool:
        """Whether the platform refuses doubles, or its adapter finds an earlier one."""
        limits = self.limits(platform)
        return limits is not None and limits.repeats_safely

    def connect(self, line: Line) -> None:
        """Opens a platform's lanes; `sweep` starts those with something to send."""
        self._known[line.adapter.platform] = self._lines[line.adapter.platform] = line
        self.newly_connected.set()

    def disconnect(self, platform: str) -> None:
        """Ends a platform's lanes; what they hold waits, untried, until it is connected again."""
        self._lines.pop(platform, None)

    def hold(self, platform: str, chat: str, seconds: float) -> None:
        """Nothing is to be sent or shown in a chat for so long: the platform told us to wait."""
        until_s = asyncio.get_running_loop().time() + seconds
        self._held_until_s[platform, chat] = max(until_s, self._held_until_s.get((platform, chat), 0.0))

    def held_s(self, platform: str, chat: str) -> float:
        """How long a chat is still held; 0 when it isn't."""
        left_s = self._held_until_s.get((platform, chat), 0.0) - asyncio.get_running_loop().time()
        if left_s <= 0:
            self._held_until_s.pop((platform, chat), None)
        return max(left_s, 0.0)

    @contextmanager
    def told_of_posts(self, platform: str, to: ChatRef) -> Iterator[asyncio.Event]:
        """An event that is set with each message that arrives there, an edit apart."""
        posted = asyncio.Event()
        self._waiting_for_posts[posted] = (platform, to.chat, to.thread)
        try:
            yield posted
        finally:
            del self._waiting_for_posts[posted]

    def note_post(self, platform: str, to: ChatRef) -> None:
        """To be called by whoever has sent a new message."""
        for posted, place in self._waiting_for_posts.items():
            if place == (platform, to.chat, to.thread):
                posted.set()

    async def drain(self, grace_s: float) -> None:
        """Waits until every lane has sent what it may send now, at most `grace_s` seconds."""
        self._closing = True
        for lane in self._lanes.values():
            lane.set()
        try:
            async with asyncio.timeout(grace_s):
                while self._lanes:
                    self._lane_ended.clear()
                    await self._lane_ended.wait()
        except TimeoutError:
            log.info("not everything was sent in time: the next start goes on with it")

    async def sweep(self) -> None:
        """Starts the lanes of chats with planned messages: what other processes planned, above all."""
        for platform, line in self.connected.items():

            def read(connection: Connection, platform: str = platform, line: Line = line) -> tuple[str, ...]:
                return outbox.waiting_chats(connection, platform, line.tenant, line.thread)

            for chat in await self._database.read(read):
                self.kick(platform, chat)

    def kick(self, platform: str, chat: str) -> None:
        """Tells the chat's lane that something is planned, starting the lane when it isn't running."""
        if self._group is None or platform not in self._lines:
            return
        lane = self._lanes.get((platform, chat))
        if lane is not None:
            lane.set()
            return
        lane = asyncio.Event()
        self._lanes[(platform, chat)] = lane
        self._group.create_task(self._run_lane(platform, chat, lane), name=f"lane {platform}")

    async def _run_lane(self, platform: str, chat: str, kicked: asyncio.Event) -> None:
        """Sends the chat's planned messages in order, and ends when none is left."""
        try:
            while (line := self._lines.get(platform)) is not None:
                kicked.clear()
                try:
                    wait_s = await self._send_next(line, chat)
                except Exception:  # boundary: delivery
                    log.exception("lane failed: %s", platform)
                    wait_s = DATABASE_PAUSE_S
                if wait_s is None and not kicked.is_set():
                    return
                if wait_s:
                    if self._closing:
                        return
                    await _wait(kicked, wait_s)
        finally:
            self._lanes.pop((platform, chat), None)
            self._lane_ended.set()

    async def _send_next(self, line: Line, chat: str) -> float | None:
        """Deals with the chat's next message. Returns how long to wait, or None when nothing is planned."""
        platform = line.adapter.platform
        found = await self._database.read(
            lambda c: outbox.due(c, platform, line.tenant, chat, now_ms(), line.thread)
        )
        if found is None:
            return None
        row, wait_ms = found
        if held_s := self.held_s(platform, chat):
            # Kept in the row, too, so that a restart waits as well.
            until_ms = now_ms() + int(held_s * 1000)
            await self._database.write(lambda c: outbox.hold_chat(c, row, until_ms))
            return held_s
        if wait_ms is not None:
            return wait_ms / 1000
        await self._deliver(line.adapter, row)
        return 0.0

    async def _deliver(self, adapter: Adapter, row: OutboxRow) -> None:
        outcome: Record
        if not await self._database.write(lambda c: _begin(c, row)):
            await self._record(lambda c: self._refuse_chat(c, row, "the chat could not be reached before"))
            return
        try:
            receipt = await self._call(adapter, row)
        except AdapterError as error:
            outcome = self._after_failure(adapter, row, error)
        except TimeoutError:
            outcome = self._after_failure(adapter, row, Uncertain("no answer in time"))
        except Exception as error:  # boundary: delivery
            log.exception("delivery failed: row %s on %s", row.id, row.platform)
            outcome = _ended(row, "unknown", type(error).__name__)
        else:
            outcome = _sent(adapter, row, receipt)
            if row.message_id is None:
                self.note_post(row.platform, ChatRef(row.chat, row.thread or None))
        await self._record(outcome)

    async def _call(self, adapter: Adapter, row: OutboxRow) -> Receipt:
        message = load_outbound(row.payload)
        if message.files:
            file, *others = [await self._filled(one) for one in message.files]
            message = replace(message, file=file, album=tuple(others))
        async with asyncio.timeout(SEND_TIMEOUT_S if message.file is None else UPLOAD_TIMEOUT_S):
            if row.message_id is not None and row.kind == "delete":
                await adapter.delete(message.to, row.message_id)
                return Receipt(row.message_id)
            if row.message_id is not None:
                return await adapter.edit(row.message_id, message)
            return await adapter.send(replace(message, nonce=nonce_of(row), tried_since=_tried_since(row)))

    async def _filled(self, file: OutboundFile) -> OutboundFile:
        """The file with its content. Raises Rejected when that is no longer kept."""
        content = None if self._store is None else await asyncio.to_thread(self._store.read, file.sha256)
        if content is None:
            raise Rejected("the file is no longer kept")
        return replace(file, content=content)

    async def _record(self, outcome: Record) -> None:
        """Writes an outcome until the database takes it: what was sent must not be sent again."""
        while True:
            try:
                await self._database.write(outcome)
            except (DataError, IntegrityError):
                raise  # it would never be taken, and hold the chat up for ever
            except SQLAlchemyError as error:
                log.warning("outcome not recorded yet: %s", type(error).__name__)
                await asyncio.sleep(DATABASE_PAUSE_S)
            else:
                return

    def _after_failure(self, adapter: Adapter, row: OutboxRow, error: AdapterError) -> Record:
        """Repeats only what is safe to repeat (spec: delivery, section 2)."""
        tried, reason, edits = row.attempts + 1, str(error), row.message_id is not None
        if isinstance(error, Unreachable):
            log.info("chat can't be written to: %s", row.platform)
            return lambda c: self._refuse_chat(c, row, reason)
        if isinstance(error, Rejected):
            # The message to edit is gone or too old: what it should say goes out as a new one, unless it
            # says that already.
            if edits and row.kind == "buttons":
                message_id = row.message_id or ""
                return lambda c: outbox.mark_sent(c, row.id, message_id, row.payload, now_ms())
            if edits and row.kind == "delete" and load_outbound(row.payload).chunk.text:
                return lambda c: outbox.replan_as_filler(c, row.id)
            if edits and row.kind != "delete":
                return lambda c: outbox.replan_as_new(c, row, _emptied(row.payload), reason, now_ms())
            if not edits and row.kind == "file" and (message := load_outbound(row.payload)).album:
                return lambda c: albums.take_apart(c, row, message, now_ms())
            return self._over(row, "refused", reason)
        if isinstance(error, RateLimited) and tried < MAX_ATTEMPTS:
            wait_s = max(error.retry_after_s, FIRST_BACKOFF_S)
            self.hold(row.platform, row.chat, wait_s)
            return _put_off(row, wait_s, reason)
        repeatable, wait_s = MAX_ATTEMPTS, _backoff_s(row.attempts)
        if not edits and may_have_arrived(error, adapter):
            # Twice the notice of a doubt harms nobody; its loss would.
            repeats = adapter.limits.repeats_safely or row.source.startswith(DOUBT)
            repeatable = MAX_NONCE_ATTEMPTS if repeats else 1
            wait_s = wait_s if adapter.limits.nonce else max(wait_s, LOOK_BACK_LAG_S)
        if tried < repeatable:
            return _put_off(row, wait_s, reason)
        return self._over(row, "unknown" if may_have_arrived(error, adapter) else "refused", reason)

    def _over(self, row: OutboxRow, state: str, reason: str) -> Record:
        """What was refused goes elsewhere when it is a reminder."""
        ended = _ended(row, state, reason)

        def work(connection: Connection) -> None:
            ended(connection)
            if state == "refused" and is_reminder(row.source):
                send_elsewhere(connection, row, self.render, now_ms())

        return work

    def _refuse_chat(self, connection: Connection, row: OutboxRow, reason: str) -> None:
        gone.mark(connection, row, now_ms())
        if _may_leave_thread(row) and not (message := load_outbound(row.payload)).private:
            # A locked or deleted thread: the words go to the chat it is in, where the same people read.
            moved = replace(message, to=ChatRef(row.chat), reply_to=None, ephemeral=False)
            outbox.leave_thread(connection, row.id, dump_outbound(moved), reason, now_ms())
            return
        outbox.refuse_chat(connection, row, reason)
        send_elsewhere(connection, row, self.render, now_ms())


def _begin(connection: Connection, row: OutboxRow) -> bool:
    """Marks the row as being sent; false, and nothing is done, where its chat is known to be gone."""
    if gone.is_marked(connection, row):
        return False
    outbox.mark_sending(connection, row.id)
    return True


def _may_leave_thread(row: OutboxRow) -> bool:
    """Not where a thread is a room or a conversation of its own."""
    return row.kind != "delete" and row.thread not in ("", row.chat) and row.platform not in LOCAL_PLATFORMS


def _tried_since(row: OutboxRow) -> datetime | None:
    """Since when the message may be there. A preview without an id is one that nobody saw arrive or fail."""
    return made_at(row) if row.attempts > 0 or row.kind == "preview" else None


def _sent(adapter: Adapter, row: OutboxRow, receipt: Receipt) -> Record:
    if adapter.limits.repeats_safely and row.kind == "preview" and row.message_id is None:
        return lambda c: outbox.replan_as_edit(c, row.id, receipt.message_id)
    return lambda c: outbox.mark_sent(c, row.id, receipt.message_id, row.payload, now_ms())


def _emptied(payload: str) -> str:
    message = load_outbound(payload)
    return dump_outbound(replace(message, chunk=Chunk(""), buttons=(), file=None, reply_to=None))


def _put_off(row: OutboxRow, wait_s: float, reason: str) -> Record:
    until_ms = now_ms() + int(wait_s * 1000)
    return lambda c: outbox.put_off(c, row.id, until_ms, reason)


def _ended(row: OutboxRow, state: str, reason: str) -> Record:
    if row.kind == "delete":
        log.info("message not deleted: row %s on %s is %s", row.id, row.platform, state)
    else:
        log.warning("message not delivered: row %s on %s is %s", row.id, row.platform, state)

    def work(connection: Connection) -> None:
        outbox.mark_ended(connection, row.id, state, reason)
        if state == "unknown":
            report_doubt(connection, row)
        elif state == "refused" and (message := load_outbound(row.payload)).private:
            send_late(connection, row, message)
        elif state == "refused":
            report_refusal(connection, row, message)

    return work


async def _wait(kicked: asyncio.Event, seconds: float) -> None:
    """Waits, but not when the lane is kicked meanwhile: it may have been for good news."""
    try:
        async with asyncio.timeout(seconds):
            await kicked.wait()
    except TimeoutError:
        return


def _backoff_s(attempts: int) -> float:
    longest = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(attempts, 10))
    return random.uniform(longest / 2, longest)
