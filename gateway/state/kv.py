"""Small facts of the install, by key. What a key means belongs to the module that owns it."""

from sqlalchemy import Connection, delete, insert, select, update

from trunkline.gateway.state.schema import kv


def get_value(connection: Connection, key: str) -> str | None:
    return connection.execute(select(kv.c.value).where(kv.c.key == key)).scalar_one_or_none()


def put_value(connection: Connection, key: str, value: str) -> None:
    changed = connection.execute(update(kv).where(kv.c.key == key).values(value=value)).rowcount
    if not changed:
        connection.execute(insert(kv).values(key=key, value=value))


def remove_value(connection: Connection, key: str) -> None:
    connection.execute(delete(kv).where(kv.c.key == key))
