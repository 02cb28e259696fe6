"""Queries on home chats: where a person wants to hear what the assistant says of its own accord."""

from sqlalchemy import Connection, delete, insert, select

from trunkline.gateway.state.records import Account, SessionKey
from trunkline.gateway.state.schema import account, home


def choose(connection: Connection, owner: Account, key: SessionKey) -> None:
    """Makes the direct chat of this account its person's home. The account has a person."""
    assert owner.person is not None
    forget(connection, owner.person.id)
    connection.execute(
        insert(home).values(
            person_id=owner.person.id,
            account_id=owner.id,
            platform=key.platform,
            tenant=key.tenant,
            chat=key.chat,
            thread=key.thread,
        )
    )


def forget(connection: Connection, person_id: int) -> bool:
    """Ends the choice; false when there was none."""
    return connection.execute(delete(home).where(home.c.person_id == person_id)).rowcount > 0


def chosen(connection: Connection, person_id: int) -> SessionKey | None:
    """The chat chosen, as long as its account is that person's."""
    row = connection.execute(
        select(home.c.platform, home.c.tenant, home.c.chat, home.c.thread)
        .join(account, account.c.id == home.c.account_id)
        .where(home.c.person_id == person_id, account.c.person_id == person_id, ~account.c.blocked)
    ).first()
    return None if row is None else SessionKey(*row)
