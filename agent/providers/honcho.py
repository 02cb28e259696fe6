"""Honcho: a server that reasons about people in the background and answers questions about them.

Each scope has a workspace of its own. Turns are its messages, entries of the built-in memory are conclusions
told to it. Before a turn its conclusions and messages are searched; what its own model makes of the person is
read after a turn, for the next one (`honcho_reader`).
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

from pydantic import Field

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    Forget,
    ForgetAll,
    ForgetFact,
    Forgotten,
    MemoryProvider,
    MemoryWrite,
    ProviderDown,
    ProviderError,
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    Recalled,
    Secret,
)
from trunkline.agent.providers.honcho_conclusions import (
    LOOK_FOR,
    conclude_once,
    erase,
    saying,
    with_text,
)
from trunkline.agent.providers.honcho_reader import Manner, Reader
from trunkline.agent.providers.honcho_tools import honcho_tools
from trunkline.agent.providers.honcho_turns import Turns
from trunkline.agent.providers.honcho_values import Conclusion, Level, Message, Place, Wire
from trunkline.agent.providers.remote import NEEDS_KEY, Address, RemoteProvider
from trunkline.agent.providers.texts import says, states
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "HONCHO_API_KEY"
CLOUD = "https://api.honcho.dev"
TRY_AGAIN_S = 3.0
AT_WORK = "Honcho is still at work on the deletion"


class HonchoOptions(ProviderOptions):
    """`depth` is the number of passes of a reading, `read_every` how many turns one lasts; 0 makes none.

    `cold_wait_s` is how long the first turn with somebody waits for a reading, beside the search.
    """

    base_url: Address = CLOUD
    depth: Annotated[int, Field(ge=1, le=3)] = 1
    reasoning_level: Level = "low"
    read_every: Annotated[int, Field(ge=0, le=100)] = 1
    read_words: Annotated[int, Field(ge=20, le=500)] = 120
    cold_wait_s: Annotated[float, Field(ge=0, le=10)] = 1.5
    ask_timeout_s: Annotated[float, Field(gt=0, le=300)] = 60.0
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 10
    send_turns: bool = True


class HonchoProvider(RemoteProvider[Wire, HonchoOptions]):
    """The provider over the vendor's API. `wire` is None where a key is needed and none is set."""

    name = "honcho"

    def __init__(self, wire: Wire | None, options: HonchoOptions, missing: str = "") -> None:
        super().__init__(wire, options, missing)
        if wire is not None:
            self._turns = Turns(wire)
            manner = Manner(options.depth, options.reasoning_level, options.read_words)
            self._reader = Reader(wire, manner)
        self._tried: set[Place] = set()
        self._ended: Counter[Place] = Counter()

    def _tools_over(self, wire: Wire) -> tuple[Tool[Any], ...]:
        return honcho_tools(wire, self._place, self._reader.drop, self._options.reasoning_level)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        place, limit = self._place(scope), self._options.recall_limit
        concluded, said = await self._search(place, query, limit)
        if concluded:
            await self._read_cold(place, conversation.session)
        return (
            *(Recalled(line, score=2.0) for line in self._reader.last(place, conversation.session)),
            *(Recalled(one.text, one.id, 1.0) for one in concluded),
            *(Recalled(one.text) for one in said),
        )

    async def queue_prefetch(self, query: str, conversation: Conversation, scope: Scope) -> None:
        """The reading for the next turn, if one is due and there is something to read."""
        place = self._place(scope)
        self._ended[place] += 1
        every = self._options.read_every
        if every and self._ended[place] % every == 0 and await self._wire.conclusions(place, 1):
            await self._reader.read(place, conversation.session, query)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if self._options.send_turns:
            await self._turns.keep(self._place(scope), turn, in_room=isinstance(scope, RoomScope))

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        place = self._place(scope)
        new_id = await conclude_once(self._wire, place, write.after) if write.after else ""
        if write.remote_id:
            old = [write.remote_id]
        else:
            found = await with_text(self._wire, place, write.before) if write.before else []
            old = [one.id for one in found]
        await erase(self._wire, place, [one for one in old if one != new_id])
        if old:
            self._reader.drop(place)
        return new_id

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        place = self._place(scope)
        self._reader.drop(place)
        try:
            if isinstance(what, ForgetFact):
                return await self._forget_fact(place, what)
            assert isinstance(what, ForgetAll)
            return await self._forget_all(place)
        finally:
            self._reader.drop(place)

    async def count(self, scope: Scope) -> int | None:
        place = self._place(scope)
        return await self._wire.count_conclusions(place) if await self._wire.workspace_exists(place) else 0

    def _place(self, scope: Scope) -> Place:
        peer = "room" if isinstance(scope, RoomScope) else "user"
        return Place(self._bank(scope), peer)

    async def _search(self, place: Place, query: str, limit: int) -> tuple[list[Conclusion], list[Message]]:
        try:
            async with asyncio.TaskGroup() as group:
                concluded = group.create_task(self._wire.query(place, query, limit))
                said = group.create_task(self._wire.search(place, query, max(1, limit // 2)))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return concluded.result(), said.result()

    async def _read_cold(self, place: Place, session: str) -> None:
        """Once for each place, for a short time: nothing was read of them since the program began."""
        known = place in self._tried or self._reader.last(place, session)
        if known or not self._options.read_every:
            return
        self._tried.add(place)
        # The search has its answer, and the next reading will tell.
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(self._options.cold_wait_s):
                await self._reader.read(place, session)

    async def _forget_fact(self, place: Place, fact: ForgetFact) -> Forgotten:
        """First the turns, with what was concluded from them; then conclusions and the card's lines."""
        told = await self._said(place, fact)
        turns = dict.fromkeys((*fact.turns, *(one.turn for one in told)))
        removed = await self._turns.take_out(place, tuple(turns), [one.session for one in told])
        conclusions = set(fact.remote_ids)
        for wording in fact.wordings:
            conclusions.update(one.id for one in await saying(self._wire, place, wording))
        removed += await erase(self._wire, place, sorted(conclusions - {""}))
        card = await self._wire.card(place)
        kept = [line for line in card if not any(says(line, wording) for wording in fact.wordings)]
        if len(kept) < len(card):
            await self._wire.set_card(place, kept)
        if told and await self._said(place, fact):
            raise ProviderDown(AT_WORK, TRY_AGAIN_S)
        return Forgotten(removed + len(card) - len(kept))

    async def _forget_all(self, place: Place) -> Forgotten:
        if not await self._wire.workspace_exists(place):
            return Forgotten(0)
        removed = await self._wire.count_conclusions(place) + await self._turns.delete_all(place)
        await self._wire.delete_workspace(place)
        if await self._wire.workspace_exists(place):  # what is written before it is gone would go with it
            raise ProviderDown(AT_WORK, TRY_AGAIN_S)
        return Forgotten(removed)

    async def _said(self, place: Place, fact: ForgetFact) -> list[Message]:
        """The messages of turns that state it."""
        return [
            one
            for wording in fact.wordings
            for one in await self._wire.search(place, wording, LOOK_FOR)
            if one.turn and states(one.text, (wording,))
        ]


def make(setup: ProviderSetup[HonchoOptions]) -> MemoryProvider:
    from trunkline.agent.providers.honcho_wire import HonchoWire  # noqa: PLC0415

    options, key = setup.options, setup.secrets.get(KEY_NAME, "")
    lacks_key = not key and options.base_url == CLOUD
    wire = None if lacks_key else HonchoWire(options.base_url, key, options.timeout_s, options.ask_timeout_s)
    return HonchoProvider(wire, options, NEEDS_KEY.format(key=KEY_NAME, cloud=CLOUD))


KIND = ProviderKind(
    name="honcho",
    title="Honcho (hosted, or your own server)",
    options=HonchoOptions,
    make=make,
    secrets=(Secret(KEY_NAME, "The API key of Honcho; a server of your own may need none", required=False),),
    extra="honcho",
    imports=("honcho",),
)
