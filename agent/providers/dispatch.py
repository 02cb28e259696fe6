"""Asks several memory providers at once and lets none of them hold up or break a turn.

What is sent to them for keeping goes through the house's outbox, which calls `carry_out`; what comes back is
fused here, and fenced by the caller.
"""

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from trunkline.agent.memory.credentials import first_credential, mask_credentials
from trunkline.agent.memory.scan import clean_invisible
from trunkline.agent.providers.base import (
    Conversation,
    MemoryProvider,
    ProviderDown,
    ProviderError,
    ProviderRefused,
    Recalled,
)
from trunkline.agent.providers.breaker import Breaker, Health
from trunkline.agent.providers.fusion import fuse
from trunkline.agent.recall import CAP_CHARS, NOTE, disarm
from trunkline.agent.scope import RoomScope, Scope
from trunkline.agent.stream_text import clean
from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

log = logging.getLogger(__name__)
T = TypeVar("T")

PREFETCH_TIMEOUT_S = 3.0
LATE_S = 20.0
"""So long a late answer is waited for beside the turn; then its call is ended."""
LATE_KEPT = 256
PASSAGES = 60
PASSAGE_CHARS = 10_000
"""Of what one provider recalls so many passages are looked at, of each so much."""
QUERY_CHARS = 4_000
PARALLEL_PREFETCHES = 16
"""Of one provider; a turn that finds so many running goes on without it."""
BLOCK_CHARS = 1_000
GRACE_S = 2.0
"""A tool's own time-out comes first, so that it counts as the provider's failure."""
STOP_S = 2.0

NOT_NOW = "{name} does not answer at present. Go on without it, and don't call it again in this turn."
FAILED = "{name} could not do this ({reason}). Go on without it."
_LOOKS = re.compile(r"(^|_)ids?$|^(query|question|list)$")
HOLDS_CREDENTIAL = (
    "Refused: the text holds a credential ({kind}). Never store the value; store where it is kept instead."
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a turn asks: its text, where, and what it knows already.

    `known` are the memory entries in the prompt, `withheld` texts that must not come back; `version` changes
    with each thing forgotten, and makes late answers from before worthless.
    """

    text: str
    conversation: Conversation
    known: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    version: int = 0


class Gate(Protocol):
    """What may not reach a provider, by the person's own wish."""

    async def refusal(self, scope: Scope, session: str, *, writes: bool) -> str | None:
        """Why a provider's tool may not run now, as a sentence for the model; None when it may."""
        ...

    async def banks(self, scope: Scope) -> Sequence[Scope]:
        """The scope and those of people joined with its person, but what is being erased whole."""
        ...


@dataclass(slots=True)
class _Line:
    """One provider with what is known of how it fares."""

    provider: MemoryProvider
    breaker: Breaker
    places: asyncio.Semaphore

    def succeeded(self) -> None:
        if self.breaker.succeeded():
            log.info("memory provider works again: %s", self.provider.name)

    def failed(self, reason: str) -> None:
        if self.breaker.failed(reason):
            log.warning("memory provider failing: %s: %s", self.provider.name, reason)


_LateKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Late:
    version: int
    passages: tuple[str, ...]


class Dispatcher:
    """The active providers. `run` owns the calls that outlive their turn."""

    def __init__(
        self,
        providers: Sequence[MemoryProvider],
        gate: Gate,
        *,
        timeout_s: float = PREFETCH_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines = {
            one.name: _Line(one, Breaker(one.name, clock), asyncio.Semaphore(PARALLEL_PREFETCHES))
            for one in providers
        }
        self._gate = gate
        self._timeout_s = timeout_s
        self._late: OrderedDict[_LateKey, _Late] = OrderedDict()
        self._group: asyncio.TaskGroup | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._lines)

    @property
    def health(self) -> tuple[Health, ...]:
        return tuple(line.breaker.health for line in self._lines.values())

    def pause_s(self, name: str) -> float:
        """How long a provider is left alone from now on, 0 when it may be called."""
        return self._lines[name].breaker.waits_s

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    async def recall(self, question: Question, scopes: Sequence[Scope]) -> tuple[str, ...]:
        """What the providers know for a turn, in `timeout_s` seconds at most; never raises for their sake.

        `scopes` are several only for a person who was joined from several, whose banks stay apart. A provider
        that is late gives what it finds to the next turn of the same session, if it is late then too; an
        answer in time makes the late one worthless.
        """
        question = replace(question, text=sendable(question.text)[:QUERY_CHARS])
        if self._group is None or not any(map(str.isalnum, question.text)):
            return ()
        calls = {
            self._group.create_task(self._prefetch(line, question, scope), name=f"prefetch {name}"): (
                line,
                scope,
            )
            for name, line in self._lines.items()
            if not line.places.locked() and line.breaker.admits()
            for scope in scopes
        }
        if not calls:
            return ()
        await asyncio.wait(calls, timeout=self._timeout_s)
        ranked = [self._taken(call, line, question, scope) for call, (line, scope) in calls.items()]
        return fuse(
            ranked,
            known=question.known,
            withheld=question.withheld,
            cap_chars=CAP_CHARS - len(NOTE) - 200,
        )

    def system_block(self, scope: Scope) -> str:
        """What the providers want to stand in the system prompt."""
        blocks = []
        for name, line in self._lines.items():
            try:
                block = line.provider.system_block(scope)
            except Exception as error:  # boundary: a provider, like a tool call
                log.exception("memory provider broken: %s", name)
                line.failed(type(error).__name__)
                continue
            if block.strip():
                blocks.append(f"# Memory of {name}\n{disarm(clean_invisible(block.strip()))[:BLOCK_CHARS]}")
        return "\n\n".join(blocks)

    def tools(self) -> tuple[Tool[Any], ...]:
        """The tools of every provider, each behind the gate and the breaker."""
        guarded = []
        for name, line in self._lines.items():
            for tool in line.provider.tools():
                if not tool.name.startswith(f"{name}_"):
                    log.error("tool left out, its name lacks the provider's: %s", tool.name)
                    continue
                run = partial(self._call, line, tool)
                guarded.append(replace(tool, run=run, timeout_s=tool.timeout_s + GRACE_S))
        return tuple(guarded)

    def warm(self, text: str, conversation: Conversation, scope: Scope) -> None:
        """Lets the providers get ready for the turn after this one. Never waits."""
        for line in self._lines.values():
            if self._group is not None and not line.places.locked() and line.breaker.waits_s == 0:
                self._group.create_task(self._warm(line, text, conversation, scope), name="warm up")

    async def carry_out(
        self, name: str, work: Callable[[MemoryProvider], Awaitable[T]], timeout_s: float
    ) -> T:
        """One call that keeps or erases something. Raises ProviderError, also for what is no such error."""
        line = self._lines[name]
        if not line.breaker.admits():
            raise ProviderDown("left alone after several failures", line.breaker.waits_s)
        try:
            result = await self._guarded(line, work(line.provider), timeout_s)
        except ProviderRefused:
            line.succeeded()
            raise
        except ProviderError as error:
            line.failed(str(error))
            raise
        line.succeeded()
        return result

    async def shortened(self, note: str, conversation: Conversation, scope: Scope) -> None:
        """Tells each provider of the note on a long conversation, unless the person wishes it not to know."""
        if await self._gate.refusal(scope, conversation.session, writes=True) is not None:
            return
        summary = sendable(note)
        for name in self._lines:
            try:
                await self.carry_out(
                    name, lambda one: one.on_compaction(summary, conversation, scope), self._timeout_s
                )
            except ProviderError as error:
                log.info("memory provider not told of a note: %s: %s", name, error)

    async def stop(self) -> None:
        """Closes the providers, whatever they say to that."""
        for name, line in self._lines.items():
            try:
                await self._guarded(line, line.provider.stop(), STOP_S)
            except ProviderError as error:
                log.warning("memory provider not closed: %s: %s", name, error)

    async def _guarded(self, line: _Line, work: Awaitable[T], timeout_s: float) -> T:
        """Whatever goes wrong in a provider as a ProviderError."""
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except ProviderError:
            raise
        except TimeoutError as error:
            raise ProviderDown(f"no answer within {timeout_s:g} s") from error
        except Exception as error:  # boundary: a provider, like a tool call
            log.exception("memory provider broken: %s", line.provider.name)
            raise ProviderDown(type(error).__name__) from error

    async def _prefetch(self, line: _Line, question: Question, scope: Scope) -> tuple[Recalled, ...] | str:
        """What the provider recalled, or why it did not."""
        provider, here = line.provider, question.conversation
        async with line.places:
            try:
                if not here.session:
                    await self._guarded(line, provider.start(here, scope), LATE_S)
                return await self._guarded(line, provider.prefetch(question.text, here, scope), LATE_S)
            except ProviderError as error:
                return str(error)

    async def _warm(self, line: _Line, text: str, conversation: Conversation, scope: Scope) -> None:
        query = sendable(text)[:QUERY_CHARS]
        async with line.places:
            try:
                await self._guarded(line, line.provider.queue_prefetch(query, conversation, scope), LATE_S)
            except ProviderError as error:
                line.failed(str(error))

    def _taken(
        self,
        call: asyncio.Task[tuple[Recalled, ...] | str],
        line: _Line,
        question: Question,
        scope: Scope,
    ) -> tuple[str, ...]:
        """The passages of a call that has ended, or of an earlier one that was late."""
        key = (line.provider.name, _place_of(scope), question.conversation.session)
        late = self._late.pop(key, None)
        if not call.done():
            line.failed(f"no answer within {self._timeout_s:g} s")
            call.add_done_callback(partial(self._keep_late, key, question.version))
            return late.passages if late is not None and late.version == question.version else ()
        found = () if call.cancelled() else call.result()
        if isinstance(found, str):
            line.failed(found)
            return ()
        line.succeeded()
        return _texts(found)

    def _keep_late(self, key: _LateKey, version: int, call: asyncio.Task[tuple[Recalled, ...] | str]) -> None:
        found = () if call.cancelled() else call.result()
        if isinstance(found, str) or not found or not key[2]:
            return
        self._late[key] = _Late(version, _texts(found))
        while len(self._late) > LATE_KEPT:
            self._late.popitem(last=False)

    async def _call(
        self, line: _Line, tool: Tool[Any], arguments: BaseModel, context: ToolContext
    ) -> ToolResult:
        refusal = await self._gate.refusal(context.scope, context.session, writes=not tool.read_only)
        if refusal is None and not tool.read_only:
            credential = first_credential(arguments.model_dump_json())
            refusal = None if credential is None else HOLDS_CREDENTIAL.format(kind=credential.kind)
        if refusal is not None:
            return ToolResult(refusal, is_error=True)
        if not line.breaker.admits():
            return ToolResult(NOT_NOW.format(name=line.provider.name), is_error=True)
        scopes: Sequence[Scope] = (context.scope,)
        if tool.read_only or _looks_into_banks(arguments):
            scopes = await self._gate.banks(context.scope)
        if not scopes:
            return ToolResult(NOT_NOW.format(name=line.provider.name), is_error=True)
        results = await asyncio.gather(
            *(self._call_in(line, tool, arguments, replace(context, scope=scope)) for scope in scopes)
        )
        told = [one for one in results if not one.is_error] or results[:1]
        text = "\n".join(one.content for one in told)
        return replace(told[0], content=disarm(clean_invisible(text)))

    async def _call_in(
        self, line: _Line, tool: Tool[Any], arguments: BaseModel, context: ToolContext
    ) -> ToolResult:
        """The tool in one bank."""
        try:
            result = await self._guarded(line, tool.run(arguments, context), tool.timeout_s)
        except ProviderError as error:
            if not isinstance(error, ProviderRefused):
                line.failed(str(error))
            return ToolResult(FAILED.format(name=line.provider.name, reason=error), is_error=True)
        line.succeeded()
        return result


def sendable(text: str) -> str:
    """A text as it may leave the machine: well formed, without the credentials in it."""
    return mask_credentials(clean(text))


def _texts(found: Sequence[Recalled]) -> tuple[str, ...]:
    return tuple(clean(one.text[:PASSAGE_CHARS]) for one in found[:PASSAGES])


def _looks_into_banks(arguments: BaseModel) -> bool:
    """Whether a call is about what is kept: asks for it, or names it by its number, wherever that is."""
    return any(value and _LOOKS.search(name) for name, value in arguments)


def _place_of(scope: Scope) -> str:
    return f"room:{scope.room}" if isinstance(scope, RoomScope) else f"person:{scope.person}"
