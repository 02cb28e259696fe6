"""What the web page lists and shows of earlier conversations: those of its own person held on the page."""

from datetime import UTC, datetime

from sqlalchemy import Connection, Row, select

from trunkline.adapters.web.conversations import Conversation, Said
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import account, message, session, stream

LISTED = 50
SHOWN_MESSAGES = 400
TITLE_CHARS = 60


class StoreConversations:
    """Reads the web conversations of one person, by the person's slug; nobody else's are reachable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, person: str) -> tuple[Conversation, ...]:
        def read(connection: Connection) -> tuple[Conversation, ...]:
            query = (
                select(session.c.thread, session.c.title, session.c.last_ms, session.c.id)
                .join(stream, session.c.stream_id == stream.c.id)
                .join(account, stream.c.account_id == account.c.id)
                .where(account.c.platform == "web", account.c.user_id == person, ~session.c.private)
                .order_by(session.c.last_ms.desc())
            )
            newest: dict[str, Conversation] = {}
            for row in connection.execute(query):
                if row.thread not in newest:
                    title = row.title or _first_words(connection, row.id)
                    newest[row.thread] = Conversation(row.thread, title, _time(row.last_ms))
                if len(newest) == LISTED:
                    break
            return tuple(newest.values())

        return await self._database.read(read)

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        def read(connection: Connection) -> tuple[Said, ...]:
            query = (
                select(message.c.role, message.c.content, message.c.created_ms)
                .join(session, message.c.session_id == session.c.id)
                .join(stream, session.c.stream_id == stream.c.id)
                .join(account, stream.c.account_id == account.c.id)
                .where(
                    account.c.platform == "web",
                    account.c.user_id == person,
                    session.c.thread == thread,
                    ~session.c.private,
                    message.c.role.in_(("user", "assistant")),
                    message.c.state.in_(("live", "compacted")),
                    message.c.content != "",
                )
                .order_by(message.c.id.desc())
                .limit(SHOWN_MESSAGES)
            )
            return tuple(reversed([_said(row) for row in connection.execute(query)]))

        return await self._database.read(read)


def _first_words(connection: Connection, session_id: int) -> str:
    query = (
        select(message.c.content)
        .where(message.c.session_id == session_id, message.c.role == "user", message.c.state == "live")
        .order_by(message.c.seq)
        .limit(1)
    )
    words = " ".join((connection.execute(query).scalar() or "").split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"


def _said(row: Row[str, str, int]) -> Said:
    return Said(by_person=row.role == "user", text=row.content, at=_time(row.created_ms))


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
