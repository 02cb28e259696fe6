"""What a person or a room may use in a day, and whether it is used up. The day is the person's own."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from trunkline.gateway.clock import zone_of
from trunkline.gateway.moved_rooms import entry_of
from trunkline.gateway.settings import Budget, FileSettings
from trunkline.gateway.state import people, usage
from trunkline.gateway.state.records import Account, Person, Room
from trunkline.gateway.state.usage import Sum


@dataclass(frozen=True, slots=True)
class Today:
    """What was used since the day began at `since_ms`, and what may be. `room`: it is the room that pays."""

    used: Sum
    budget: Budget
    since_ms: int
    room: Room | None = None

    @property
    def is_spent(self) -> bool:
        tokens, cost = self.budget.daily_tokens, self.budget.daily_cost
        return (tokens is not None and self.used.tokens >= tokens) or (
            cost is not None and self.used.cost_micros >= cost * 1_000_000
        )


def look(
    connection: Connection,
    account: Account,
    room: Room | None,
    settings: FileSettings,
    stamp_ms: int,
    *,
    count_always: bool = False,
) -> Today:
    """A room with a budget pays for all that is asked in it; everywhere else the asker does.

    Where there is no budget nothing is counted unless `count_always`.
    """
    if room is not None:
        entry = entry_of(connection, settings, room.platform, room.realm, room.chat)
        if entry.is_set:
            since_ms = day_began_ms(None, stamp_ms)
            return Today(usage.of_room(connection, room.id, since_ms), entry, since_ms, room)
    person = account.person
    since_ms, budget = day_began_ms(person, stamp_ms), budget_of(person, settings)
    if not (budget.is_set or count_always):
        return Today(Sum(0, 0), budget, since_ms)
    ids = [account.id]
    if person is not None:
        ids = [one.id for one in people.accounts_of(connection, person.id)]
    paying = [ref for ref, entry in settings.room_refs.items() if entry.is_set]
    rooms = people.room_ids(connection, [(ref.platform, ref.realm, ref.chat) for ref in paying])
    return Today(usage.of_accounts(connection, ids, since_ms, without_rooms=rooms), budget, since_ms)


def notice_of(today: Today, account: Account) -> tuple[str, str]:
    """The source, the same all day, and the key of the sentence that the day's share is used up."""
    if today.room is not None:
        return f"b:r{today.room.id}:{today.since_ms}", "room_budget_spent"
    return f"b:{account.id}:{today.since_ms}", "budget_spent"


def budget_of(person: Person | None, settings: FileSettings) -> Budget:
    """The person's own in config.yaml, else that of their role; the owner has none unless it is set."""
    entry = None if person is None else settings.people.get(person.slug)
    if entry is not None and entry.is_set:
        return entry
    access = settings.access
    if person is None or person.role == "guest":
        return Budget(daily_tokens=access.guest_daily_tokens, daily_cost=access.guest_daily_cost)
    if person.role == "owner":
        return Budget()
    return Budget(daily_tokens=access.daily_tokens, daily_cost=access.daily_cost)


def day_began_ms(person: Person | None, stamp_ms: int) -> int:
    """Midnight in the person's time zone, else in this machine's."""
    now = datetime.fromtimestamp(stamp_ms / 1000, zone_of(person))
    return int(now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
