"""OpenViking: a server of one's own that keeps texts as files and finds them by meaning.

Each turn and each entry of the built-in memory is a file of its own, named by us, so that it can be replaced
and erased. The server's own extraction from sessions is not used: what it draws out belongs to no turn any
more, and could not be erased with one.
"""

from typing import Annotated, Any

from pydantic import Field

from trunkline.agent.providers.base import (
    CompletedTurn,
    Conversation,
    Forget,
    ForgetAll,
    Forgotten,
    MemoryProvider,
    MemoryWrite,
    ProviderKind,
    ProviderOptions,
    ProviderSetup,
    Recalled,
    Secret,
)
from trunkline.agent.providers.openviking_tools import openviking_tools
from trunkline.agent.providers.openviking_values import Wire
from trunkline.agent.providers.remote import Address, RemoteProvider, as_dated_transcript, entry_id, turn_id
from trunkline.agent.providers.texts import same, states
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "OPENVIKING_API_KEY"
LOOK_FOR = 50
"""So many results are looked at when something has to be found by its text."""


_ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$")]


class OpenVikingOptions(ProviderOptions):
    """`account` and `user` are the server's: in its mode `api_key` those that the key belongs to."""

    base_url: Address = "http://127.0.0.1:1933"
    account: _ServerName = "default"
    user: _ServerName = "default"
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 8
    send_turns: bool = True


class OpenVikingProvider(RemoteProvider[Wire, OpenVikingOptions]):
    """The provider over the server's API."""

    name = "openviking"

    def _tools_over(self, wire: Wire) -> tuple[Tool[Any], ...]:
        return openviking_tools(wire, self._bank)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._wire.find(self._bank(scope), query, limit=self._options.recall_limit)
        return tuple(Recalled(one.text, one.name, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if self._options.send_turns:
            bank = self._bank(scope)
            await self._wire.write(bank, turn_id(bank, turn.key), as_dated_transcript(turn, scope))

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        bank, new_name = self._bank(scope), ""
        if write.after:
            new_name = entry_id(bank, write)
            await self._wire.write(bank, new_name, write.after)
        if write.remote_id:
            await self._wire.delete(bank, write.remote_id)
        elif write.before:
            for one in await self._wire.find(bank, write.before, limit=LOOK_FOR):
                if same(one.text, write.before) and one.name != new_name:
                    await self._wire.delete(bank, one.name)
        return new_name

    async def forget(self, what: Forget, scope: Scope) -> Forgotten:
        bank = self._bank(scope)
        if isinstance(what, ForgetAll):
            number = len(await self._wire.names(bank))
            await self._wire.delete_bank(bank)
            return Forgotten(number)
        names = {*what.remote_ids, *(turn_id(bank, turn) for turn in what.turns)}
        for wording in what.wordings:
            names.update(await self._stating(bank, wording))
        kept = [name for name in sorted(names) if await self._wire.read(bank, name) is not None]
        for name in kept:
            await self._wire.delete(bank, name)
        return Forgotten(len(kept))

    async def count(self, scope: Scope) -> int | None:
        return len(await self._wire.names(self._bank(scope)))

    async def _stating(self, bank: str, wording: str) -> set[str]:
        """The names of texts that state a fact: found by its words, and by its meaning."""
        found = {one.name: one.text for one in await self._wire.find(bank, wording, limit=LOOK_FOR)}
        for name in await self._wire.holding(bank, wording):
            if name not in found:
                found[name] = await self._wire.read(bank, name) or ""
        return {name for name, text in found.items() if states(text, (wording,))}


def make(setup: ProviderSetup[OpenVikingOptions]) -> MemoryProvider:
    from trunkline.agent.providers.openviking_wire import OpenVikingWire  # noqa: PLC0415

    options, key = setup.options, setup.secrets.get(KEY_NAME, "")
    wire = OpenVikingWire(options.base_url, key, options.account, options.user, options.timeout_s)
    return OpenVikingProvider(wire, options)


KIND = ProviderKind(
    name="openviking",
    title="OpenViking (your own server)",
    options=OpenVikingOptions,
    make=make,
    secrets=(
        Secret(
            KEY_NAME, "The API key of the OpenViking server; none for one that runs without", required=False
        ),
    ),
    extra="openviking",
    imports=("openviking_sdk",),
)
