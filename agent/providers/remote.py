"""What the providers over a vendor's API share: its address, the key that may be lacking, names in a bank.

What is asked of the API is each provider's own, behind its wire.
"""

from typing import Annotated, Any, Generic, Protocol, TypeVar

from pydantic import BeforeValidator, Field

from trunkline.agent.memory.scan import clean_invisible
from trunkline.agent.providers.base import (
    CompletedTurn,
    MemoryWrite,
    ProviderOptions,
    QuietHooks,
    bank_of,
    document_id,
)
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.tools.base import Tool

NEEDS_KEY = "{key} is not set, which {cloud} needs."


def _without_slash(value: object) -> object:
    return value.rstrip("/") if isinstance(value, str) else value


Address = Annotated[str, BeforeValidator(_without_slash), Field(pattern=r"^https?://[^\s/]+")]
"""Of a server, without a slash at its end."""


class Closable(Protocol):
    """The part of every wire that is the same."""

    async def check(self) -> None: ...

    async def aclose(self) -> None: ...


WireT = TypeVar("WireT", bound=Closable)
OptionsT = TypeVar("OptionsT", bound=ProviderOptions)


class RemoteProvider(QuietHooks, Generic[WireT, OptionsT]):
    """A provider over a wire, or over none: then `missing` says what is missing for it."""

    def __init__(self, wire: WireT | None, options: OptionsT, missing: str = "") -> None:
        self._maybe_wire = wire
        self._options = options
        self._missing = missing

    @property
    def _wire(self) -> WireT:
        assert self._maybe_wire is not None, self._missing
        return self._maybe_wire

    def available(self) -> tuple[str, ...]:
        return () if self._maybe_wire is not None else (self._missing,)

    async def check(self) -> None:
        await self._wire.check()

    def tools(self) -> tuple[Tool[Any], ...]:
        return () if self._maybe_wire is None else self._tools_over(self._maybe_wire)

    def _tools_over(self, wire: WireT) -> tuple[Tool[Any], ...]:
        return ()

    async def stop(self) -> None:
        if self._maybe_wire is not None:
            await self._maybe_wire.aclose()

    def _bank(self, scope: Scope) -> str:
        return bank_of(scope, self._options.namespace)


def turn_id(bank: str, key: str) -> str:
    """Our name in a bank for what is kept of a turn."""
    return document_id(bank, f"turn-{key}")


def entry_id(bank: str, write: MemoryWrite) -> str:
    """Our name in a bank for the text that an entry has after a change."""
    return document_id(bank, f"entry-{write.key}")


def said_in(turn: CompletedTurn) -> tuple[str, str]:
    """What the person and the assistant said, nothing hidden in it."""
    return clean_invisible(turn.user).strip(), clean_invisible(turn.assistant).strip()


def as_transcript(turn: CompletedTurn, scope: Scope) -> str:
    """The turn's text as most providers keep it: who said what."""
    user, assistant = said_in(turn)
    speaker = f"account {turn.author}" if isinstance(scope, RoomScope) else "user"
    return f"{speaker}: {user}\n\nassistant: {assistant}"


def as_dated_transcript(turn: CompletedTurn, scope: Scope) -> str:
    """The same, with the day, for what keeps no date beside a text."""
    return f"{turn.created:%Y-%m-%d}\n\n{as_transcript(turn, scope)}"
