"""What of a session's skills its model has been told, as skills' index.dump_told words it."""

from sqlalchemy import Connection, select, update

from trunkline.gateway.state.schema import session


def load_told(connection: Connection, session_id: int) -> str:
    return str(connection.execute(select(session.c.skills).where(session.c.id == session_id)).scalar_one())


def put_told(connection: Connection, session_id: int, told: str) -> None:
    connection.execute(update(session).where(session.c.id == session_id).values(skills=told))
