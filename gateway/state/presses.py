"""What the database knows of the thing that a pressed button stands under."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from trunkline.agent.scope import AccountId
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import account, session, turn


@dataclass(frozen=True, slots=True)
class PressedTurn:
    """The turn of an answer. `is_latest`: nothing was asked in its conversation since."""

    key: SessionKey
    account: AccountId
    person: int | None
    is_running: bool
    is_latest: bool


def find_turn(connection: Connection, turn_id: int) -> PressedTurn | None:
    latest = (
        select(func.max(turn.c.id))
        .where(turn.c.session_id == session.c.id)
        .correlate(session)
        .scalar_subquery()
    )
    row = connection.execute(
        select(
            session.c.platform,
            session.c.tenant,
            session.c.chat,
            session.c.thread,
            session.c.member,
            session.c.ended_ms,
            turn.c.state,
            turn.c.account_id,
            account.c.person_id,
            latest.label("latest"),
        )
        .join(session, turn.c.session_id == session.c.id)
        .join(account, turn.c.account_id == account.c.id)
        .where(turn.c.id == turn_id)
    ).first()
    if row is None:
        return None
    return PressedTurn(
        SessionKey(row.platform, row.tenant, row.chat, row.thread, row.member),
        AccountId(row.account_id),
        row.person_id,
        is_running=row.state == "running",
        is_latest=row.latest == turn_id and row.ended_ms is None,
    )
