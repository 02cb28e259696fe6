"""Queries on what model calls used."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from trunkline.agent.messages import Usage
from trunkline.agent.scope import AccountId
from trunkline.gateway.state.schema import usage


@dataclass(frozen=True, slots=True)
class Total:
    """Calls and tokens together."""

    calls: int
    tokens: Usage


def total(connection: Connection, accounts: Sequence[AccountId], since_ms: int) -> Total:
    """What the accounts' calls used since a time, for all purposes."""
    row = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(usage.c.prompt_tokens), 0),
            func.coalesce(func.sum(usage.c.cached_tokens), 0),
            func.coalesce(func.sum(usage.c.completion_tokens), 0),
        ).where(usage.c.account_id.in_(accounts), usage.c.created_ms >= since_ms)
    ).one()
    return Total(row[0], Usage(int(row[1]), int(row[2]), int(row[3])))
