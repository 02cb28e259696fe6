"""What comes while a turn runs: it restarts the turn, joins it, stops it, or waits, as the operator set it.

The inbox is the truth: what joins a turn does so in the transaction of a step, and what does not stays
waiting for a turn of its own. Nothing is ever held in memory alone.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Literal

from pydantic import ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import InboundMessage, OutboundMessage
from trunkline.agent.messages import UserMessage
from trunkline.agent.prompt import compose_user_text
from trunkline.agent.stream_text import NOTE
from trunkline.gateway import bursts
from trunkline.gateway.amending import Reanswer
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Destination
from trunkline.gateway.opening import Opened, load_message
from trunkline.gateway.outcomes import Shown
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.preview import Preview
from trunkline.gateway.sentences import say
from trunkline.gateway.sessions import RunningTurn
from trunkline.gateway.skills import may_call_skill
from trunkline.gateway.state import arrivals, outbox, turns
from trunkline.gateway.state.arrivals import Waiting
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import InboxRow
from trunkline.gateway.state.turns import StoreRecorder
from trunkline.gateway.wording import with_text

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
        owner: str,
        mask: Callable[[str], str],
    ) -> None:
        self._database = database
        self._delivery = delivery
        self._rules = rules
        self._opened = opened
        self._where = where
        self._running = running
        self._owner = owner
        self._mask = mask
        self._since_ms = now_ms()
        self._may_restart: Callable[[], bool] = lambda: False
        self.restarts = False

    def observe(self, shown: Shown, preview: Preview | None, recorder: StoreRecorder) -> None:
        """Tells what to look at for whether the turn may still begin anew, unseen."""

        def untouched() -> bool:
            seen = preview is not None and preview.has_begun
            return not (seen or recorder.has_begun or shown.outcome is not None or self._opened.steps)

        self._may_restart = untouched

    async def watch(self) -> None:
        """Looks at each arrival until it is cancelled, or the run is ended by what came."""
        loop = asyncio.get_running_loop()
        notice_at_s: float | None = None
        while not self.restarts:
            waits = await self._look()
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
        rows = _of_one_kind(_before_other(waiting.own))
        if not rows:
            return ()
        inbound = [load_message(row) for row in rows]
        stamp_ms = now_ms()
        user = self._composed(rows, inbound)
        arrivals.join(connection, rows, opened.row, self._owner, stamp_ms)
        add_message(
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
                created_ms=stamp_ms,
            ),
        )
        return (user,)

    async def extended(self) -> Opened:
        """The turn with what was said so quickly after its beginning. Raises TurnLost."""
        return await self._database.write(self._extend)

    def _extend(self, connection: Connection) -> Opened:
        opened = self._opened
        turns.check(connection, opened.row.key)
        rows = _before_other(arrivals.waiting(connection, opened.session.key, opened.row, now_ms()).own)
        if not rows:
            return opened
        user, inbound = opened.user, [load_message(row) for row in rows]
        for row, message in zip(rows, inbound, strict=True):
            amended = self._changed if row.kind == "edit" else self._longer
            user = amended(user, message)
        arrivals.join(connection, rows, opened.row, self._owner, now_ms())
        arrivals.extend_question(connection, opened.row, user.text, user.sent, _ids_of(inbound))
        return replace(opened, user=user, parts=opened.parts + len(rows))

    def _longer(self, user: UserMessage, message: InboundMessage) -> UserMessage:
        text = f"{user.text}\n\n{self._mask(message.text)}"
        return replace(user, text=text, sent=with_text(user.sent, user.text, text))

    def _changed(self, user: UserMessage, message: InboundMessage) -> UserMessage:
        """Of a question of several messages nobody knows any more which part was whose."""
        text = self._mask(message.text)
        if self._opened.parts > 1:
            text = f"{user.text}\n\n{CHANGED}\n{text}"
        return replace(user, text=text, sent=with_text(user.sent, user.text, text))

    def _composed(self, rows: Sequence[InboxRow], inbound: Sequence[InboundMessage]) -> UserMessage:
        opened = self._opened
        text = self._mask(bursts.join(inbound, [message.text for message in inbound]))
        reply = inbound[0].reply_to
        sent = compose_user_text(
            text,
            datetime.now(opened.now.tzinfo),
            author=None if opened.room is None else opened.account.label or opened.account.user_id,
            quoted=None if reply is None or not reply.text else reply.text,
        )
        if rows[0].kind == "edit":
            head, _, said = sent.partition("\n")
            sent = f"{head}\n{CHANGED}\n{said}"
        return UserMessage(text, sent)

    async def _look(self) -> bool:
        """Acts on what waits; whether something goes on waiting."""
        opened = self._opened
        try:
            found = await self._database.read(
                lambda c: arrivals.waiting(c, opened.session.key, opened.row, now_ms())
            )
        except DBAPIError as error:
            log.warning("what waits was not looked at: %s", type(error).__name__)
            return False
        if found.withdrawn and self._may_restart():
            self._running.stop()
            return False
        if self._is_burst(found) and self._may_restart() and self._running.restart():
            self.restarts = True
            return False
        if self._rules.busy == "interrupt" and found.own:
            self._running.stop()
            return False
        return bool(found.own) or found.later

    def _is_burst(self, found: Waiting) -> bool:
        """Whether all that its author said since comes so quickly that it is a part of the question."""
        window_ms = int(self._rules.burst_window_s * 1000)
        rows = _before_other(found.own)
        if not rows or len(rows) < len(found.own) or self._rules.alone:
            return False
        return all(row.kind == "edit" or row.received_ms - self._since_ms <= window_ms for row in rows)

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


def _before_other(rows: Sequence[InboxRow]) -> tuple[InboxRow, ...]:
    """The rows before the first one that needs a turn of its own: files have to be fetched for it, or a skill
    looked up that it calls by name."""
    return tuple(takewhile(_is_words, rows))


def _is_words(row: InboxRow) -> bool:
    try:
        message = load_message(row)
    except ValidationError:
        return False  # set aside when its own turn comes
    return not (message.attachments or may_call_skill(message.text))


def _of_one_kind(rows: Sequence[InboxRow]) -> tuple[InboxRow, ...]:
    return tuple(takewhile(lambda row: row.kind == rows[0].kind, rows))


def _ids_of(inbound: Sequence[InboundMessage]) -> tuple[str, ...]:
    return tuple(message.message_id for message in inbound if message.message_id)
