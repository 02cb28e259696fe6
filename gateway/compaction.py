"""When a conversation is made shorter: in the background after a turn, before one that would not fit, when an
endpoint refuses what it was sent as too long, and by hand. The summary is the agent's, the rows the state's.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

from pydantic import BaseModel
from sqlalchemy import Connection

from trunkline.adapters.base import ChatRef, OutboundMessage
from trunkline.agent.compaction import NotSummarised, Summarised, count_kept, summarise, trim_results
from trunkline.agent.model import FailureKind, ModelFailure, ToolSpec
from trunkline.agent.providers.base import Conversation
from trunkline.agent.scope import AccountId, Scope
from trunkline.agent.tokens import estimate_message, estimate_messages, estimate_text, estimate_tools
from trunkline.agent.tools.base import Tool
from trunkline.gateway.beside_turns import contained
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import NotShortened, Shortened
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.logs import log_context
from trunkline.gateway.model_clients import Models
from trunkline.gateway.opening import Opened
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.state import compaction, notes, outbox, resuming, sessions, turns
from trunkline.gateway.state.compaction import Past
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account, Room, Session, scope_of
from trunkline.gateway.state.turns import Spent, TurnKey, TurnRow

log = logging.getLogger(__name__)

NEARLY_FULL = 0.7
"""The share of the window from which a conversation is made shorter in the background."""
FULL = 0.85
"""The share from which a turn waits for it: the rest is for the answer, and for what the estimate is off."""
KEPT, AFTER = 0.3, 0.5
"""The share of the window for the turns that are kept whole, and for them with the prompt and the tools."""
SUMMARY_WINDOW = 0.5
"""The share of the summarising model's window that one part of the record may take."""
MOST_PART_TOKENS = 24_000
MOST_MENDED_TOKENS = 60_000
"""A note that is made again tells of this much of what was put away, the newest."""
SMALL_TOKENS = 3_000
"""A context below this fits into any model: nobody is asked how large its window is."""
DOUBTFUL = 1.7
"""A count so many times the estimate is of several calls together, which some ways of calling tools take."""
REFUSED = 0.9
"""Of what an endpoint refused as too long, this much is taken for its window where it names none."""
TRIMMED_CHARS = 2_000
KEPT_BY_HAND = 2

MAX_SESSIONS = 64
PARALLEL = 2
BACKGROUND_S = 300.0
WAITED_S = 90.0

Told = Callable[[str, Conversation, Scope], Awaitable[None]]
"""Hears of the note that stands for a conversation from now on."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """One wish to make a session shorter. `overhead_tokens` are those of prompt and tools."""

    session: Session
    scope: Scope
    account: AccountId
    room_id: int | None
    window: int
    overhead_tokens: int
    timeout_s: float
    language: str
    kept_most: int | None = None
    focus: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    is_spoilt: bool
    used: int | None
    may_try: bool
    may_mend: bool


class Compaction:
    """The compactions of one process. `run` owns those in the background; one that is cancelled did nothing.

    A session is made shorter by one at a time, and again only when the last time was some turns ago.
    `more_tools` are those that come and go, as far as a scope may use them.
    """

    def __init__(
        self,
        database: Database,
        models: Models,
        tools: Sequence[Tool[Any]],
        delivery: Delivery,
        told: Told,
        more_tools: Callable[[Scope], Sequence[Tool[Any]]] = lambda _: (),
    ) -> None:
        self._database = database
        self._model = models.side("compaction")
        self._main = models.main.name
        self._windows = models.windows
        self._tools = tuple(tools)
        self._more_tools = more_tools
        self._scales: dict[str, float] = {}
        self._delivery = delivery
        self._told = told
        self._waiting: set[int] = set()
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(PARALLEL)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    def after_turn(self, opened: Opened) -> None:
        """Has the session of a turn that was answered made shorter when it is nearly full. Never waits."""
        session = opened.session.id
        if self._group is None or session in self._waiting or len(self._waiting) >= MAX_SESSIONS:
            return
        self._waiting.add(session)
        self._group.create_task(contained(self._keep_short(opened), log, "compaction"))

    async def is_due(self, opened: Opened) -> bool:
        """Whether the turn should wait for `fitted`. Asks nobody but the store."""
        seen = await self._database.read(lambda c: self._look(c, opened))
        if seen.is_spoilt:
            return seen.may_mend
        name = self._name(opened.session)
        window, asked = self._windows.known(name), estimate_message(opened.user, name)
        if seen.used is not None and window is not None and seen.used + asked <= FULL * window:
            return False  # as of most turns, and the history needn't be gone through
        tokens = await self._tokens(opened, seen.used)
        return seen.may_try and tokens >= SMALL_TOKENS and (window is None or tokens > FULL * window)

    async def fitted(self, opened: Opened) -> Opened:
        """The turn with a history that fits: made shorter first where it would not, and tried once."""
        seen = await self._database.read(lambda c: self._look(c, opened))
        used = None if seen.is_spoilt else seen.used
        if seen.is_spoilt and seen.may_mend and await self._mend(self._ask(opened, 2 * MOST_PART_TOKENS)):
            opened = await self._reloaded(opened)
        tokens = await self._tokens(opened, used)
        if tokens < SMALL_TOKENS or not seen.may_try:
            return opened
        window = await self._windows.of(self._name(opened.session))
        if tokens <= FULL * window:
            return opened
        done = await self._shorten(self._ask(opened, window))
        return await self._reloaded(opened) if isinstance(done, Shortened) else opened

    async def rescued(self, opened: Opened, failure: ModelFailure) -> Opened | None:
        """A turn that an endpoint refused, to be tried again with less; None when that can't help.

        The turn's own steps stay; of what their tools returned less is sent, where it is much.
        """
        if failure.kind is FailureKind.CONTEXT_TOO_LONG:
            self._windows.learn(self._name(opened.session), failure.detail)
        elif failure.kind is not FailureKind.DOWN:
            return None
        opened = await self._reloaded(opened)
        tokens = await self._tokens(opened, None)
        window = await self._windows.of(self._name(opened.session))
        if failure.kind is FailureKind.DOWN and tokens <= FULL * window:
            return None
        window = min(window, int(REFUSED * tokens))
        shorter: Opened | None = None
        if await self._database.read(lambda c: compaction.may_try(c, opened.session.id, urgent=True)):
            done = await self._shorten(self._ask(opened, window))
            if isinstance(done, Shortened):
                shorter = await self._reloaded(opened)
        left = shorter or opened
        if await self._tokens(left, None) > FULL * window:
            steps = trim_results(left.steps, TRIMMED_CHARS)
            shorter = replace(left, steps=steps) if steps != left.steps else shorter
        return shorter

    async def by_hand(
        self, account: Account, room: Room | None, session: Session, focus: str, language: str
    ) -> Shortened | NotShortened:
        """`/compress`: puts away all but the newest turns, whatever the window."""
        window = await self._windows.of(self._name(session))
        ask = _Ask(
            session,
            scope_of(account, room),
            account.id,
            None if room is None else room.id,
            window,
            self._overhead(session, scope_of(account, room)),
            WAITED_S,
            language,
            kept_most=KEPT_BY_HAND,
            focus=focus,
            by_hand=True,
        )
        await self._mend(ask)
        return await self._shorten(ask)

    async def _keep_short(self, opened: Opened) -> None:
        try:
            seen = await self._database.read(lambda c: self._look(c, opened))
            if seen.is_spoilt or not seen.may_try:
                return  # a spoilt note is made again before the next turn, when it is known to be wanted
            name = self._name(opened.session)
            known = self._windows.known(name)
            if seen.used is not None and known is not None and seen.used <= NEARLY_FULL * known:
                return
            history = await self._database.read(
                lambda c: resuming.load_conversation(c, opened.scope, opened.session)
            )
            counted = await asyncio.to_thread(estimate_messages, history, name)  # as in `_tokens`
            estimated = self._overhead(opened.session, opened.scope) + counted
            tokens = self._counted(name, seen.used, estimated)
            if tokens < SMALL_TOKENS:
                return
            window = await self._windows.of(name)
            if tokens <= NEARLY_FULL * window:
                return
            with log_context(opened.session.public_id, str(opened.row.key.turn)):
                async with self._places:
                    await self._shorten(self._ask(opened, window, BACKGROUND_S))
        finally:
            self._waiting.discard(opened.session.id)

    def _look(self, connection: Connection, opened: Opened) -> _Seen:
        session = opened.session.id
        note = notes.latest(connection, session)
        return _Seen(
            note is not None and note.is_spoilt,
            compaction.used_tokens(connection, session, self._name(opened.session)),
            compaction.may_try(connection, session, urgent=False),
            compaction.may_try(connection, session, urgent=True),
        )

    async def _tokens(self, opened: Opened, used: int | None) -> int:
        """What the turn's next call will send, by the provider's last count where there is one."""
        name = self._name(opened.session)
        asked = estimate_message(opened.user, name)
        if used is not None and used < SMALL_TOKENS:
            return used + asked
        said = (*opened.history, opened.user, *opened.steps)
        # In a thread, since a long history takes its time.
        overhead = self._overhead(opened.session, opened.scope)
        estimated = overhead + await asyncio.to_thread(estimate_messages, said, name)
        return self._counted(name, None if used is None else used + asked, estimated)

    def _counted(self, model: str, used: int | None, estimated: int) -> int:
        """The provider's count where it can be believed, and the scale of the model's tokens learnt from it;
        else the estimate by that scale."""
        if used is None:
            return round(estimated * self._scale(model))
        if used > DOUBTFUL * estimated:
            return estimated
        if estimated >= SMALL_TOKENS and used * DOUBTFUL > estimated:
            self._scales[model] = used / estimated
        return used

    def _scale(self, model: str) -> float:
        """How many of the model's tokens stand for one of the estimate's, as last counted."""
        return self._scales.get(model, 1.0)

    def _overhead(self, session: Session, scope: Scope) -> int:
        tools = (*self._tools, *self._more_tools(scope))
        return estimate_text(session.prompt, self._name(session)) + sum(map(_cost, tools))

    async def _reloaded(self, opened: Opened) -> Opened:
        """The turn with the history that the store has now."""

        def read(connection: Connection) -> Opened:
            session = sessions.load(connection, opened.session.id)
            user, steps = turns.recorded(connection, opened.row.key.turn)
            everything = resuming.load_conversation(connection, opened.scope, session)
            history = everything[: len(everything) - len(steps) - bool(user.sent)]
            # The prompt stays until the next turn, and so does a question that is being added to.
            return replace(opened, history=history, user=user if user.sent else opened.user, steps=steps)

        return await self._database.read(read)

    def _name(self, session: Session) -> str:
        return session.model or self._main

    def _ask(self, opened: Opened, window: int, timeout_s: float = WAITED_S) -> _Ask:
        return _Ask(
            opened.session,
            opened.scope,
            opened.account.id,
            None if opened.room is None else opened.room.id,
            window,
            self._overhead(opened.session, opened.scope),
            timeout_s,
            opened.language,
        )

    async def _shorten(self, ask: _Ask) -> Shortened | NotShortened:
        """Puts away what is old in one session, and tells the chat of the first failure in a row."""
        async with self._locks.setdefault(ask.session.id, asyncio.Lock()):
            name = self._name(ask.session)
            past = await self._database.read(
                lambda c: compaction.load_past(c, ask.scope, ask.session.id, name)
            )
            if past is None:
                return NotShortened("nothing")
            budget = _budget(ask, self._scale(name))
            kept = count_kept([one.tokens for one in past.turns], budget)
            kept = kept if ask.kept_most is None else min(kept, ask.kept_most)
            count = len(past.turns) - kept
            if count == 0:
                return NotShortened("nothing")
            before = "" if past.note is None else past.note.text
            result = await self._summarised([one.text for one in past.turns[:count]], before, ask)
            if isinstance(result, NotSummarised):
                return await self._fail(ask, past, result)
            return await self._put_away(ask, past, result)

    async def _summarised(self, texts: Sequence[str], before: str, ask: _Ask) -> Summarised | NotSummarised:
        window = min(await self._windows.of(self._model.name), ask.window)
        return await summarise(
            self._model,
            texts,
            before=before,
            focus=ask.focus,
            part_tokens=min(MOST_PART_TOKENS, int(SUMMARY_WINDOW * window)),
            timeout_s=ask.timeout_s,
        )

    async def _put_away(self, ask: _Ask, past: Past, result: Summarised) -> Shortened | NotShortened:
        gone = past.turns[: result.covered]
        left_tokens = sum(one.tokens for one in past.turns[result.covered :])
        left_tokens += estimate_text(result.note, past.model)
        before, after = past.tokens + ask.overhead_tokens, left_tokens + ask.overhead_tokens
        stamp_ms = now_ms()

        def work(connection: Connection) -> bool:
            _count_usage(connection, ask, past, result, stamp_ms)
            return compaction.put_away(
                connection,
                ask.scope,
                past,
                result.covered,
                result.note,
                by_hand=ask.by_hand,
                tokens=(before, after),
                stamp_ms=stamp_ms,
            )

        if not await self._database.write(work):
            log.info("compaction dropped: the conversation changed meanwhile")
            return NotShortened("changed")
        log.info("conversation made shorter: tokens %d to %d", before, after)
        if not past.session.private:
            here = Conversation(past.session.public_id, past.session.key.platform)
            await self._told(result.note, here, ask.scope)
        return Shortened(before, after, sum(len(one.ids) for one in gone))

    async def _fail(self, ask: _Ask, past: Past, result: NotSummarised | Summarised) -> NotShortened:
        why = result.why if isinstance(result, NotSummarised) else FailureKind.TIMED_OUT.value
        log.warning("compaction failed: %s", why)
        key, stamp_ms = past.session.key, now_ms()

        def work(connection: Connection) -> None:
            _count_usage(connection, ask, past, result, stamp_ms)
            first = compaction.note_failure(connection, past, by_hand=ask.by_hand, stamp_ms=stamp_ms)
            if not first or ask.by_hand:
                return
            sentence = say("compaction_failed", ask.language)
            chunks = self._delivery.render(key.platform, sentence, ask.language)
            to = ChatRef(key.chat, key.thread or None)
            planned = [dump_outbound(OutboundMessage(to, chunk, quiet=True)) for chunk in chunks]
            outbox.plan(connection, outbox.notice(key), planned, stamp_ms)

        await self._database.write(work)
        self._delivery.kick(key.platform, key.chat)
        return NotShortened(why)

    async def _mend(self, ask: _Ask) -> bool:
        """Makes a spoilt note again, from the newest of what it told of; false when there is nothing to mend.

        Without a note the model is told that there is none.
        """
        async with self._locks.setdefault(ask.session.id, asyncio.Lock()):
            name = self._name(ask.session)
            past = await self._database.read(
                lambda c: compaction.load_spoilt(c, ask.scope, ask.session.id, name)
            )
            if past is None or not past.turns:
                return False
            newest = count_kept([one.tokens for one in past.turns], MOST_MENDED_TOKENS)
            texts = [one.text for one in past.turns[-newest:]]
            result = await self._summarised(texts, "", ask)
            if isinstance(result, NotSummarised) or result.covered < len(texts):
                await self._fail(ask, past, result)
                return False
            stamp_ms = now_ms()

            def work(connection: Connection) -> bool:
                _count_usage(connection, ask, past, result, stamp_ms)
                return compaction.make_whole(connection, ask.scope, past, result.note, stamp_ms)

            return await self._database.write(work)


def _budget(ask: _Ask, scale: float) -> int:
    """Tokens of the estimate for the turns that are kept whole."""
    window = ask.window / scale
    return max(0, min(int(KEPT * window), int(AFTER * window) - ask.overhead_tokens))


def _cost(tool: Tool[Any]) -> int:
    arguments: type[BaseModel] = tool.arguments
    return _tool_tokens(tool.name, tool.description, arguments)


@lru_cache(maxsize=512)
def _tool_tokens(name: str, description: str, arguments: type[BaseModel]) -> int:
    return estimate_tools([ToolSpec(name, description, arguments.model_json_schema())])


def _count_usage(
    connection: Connection, ask: _Ask, past: Past, result: Summarised | NotSummarised, stamp_ms: int
) -> None:
    row = TurnRow(TurnKey(past.newest_turn, 0), past.session.id, past.session.stream, ask.account)
    spent = [Spent(call.purpose, call.model, call.usage) for call in result.usage]
    turns.add_usage(connection, row, spent, ask.room_id, stamp_ms)
