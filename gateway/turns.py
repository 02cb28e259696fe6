"""Carries inbox rows through to their answer: a command's reply, or a turn from prompt to outbox.

The loop that talks to the model is the agent's; this module gives it what the house knows, shows the text as
it comes, and commits the end of the turn in one transaction.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatKind,
    ChatRef,
    Chunk,
    InboundMessage,
    RateLimited,
)
from trunkline.agent.loop import run_turn
from trunkline.agent.messages import AssistantMessage, Usage
from trunkline.agent.model import FailureKind, ModelClient, ModelFailure, TextDelta
from trunkline.agent.ports import TurnLost
from trunkline.agent.tools.base import Tool
from trunkline.agent.turn import (
    CallUsage,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnLimits,
    TurnRequest,
)
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.commands.registry import CommandContext, House
from trunkline.gateway.delivery import Delivery, Destination, payloads, plan_doubt
from trunkline.gateway.logs import log_context
from trunkline.gateway.opening import NotAdmitted, Opened, Opening, load_message, who_is
from trunkline.gateway.preview import Preview
from trunkline.gateway.sentences import describe_role, describe_wait, say
from trunkline.gateway.sessions import RunningTurn
from trunkline.gateway.state import inbox, outbox, turns
from trunkline.gateway.state.messages import add_message
from trunkline.gateway.state.records import InboxRow
from trunkline.gateway.state.turns import Spent, StoreRecorder, said

log = logging.getLogger(__name__)

TYPING_TIMEOUT_S = 5.0
SURPLUS = "…"
"""What a message of the preview becomes that the whole answer has no use for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended: the text for the person, and the message for the transcript."""

    state: str
    reason: str
    answer: str
    message: AssistantMessage | None
    spent: tuple[Spent, ...] = ()


class TurnRunner:
    """The RowHandler of the session workers."""

    def __init__(
        self,
        house: House,
        delivery: Delivery,
        opening: Opening,
        model: ModelClient,
        tools: Sequence[Tool[Any]],
        limits: TurnLimits,
        mask: Callable[[str], str],
        after_turn: Callable[[Opened], None],
    ) -> None:
        self._house = house
        self._database = house.database
        self._delivery = delivery
        self._opening = opening
        self._model = model
        self._tools = tools
        self._limits = limits
        self._mask = mask
        self._after_turn = after_turn

    async def handle(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        try:
            if rows[0].kind == "command":
                await self._run_command(rows[0])
            else:
                await self._take_turn(rows, running)
        except NotAdmitted as denied:
            log.info("rows dropped: %s", denied)
            await self._database.write(lambda c: _end_rows(c, rows, "done", "not admitted"))

    async def _take_turn(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        opened = await self._opening.open(rows)
        if opened is None:
            await self._database.write(lambda c: _end_rows(c, rows, "done", "turn ended"))
            return
        with log_context(opened.session.public_id, str(opened.row.key.turn)):
            try:
                await self._run_turn(opened, rows, running)
            except* TurnLost:
                log.info("turn lost: its rows are answered anew, or by another worker")
                await self._database.write(lambda c: inbox.reopen(c, [row.id for row in rows]))

    async def give_up(self, rows: Sequence[InboxRow]) -> None:
        try:
            message = load_message(rows[0])
        except ValidationError:
            log.warning("row set aside, not readable: %s", rows[0].id)
            await self._database.write(lambda c: _end_rows(c, rows, "dead", "unreadable"))
        else:
            await self._reply(rows, message, say("poison", message.language), state="dead")

    async def _run_command(self, row: InboxRow) -> None:
        message = load_message(row)
        command = BY_NAME.get(message.command or "")
        everywhere = command is not None and command.everywhere
        who = await self._database.read(lambda c: who_is(c, row, message, everywhere=everywhere))
        if command is None:
            sentence = say("unknown_command", who.language, name=message.command)
        elif not command.allows(who.account):
            role = describe_role(command.role, who.language)
            sentence = say("not_yours", who.language, role=role)
        elif command.private and who.room is not None:
            sentence = say("private_elsewhere", who.language)
        else:
            context = CommandContext(
                self._house, who.account, who.room, row.key, message.text, who.language, row.id
            )
            sentence = await command.run(context)
        await self._reply([row], message, sentence)

    async def _reply(
        self, rows: Sequence[InboxRow], message: InboundMessage, sentence: str, state: str = "done"
    ) -> None:
        """Plans a sentence of the house and ends the rows, in one transaction."""
        where = destination(message)
        chunks = self._delivery.render(message.platform, sentence, message.language)

        def work(connection: Connection) -> None:
            planned = payloads(where, chunks)
            outbox.plan(connection, where.plan(f"i:{rows[0].id}"), planned, now_ms())
            _end_rows(connection, rows, state, "")

        await self._database.write(work)
        self._delivery.kick(message.platform, message.chat)

    async def _run_turn(self, opened: Opened, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        where = destination(opened.inbound)
        plan = where.plan(f"t:{opened.row.key.turn}", opened.row.key.turn)
        adapter = self._delivery.adapter(opened.inbound.platform)
        preview = None
        if adapter is not None:
            preview = Preview(self._database, self._delivery, adapter, where, plan)
        shown = Shown()
        async with asyncio.TaskGroup() as group:
            if preview is not None:
                group.create_task(preview.run(), name="preview")
            typing = group.create_task(self._keep_typing(where), name="typing")
            try:
                async with asyncio.TaskGroup() as inner:
                    running.watch(inner.create_task(self._answer(opened, preview, shown), name="model"))
            finally:
                typing.cancel()
                if preview is not None:
                    preview.finish()
        outcome = shown.outcome or _stopped(shown, opened.language)
        on_platform = {} if preview is None else preview.shown
        await self._finish(opened, rows, where, plan, outcome, on_platform)

    async def _answer(self, opened: Opened, preview: Preview | None, shown: "Shown") -> None:
        """Runs the agent's loop and notes what the person could see, so that stopping loses nothing."""
        request = TurnRequest(
            scope=opened.scope,
            session=opened.session.public_id,
            turn=opened.row.key.turn,
            system=opened.session.prompt,
            history=opened.history,
            user=opened.user,
            recorded=opened.steps,
            tools=tuple(self._tools),
            platform=opened.inbound.platform,
            now=opened.now,
        )
        room_id = None if opened.room is None else opened.room.id
        recorder = StoreRecorder(self._database, opened.row, room_id, self._model.name, self._mask)
        turn = run_turn(request, model=self._model, recorder=recorder, limits=self._limits)
        async with aclosing(turn) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    shown.add(event.text)
                    if preview is not None:
                        preview.update(shown.text)
                elif isinstance(event, ToolStarted | ToolFinished):
                    shown.unrecorded = ""
                elif isinstance(event, TurnEnded):
                    shown.outcome = self._outcome(event, recorder.counted, opened.language)

    def _outcome(self, ended: TurnEnded, counted: Usage, language: str) -> Outcome:
        """`counted` are tokens that the recorded steps have brought into the usage already."""
        parts = [ended.answer.strip()]
        if ended.failure is not None:
            parts.append(describe_failure(ended.failure, language))
            if ended.tools_run:
                parts.append(say("tools_done", language, tools=", ".join(ended.tools_run)))
        elif ended.reason == "rounds":
            parts.append(say("rounds", language, rounds=self._limits.max_rounds))
        state = "failed" if ended.failure is not None else "done"
        reason = ended.failure.kind.value if ended.failure is not None else ended.reason
        spent = tuple(
            Spent(call.purpose, call.model, call.usage) for call in _uncounted(ended.usage, counted)
        )
        if ended.failure is not None:
            log.warning("turn failed: %s", ended.failure.kind)
        return Outcome(state, reason, "\n\n".join(filter(None, parts)), ended.message, spent)

    async def _finish(
        self,
        opened: Opened,
        rows: Sequence[InboxRow],
        where: Destination,
        plan: outbox.Plan,
        outcome: Outcome,
        on_platform: dict[int, str],
    ) -> None:
        """The last message, the outbox plan, the inbox and the usage, in one transaction."""
        language = opened.language
        chunks = await asyncio.to_thread(self._delivery.render, where.platform, outcome.answer, language)
        if outcome.answer and not chunks:
            # Text that shows nothing, such as a lone zero-width space: as good as no answer.
            chunks = self._delivery.render(where.platform, say(f"model_{FailureKind.EMPTY}", language))
        planned = payloads(where, chunks)
        room_id = None if opened.room is None else opened.room.id

        def work(connection: Connection) -> None:
            stamp_ms = now_ms()
            turns.end(connection, opened.row.key, outcome.state, outcome.reason, stamp_ms)
            if outcome.message is not None:
                row = said(opened.row, outcome.message, stamp_ms, step_n=0, mask=self._mask)
                add_message(connection, row)
            doubtful = outbox.plan(
                connection,
                plan,
                planned,
                stamp_ms,
                shown=on_platform,
                surplus=payloads(where, [Chunk(SURPLUS)])[0],
                repeats_safely=self._delivery.repeats_safely(where.platform),
            )
            if doubtful:
                plan_doubt(connection, plan, where.to, language)
            inbox.finish(connection, [row.id for row in rows], "done", outcome.reason, stamp_ms)
            turns.add_usage(connection, opened.row, outcome.spent, room_id, stamp_ms)

        await self._database.write(work)
        self._delivery.kick(where.platform, where.to.chat)
        log.info("turn ended: %s %s", outcome.state, outcome.reason)
        if outcome.state == "done":
            self._after_turn(opened)

    async def _keep_typing(self, where: Destination) -> None:
        """Shows that an answer is being written until it is cancelled, and takes the sign away then."""
        adapter = self._delivery.adapter(where.platform)
        if adapter is None or adapter.limits.typing_interval_s is None:
            return
        try:
            while True:
                await self._show_typing(adapter, where, on=True)
                await asyncio.sleep(adapter.limits.typing_interval_s)
        finally:
            await self._show_typing(adapter, where, on=False)

    async def _show_typing(self, adapter: Adapter, where: Destination, *, on: bool) -> None:
        """Whatever goes wrong with the sign, the turn goes on."""
        chat = where.to.chat
        if self._delivery.held_s(where.platform, chat):
            return
        try:
            async with asyncio.timeout(TYPING_TIMEOUT_S):
                await adapter.typing(where.to, on=on)
        except RateLimited as error:
            self._delivery.hold(where.platform, chat, error.retry_after_s)
        except (AdapterError, TimeoutError) as error:
            log.debug("typing not shown: %s", type(error).__name__)
        except Exception:  # boundary: delivery
            log.exception("typing failed: %s", where.platform)


@dataclass(slots=True)
class Shown:
    """What a running turn has given so far; read when it is stopped. `unrecorded` is of the open step."""

    text: str = ""
    unrecorded: str = ""
    outcome: Outcome | None = None

    def add(self, text: str) -> None:
        self.text += text
        self.unrecorded += text


def _end_rows(connection: Connection, rows: Sequence[InboxRow], state: str, reason: str) -> None:
    """Ends rows that got no answer of the model, and the turn they may have been in."""
    stamp_ms = now_ms()
    if rows[0].turn is not None:
        turns.give_up(connection, rows[0].turn, reason or state, stamp_ms)
    inbox.finish(connection, [row.id for row in rows], state, reason, stamp_ms)


def _uncounted(calls: Sequence[CallUsage], counted: Usage) -> Sequence[CallUsage]:
    """The calls after those whose tokens were counted with their steps."""
    total = Usage()
    for place, call in enumerate(calls):
        if total == counted:
            return calls[place:]
        total += call.usage
    return ()


def _stopped(shown: Shown, language: str) -> Outcome:
    seen = shown.text.strip()
    answer = f"{seen}\n\n{say('interrupted_note', language)}" if seen else ""
    last = shown.unrecorded.strip()
    message = AssistantMessage(last, finish_reason="stopped", interrupted=True) if last else None
    return Outcome("stopped", "stopped", answer, message)


def destination(message: InboundMessage) -> Destination:
    """Where the answer to a message goes: its chat and thread, as a reply in rooms."""
    is_direct = message.chat_kind is ChatKind.DIRECT
    return Destination(
        platform=message.platform,
        tenant=message.tenant,
        to=ChatRef(message.chat, message.thread, message.interaction, message.interaction_expires),
        reply_to=None if is_direct else message.message_id,
        mention=None if is_direct else message.sender.id,
        group=not is_direct,
    )


def describe_failure(failure: ModelFailure, language: str) -> str:
    """One sentence for a person: what happened and what to do."""
    wait = ""
    if failure.kind is FailureKind.RATE_LIMITED:
        wait = describe_wait(failure.retry_after_s, language)
    return say(f"model_{failure.kind}", language, wait=wait)
