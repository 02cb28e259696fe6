"""Chats that can't be written to any more: nothing is sent there until somebody writes there again."""

from sqlalchemy import Connection

from trunkline.gateway.state import kv
from trunkline.gateway.state.records import OutboxRow


def mark(connection: Connection, row: OutboxRow, now_ms: int) -> None:
    """Keeps that a message's chat or thread could not be reached."""
    kv.put_value(connection, _key(row.platform, row.tenant, row.chat, row.thread), str(now_ms))


def is_marked(connection: Connection, row: OutboxRow) -> bool:
    return kv.get_value(connection, _key(row.platform, row.tenant, row.chat, row.thread)) is not None


def clear(connection: Connection, platform: str, tenant: str, chat: str, thread: str) -> None:
    """Something came from there: it can be tried again."""
    for place in dict.fromkeys((thread, "")):
        kv.remove_value(connection, _key(platform, tenant, chat, place))


def _key(platform: str, tenant: str, chat: str, thread: str) -> str:
    return f"gone.{platform}:{tenant}:{chat}:{thread}"
