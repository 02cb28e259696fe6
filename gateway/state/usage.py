"""Queries on what model calls used, and what that cost at the prices that the settings give."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, or_, select

from trunkline.agent.messages import Usage
from trunkline.agent.scope import AccountId
from trunkline.gateway.settings import Price
from trunkline.gateway.state.kv import get_value, put_value
from trunkline.gateway.state.schema import usage

PRICES = "usage.prices"


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of one purpose used together; the cost in millionths of a US dollar."""

    purpose: str
    calls: int
    tokens: Usage
    cost_micros: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """Prompt and answer tokens, and what they cost in millionths of a US dollar."""

    tokens: int
    cost_micros: int


def keep_prices(connection: Connection, prices: Mapping[str, Price]) -> None:
    """What calls cost from now on, where every part that counts calls finds it."""
    stored = {model: price.model_dump() for model, price in prices.items()}
    put_value(connection, PRICES, json.dumps(stored))


def cost_micros(connection: Connection, model: str, tokens: Usage) -> int:
    """What a call of this model costs; 0 where no price is set."""
    price = _price(connection, model)
    if price is None:
        return 0
    fresh = max(tokens.prompt_tokens - tokens.cached_tokens, 0)
    cached = price.prompt if price.cached is None else price.cached
    # A price is in dollars for a million tokens: one token costs so many millionths of a dollar.
    return round(
        fresh * price.prompt + tokens.cached_tokens * cached + tokens.completion_tokens * price.completion
    )


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
            func.sum(usage.c.cost_micros),
        )
        .where(usage.c.account_id.in_(accounts), usage.c.created_ms >= since_ms)
        .group_by(usage.c.purpose)
        .order_by(prompt.desc(), usage.c.purpose)
    )
    return tuple(
        Spent(row[0], row[1], Usage(int(row[2]), int(row[3]), int(row[4])), int(row[5])) for row in rows
    )


def of_accounts(
    connection: Connection, accounts: Sequence[AccountId], since_ms: int, *, without_rooms: Collection[int]
) -> Sum:
    """What a person's calls used since a time, but for rooms that pay themselves."""
    elsewhere = or_(usage.c.room_id.is_(None), usage.c.room_id.not_in(without_rooms))
    return _sum(connection, usage.c.account_id.in_(accounts), elsewhere, usage.c.created_ms >= since_ms)


def of_room(connection: Connection, room_id: int, since_ms: int) -> Sum:
    return _sum(connection, usage.c.room_id == room_id, usage.c.created_ms >= since_ms)


def _sum(connection: Connection, *where: ColumnElement[bool]) -> Sum:
    tokens = func.coalesce(func.sum(usage.c.prompt_tokens + usage.c.completion_tokens), 0)
    cost = func.coalesce(func.sum(usage.c.cost_micros), 0)
    row = connection.execute(select(tokens, cost).where(*where)).one()
    return Sum(int(row[0]), int(row[1]))


def _price(connection: Connection, model: str) -> Price | None:
    stored = json.loads(get_value(connection, PRICES) or "{}").get(model)
    return None if stored is None else Price.model_validate(stored)
