"""RetainDB: a memory service, hosted or one's own, that keeps single memories and finds them by meaning.

Each entry of the built-in memory is a memory there, and each turn one or several, under a name of its own.
The service's extraction from conversations is not used: it keeps the messages beside what it draws from them,
and has no call that erases those.
"""

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
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    Recalled,
    Secret,
)
from trunkline.agent.providers.remote import (
    NEEDS_KEY,
    Address,
    RemoteProvider,
    as_transcript,
    entry_id,
    turn_id,
)
from trunkline.agent.providers.retaindb_tools import retaindb_tools
from trunkline.agent.providers.retaindb_wire import RetainDbWire
from trunkline.agent.providers.texts import same, states
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "RETAINDB_API_KEY"
CLOUD = "https://api.retaindb.com"
LOOK_FOR = 50
PART_CHARS = 9_000
ROUNDS = 20
"""So often a bank is listed anew while something of it is left."""
MARKED_ONLY = (
    "RetainDB gives it back no more, but has only marked it as deleted: its text goes with the service's own "
    "clean-up."
)
STILL_THERE = "RetainDB was asked to delete it and still gives it back: delete the project in its console."


class RetainDbOptions(ProviderOptions):
    """`base_url` may be a server of one's own."""

    base_url: Address = CLOUD
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 8
    send_turns: bool = True


class RetainDb(RemoteProvider[RetainDbWire, RetainDbOptions]):
    """The provider over the vendor's API, hosted or one's own."""

    name = "retaindb"

    def _tools_over(self, wire: RetainDbWire) -> tuple[Tool[Any], ...]:
        return retaindb_tools(wire, self._bank)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._wire.search(self._bank(scope), query, self._options.recall_limit)
        return tuple(Recalled(one.text, one.id, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if not self._options.send_turns:
            return
        bank = self._bank(scope)
        name = turn_id(bank, turn.key)
        for number, part in enumerate(parts_of(turn, scope)):
            await self._wire.keep(bank, f"{name}-{number}", part, "event", session=name)

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        """The old text goes first: the service may take a new one like it for the same."""
        bank, key = self._bank(scope), entry_id(self._bank(scope), write)
        old = [write.remote_id] if write.remote_id else []
        if not old and write.before:
            found = await self._wire.search(bank, write.before, LOOK_FOR)
            old = [one.id for one in found if same(one.text, write.before)]
        await self._wire.delete(old)
        if write.before or write.remote_id:  # also of what an earlier attempt deleted
            await self._wire.purge(bank)
        return await self._wire.keep(bank, key, write.after, "factual") if write.after else ""

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        bank = self._bank(scope)
        if isinstance(what, ForgetFact):
            return await self._forget_fact(bank, what)
        assert isinstance(what, ForgetAll)
        gone: set[str] = set()
        for _ in range(ROUNDS):
            left = set(await self._wire.listed(bank)) - gone
            if not left:
                break
            await self._wire.delete(sorted(left))
            gone |= left
        erased = await self._wire.delete_project(bank)
        return Forgotten(len(gone), "" if erased or not gone else MARKED_ONLY)

    async def count(self, scope: Scope) -> int | None:
        return len(await self._wire.listed(self._bank(scope)))

    async def _forget_fact(self, bank: str, fact: ForgetFact) -> Forgotten:
        turns = {turn_id(bank, turn) for turn in fact.turns}
        known = await self._wire.listed(bank)
        for turn in sorted(turns):
            known |= await self._wire.listed(bank, session=turn)
        for wording in fact.wordings:
            known |= {one.id: one for one in await self._wire.search(bank, wording, LOOK_FOR)}
        said = {one.id for one in known.values() if one.session in turns or states(one.text, fact.wordings)}
        deleted = await self._wire.delete(sorted(said.union(fact.remote_ids) - {""}))
        purged = await self._wire.purge(bank) or not deleted
        for wording in fact.wordings:
            found = await self._wire.search(bank, wording, LOOK_FOR)
            if any(states(one.text, (wording,)) for one in found):
                return Forgotten(deleted, STILL_THERE)
        return Forgotten(deleted, "" if purged else MARKED_ONLY)


def parts_of(turn: CompletedTurn, scope: Scope) -> list[str]:
    """The turn's text as it is kept: no part over the limit."""
    whole = as_transcript(turn, scope)
    return [whole[at : at + PART_CHARS] for at in range(0, len(whole), PART_CHARS)]


def make(setup: ProviderSetup[RetainDbOptions]) -> MemoryProvider:
    options, key = setup.options, setup.secrets.get(KEY_NAME, "")
    lacks_key = not key and options.base_url == CLOUD
    wire = None if lacks_key else RetainDbWire(options.base_url, key, options.timeout_s)
    return RetainDb(wire, options, NEEDS_KEY.format(key=KEY_NAME, cloud=CLOUD))


KIND = ProviderKind(
    name="retaindb",
    title="RetainDB (hosted, or your own server)",
    options=RetainDbOptions,
    make=make,
    secrets=(
        Secret(KEY_NAME, "The API key of RetainDB; a server of your own may need none", required=False),
    ),
)
