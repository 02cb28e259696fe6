"""When a conversation is reviewed for memory, and what the person is told of it. The review is the agent's.

Reviews run beside the turns and never hold one up; a session is reviewed from where its last review ended,
and what was left at its end when the person writes in that chat again.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from trunkline.adapters.base import ChatRef, OutboundMessage
from trunkline.agent.memory.entries import preview
from trunkline.agent.memory.outcomes import Written
from trunkline.agent.memory.snapshot import MemorySnapshot, describe_changes
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.model import ModelClient
from trunkline.agent.ports import Target
from trunkline.agent.review import BOTH, MEMORY_ONLY, SKILLS_ONLY, Review, ReviewRequest, review_instruction
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool
from trunkline.gateway.beside_turns import contained, wait_for_delivery
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.logs import log_context
from trunkline.gateway.memory_approval import is_paused
from trunkline.gateway.memory_control import MAX_UNDO
from trunkline.gateway.opening import Opened
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.scheduled import is_run
from trunkline.gateway.sentences import say
from trunkline.gateway.settings import Memory
from trunkline.gateway.skill_notices import SkillReviews, skill_notice
from trunkline.gateway.state import outbox, reviews, skill_reviews, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.reviews import Due, Mark, Stretch

log = logging.getLogger(__name__)

MAX_SESSIONS = 64
"""Sessions looked at or reviewed at a time. Of a session beyond them the next turn asks again."""
PARALLEL_REVIEWS = 2
REVIEW_TIMEOUT_S = 300.0
CLAIM_MS = int(REVIEW_TIMEOUT_S * 1000) + 60_000
"""A dead process's claim on a person ends by itself after this time."""
ENDED_TURNS = 3
"""A conversation that ended with fewer turns not yet reviewed is left at that. A review of one that failed is
tried again after so many turns of the next."""
ENDED_DAYS = 30
DAY_MS = 86_400_000
ENTRIES_SHOWN = 4
ENTRY_CHARS = 120


class Reviews:
    """The reviews of one process. `run` owns their tasks; one that is cancelled is held again later, whole.

    `model` is the turns' own, whose prefix cache a review finds warm; where `auxiliary.review` names another
    one, that model reads the whole conversation anew and at full price.
    """

    def __init__(
        self,
        database: Database,
        store: MemoryStore,
        delivery: Delivery,
        model: ModelClient,
        tools: Sequence[Tool[Any]],
        settings: Memory,
        process: str,
        skills: SkillReviews | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self._delivery = delivery
        self._model = model
        self._tools = tuple(tools)
        self._settings = settings
        self._process = process
        self._skills = skills
        self._latest: dict[int, Opened] = {}
        self._owners: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(PARALLEL_REVIEWS)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    def after_turn(self, opened: Opened) -> None:
        """Has the session of a turn that was answered reviewed when that is due. Never waits."""
        session = opened.session.id
        if self._group is None or not self._is_on(opened.scope) or is_run(opened.inbound):
            return
        if session in self._latest:
            self._latest[session] = opened
        elif len(self._latest) < MAX_SESSIONS:
            self._latest[session] = opened
            self._group.create_task(contained(self._keep_up(session), log, "review"), name="review")
        else:
            log.info("review put off: too many at once")

    def _is_on(self, scope: Scope) -> bool:
        return self._rounds > 0 or self._remembers(scope)

    def _remembers(self, scope: Scope) -> bool:
        if self._settings.review_every == 0 or all(tool.name not in MEMORY_ONLY for tool in self._tools):
            return False
        return not isinstance(scope, RoomScope) or self._store.limits.allows("memory")

    @property
    def _rounds(self) -> int:
        return 0 if self._skills is None else self._skills.rounds

    async def _keep_up(self, session: int) -> None:
        """Reviews a session as long as it is due, and before it the end of the one it followed."""
        try:
            await self._hold_for_ended(self._latest[session])
            while True:
                opened = self._latest[session]
                with log_context(opened.session.public_id, str(opened.row.key.turn)):
                    went_on = await self._hold(opened)
                if not went_on and self._latest[session] is opened:
                    return
        finally:
            del self._latest[session]

    async def _hold(self, opened: Opened) -> bool:
        """Holds one review if it is due; false when none is, or another process reviews this person."""
        here = Stretch(opened.session.id, opened.session.public_id, opened.row.key.turn)
        if await self._pass_over_if_paused(here) or await self._find_due(opened) is None:
            return False
        await wait_for_delivery(self._database, opened.row.key.turn)
        lock = self._owners.setdefault(owner_of(opened.scope), asyncio.Lock())
        async with lock, self._places:
            due = await self._find_due(self._latest[opened.session.id])
            if due is None or not await self._claim(opened.scope):
                return False
            await self._review(self._latest[opened.session.id], due)
        return True

    async def _find_due(self, opened: Opened) -> Due | None:
        session, turn = opened.session.id, opened.row.key.turn
        every = self._settings.review_every if self._remembers(opened.scope) else 0
        return await self._database.read(
            lambda c: reviews.find_due(c, opened.scope, session, turn, every, self._rounds)
        )

    async def _hold_for_ended(self, opened: Opened) -> None:
        """Reviews what stands at the end of this chat's last conversation, too short for a review then."""
        if not self._remembers(opened.scope):
            return
        since_ms = now_ms() - ENDED_DAYS * DAY_MS

        def find(connection: Connection, ended: Stretch) -> Due | None:
            return reviews.find_due(
                connection, opened.scope, ended.session, ended.turn, ENDED_TURNS, ended=True
            )

        here, turn = opened.session.id, opened.row.key.turn
        for one in await self._database.read(
            lambda c: reviews.ended_before(c, here, turn, since_ms, ENDED_TURNS)
        ):
            if await self._pass_over_if_paused(one):
                continue
            await wait_for_delivery(self._database, turn)
            lock = self._owners.setdefault(owner_of(opened.scope), asyncio.Lock())
            async with lock, self._places:
                due = await self._database.read(lambda c, one=one: find(c, one))  # type: ignore[misc]
                if due is not None and await self._claim(opened.scope):
                    await self._review(opened, due)

    async def _pass_over_if_paused(self, said: Stretch) -> bool:
        """Marks as reviewed what nobody may look at: somebody who said some of it has paused memory.

        It is never looked at later either, and neither is what others said in the room since the last review.
        """
        session, public_id, turn = said.session, said.public_id, said.turn

        def anyone_paused(connection: Connection) -> bool:
            after = reviews.load_mark(connection, public_id).reviewed
            if self._rounds:
                after = min(after, skill_reviews.load_mark(connection, public_id))
            authors = reviews.authors_between(connection, session, after, turn)
            return any(is_paused(connection, slug) for slug in authors)

        if not await self._database.read(anyone_paused):
            return False

        def pass_over(connection: Connection) -> None:
            reviews.put_mark(connection, public_id, Mark(turn, turn))
            skill_reviews.put_mark(connection, public_id, turn)

        await self._database.write(pass_over)
        return True

    async def _note_overlaps(self, scope: Scope, review: Review) -> None:
        if self._skills is not None and review.overlaps:
            await self._skills.note_overlaps(scope, review.overlaps)

    async def _claim(self, scope: Scope) -> bool:
        stamp_ms = now_ms()
        return await self._database.write(
            lambda c: reviews.claim(c, scope, self._process, stamp_ms, stamp_ms + CLAIM_MS)
        )

    async def _review(self, opened: Opened, due: Due) -> None:
        known = await self._store.read(opened.scope)
        shelves = None if self._skills is None else self._skills.shelves
        review = Review(self._request(opened, due, known), self._model, self._store, shelves)
        mark = replace(due.mark, tried=opened.row.key.turn)
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT_S):
                failure = await review.run()
            if failure is None:
                mark = Mark(due.turn, due.turn)
                await self._note_overlaps(opened.scope, review)
            log.info("review ended: %s", "done" if failure is None else failure.kind)
        except TimeoutError:
            log.warning("review ended: timed out")
        except asyncio.CancelledError:
            mark = due.mark
            raise
        finally:
            await self._end(opened, due, review, mark)
        self._delivery.kick(due.session.key.platform, due.session.key.chat)

    def _request(self, opened: Opened, due: Due, known: MemorySnapshot) -> ReviewRequest:
        told = MemorySnapshot.from_json(due.session.snapshot)
        may_run = BOTH if due.memory and due.skills else SKILLS_ONLY if due.skills else MEMORY_ONLY
        return ReviewRequest(
            scope=opened.scope,
            session=due.session.public_id,
            turn=due.turn,
            system=due.session.prompt,
            history=due.history,
            tools=self._tools,
            platform=opened.inbound.platform,
            now=opened.now,
            instruction=review_instruction(
                due.new, may_run, in_room=opened.room is not None, changed=describe_changes(told, known)
            ),
            may_run=may_run,
        )

    async def _end(self, opened: Opened, due: Due, review: Review, mark: Mark) -> None:
        """The mark, the cost and the notice, in one transaction: what was changed is told once."""
        key = due.session.key
        sentence = None
        if self._settings.notifications:
            in_room = opened.room is not None
            told = notice(review.written, review.held, opened.language, in_room=in_room)
            learnt = skill_notice(review.skills_changed, opened.language, in_room=in_room)
            sentence = "\n".join(filter(None, [told, learnt])) or None
        to = ChatRef(key.chat, key.thread or None)
        chunks = self._delivery.render(key.platform, sentence) if sentence else ()
        planned = tuple(dump_outbound(OutboundMessage(to, chunk, quiet=True)) for chunk in chunks)
        spent = tuple(turns.Spent(call.purpose, call.model, call.usage) for call in review.usage)
        room_id = None if opened.room is None else opened.room.id

        def work(connection: Connection) -> None:
            stamp_ms = now_ms()
            if due.memory:
                reviews.put_mark(connection, due.session.public_id, mark)
            if due.skills and mark != due.mark:  # tried is enough: a failure comes again after as much work
                skill_reviews.put_mark(connection, due.session.public_id, due.turn)
            turns.add_usage(connection, opened.row, spent, room_id, stamp_ms)
            outbox.plan(connection, outbox.notice(key), planned, stamp_ms)
            reviews.release(connection, opened.scope, self._process)

        await self._database.write(work)


@dataclass(slots=True)
class _Net:
    """What a store held before and after some writes that followed each other directly."""

    target: Target
    before: tuple[str, ...]
    after: tuple[str, ...]


def notice(written: Sequence[Written], held: int, language: str, *, in_room: bool) -> str | None:
    """One line on what a review really changed and how to undo it; None when nothing is different now."""
    added, updated, removed = _changes(written)
    parts = [
        say(key, language, entries=_listed(entries, language))
        for key, entries in (
            ("review_noted", added),
            ("review_updated", updated),
            ("review_removed", removed),
        )
        if entries
    ]
    told = []
    if parts:
        told.append(f"{' · '.join(parts)} — {_undo(len(written), language, in_room=in_room)}")
    if held:
        told.append(say("review_held", language, count=held))
    return " ".join(told) or None


def _undo(writes: int, language: str, *, in_room: bool) -> str:
    if in_room:
        return say("review_undo_room", language)
    if writes == 1:
        return say("review_undo", language)
    return say("review_undo_several", language, count=min(writes, MAX_UNDO))


def _changes(written: Sequence[Written]) -> tuple[list[str], list[str], list[str]]:
    """Entries that are new, entries in their new wording, and entries that are gone."""
    added: list[str] = []
    updated: list[str] = []
    removed: list[str] = []
    for net in _net(written):
        matcher = SequenceMatcher(None, net.before, net.after, autojunk=False)
        for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            if kind == "equal":
                continue
            pairs = min(old_to - old_from, new_to - new_from)
            updated += net.after[new_from : new_from + pairs]
            added += net.after[new_from + pairs : new_to]
            removed += net.before[old_from + pairs : old_to]
    return added, updated, removed


def _net(written: Sequence[Written]) -> list[_Net]:
    """The writes, with those joined that follow each other directly in one store."""
    joined: list[_Net] = []
    for write in written:
        last = next((net for net in reversed(joined) if net.target == write.target), None)
        if last is not None and last.after == write.before:
            last.after = write.after
        else:
            joined.append(_Net(write.target, write.before, write.after))
    return joined


def _listed(entries: Sequence[str], language: str) -> str:
    shown = [preview(entry, ENTRY_CHARS) for entry in entries[:ENTRIES_SHOWN]]
    left = len(entries) - len(shown)
    return "; ".join([*shown, say("review_more", language, count=left)] if left else shown)
