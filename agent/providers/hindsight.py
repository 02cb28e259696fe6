"""Hindsight: a memory server that draws facts out of what it gets and makes observations of many facts.

Each turn and each entry of the built-in memory is a document of its own, so that it can be replaced and
erased with all that was drawn from it. The server works on a document after it has taken it; until it has,
the document is not deleted, since its facts would come after.
"""

from collections.abc import Iterable
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
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    Recalled,
    Secret,
)
from trunkline.agent.providers.hindsight_tools import hindsight_tools
from trunkline.agent.providers.hindsight_values import Budget, Found, Wire
from trunkline.agent.providers.remote import (
    NEEDS_KEY,
    Address,
    RemoteProvider,
    as_transcript,
    entry_id,
    turn_id,
)
from trunkline.agent.providers.texts import same, states
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "HINDSIGHT_API_KEY"
CLOUD = "https://api.hindsight.vectorize.io"
TRY_AGAIN_S = 3.0
LOOK_FOR_TOKENS = 4_096
IN_OBSERVATIONS = (
    "Hindsight still holds an observation that says it, made of other facts; its console can clear a bank's "
    "observations."
)

MISSION = """\
Keep what helps an assistant in later conversations with this {whom}: lasting facts, preferences, routines, \
people and tools in their life, projects that go on, decisions and the reasons for them, what they ask to \
have remembered. Leave out errands, small talk, and what the assistant itself did or proposed."""
SAID = "A turn of a conversation between {whom} and their assistant."
NOTED = "An entry of the assistant's own notes about {whom}."


class HindsightOptions(ProviderOptions):
    """`recall_budget` is how much the server searches before each turn: more is better, and slower."""

    base_url: Address = CLOUD
    recall_budget: Budget = "low"
    recall_tokens: Annotated[int, Field(ge=100, le=16_000)] = 1_500
    send_turns: bool = True


class HindsightProvider(RemoteProvider[Wire, HindsightOptions]):
    """The provider over the vendor's API, which is asked for facts and observations."""

    name = "hindsight"

    def _tools_over(self, wire: Wire) -> tuple[Tool[Any], ...]:
        return hindsight_tools(wire, self._bank, _mission, LOOK_FOR_TOKENS)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._wire.recall(
            self._bank(scope),
            query,
            budget=self._options.recall_budget,
            max_tokens=self._options.recall_tokens,
        )
        return tuple(Recalled(one.text, one.id, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if not self._options.send_turns:
            return
        bank = self._bank(scope)
        await self._wire.retain(
            bank,
            turn_id(bank, turn.key),
            as_transcript(turn, scope),
            mission=_mission(scope),
            context=SAID.format(whom=_whom(scope)),
            date=turn.created,
            metadata={"session": turn.conversation.session, "platform": turn.conversation.platform},
        )

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        bank, new_id = self._bank(scope), ""
        if write.after:
            new_id = entry_id(bank, write)
            await self._wire.retain(
                bank,
                new_id,
                write.after,
                mission=_mission(scope),
                context=NOTED.format(whom=_whom(scope)),
                metadata={"store": write.target},
            )
        if write.remote_id:
            await self._delete(bank, [write.remote_id])
        elif write.before:
            found = await self._wire.documents_with(bank, write.before)
            await self._delete(
                bank, [one for one, text in found.items() if same(text, write.before) and one != new_id]
            )
        return new_id

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        bank = self._bank(scope)
        if isinstance(what, ForgetFact):
            return await self._forget_fact(bank, what)
        assert isinstance(what, ForgetAll)
        await self._let_finish(bank, None)
        removed = await self._wire.count_documents(bank)
        await self._wire.delete_bank(bank)
        return Forgotten(removed)

    async def count(self, scope: Scope) -> int | None:
        return await self._wire.count_documents(self._bank(scope))

    async def _forget_fact(self, bank: str, fact: ForgetFact) -> Forgotten:
        """First the documents, with all that was drawn from them; then observations that still say it."""
        documents = {*fact.remote_ids, *(turn_id(bank, turn) for turn in fact.turns)}
        for wording in fact.wordings:
            holding = await self._wire.documents_with(bank, _core(wording))
            documents.update(one for one, text in holding.items() if states(text, (wording,)))
            found = await self._wire.recall(bank, wording, budget="high", max_tokens=LOOK_FOR_TOKENS)
            documents.update(one.document for one in found if states(one.text, (wording,)))
        removed = await self._delete(bank, sorted(documents - {""}))
        for wording in fact.wordings:
            saying = await self._observations_of(bank, wording)
            for source in {source for one in saying for source in one.sources}:
                await self._wire.clear_observations(bank, source)
            removed += len(saying)
            if saying and await self._observations_of(bank, wording):
                return Forgotten(removed, IN_OBSERVATIONS)
        return Forgotten(removed)

    async def _observations_of(self, bank: str, wording: str) -> list[Found]:
        found = await self._wire.observations_with(bank, _core(wording))
        return [one for one in found if states(one.text, (wording,))]

    async def _delete(self, bank: str, documents: list[str]) -> int:
        if not documents:
            return 0
        await self._let_finish(bank, documents)
        return await self._wire.delete_documents(bank, documents)

    async def _let_finish(self, bank: str, documents: Iterable[str] | None) -> None:
        """Raises ProviderDown while one of these, or of all, is still being worked on."""
        working = await self._wire.being_drawn_from(bank)
        if working and (documents is None or "" in working or working & {*documents}):
            raise ProviderDown("Hindsight is still at work on what is to be deleted", TRY_AGAIN_S)


def _core(wording: str) -> str:
    """What stands of it within a longer sentence, too."""
    return wording.strip().rstrip(".!?。！？") or wording


def _whom(scope: Scope) -> str:
    return "the people of a room" if isinstance(scope, RoomScope) else "a person"


def _mission(scope: Scope) -> str:
    return MISSION.format(whom="group of people" if isinstance(scope, RoomScope) else "person")


def make(setup: ProviderSetup[HindsightOptions]) -> MemoryProvider:
    from trunkline.agent.providers.hindsight_wire import HindsightWire  # noqa: PLC0415

    options, key = setup.options, setup.secrets.get(KEY_NAME, "")
    lacks_key = not key and options.base_url == CLOUD
    wire = None if lacks_key else HindsightWire(options.base_url, key, options.timeout_s)
    return HindsightProvider(wire, options, NEEDS_KEY.format(key=KEY_NAME, cloud=CLOUD))


KIND = ProviderKind(
    name="hindsight",
    title="Hindsight (your own server, or hosted)",
    options=HindsightOptions,
    make=make,
    secrets=(
        Secret(KEY_NAME, "The API key of Hindsight; a server of your own may need none", required=False),
    ),
    extra="hindsight",
    imports=("hindsight_client",),
)
