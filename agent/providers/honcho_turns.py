"""Turns as Honcho's messages: one session there for each conversation, every turn once, or taken out again.

Honcho deletes sessions, not messages. To take a turn out, the rest of its session is copied into a new one
and the old one is deleted, which also deletes what was concluded from it.
"""

from collections.abc import Sequence
from dataclasses import replace

from trunkline.agent.providers.base import CompletedTurn, digest, document_id
from trunkline.agent.providers.honcho_values import ASSISTANT, Message, Place, Wire
from trunkline.agent.providers.remote import said_in

MESSAGE_CHARS = 20_000
"""The vendor takes 25,000 characters in a message."""


class Turns:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def keep(self, place: Place, turn: CompletedTurn, *, in_room: bool) -> None:
        conversation = turn.conversation.session
        found = await self._wire.sessions(place, conversation)
        for session, _ in found:
            if await self._wire.messages(place, session, [turn.key]):
                return
        session = found[-1][0] if found else document_id(place.workspace, f"session-{conversation}")
        if not found:
            await self._wire.make_session(place, session, conversation)
        await self._wire.add_messages(place, session, as_messages(turn, place.peer, in_room=in_room))

    async def take_out(self, place: Place, turns: Sequence[str], known: Sequence[str] = ()) -> int:
        """Deletes these turns; `known` are sessions that hold some of them. How many messages went."""
        removed, wanted = 0, frozenset(turns)
        sessions = await self._wire.sessions(place) if turns else []
        by_name = all(any(_is_of(turn, named) for _, named in sessions) for turn in turns)
        for session, conversation in sessions:
            if not by_name or session in known or any(_is_of(turn, conversation) for turn in turns):
                removed += await self._take_out_of(place, session, conversation, wanted)
        return removed

    async def delete_all(self, place: Place) -> int:
        """Deletes every session; how many there were."""
        sessions = await self._wire.sessions(place)
        for session, _ in sessions:
            await self._wire.delete_session(place, session)
        return len(sessions)

    async def _take_out_of(self, place: Place, session: str, conversation: str, turns: frozenset[str]) -> int:
        going = await self._wire.messages(place, session, sorted(turns))
        if not going:
            return 0
        staying = [one for one in await self._wire.messages(place, session) if one.turn not in turns]
        new = document_id(place.workspace, f"session-{session}-{digest(*sorted(turns))}")
        await self._wire.make_session(place, new, conversation)
        copied = {(one.turn, one.peer, one.part) for one in await self._wire.messages(place, new)}
        missing = [one for one in staying if (one.turn, one.peer, one.part) not in copied]
        if missing:
            await self._wire.add_messages(place, new, [replace(one, session="") for one in missing])
        await self._wire.delete_session(place, session)
        return len(going)


def as_messages(turn: CompletedTurn, peer: str, *, in_room: bool) -> list[Message]:
    """What was said, in pieces that the vendor takes; in rooms with who said it, nothing hidden in it."""
    user, assistant = said_in(turn)
    said = f"[account {turn.author}] {user}" if in_room else user
    return [
        Message(speaker, text[start : start + MESSAGE_CHARS], turn.key, turn.created, number)
        for speaker, text in ((peer, said), (ASSISTANT, assistant))
        for number, start in enumerate(range(0, len(text), MESSAGE_CHARS))
    ]


def _is_of(turn: str, conversation: str) -> bool:
    """The house begins a turn's key with its conversation; where it doesn't, every session is looked at."""
    return bool(conversation) and turn.startswith(f"{conversation}-")
