"""Carries inbox rows through to their answer: a command's reply, or a turn from prompt to outbox.

The loop that talks to the model is the agent's; this module gives it what the house knows, shows the text as
it comes, and commits the end of the turn in one transaction.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from trunkline.adapters.base import (
    ChatKind,
    ChatRef,
    Chunk,
    InboundKind,
    InboundMessage,
)
from trunkline.agent.loop import run_turn
from trunkline.agent.messages import Usage
from trunkline.agent.model import FailureKind, ModelClient, TextDelta
from trunkline.agent.ports import TurnLost
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool
from trunkline.agent.turn import (
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnLimits,
    TurnRequest,
)
from trunkline.gateway import threads
from trunkline.gateway.amending import Amending
from trunkline.gateway.buttons import under_answer, under_running
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.commands.registry import Command, CommandContext, House
from trunkline.gateway.commands.turns import find_model
from trunkline.gateway.compaction import Compaction
from trunkline.gateway.delivery import Destination, payloads
from trunkline.gateway.logs import log_context
from trunkline.gateway.naming import with_names
from trunkline.gateway.opening import NotAdmitted, Opened, Opening, Who, load_message, who_is
from trunkline.gateway.outcomes import Outcome, Shown, describe_failure, stopped, uncounted
from trunkline.gateway.payloads import BadPayload
from trunkline.gateway.preview import Preview
from trunkline.gateway.private_answers import find_private_way, point_elsewhere
from trunkline.gateway.provider_turns import keep_turn
from trunkline.gateway.reacting import acknowledge
from trunkline.gateway.roles import tools_for
from trunkline.gateway.scheduled import is_run
from trunkline.gateway.sentences import describe_role, say
from trunkline.gateway.sessions import RunningTurn
from trunkline.gateway.spending import refuse_unpaid
from trunkline.gateway.state import inbox, outbox, takeback, turns
from trunkline.gateway.state.messages import add_message
from trunkline.gateway.state.records import InboxRow
from trunkline.gateway.state.turns import Spent, StoreRecorder, said
from trunkline.gateway.steering import BusyRules, Means, Steering
from trunkline.gateway.turn_files import TurnFiles
from trunkline.gateway.typing_sign import keep_typing
from trunkline.gateway.undelivered import plan_doubt

log = logging.getLogger(__name__)

SURPLUS = "…"
"""What a message becomes that the whole answer has no use for, where it can't be deleted."""


@dataclass(frozen=True, slots=True)
class Mind:
    """What answers: `models` are all that may, by name, the main one first.

    `more_tools` are those that come and go, as far as a scope may use them.
    """

    models: Mapping[str, ModelClient]
    tools: Sequence[Tool[Any]]
    limits: TurnLimits
    more_tools: Callable[[Scope], Sequence[Tool[Any]]] = lambda _: ()


class TurnRunner:
    """The RowHandler of the session workers."""

    def __init__(
        self,
        house: House,
        files: TurnFiles,
        opening: Opening,
        mind: Mind,
        compaction: Compaction,
        after_turn: Callable[[Opened], None],
        rules: BusyRules,
    ) -> None:
        self._house = house
        self._database = house.database
        self._files = files
        self._delivery = files.delivery
        self._opening = opening
        self._models = mind.models
        self._tools = mind.tools
        self._more_tools = mind.more_tools
        self._limits = mind.limits
        self._compaction = compaction
        self._mask = house.mask
        self._after_turn = after_turn
        self._rules = rules
        self._amending = Amending(house.database, house.mask, rules.reanswer_edits)
        self._owner = opening.owner

    async def handle(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        try:
            if rows[0].kind == "command" and not await self._calls_skill(rows[0]):
                await self._run_command(rows[0])
            elif not await self._is_settled(rows[0]):
                await self._take_turn(rows, running)
        except NotAdmitted as denied:
            log.info("rows dropped: %s", denied)
            await self._database.write(lambda c: _end_rows(c, rows, "done", "not admitted"))

    async def _calls_skill(self, row: InboxRow) -> bool:
        return load_message(row).command not in BY_NAME and await self._opening.calls_skill(row)

    async def _is_settled(self, row: InboxRow) -> bool:
        """Whether an edit only changed the transcript, or there is no answer to try again."""
        if row.turn is not None or row.kind not in ("edit", "retry"):
            return False
        if row.kind == "edit":
            return await self._amending.settle(row)
        refusal = await self._amending.refusal(row, tuple(self._models))
        if refusal:
            await self._reply([row], load_message(row), refusal)
        return bool(refusal)

    async def _take_turn(self, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        running.is_turn = True
        if rows[0].turn is None and await self._is_unpaid(rows):
            return
        adapter = self._delivery.adapter(rows[0].key.platform)
        await threads.prepare(self._database, adapter, self._house.settings, rows[0])
        rows = await with_names(self._database, adapter, rows)
        if self._files.has_any(rows):
            await self._files.fetch(rows, running, destination(load_message(rows[0])))
        opened = await self._opening.open(rows)
        if opened is None:
            await self._database.write(lambda c: _end_rows(c, rows, "done", "turn ended"))
            return
        if rows[0].kind == "retry":
            opened = replace(opened, model=load_message(rows[0]).text)
        with log_context(opened.session.public_id, str(opened.row.key.turn)):
            try:
                await self._run_turn(opened, rows, running)
            except* TurnLost:
                log.info("turn lost: its rows are answered anew, or by another worker")
                await self._database.write(lambda c: _reopen(c, opened, rows))
                self._delivery.kick(opened.inbound.platform, opened.inbound.chat)

    async def _is_unpaid(self, rows: Sequence[InboxRow]) -> bool:
        """Whether the day's share of who pays is used up; the rows have ended then."""
        where, settings = destination(load_message(rows[0])), self._house.settings
        amend = self._amending.amend
        refused = await self._database.write(
            lambda c: refuse_unpaid(c, rows, where, settings, now_ms(), amend=amend)
        )
        if refused:
            self._delivery.kick(where.platform, where.to.chat)
        return refused

    async def give_up(self, rows: Sequence[InboxRow]) -> None:
        try:
            message = load_message(rows[0])
        except BadPayload:
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
            sentence: str | None = say("unknown_command", who.language, name=message.command)
        elif not command.allows(who.account):
            role = describe_role(command.role, who.language)
            sentence = say("not_yours", who.language, role=role)
        elif command.private and who.room is not None:
            sentence = await self._answer_privately(command, row, message, who)
        else:
            context = CommandContext(
                self._house, who.account, who.room, row.key, message.text, who.language, row.id
            )
            sentence = await command.run(context)
        await self._reply([row], message, sentence)

    async def _answer_privately(
        self, command: Command, row: InboxRow, message: InboundMessage, who: Who
    ) -> str | None:
        """Answers where the room doesn't see it; returns what the room is told, None where it is nothing."""
        way = await self._database.read(lambda c: find_private_way(c, message, who.account))
        if way is None or not command.asker_only:
            return point_elsewhere(self._delivery.adapter(message.platform), who.language)
        context = CommandContext(self._house, who.account, None, row.key, message.text, who.language, row.id)
        chunks = self._delivery.render(way.where.platform, await command.run(context), who.language)
        planned, plan = payloads(way.where, chunks), way.where.plan(f"i:{row.id}{outbox.PRIVATE}")
        await self._database.write(lambda c: outbox.plan(c, plan, planned, now_ms()))
        self._delivery.kick(way.where.platform, way.where.to.chat)
        return say("answered_privately", who.language) if way.elsewhere else None

    async def _reply(
        self, rows: Sequence[InboxRow], message: InboundMessage, sentence: str | None, state: str = "done"
    ) -> None:
        """Plans a sentence of the house and ends the rows, in one transaction."""
        where = destination(message)
        chunks = self._delivery.render(message.platform, sentence, message.language) if sentence else ()

        def work(connection: Connection) -> None:
            planned = payloads(where, chunks)
            outbox.plan(connection, where.plan(f"i:{rows[0].id}"), planned, now_ms())
            _end_rows(connection, rows, state, "")

        await self._database.write(work)
        self._delivery.kick(message.platform, message.chat)

    async def _run_turn(self, opened: Opened, rows: Sequence[InboxRow], running: RunningTurn) -> None:
        """Runs the turn, anew for as long as its author goes on speaking, and commits how it ended.

        One that the model found too long is tried once again, with the conversation made shorter.
        """
        tried_shorter = False
        if await self._compaction.is_due(opened):
            fitted = partial(self._compaction.fitted, opened)
            opened = await self._waited_for(destination(opened.inbound), running, fitted) or opened
        while True:
            run = self._run(opened, running)
            await self._carry_out(run)
            if run.steering.restarts and not running.stopped:
                opened = await run.steering.extended()
                continue
            shorter = None if tried_shorter else await self._shorter(run)
            if shorter is None:
                break
            opened, tried_shorter = shorter, True
        joined, notes = run.steering.joined, run.steering.notes
        opened = replace(opened, steps=opened.steps + joined, notes=opened.notes + notes)
        outcome = run.shown.outcome or stopped(run.shown, opened.language)
        on_platform = {} if run.preview is None else run.preview.shown
        await self._finish(opened, rows, run.where, run.plan, outcome, on_platform, run.shown.voice)

    async def _shorter(self, run: "Run") -> Opened | None:
        """The turn as it may be tried again after its failure; None when it can't, or was stopped."""
        failure = run.shown.failure
        if failure is None or run.running.stopped:
            return None
        rescue = partial(self._compaction.rescued, run.opened, failure)
        shorter = await self._waited_for(run.where, run.running, rescue)
        if run.running.stopped:
            run.shown.outcome = None
        return shorter

    async def _waited_for(
        self, where: Destination, running: RunningTurn, work: Callable[[], Awaitable[Opened | None]]
    ) -> Opened | None:
        """What the work gives; it can be stopped like the turn, and then gives None."""
        found: list[Opened | None] = []

        async def wait() -> None:
            found.append(await work())

        try:
            async with asyncio.TaskGroup() as group:
                typing = group.create_task(keep_typing(self._delivery, where), name="typing")
                try:
                    async with asyncio.TaskGroup() as inner:
                        running.watch(inner.create_task(wait(), name="compaction"))
                finally:
                    typing.cancel()
        finally:
            running.release()
        return found[0] if found else None

    def _run(self, opened: Opened, running: RunningTurn) -> "Run":
        running_buttons = under_running(opened.row.key.turn, opened.language)
        where = replace(destination(opened.inbound), while_running=running_buttons)
        plan = where.plan(f"t:{opened.row.key.turn}", opened.row.key.turn)
        adapter = self._delivery.adapter(opened.inbound.platform)
        preview = None
        if adapter is not None:
            preview = Preview(self._database, self._delivery, adapter, where, plan, running.stop)
        rules = replace(self._rules, busy="queue", alone=True) if is_run(opened.inbound) else self._rules
        means = Means(self._owner, self._mask, self._files.fetch_beside)
        steering = Steering(self._database, self._delivery, rules, opened, where, running, means)
        return Run(opened, running, where, plan, preview, steering)

    async def _carry_out(self, run: "Run") -> None:
        async with asyncio.TaskGroup() as group:
            if run.preview is not None:
                group.create_task(run.preview.run(), name="preview")
            beside = [
                group.create_task(keep_typing(self._delivery, run.where), name="typing"),
                group.create_task(run.steering.watch(), name="steering"),
                group.create_task(self._acknowledge(run.opened.inbound), name="acknowledge"),
            ]
            try:
                async with asyncio.TaskGroup() as inner:
                    run.running.watch(inner.create_task(self._answer(run), name="model"))
            finally:
                for task in beside:
                    task.cancel()
                if run.preview is not None:
                    run.preview.finish()

    async def _acknowledge(self, message: InboundMessage) -> None:
        emoji = self._house.settings.platforms.ack_reaction_on(message.platform)
        await acknowledge(self._delivery.adapter(message.platform), message, emoji)

    async def _answer(self, run: "Run") -> None:
        """Runs the agent's loop and notes what the person could see, so that stopping loses nothing."""
        opened, preview, shown = run.opened, run.preview, run.shown
        request = TurnRequest(
            scope=opened.scope,
            session=opened.session.public_id,
            turn=opened.row.key.turn,
            system=opened.session.prompt,
            history=opened.history,
            user=opened.user,
            recorded=opened.steps,
            tools=tools_for(opened.account, (*self._tools, *self._more_tools(opened.scope))),
            platform=opened.inbound.platform,
            now=opened.now,
        )
        model = self._model_for(opened)
        room_id = None if opened.room is None else opened.room.id
        recorder = StoreRecorder(self._database, opened.row, room_id, self._mask, run.steering.take_in)
        run.steering.observe(shown, preview, recorder)
        turn = run_turn(request, model=model, recorder=recorder, limits=self._limits)
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
                    shown.failure = event.failure
        if shown.outcome is not None:
            shown.voice = await self._files.speak(opened, shown.outcome)

    def _model_for(self, opened: Opened) -> ModelClient:
        """The one asked for this once, else the session's, else the main one."""
        names = tuple(self._models)
        name = find_model(opened.model, names) if opened.model else opened.session.model
        return self._models.get(name or "") or self._models[names[0]]

    def _outcome(self, ended: TurnEnded, counted: Usage, language: str) -> Outcome:
        """`counted` are tokens that the recorded steps have brought into the usage already."""
        parts = [ended.answer.strip()]
        if ended.failure is not None:
            parts.append(describe_failure(ended.failure, language))
            if ended.tools_run:
                parts.append(say("tools_done", language, tools=", ".join(ended.tools_run)))
        elif ended.reason == "rounds":
            parts.append(say("rounds", language, rounds=self._limits.max_rounds))
        elif ended.message is not None and ended.message.finish_reason == "length":
            parts.append(say("answer_too_long", language))
        state = "failed" if ended.failure is not None else "done"
        reason = ended.failure.kind.value if ended.failure is not None else ended.reason
        spent = tuple(Spent(call.purpose, call.model, call.usage) for call in uncounted(ended.usage, counted))
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
        voice: bytes | None,
    ) -> None:
        """The last message, the outbox plan, the inbox and the usage, in one transaction."""
        language = opened.language
        answer = await self._files.prepare(opened, outcome, where, voice, self._model_for(opened).name)
        chunks = answer.chunks
        if outcome.answer and not chunks:
            # Text that shows nothing, such as a lone zero-width space: as good as no answer.
            chunks = self._delivery.render(where.platform, say(f"model_{FailureKind.EMPTY}", language))
        buttons = () if is_run(opened.inbound) else under_answer(opened.row.key.turn, language)
        planned = payloads(where, chunks, buttons)
        room_id = None if opened.room is None else opened.room.id

        def work(connection: Connection) -> None:
            stamp_ms = now_ms()
            turns.end(connection, opened.row.key, outcome.state, outcome.reason, stamp_ms)
            message_id = None
            if outcome.message is not None:
                row = said(opened.row, outcome.message, stamp_ms, step_n=0, mask=self._mask)
                message_id = add_message(connection, row)
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
            self._files.plan(connection, opened, where, answer, message_id)
            if outcome.state == "done" and not is_run(opened.inbound):
                keep_turn(connection, opened, outcome.answer, stamp_ms)
            inbox.finish(connection, [row.id for row in rows], "done", outcome.reason, stamp_ms)
            turns.add_usage(connection, opened.row, outcome.spent, room_id, stamp_ms)

        await self._database.write(work)
        self._delivery.kick(where.platform, where.to.chat)
        log.info("turn ended: %s %s", outcome.state, outcome.reason)
        if outcome.state == "done":
            self._after_turn(opened)


@dataclass(frozen=True, slots=True)
class Run:
    """One try at a turn: it ends with the turn, or with the next try."""

    opened: Opened
    running: RunningTurn
    where: Destination
    plan: outbox.Plan
    preview: Preview | None
    steering: Steering
    shown: Shown = field(default_factory=Shown)


def _reopen(connection: Connection, opened: Opened, rows: Sequence[InboxRow]) -> None:
    takeback.clear_after_change(connection, opened.row.key.turn, now_ms())
    inbox.reopen(connection, [row.id for row in rows])


def _end_rows(connection: Connection, rows: Sequence[InboxRow], state: str, reason: str) -> None:
    """Ends rows that got no answer of the model, and the turn they may have been in."""
    stamp_ms = now_ms()
    if rows[0].turn is not None:
        turns.give_up(connection, rows[0].turn, reason or state, stamp_ms)
    inbox.finish(connection, [row.id for row in rows], state, reason, stamp_ms)


def destination(message: InboundMessage) -> Destination:
    """Where the answer to a message goes: its chat and thread, as a reply in rooms."""
    is_direct = message.chat_kind is ChatKind.DIRECT
    stands_before = message.chat_kind is ChatKind.GROUP and message.thread == message.message_id
    return Destination(
        platform=message.platform,
        tenant=message.tenant,
        to=ChatRef(message.chat, message.thread, message.interaction, message.interaction_expires),
        # What a thread hangs from stands in the chat: nothing in the thread can be a reply to it.
        reply_to=None if is_direct or stands_before else message.message_id,
        mention=None if is_direct else message.sender.id,
        realm=message.realm,
        # What came of a press is for the presser.
        ephemeral=message.kind is InboundKind.BUTTON and not is_direct and message.interaction is not None,
        group=not is_direct,
    )
