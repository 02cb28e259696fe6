"""The beginning of a turn: whose it is, its session with the frozen prompt, and the exact text to send."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from trunkline.adapters.base import ChatKind, InboundMessage
from trunkline.agent.memory.snapshot import MemorySnapshot, describe_changes, render_blocks
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.messages import Message, UserMessage
from trunkline.agent.prompt import PromptParts, build_system_prompt, compose_user_text
from trunkline.agent.recall import fence
from trunkline.agent.scope import Scope
from trunkline.agent.skills.format import BadSkill
from trunkline.agent.skills.index import dump_told, render_index
from trunkline.agent.skills.store import NO_SKILLS, Shelf, SkillPage, SkillStore
from trunkline.agent.tools.base import Tool
from trunkline.gateway import again, parts, reactions
from trunkline.gateway.attachment_lines import Described, describe, is_voice, notes_of
from trunkline.gateway.beginnings import Beginnings
from trunkline.gateway.clock import now_ms, zone_of
from trunkline.gateway.idling import IDLE, leave_if_idle
from trunkline.gateway.overhearing import tell_heard
from trunkline.gateway.payloads import load_inbound
from trunkline.gateway.platform_hints import HINTS
from trunkline.gateway.provider_recall import ProviderRecall
from trunkline.gateway.roots import with_root
from trunkline.gateway.scheduled import SCHEDULED, tell_model, tell_run
from trunkline.gateway.skills import called_skill, render_called, spoken, tell_changes
from trunkline.gateway.state import (
    files,
    forgetting,
    heard,
    inbox,
    namesakes,
    people,
    sessions,
    skills_told,
    turns,
)
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import Account, InboxRow, Room, Session, SessionKey, scope_of
from trunkline.gateway.state.resuming import load_conversation
from trunkline.gateway.state.turns import TurnRow

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn that may begin: everything the loop needs, committed."""

    row: TurnRow
    session: Session
    scope: Scope
    account: Account
    room: Room | None
    inbound: InboundMessage
    history: tuple[Message, ...]
    user: UserMessage
    steps: tuple[Message, ...]
    now: datetime
    language: str
    model: str = ""
    """The model asked for this once."""
    notes: tuple[str, ...] = ()
    """Sentences for the person about files that can't be used."""
    has_voice: bool = False
    """Whether the person spoke instead of writing."""

    @property
    def has_pictures(self) -> bool:
        return any(isinstance(one, UserMessage) and one.pictures for one in (self.user, *self.steps))


@dataclass(frozen=True, slots=True)
class Who:
    """Whose rows these are, and where."""

    account: Account
    room: Room | None
    scope: Scope
    language: str
    now: datetime
    skills: Shelf = NO_SKILLS
    called: SkillPage | None = None
    """The skill that the message calls by its name."""
    recalled: tuple[str, ...] = ()
    """What memory providers know for the message."""


class NotAdmitted(LookupError):
    """The author of a stored message may not talk here, or no longer."""


def load_message(row: InboxRow) -> InboundMessage:
    """The stored message, in the chat it is in now: a group that moved has another id.

    Raises BadPayload for one that can't be read.
    """
    return replace(load_inbound(row.payload), chat=row.key.chat)


def who_is(
    connection: Connection, row: InboxRow, message: InboundMessage, *, everywhere: bool = False
) -> Who:
    """The author as the database knows them now: linked, suspended, or gone since the message came.

    `everywhere` lets rooms count that nobody has allowed. Raises NotAdmitted, for a room that nobody knows,
    too: no room must ever be taken for a direct chat.
    """
    account = people.load_account(connection, row.account)
    person = account.person
    if account.blocked or (person is not None and person.suspended):
        raise NotAdmitted(f"account {account.id} is blocked or suspended")
    room = None
    if message.chat_kind is not ChatKind.DIRECT:
        # The row's chat, not the message's: it follows when a chat gets a new id.
        room = people.find_room(connection, message.platform, message.realm, row.key.chat)
        if room is None or not (room.allowed or everywhere):
            raise NotAdmitted(f"room {row.key.chat} on {message.platform} is not allowed")
    elif person is None:
        raise NotAdmitted(f"account {account.id} has no person")
    language = account.language_or(message.language)
    return Who(account, room, scope_of(account, room), language, datetime.now(zone_of(person)))


class Outdated:
    """The memory was read before something in it was forgotten."""


@dataclass(frozen=True, slots=True)
class NewSessions:
    """Which model answers in a new session, and after how many silent hours one begins by itself."""

    model: str
    idle_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """What a turn may know beside the memory; None for what is off."""

    skills: SkillStore | None = None
    providers: ProviderRecall | None = None


NOTHING_BESIDE = Beside()


class Opening:
    """Opens turns. `instructions` are the operator's SOUL.md and AGENTS.md, read when a session begins."""

    def __init__(
        self,
        database: Database,
        memory: MemoryStore,
        tools: Sequence[Tool[Any]],
        *,
        owner: str,
        new: NewSessions,
        mask: Callable[[str], str],
        instructions: Callable[[], Mapping[str, str]],
        beside: Beside = NOTHING_BESIDE,
    ) -> None:
        self._database = database
        self._memory = memory
        self._tools = tools
        self.owner = owner
        self._new = new
        self._mask = mask
        self._instructions = instructions
        self._skills = beside.skills
        self._providers = beside.providers
        self._beginnings = Beginnings()

    async def open(self, rows: Sequence[InboxRow]) -> Opened | None:
        """Begins the turn of these rows, or takes up an interrupted one; None when it has ended meanwhile.

        Raises NotAdmitted.
        """
        inbound = [_spoken(load_message(row)) for row in rows]
        while True:
            who = await self._database.read(lambda c: who_is(c, rows[0], inbound[0]))
            forgotten = await self._database.read(lambda c: forgetting.times(c, who.scope))  # noqa: B023
            who = await self._with_skills(who, inbound)
            known = await self._memory.read(who.scope)
            who = await self._with_recalled(who, rows[0], inbound, known, forgotten)
            async with self._beginnings.one(rows[0].received_ms):
                opened = await self._database.write(
                    lambda c: self._unless_forgotten(c, forgotten, rows, inbound, who, known)  # noqa: B023
                )
            if not isinstance(opened, Outdated):
                return opened

    async def calls_skill(self, row: InboxRow) -> bool:
        """Whether a command that is none of ours is the name of a skill. Raises NotAdmitted."""
        message = load_message(row)
        if self._skills is None:
            return False
        who = await self._database.read(lambda c: who_is(c, row, message))
        shelf = await self._skills.shelf(who.scope)
        return called_skill(_spoken(message).text, shelf) is not None

    async def _with_skills(self, who: Who, inbound: Sequence[InboundMessage]) -> Who:
        if self._skills is None:
            return who
        shelf = await self._skills.shelf(who.scope)
        called = next(filter(None, (called_skill(message.text, shelf) for message in inbound)), None)
        try:
            page = None if called is None else await self._skills.open(who.scope, called, None)
        except BadSkill:
            page = None  # it went or was spoilt this very moment: the model answers without it
        return replace(who, skills=shelf, called=page)

    async def _with_recalled(
        self,
        who: Who,
        row: InboxRow,
        inbound: Sequence[InboundMessage],
        known: MemorySnapshot,
        forgotten: int,
    ) -> Who:
        """Adds what memory providers recall; a turn that goes on or begins again has its exact bytes."""
        if self._providers is None or row.turn is not None or row.kind in ("retry", "edit"):
            return who
        texts = [self._mask(message.text) for message in inbound]
        return replace(
            who, recalled=await self._providers.recall(who.scope, row.key, texts, known, forgotten)
        )

    def _unless_forgotten(
        self,
        connection: Connection,
        forgotten: int,
        rows: Sequence[InboxRow],
        inbound: Sequence[InboundMessage],
        who: Who,
        known: MemorySnapshot,
    ) -> "Opened | Outdated | None":
        """Nothing is begun with a memory from before a forget: what is gone must not be frozen again."""
        if forgetting.times(connection, who.scope) != forgotten:
            return Outdated()
        if rows[0].turn is not None:
            return self._resume(connection, rows[0].turn, who, inbound[0], known)
        held = inbox.held_of(connection, [row.id for row in rows])
        inbound = [message for row, message in zip(rows, inbound, strict=True) if row.id in held]
        rows = [row for row in rows if row.id in held]
        if not rows:
            return None  # what was to be answered was deleted meanwhile
        if rows[0].kind in ("retry", "edit"):
            return self._begin_again(connection, rows[0], who, inbound[0], known)
        return self._begin(connection, rows, inbound, who, known)

    def _begin(
        self,
        connection: Connection,
        rows: Sequence[InboxRow],
        inbound: Sequence[InboundMessage],
        who: Who,
        known: MemorySnapshot,
    ) -> Opened:
        stamp_ms = now_ms()
        is_scheduled = rows[0].kind == SCHEDULED
        session = None if is_scheduled else sessions.find_open(connection, rows[0].key)
        left = leave_if_idle(connection, rows[0].key, session, self._new.idle_hours, stamp_ms)
        notes = [] if left is None else [left.tell_model()]
        if session is None or left is not None:
            inbound = (with_root(connection, inbound[0]), *inbound[1:])
            session = self._start_session(
                connection, rows[0].key, who, known, inbound[0], stamp_ms, scheduled=is_scheduled
            )
            if left is not None:
                sessions.follow(connection, session.id, left.id, IDLE)
        elif not session.prompt:
            session = self._make_prompt(connection, session, who, known, inbound[0])
        else:
            notes += _tell_changes(connection, session, known, who.skills)
        notes += reactions.take(connection, rows[0].key, who.room)
        notes += tell_run(inbound[0], who.now) if is_scheduled else tell_model(connection, session)
        history = load_conversation(connection, who.scope, session)
        ids = [row.id for row in rows]
        came = files.came_with(connection, ids)
        described = describe(list(zip(ids, inbound, strict=True)), came, who.language)
        sent, heard_from = self._sent(connection, session, inbound, described, who, notes)
        question = parts.joined(inbound, described.texts, self._mask)
        user = UserMessage(question.text, sent, described.pictures)
        turn = turns.begin(connection, session.id, session.stream, who.account.id, self.owner, stamp_ms)
        asked = add_message(
            connection,
            NewMessage(
                session_id=session.id,
                turn_id=turn.key.turn,
                role="user",
                content=user.text,
                sent=user.sent,
                account_id=who.account.id,
                platform_ids=tuple(message.message_id for message in inbound if message.message_id),
                heard_from=heard_from,
                quoted_from=heard.quoted_in(connection, inbound[0]),
                created_ms=stamp_ms,
            ),
        )
        parts.keep(connection, asked, question)
        files.attach(connection, ids, asked)
        inbox.attach_turn(connection, ids, turn.key.turn)
        opened = self._opened(turn, session, who, inbound[0], history, user, ())
        afresh = () if left is None else (left.tell_person(who.language),)
        said = (*described.notes, *afresh)
        return replace(opened, notes=said, has_voice=described.has_voice)

    def _begin_again(
        self, connection: Connection, row: InboxRow, who: Who, inbound: InboundMessage, known: MemorySnapshot
    ) -> Opened | None:
        """The last turn anew: with the same question, or with the text that it has been changed to."""
        past = again.past_turn(connection, row, inbound)
        session = sessions.find_open(connection, row.key)
        if past is None or session is None:
            return None
        if not session.prompt:
            session = self._make_prompt(connection, session, who, known, inbound)
        asked = None
        if row.kind != "retry":
            asked = again.edited(again.question_of(past), inbound, self._mask(inbound.text))
        new = again.repeat(
            connection, row, inbound, past, session, who.scope, owner=self.owner, question=asked
        )
        history = load_conversation(connection, who.scope, session)[:-1]
        return self._opened(new.row, session, who, new.inbound, history, new.user, ())

    def _resume(
        self, connection: Connection, turn_id: int, who: Who, inbound: InboundMessage, known: MemorySnapshot
    ) -> Opened | None:
        """The interrupted turn as its last committed step left it."""
        turn = turns.resume(connection, turn_id, self.owner)
        if turn is None:
            return None
        session = sessions.load(connection, turn.session)
        if not session.prompt:
            session = self._make_prompt(connection, session, who, known, inbound)
        user, steps = turns.recorded(connection, turn_id)
        everything = load_conversation(connection, who.scope, session)
        history = everything[: len(everything) - len(steps) - bool(user.sent)]
        opened = self._opened(turn, session, who, inbound, history, user, steps)
        came = files.came_in(connection, turn_id)
        notes = notes_of(came, who.language)
        return replace(opened, notes=notes, has_voice=is_voice(came))

    def _opened(
        self,
        turn: TurnRow,
        session: Session,
        who: Who,
        inbound: InboundMessage,
        history: tuple[Message, ...],
        user: UserMessage,
        steps: tuple[Message, ...],
    ) -> Opened:
        return Opened(
            turn, session, who.scope, who.account, who.room, inbound, history, user, steps, who.now,
            who.language,
        )  # fmt: skip

    def _start_session(
        self,
        connection: Connection,
        key: SessionKey,
        who: Who,
        known: MemorySnapshot,
        inbound: InboundMessage,
        stamp_ms: int,
        *,
        scheduled: bool = False,
    ) -> Session:
        stream = people.stream_of(
            connection,
            account_id=who.account.id,
            room_id=None if who.room is None else who.room.id,
        )
        session = sessions.start(
            connection,
            key,
            stream,
            prompt=self._prompt(who, known, inbound),
            snapshot=_now_told(known, MemorySnapshot()).to_json(),
            model=self._new.model,
            now_ms=stamp_ms,
            kind="scheduled" if scheduled else "",
        )
        skills_told.put_told(connection, session.id, dump_told(who.skills))
        return session

    def _make_prompt(
        self,
        connection: Connection,
        session: Session,
        who: Who,
        known: MemorySnapshot,
        inbound: InboundMessage,
    ) -> Session:
        """Gives a session its prompt that was begun without one, or lost it to something forgotten."""
        told = _now_told(known, MemorySnapshot())
        skills_told.put_told(connection, session.id, dump_told(who.skills))
        return sessions.set_prompt(connection, session.id, self._prompt(who, known, inbound), told.to_json())

    def _prompt(self, who: Who, known: MemorySnapshot, inbound: InboundMessage) -> str:
        instructions = self._instructions()
        return build_system_prompt(
            PromptParts(
                soul=instructions.get("SOUL.md", ""),
                guidance=tuple(tool.guidance for tool in self._tools if tool.guidance),
                skills_index=render_index(who.skills),
                context=instructions.get("AGENTS.md", ""),
                platform_hint=HINTS.get(inbound.platform, ""),
                memory_blocks=render_blocks(known, self._memory.limits),
                provider_block="" if self._providers is None else self._providers.system_block(who.scope),
                in_room=who.room is not None,
            )
        )

    def _sent(
        self,
        connection: Connection,
        session: Session,
        inbound: Sequence[InboundMessage],
        described: Described,
        who: Who,
        notes: list[str],
    ) -> tuple[str, str | None]:
        """The exact text, and whose lines stand in it as overheard."""
        room, number, reply = who.room, None, inbound[0].reply_to
        if room is not None:
            number = namesakes.number_of(connection, room.id, who.account, session.id)
        sent = compose_user_text(
            self._mask(described.content),
            who.now,
            author=None if room is None else who.account.label or who.account.user_id,
            quoted=None if reply is None or not reply.text else reply.text,
            recalled=fence([*notes, *who.recalled]) or None,
            documents=[(name, self._mask(text)) for name, text in described.documents],
            author_number=number,
        )
        if who.called is not None:
            sent = f"{sent}\n\n{render_called(who.called)}"
        if room is None:
            return sent, None
        place = (session.key, room.id, session.id)
        return tell_heard(connection, *place, inbound[0], sent, who.now.tzinfo)


def _tell_changes(
    connection: Connection, session: Session, known: MemorySnapshot, skills: Shelf
) -> list[str]:
    """What the model of a session that goes on has to hear of memory and skills; it counts as told."""
    told = MemorySnapshot.from_json(session.snapshot)
    changes = describe_changes(told, known)
    if changes is not None:
        sessions.set_snapshot(connection, session.id, _now_told(known, told).to_json())
    return [note for note in (changes, tell_changes(connection, session.id, skills)) if note]


def _now_told(known: MemorySnapshot, told: MemorySnapshot) -> MemorySnapshot:
    """What the model has been told of after this: of a store that can't be read, what it knew before."""
    return MemorySnapshot(
        memory=told.memory if "memory" in known.unreadable else known.memory,
        user=told.user if "user" in known.unreadable else known.user,
    )


def _spoken(message: InboundMessage) -> InboundMessage:
    """A command that is to be a turn, as the person wrote it."""
    return replace(message, text=spoken(message.command, message.text))
