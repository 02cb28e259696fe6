"""OpenViking: a server of one's own that keeps texts as files and finds them by meaning.

Each turn and each entry of the built-in memory is a file of its own, named by us, so that it can be replaced
and erased. The server's own extraction from sessions is not used: what it draws out belongs to no turn any
more, and could not be erased with one.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from trunkline.agent.memory.scan import clean_invisible
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
    QuietHooks,
    Recalled,
    Secret,
    bank_of,
    document_id,
)
from trunkline.agent.providers.openviking_tools import openviking_tools
from trunkline.agent.providers.openviking_values import Wire
from trunkline.agent.providers.texts import same, states
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool

KEY_NAME = "OPENVIKING_API_KEY"
LOOK_FOR = 50
"""So many results are looked at when something has to be found by its text."""


def _without_slash(value: object) -> object:
    return value.rstrip("/") if isinstance(value, str) else value


_ServerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$")]


class OpenVikingOptions(ProviderOptions):
    """`account` and `user` are the server's: in its mode `api_key` those that the key belongs to."""

    base_url: Annotated[str, BeforeValidator(_without_slash), Field(pattern=r"^https?://[^\s/]+")] = (
        "http://127.0.0.1:1933"
    )
    account: _ServerName = "default"
    user: _ServerName = "default"
    recall_limit: Annotated[int, Field(ge=1, le=50)] = 8
    send_turns: bool = True


class OpenVikingProvider(QuietHooks):
    """The provider over the server's API."""

    name = "openviking"

    def __init__(self, wire: Wire, options: OpenVikingOptions) -> None:
        self._wire = wire
        self._options = options

    def available(self) -> tuple[str, ...]:
        return ()

    async def check(self) -> None:
        await self._wire.check()

    def tools(self) -> tuple[Tool[Any], ...]:
        return openviking_tools(self._wire, self._bank)

    async def prefetch(self, query: str, conversation: Conversation, scope: Scope) -> tuple[Recalled, ...]:
        found = await self._wire.find(self._bank(scope), query, limit=self._options.recall_limit)
        return tuple(Recalled(one.text, one.name, one.score) for one in found)

    async def sync(self, turn: CompletedTurn, scope: Scope) -> None:
        if self._options.send_turns:
            bank = self._bank(scope)
            text = as_transcript(turn, in_room=isinstance(scope, RoomScope))
            await self._wire.write(bank, _turn_name(bank, turn.key), text)

    async def on_memory_write(self, write: MemoryWrite, scope: Scope) -> str:
        bank, new_name = self._bank(scope), ""
        if write.after:
            new_name = document_id(bank, f"entry-{write.key}")
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
        names = {*what.remote_ids, *(_turn_name(bank, turn) for turn in what.turns)}
        for wording in what.wordings:
            names.update(await self._stating(bank, wording))
        kept = [name for name in sorted(names) if await self._wire.read(bank, name) is not None]
        for name in kept:
            await self._wire.delete(bank, name)
        return Forgotten(len(kept))

    async def count(self, scope: Scope) -> int | None:
        return len(await self._wire.names(self._bank(scope)))

    async def stop(self) -> None:
        await self._wire.aclose()

    async def _stating(self, bank: str, wording: str) -> set[str]:
        """The names of texts that state a fact: found by its words, and by its meaning."""
        found = {one.name: one.text for one in await self._wire.find(bank, wording, limit=LOOK_FOR)}
        for name in await self._wire.holding(bank, wording):
            if name not in found:
                found[name] = await self._wire.read(bank, name) or ""
        return {name for name, text in found.items() if states(text, (wording,))}

    def _bank(self, scope: Scope) -> str:
        return bank_of(scope, self._options.namespace)


def as_transcript(turn: CompletedTurn, *, in_room: bool) -> str:
    """The turn's text as it is kept: when, who said what, nothing hidden in it."""
    user, assistant = (clean_invisible(text).strip() for text in (turn.user, turn.assistant))
    speaker = f"account {turn.author}" if in_room else "user"
    return f"{turn.created:%Y-%m-%d}\n\n{speaker}: {user}\n\nassistant: {assistant}"


def _turn_name(bank: str, key: str) -> str:
    return document_id(bank, f"turn-{key}")


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
