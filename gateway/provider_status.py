"""How each memory provider is doing: set up, answering, how much it holds, what waits; for the operator."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter
from sqlalchemy import Connection

from trunkline.agent.providers.base import MemoryProvider, ProviderError
from trunkline.agent.providers.breaker import Health
from trunkline.agent.providers.table import kind_of
from trunkline.agent.scope import PersonScope
from trunkline.gateway.config import Config
from trunkline.gateway.memory_providers import HEALTH, make_provider
from trunkline.gateway.state import kv, provider_view
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts
from trunkline.gateway.state.provider_view import Waiting

COUNT_TIMEOUT_S = 5.0

_HEALTH = TypeAdapter(dict[str, Health])


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """One provider. `problem` says why it does not work now, empty when it does.

    `stored` is what it holds for the person asked about, None where it can't tell; `mirrored` counts entries
    of everybody's built-in memory; `failures` are those of the running program since its start.
    """

    name: str
    active: bool
    problem: str
    stored: int | None
    mirrored: int
    waiting: int
    refused: int
    not_erased: int
    failures: int
    last_error: str


@dataclass(frozen=True, slots=True)
class _Kept:
    waiting: Mapping[str, Waiting]
    mirrored: Mapping[str, int]
    health: Mapping[str, Health]


async def provider_statuses(
    config: Config, database: Database, scope: PersonScope
) -> tuple[ProviderStatus, ...]:
    """The active providers in their order, then others that something waits for or is kept at."""
    kept = await database.read(_kept)
    chosen = config.memory.provider
    others = sorted({*kept.waiting, *kept.mirrored} - {*chosen})
    asked = await asyncio.gather(*(_ask(config, database, name, scope) for name in chosen))
    found = dict(zip(chosen, asked, strict=True))
    return tuple(
        _status(name, name in chosen, *found.get(name, ("it is not in memory.provider", None)), kept)
        for name in (*chosen, *others)
    )


async def check_provider(provider: MemoryProvider, timeout_s: float) -> str:
    """Asks the vendor; why it does not work, empty when it does."""
    try:
        async with asyncio.timeout(timeout_s):
            await provider.check()
    except ProviderError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    return ""


async def _ask(config: Config, database: Database, name: str, scope: PersonScope) -> tuple[str, int | None]:
    provider = make_provider(config, name, StoreFacts(database))
    if isinstance(provider, str):
        return provider, None
    try:
        problem = await check_provider(provider, kind_of(name).check_s)
        if problem:
            return problem, None
        async with asyncio.timeout(COUNT_TIMEOUT_S):
            return "", await provider.count(scope)
    except (ProviderError, TimeoutError) as error:
        return str(error) or f"no answer within {COUNT_TIMEOUT_S:g} s", None
    finally:
        await provider.stop()


def _kept(connection: Connection) -> _Kept:
    health = _HEALTH.validate_python(json.loads(kv.get_value(connection, HEALTH) or "{}"))
    return _Kept(provider_view.waiting(connection), provider_view.mirrored(connection), health)


def _status(name: str, active: bool, problem: str, stored: int | None, kept: _Kept) -> ProviderStatus:
    rows, health = kept.waiting.get(name, Waiting()), kept.health.get(name)
    return ProviderStatus(
        name=name,
        active=active,
        problem=problem,
        stored=stored,
        mirrored=kept.mirrored.get(name, 0),
        waiting=rows.waiting,
        refused=rows.dead,
        not_erased=rows.left,
        failures=0 if health is None else health.failures,
        last_error=rows.error or ("" if health is None else health.reason),
    )
