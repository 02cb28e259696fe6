"""What the web page lists and shows of earlier conversations: those of its own person held on the page."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from heapq import merge
from operator import attrgetter

from sqlalchemy import Connection, Row, and_, select

from trunkline.adapters.web.conversations import Conversation, Said
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.state import beside_talk, deletion, files, fulltext, session_titles
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import account, message, session, stream

LISTED = 50
SHOWN_MESSAGES = 400
TITLE_CHARS = 60


class StoreConversations:
    """The web conversations of one person, by the person's slug; nobody else's are reachable.

    `mask` takes known secrets out of a title that is given.
    """

    def __init__(self, database: Database, mask: Callable[[str], str] = str) -> None:
        self._database = database
        self._mask = mask

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
                    title = row.title or session_titles.first_words(connection, row.id, TITLE_CHARS)
                    newest[row.thread] = Conversation(row.thread, title, _time(row.last_ms))
                if len(newest) == LISTED:
                    break
            return tuple(newest.values())

        return await self._database.read(read)

    async def rename(self, person: str, thread: str, title: str) -> bool:
        def write(connection: Connection) -> bool:
            ids = _sessions(connection, person, thread)
            scope = PersonScope(PersonId(person))
            return bool(ids) and (
                session_titles.set_title(connection, scope, ids[0], self._mask(title)) is not None
            )

        return await self._database.write(write)

    async def delete(self, person: str, thread: str) -> None:
        def write(connection: Connection) -> int:
            ids = _sessions(connection, person, thread)
            streams = deletion.own_streams(connection, PersonScope(PersonId(person)))
            beside_talk.forget(connection, person, thread)
            return sum(deletion.delete_session(connection, streams, one).sessions for one in ids)

        if await self._database.write(write):
            # What is deleted is overwritten where it lay; rewriting the whole file would hold everybody up.
            await self._database.write(fulltext.forget_removed)
            await self._database.empty_log()

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        def read(connection: Connection) -> tuple[Said, ...]:
            query = (
                select(message.c.id, message.c.role, message.c.content, message.c.created_ms)
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
            rows = connection.execute(query).all()
            sent = files.sent_with(connection, [row.id for row in rows])
            said = (_said(row, sent.get(row.id, ())) for row in reversed(rows))
            told = (
                Said(False, one.text, _time(one.sent_ms), id=one.message_id)
                for one in beside_talk.told(connection, person, thread)
            )
            return tuple(merge(said, told, key=attrgetter("at")))[-SHOWN_MESSAGES:]

        return await self._database.read(read)

    async def has_file(self, person: str, thread: str, sha256: str) -> bool:
        theirs = and_(account.c.platform == "web", account.c.user_id == person, session.c.thread == thread)
        return await self._database.read(lambda c: files.is_in_session(c, theirs, sha256))


def _sessions(connection: Connection, person: str, thread: str) -> Sequence[str]:
    """The public ids of what was one conversation on the page, newest first; private ones are not on it."""
    query = (
        select(session.c.public_id)
        .join(stream, session.c.stream_id == stream.c.id)
        .join(account, stream.c.account_id == account.c.id)
        .where(
            account.c.platform == "web",
            account.c.user_id == person,
            session.c.thread == thread,
            ~session.c.private,
        )
        .order_by(session.c.last_ms.desc())
    )
    return connection.execute(query).scalars().all()


def _said(row: Row[int, str, str, int], sent: tuple[tuple[str, str], ...]) -> Said:
    return Said(row.role == "user", row.content, _time(row.created_ms), sent)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
