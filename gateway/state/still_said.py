"""Where a forgotten fact may go on being said: in reminders, and in conversations no longer the person's.

What waits to be delivered is the person's own wish and stays; the house tells them of it.
"""

from collections.abc import Collection

from sqlalchemy import Connection, delete, select

from trunkline.agent.scope import PersonScope
from trunkline.gateway.state import people, reminders
from trunkline.gateway.state.forgetting import Fact
from trunkline.gateway.state.schema import account, person, reminder


def settle_reminders(
    connection: Connection, scope: PersonScope, fact: Fact, sources: Collection[int]
) -> tuple[int, ...]:
    """Erases those that are over and repeat the fact; returns the numbers of those that wait.

    Of the latter also those that were made in a turn that saved it (`sources`).
    """
    theirs = {one.id: one for one in reminders.all_of(connection, scope)}
    made_by = select(reminder.c.id, reminder.c.call).where(reminder.c.id.in_(theirs))
    calls = {row.id: row.call for row in connection.execute(made_by)}
    saying = {number for number, one in theirs.items() if fact.is_said_in(one.text)}
    beside = {number for number in theirs if calls[number].partition("/")[0] in map(str, sources)}
    waiting = {number for number, one in theirs.items() if one.state == "waiting"}
    connection.execute(delete(reminder).where(reminder.c.id.in_(saying - waiting)))
    return tuple(sorted((saying | beside) & waiting))


def has_left_accounts(connection: Connection, scope: PersonScope) -> bool:
    """Whether an account was this person's once and is not now: what was said there is not theirs to change.

    Nothing is looked up in its conversations, which may hold what others said there.
    """
    once = [account_id for account_id, _ in people.accounts_left(connection, scope.person)]
    still = (
        select(account.c.id)
        .join(person, person.c.id == account.c.person_id)
        .where(account.c.id.in_(once), person.c.slug == scope.person)
    )
    return len(set(once)) > len(connection.execute(still).all())
