"""The beginning of a turn: whose it is, its session with the frozen prompt, and the exact text to send."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection
from tzlocal import get_localzone_name

from trunkline.adapters.base import ChatKind, InboundMessage
from trunkline.agent.memory.snapshot import MemorySnapshot, describe_changes, render_blocks
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.messages import Message, UserMessage
from trunkline.agent.prompt import PromptParts, build_system_prompt, compose_user_text
from trunkline.agent.recall import fence
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import load_inbound
from trunkline.gateway.platform_hints import HINTS
from trunkline.gateway.sentences import say
from trunkline.gateway.state import forgetting, inbox, people, sessions, turns
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


@dataclass(frozen=True, slots=True)
class Who:
    """Whose rows these are, and where."""

    account: Account
    room: Room | None
    scope: Scope
    language: str
    now: datetime


class NotAdmitted(LookupError):
    """The author of a stored message may not talk here, or no longer."""


def load_message(row: InboxRow) -> InboundMessage:
    """The stored message, in the chat it is in now: a group that moved has another id.

    Raises pydantic's ValidationError for a payload that can't be read.
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
    zone = person.timezone if person is not None and person.timezone else get_localzone_name()
    language = person.language if person is not None and person.language else message.language
    return Who(account, room, scope_of(account, room), language, datetime.now(ZoneInfo(zone)))


class Outdated:
    """The memory was read before something in it was forgotten."""


class Opening:
    """Opens turns. `instructions` are the operator's SOUL.md and AGENTS.md, read when a session begins."""

    def __init__(
        self,
        database: Database,
        memory: MemoryStore,
        tools: Sequence[Tool[Any]],
        *,
        owner: str,
        model_name: str,
        mask: Callable[[str], str],
        instructions: Callable[[], Mapping[str, str]],
    ) -> None:
        self._database = database
        self._memory = memory
        self._tools = tools
        self._owner = owner
        self._model_name = model_name
        self._mask = mask
        self._instructions = instructions

    async def open(self, rows: Sequence[InboxRow]) -> Opened | None:
        """Begins the turn of these rows, or takes up an interrupted one; None when it has ended meanwhile.

        Raises NotAdmitted.
        """
        inbound = [load_message(row) for row in rows]
        while True:
            who = await self._database.read(lambda c: who_is(c, rows[0], inbound[0]))
            forgotten = await self._database.read(lambda c: forgetting.times(c, who.scope))  # noqa: B023
            known = await self._memory.read(who.scope)
            opened = await self._database.write(
                lambda c: self._unless_forgotten(c, forgotten, rows, inbound, who, known)  # noqa: B023
            )
            if not isinstance(opened, Outdated):
                return opened

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
        session = sessions.find_open(connection, rows[0].key)
        note = None
        if session is None:
            session = self._start_session(connection, rows[0].key, who, known, inbound[0], stamp_ms)
        elif not session.prompt:
            session = self._make_prompt(connection, session, who, known, inbound[0])
        else:
            told = MemorySnapshot.from_json(session.snapshot)
            note = describe_changes(told, known)
            if note is not None:
                sessions.set_snapshot(connection, session.id, _now_told(known, told).to_json())
        history = load_conversation(connection, who.scope, session)
        text = "\n\n".join(filter(None, (_content(message, who.language) for message in inbound)))
        user = UserMessage(self._mask(text), self._sent(inbound, text, who, note))
        turn = turns.begin(connection, session.id, session.stream, who.account.id, self._owner, stamp_ms)
        add_message(
            connection,
            NewMessage(
                session_id=session.id,
                turn_id=turn.key.turn,
                role="user",
                content=user.text,
                sent=user.sent,
                account_id=who.account.id,
                platform_ids=tuple(message.message_id for message in inbound if message.message_id),
                created_ms=stamp_ms,
            ),
        )
        inbox.attach_turn(connection, [row.id for row in rows], turn.key.turn)
        return self._opened(turn, session, who, inbound[0], history, user, ())

    def _resume(
        self, connection: Connection, turn_id: int, who: Who, inbound: InboundMessage, known: MemorySnapshot
    ) -> Opened | None:
        """The interrupted turn as its last committed step left it."""
        turn = turns.resume(connection, turn_id, self._owner)
        if turn is None:
            return None
        session = sessions.load(connection, turn.session)
        if not session.prompt:
            session = self._make_prompt(connection, session, who, known, inbound)
        user, steps = turns.recorded(connection, turn_id)
        everything = load_conversation(connection, who.scope, session)
        history = everything[: len(everything) - len(steps) - 1]
        return self._opened(turn, session, who, inbound, history, user, steps)

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
    ) -> Session:
        stream = people.stream_of(
            connection,
            account_id=who.account.id,
            room_id=None if who.room is None else who.room.id,
        )
        return sessions.start(
            connection,
            key,
            stream,
            prompt=self._prompt(who, known, inbound),
            snapshot=_now_told(known, MemorySnapshot()).to_json(),
            model=self._model_name,
            now_ms=stamp_ms,
        )

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
        return sessions.set_prompt(connection, session.id, self._prompt(who, known, inbound), told.to_json())

    def _prompt(self, who: Who, known: MemorySnapshot, inbound: InboundMessage) -> str:
        instructions = self._instructions()
        return build_system_prompt(
            PromptParts(
                soul=instructions.get("SOUL.md", ""),
                guidance=tuple(tool.guidance for tool in self._tools if tool.guidance),
                context=instructions.get("AGENTS.md", ""),
                platform_hint=HINTS[inbound.platform],
                memory_blocks=render_blocks(known, self._memory.limits),
                in_room=who.room is not None,
            )
        )

    def _sent(self, inbound: Sequence[InboundMessage], text: str, who: Who, note: str | None) -> str:
        reply = inbound[0].reply_to
        return compose_user_text(
            self._mask(text),
            who.now,
            author=None if who.room is None else who.account.label or who.account.user_id,
            quoted=None if reply is None or not reply.text else reply.text,
            recalled=None if note is None else fence([note]),
        )


def _now_told(known: MemorySnapshot, told: MemorySnapshot) -> MemorySnapshot:
    """What the model has been told of after this: of a store that can't be read, what it knew before."""
    return MemorySnapshot(
        memory=told.memory if "memory" in known.unreadable else known.memory,
        user=told.user if "user" in known.unreadable else known.user,
    )


def _content(message: InboundMessage, language: str) -> str:
    """The text, and a line for each file that came with it."""
    files = [
        say("file_unseen", language, name=" ".join((file.name or file.kind.value).split())[:120])
        for file in message.attachments
    ]
    return "\n".join([*([message.text] if message.text else []), *files])
