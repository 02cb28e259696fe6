"""Mem0: memories as plain statements, found by meaning; hosted, or by its open-source engine in this process.

What a memory was made from, a turn or an entry of the built-in memory, stands in its metadata as our key: by
that it is found again, replaced and erased. Hosted, a model draws statements out of turns; here, what the
person said is kept as it is.
"""

from typing import Annotated, Any, Literal

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
from trunkline.agent.providers.mem0_tools import mem0_tools
from trunkline.agent.providers.mem0_values import Role, Wire
from trunkline.agent.providers.remote import Address, RemoteProvider, entry_id, said_in, turn_id
from trunkline.agent.providers.texts import same, says
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "MEM0_API_KEY"
EMBEDDER_KEY_NAME = "MEM0_EMBEDDER_KEY"
LOOK_FOR = 50
TRY_AGAIN_S = 3.0


class Mem0Options(ProviderOptions):
    """`mode` local keeps everything on this machine; it needs an embedder: its address, its model, the size
    of its vectors. `base_url` is the hosted service's.
    """

    mode: Literal["cloud", "local"] = "cloud"
    base_url: Address = "https://api.mem0.ai"
    embedder_url: Address | None = None
    embedder_model: Annotated[str, Field(min_length=1)] = "text-embedding-3-small"
    embedder_dimensions: Annotated[int, Field(ge=1, le=8_192)] = 1_536
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 10
    send_turns: bool = True


class Mem0Provider(RemoteProvider[Wire, Mem0Options]):
    """The provider over the hosted API or the engine."""

    name = "mem0"

    def _tools_over(self, wire: Wire) -> tuple[Tool[Any], ...]:
        return mem0_tools(wire, self._bank)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._wire.search(self._bank(scope), query, self._options.recall_limit)
        return tuple(Recalled(one.text, one.id, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if not self._options.send_turns:
            return
        bank = self._bank(scope)
        key, said = turn_id(bank, turn.key), as_said(turn, in_room=isinstance(scope, RoomScope))
        if said and not await self._wire.with_key(bank, key):
            await self._wire.add(bank, key, said, as_it_is=False, date=turn.created)

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        bank, new = self._bank(scope), ""
        if write.after:
            new = entry_id(bank, write)
            if not await self._wire.with_key(bank, new):
                await self._wire.add(bank, new, [("user", write.after)], as_it_is=True)
        if write.remote_id:
            await self._delete_by_key(bank, write.remote_id)
        elif write.before:
            kept = {one.id for one in await self._wire.with_key(bank, new)} if new else set()
            found = await self._wire.search(bank, write.before, LOOK_FOR)
            for one in found:
                if same(one.text, write.before) and one.id not in kept:
                    await self._wire.delete(one.id)
        return new

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        bank = self._bank(scope)
        if isinstance(what, ForgetFact):
            return await self._forget_fact(bank, what)
        assert isinstance(what, ForgetAll)
        removed = await self._wire.count(bank) or 0
        await self._wire.delete_all(bank)
        if await self._wire.count(bank):
            raise ProviderDown("Mem0 is still at work on the deletion", TRY_AGAIN_S)
        return Forgotten(removed)

    async def count(self, scope: Scope) -> int | None:
        return await self._wire.count(self._bank(scope))

    async def _forget_fact(self, bank: str, fact: ForgetFact) -> Forgotten:
        """What was made of it, and whatever else says it, in these words or in nearly these."""
        removed = 0
        for key in (*fact.remote_ids, *(turn_id(bank, turn) for turn in fact.turns)):
            removed += await self._delete_by_key(bank, key)
        for wording in fact.wordings:
            for one in await self._wire.search(bank, wording, LOOK_FOR):
                if says(one.text, wording):
                    removed += await self._wire.delete(one.id)
        return Forgotten(removed)

    async def _delete_by_key(self, bank: str, key: str) -> int:
        found = await self._wire.with_key(bank, key)
        return [await self._wire.delete(one.id) for one in found].count(True)


def as_said(turn: CompletedTurn, *, in_room: bool) -> list[tuple[Role, str]]:
    """The turn's texts as they are sent: in rooms with who spoke, nothing hidden in them."""
    user, assistant = said_in(turn)
    said: list[tuple[Role, str]] = []
    if user:
        said.append(("user", f"[account {turn.author}] {user}" if in_room else user))
    if assistant:
        said.append(("assistant", assistant))
    return said


def make(setup: ProviderSetup[Mem0Options]) -> MemoryProvider:
    from trunkline.agent.providers.mem0_sdk import prepare_sdk  # noqa: PLC0415

    options, key = setup.options, setup.secrets.get(KEY_NAME, "")
    prepare_sdk(setup.folder)
    if options.mode == "local":
        if options.embedder_url is None:
            return Mem0Provider(None, options, "providers.mem0.embedder_url is not set.")
        from trunkline.agent.providers.mem0_local import Embedder, Mem0Local  # noqa: PLC0415

        embedder = Embedder(
            options.embedder_url,
            options.embedder_model,
            options.embedder_dimensions,
            setup.secrets.get(EMBEDDER_KEY_NAME, ""),
        )
        return Mem0Provider(Mem0Local(setup.folder, embedder, options.timeout_s), options)
    if not key:
        return Mem0Provider(None, options, f"{KEY_NAME} is not set.")
    from trunkline.agent.providers.mem0_cloud import Mem0Cloud  # noqa: PLC0415

    return Mem0Provider(Mem0Cloud(options.base_url, key, options.timeout_s), options)


KIND = ProviderKind(
    name="mem0",
    title="Mem0 (hosted, or on this machine)",
    options=Mem0Options,
    make=make,
    secrets=(
        Secret(KEY_NAME, "The API key of Mem0's hosted service; none in local mode", required=False),
        Secret(EMBEDDER_KEY_NAME, "The key of your embeddings server; only in local mode", required=False),
    ),
    extra="mem0",
    imports=("mem0",),
)
