"""Deletions that came before their message, as networks reorder: it is not taken in when it comes."""

from sqlalchemy import Connection, delete, insert, select

from trunkline.adapters.base import InboundMessage
from trunkline.gateway.state.schema import early_deletion

KEPT_MS = 3_600_000
MOST = 2_000


def keep(connection: Connection, deletion: InboundMessage, now_ms: int) -> None:
    """Keeps for an hour that a message is gone; beyond two thousand the oldest are forgotten."""
    where = {
        "platform": deletion.platform,
        "tenant": deletion.tenant,
        "key": _key(deletion.chat, deletion.edited_of),
    }
    is_this = [early_deletion.c[name] == value for name, value in where.items()]
    if connection.execute(select(early_deletion.c.key).where(*is_this)).first() is not None:
        return
    connection.execute(insert(early_deletion).values(**where, deleted_ms=now_ms))
    newest = select(early_deletion.c.deleted_ms).order_by(early_deletion.c.deleted_ms.desc())
    oldest_ms = connection.execute(newest.offset(MOST).limit(1)).scalar()
    since_ms = max(now_ms - KEPT_MS, oldest_ms or 0)
    connection.execute(delete(early_deletion).where(early_deletion.c.deleted_ms <= since_ms))


def is_deleted(connection: Connection, message: InboundMessage) -> bool:
    """Whether a message, or an edit of one, is of a message whose deletion was told already."""
    of = message.edited_of or message.message_id
    if of is None:
        return False
    query = select(early_deletion.c.key).where(
        early_deletion.c.platform == message.platform,
        early_deletion.c.tenant == message.tenant,
        early_deletion.c.key == _key(message.chat, of),
    )
    return connection.execute(query).first() is not None


def _key(chat: str, message_id: str | None) -> str:
    return f"m:{chat}:{message_id}"
