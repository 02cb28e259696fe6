"""Queries on what model calls used."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from trunkline.agent.messages import Usage
from trunkline.agent.scope import AccountId
from trunkline.gateway.state.schema import usage


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one purpose used together."""

    purpose: str
    calls: int
    tokens: Usage


def by_purpose(connection: Connection, accounts: Sequence[AccountId], since_ms: int) -> tuple[Spent, ...]:
    """What the accounts' calls used since a time, the most used purpose first."""
    prompt = func.sum(usage.c.prompt_tokens)
    rows = connection.execute(
        select(
            usage.c.purpose,
            func.count(),
            prompt,
            func.sum(usage.c.cached_tokens),
            func.sum(usage.c.completion_tokens),
        )
        .where(usage.c.account_id.in_(accounts), usage.c.created_ms >= since_ms)
        .group_by(usage.c.purpose)
        .order_by(prompt.desc(), usage.c.purpose)
    )
    return tuple(Spent(row[0], row[1], Usage(int(row[2]), int(row[3]), int(row[4]))) for row in rows)


def tokens(connection: Connection, accounts: Sequence[AccountId], since_ms: int) -> int:
    """Prompt and answer tokens of all the accounts' calls since a time."""
    spent = by_purpose(connection, accounts, since_ms)
    return sum(one.tokens.prompt_tokens + one.tokens.completion_tokens for one in spent)
