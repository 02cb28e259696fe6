"""What comes while a turn runs: it restarts the turn, joins it, stops it, or waits, as the operator set it.

The inbox is the truth: what joins a turn does so in the transaction of a step, and what does not stays
waiting for a turn of its own. Nothing is ever held in memory alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Literal

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import InboundMessage, OutboundMessage
from trunkline.agent.messages import UserMessage
from trunkline.agent.ports import TurnLost
from trunkline.agent.prompt import compose_user_text, document_lines
from trunkline.agent.stream_text import NOTE
from trunkline.gateway import again, parts
from trunkline.gateway.amending import Reanswer
from trunkline.gateway.attachment_lines import Described, describe
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Destination
from trunkline.gateway.opening import NotAdmitted, Opened, load_message
from trunkline.gateway.outcomes import Shown
from trunkline.gateway.payloads import BadPayload, dump_outbound
from trunkline.gateway.preview import Preview
from trunkline.gateway.sentences import say
from trunkline.gateway.sessions import RunningTurn
from trunkline.gateway.skills import may_call_skill
from trunkline.gateway.state import arrivals, files, heard, namesakes, outbox, turns
from trunkline.gateway.state.arrivals import Waiting
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import InboxRow
from trunkline.gateway.state.turns import StoreRecorder
from trunkline.gateway.wording import with_lines, with_text

log = logging.getLogger(__name__)

NOTICE_AFTER_S = 2.0
"""What is taken up or answered sooner needs no word about its waiting."""

CHANGED = f"{NOTE} the person has changed a message of theirs above, and wants it read like this instead.]"


@dataclass(frozen=True, slots=True)
class BusyRules:
    """What a message does to its author's running turn, and within how many seconds it is a part of it."""

    busy: Literal["steer", "queue", "interrupt"] = "steer"
    burst_window_s: float = 0.8
    reanswer_edits: Reanswer = "direct"
    alone: bool = False
    """Nothing that comes becomes a part of the turn: nobody began it."""


@dataclass(frozen=True, slots=True)
class Means:
    """The process that takes what joins, what hides secrets in it, and what fetches its files."""

    owner: str
    mask: Callable[[str], str]
    fetch: Callable[[Sequence[InboxRow]], Awaitable[None]]


class Steering:
    """Watches what waits behind one run of a turn. `restarts` tells that the run ended to begin anew."""

    def __init__(
        self,
        database: Database,
        delivery: Delivery,
        rules: BusyRules,
        opened: Opened,
        where: Destination,
        running: RunningTurn,
        means: Means,
    ) -> None:
        self._database = database
        self._delivery = delivery
        self._rules = rules
        self._opened = opened
        self._where = where
        self._running = running
        self._owner = means.owner
        self._mask = means.mask
        self._fetch = means.fetch
        self._fetched: set[int] = set()
        self._since_ms = now_ms()
        self._may_restart: Callable[[], bool] = lambda: False
        self.restarts = False
        self.joined: tuple[UserMessage, ...] = ()
        self.notes: tuple[str, ...] = ()
        """Sentences for the person about files of what joined that can't be used."""

    def observe(self, shown: Shown, preview: Preview | None, recorder: StoreRecorder) -> None:
        """Tells what to look at for whether the turn may still begin anew, unseen."""

        def untouched() -> bool:
            seen = preview is not None and preview.has_begun
            return not (seen or recorder.has_begun or shown.outcome is not None or self._opened.steps)

        self._may_restart = untouched

    async def watch(self) -> None:
        """Looks at each arrival until it is cancelled, or the run is ended by what came."""
        fetches: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            try:
                await self._watch(lambda row: fetches.append(group.create_task(self._fetch_of(row))))
            finally:
                for one in fetches:
                    one.cancel()

    async def _watch(self, fetch: Callable[[InboxRow], None]) -> None:
        loop = asyncio.get_running_loop()
        notice_at_s: float | None = None
        while not self.restarts:
            waits = await self._look(fetch)
            if not waits:
                notice_at_s = None
            elif notice_at_s is None:
                notice_at_s = loop.time() + NOTICE_AFTER_S
            elif notice_at_s <= loop.time():
                await self._tell()
                notice_at_s = float("inf")
            try:
                async with asyncio.timeout_at(notice_at_s if notice_at_s != float("inf") else None):
                    await self._running.arrived.wait()
            except TimeoutError:
                continue
            self._running.arrived.clear()

    def take_in(self, connection: Connection, step_n: int) -> tuple[UserMessage, ...]:
        """The TakeIn of the turn: what its author said during a step is the next thing its model reads."""
        if self._rules.busy != "steer":
            return ()
        opened = self._opened
        waiting = arrivals.waiting(connection, opened.session.key, opened.row, now_ms())
        rows = _of_one_kind(_ready(connection, waiting.own))
        if not rows:
            return ()
        inbound = [load_message(row) for row in rows]
        stamp_ms, ids = now_ms(), [row.id for row in rows]
        described = self._described(connection, rows, inbound)
        question = parts.joined(inbound, described.texts, self._mask)
        number = None
        if opened.room is not None:
            number = namesakes.number_of(connection, opened.room.id, opened.account, opened.row.session)
        user = self._composed(rows[0], inbound[0], question.text, described, number)
        arrivals.join(connection, rows, opened.row, self._owner, stamp_ms)
        said = add_message(
            connection,
            NewMessage(
                session_id=opened.row.session,
                turn_id=opened.row.key.turn,
                step_n=step_n,
                role="user",
                content=user.text,
                sent=user.sent,
                account_id=opened.row.account,
                platform_ids=_ids_of(inbound),
                quoted_from=heard.quoted_in(connection, inbound[0]),
                created_ms=stamp_ms,
            ),
        )
        parts.keep(connection, said, question)
        files.attach(connection, ids, said)
        self.notes += described.notes
        self.joined += (user,)
        return (user,)

    async def extended(self) -> Opened:
        """The turn with what was said so quickly after its beginning. Raises TurnLost."""
        return await self._database.write(self._extend)

    def _extend(self, connection: Connection) -> Opened:
        opened = self._opened
        turns.check(connection, opened.row.key)
        rows = _ready(connection, arrivals.waiting(connection, opened.session.key, opened.row, now_ms()).own)
        inbound = [load_message(row) for row in rows]
        asked = arrivals.question(connection, opened.row)
        if asked is None:
            raise TurnLost("the conversation of the turn was deleted")
        question, sent = parts.of_row(asked), asked.sent or asked.content
        notes, has_voice = opened.notes, opened.has_voice
        for row, message in zip(rows, inbound, strict=True):
            if row.kind == "edit":
                longer, lines = self._changed(question, message), []
            else:
                described = self._described(connection, [row], [message])
                longer = question.longer(message.message_id, self._mask(described.content))
                lines = document_lines([(name, self._mask(text)) for name, text in described.documents])
                notes, has_voice = (*notes, *described.notes), has_voice or described.has_voice
            sent = with_lines(with_text(sent, question.text, longer.text), lines)
            question = longer
        if rows:
            arrivals.join(connection, rows, opened.row, self._owner, now_ms())
            values = {"content": question.text, "sent": sent, "parts": question.dump()}
            arrivals.extend_question(connection, asked, values, _ids_of(inbound))
            files.attach(connection, [row.id for row in rows], asked.id)
        user, _ = turns.recorded(connection, opened.row.key.turn)
        return replace(opened, user=user, notes=notes, has_voice=has_voice)

    def _changed(self, question: parts.Question, edit: InboundMessage) -> parts.Question:
        """Where nobody knows any more which part of a question was whose, the correction follows it."""
        text = self._mask(edit.text)
        if question.has(edit.edited_of or ""):
            return again.edited(question, edit, text)
        return parts.Question(f"{question.text}\n\n{CHANGED}\n{text}")

    def _described(
        self, connection: Connection, rows: Sequence[InboxRow], inbound: Sequence[InboundMessage]
    ) -> Described:
        """What was said with what came of its files; an edit's are those of the message that it changes."""
        if rows[0].kind == "edit":
            inbound = [replace(message, attachments=()) for message in inbound]
        ids = [row.id for row in rows]
        came = files.came_with(connection, ids)
        return describe(list(zip(ids, inbound, strict=True)), came, self._opened.language)

    def _composed(
        self, row: InboxRow, first: InboundMessage, text: str, described: Described, number: int | None
    ) -> UserMessage:
        opened = self._opened
        reply = first.reply_to
        sent = compose_user_text(
            text,
            datetime.now(opened.now.tzinfo),
            author=None if opened.room is None else opened.account.label or opened.account.user_id,
            quoted=None if reply is None or not reply.text else reply.text,
            documents=[(name, self._mask(words)) for name, words in described.documents],
            author_number=number,
        )
        if row.kind == "edit":
            head, _, said = sent.partition("\n")
            sent = f"{head}\n{CHANGED}\n{said}"
        return UserMessage(text, sent, described.pictures)

    async def _look(self, fetch: Callable[[InboxRow], None]) -> bool:
        """Acts on what waits; whether something goes on waiting."""
        opened = self._opened

        def read(connection: Connection) -> tuple[Waiting, tuple[InboxRow, ...]]:
            found = arrivals.waiting(connection, opened.session.key, opened.row, now_ms())
            return found, _ready(connection, found.own)

        try:
            found, ready = await self._database.read(read)
        except DBAPIError as error:
            log.warning("what waits was not looked at: %s", type(error).__name__)
            return False
        if found.withdrawn and self._may_restart():
            self._running.stop()
            return False
        is_other = found.asked not in ("", opened.user.text)
        if (is_other or self._is_burst(found, ready)) and self._may_restart() and self._running.restart():
            self.restarts = True
            return False
        next_rows = found.own[len(ready) : len(ready) + 1]
        may_join = [row for row in next_rows if self._may_join(row)]
        if self._rules.busy == "interrupt" and found.own and not may_join:
            self._running.stop()
            return False
        for row in may_join:
            if row.id not in self._fetched:
                self._fetched.add(row.id)
                fetch(row)
        return bool(found.own) or found.later

    def _is_burst(self, found: Waiting, ready: Sequence[InboxRow]) -> bool:
        """Whether all that its author said since comes so quickly that it is a part of the question."""
        if not ready or len(ready) < len(found.own) or self._rules.alone:
            return False
        return all(row.kind == "edit" or self._is_quick(row) for row in ready)

    def _is_quick(self, row: InboxRow) -> bool:
        """What belongs to the question's album always is: a crash may have parted them."""
        message, album = _readable(row), self._opened.inbound.album
        is_of_album = album is not None and message is not None and message.album == album
        return is_of_album or row.received_ms - self._since_ms <= int(self._rules.burst_window_s * 1000)

    def _may_join(self, row: InboxRow) -> bool:
        """Whether a message with files may become a part of the turn once they are there."""
        wanted = self._rules.busy == "steer" or (self._is_quick(row) and self._may_restart())
        return wanted and not self._rules.alone and _has_files(row)

    async def _fetch_of(self, row: InboxRow) -> None:
        """Fetches the files of a message that waits; if that fails, it is a turn of its own all the same."""
        try:
            await self._fetch([row])
        except (NotAdmitted, DBAPIError) as error:
            log.warning("files of what waits were not fetched: %s", type(error).__name__)
        else:
            self._running.arrived.set()

    async def _tell(self) -> None:
        """Says what becomes of what waits: quietly, once for each turn."""
        source = f"w:{self._opened.row.key.turn}"
        key = "busy_steer" if self._rules.busy == "steer" else "busy_queue"
        chunks = self._delivery.render(self._where.platform, say(key, self._opened.language))

        def work(connection: Connection) -> None:
            if outbox.find(connection, source, 0) is None:
                planned = [OutboundMessage(self._where.to, chunk, quiet=True) for chunk in chunks]
                outbox.plan(connection, self._where.plan(source), list(map(dump_outbound, planned)), now_ms())

        try:
            await self._database.write(work)
        except DBAPIError as error:
            log.warning("notice not planned: %s", type(error).__name__)
        else:
            self._delivery.kick(self._where.platform, self._where.to.chat)


def _ready(connection: Connection, rows: Sequence[InboxRow]) -> tuple[InboxRow, ...]:
    """The rows before the first one that can't join yet, its files being still to be fetched, or that needs a
    turn of its own, as it calls a skill by name."""
    with_files = [row.id for row in rows if '"attachments"' in row.payload]
    there = {(one.inbox_row, one.place) for one in files.came_with(connection, with_files)}
    return tuple(takewhile(lambda row: _is_ready(row, there), rows))


def _is_ready(row: InboxRow, there: Collection[tuple[int | None, int]]) -> bool:
    message = _readable(row)
    if message is None or may_call_skill(message.text):
        return False
    is_there = all((row.id, place) in there for place in range(len(message.attachments)))
    return row.kind == "edit" or is_there


def _has_files(row: InboxRow) -> bool:
    message = _readable(row)
    return message is not None and bool(message.attachments) and not may_call_skill(message.text)


def _readable(row: InboxRow) -> InboundMessage | None:
    try:
        return load_message(row)
    except BadPayload:
        return None  # set aside when its own turn comes


def _of_one_kind(rows: Sequence[InboxRow]) -> tuple[InboxRow, ...]:
    return tuple(takewhile(lambda row: row.kind == rows[0].kind, rows))


def _ids_of(inbound: Sequence[InboundMessage]) -> tuple[str, ...]:
    return tuple(message.message_id for message in inbound if message.message_id)
