"""Titles of sessions: set once they are clean, and different from every other title of the same scope."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, func, select, update

from trunkline.agent.memory.entries import preview
from trunkline.agent.scope import Scope
from trunkline.gateway.state.messages import VISIBLE, streams_of
from trunkline.gateway.state.schema import message, session, turn

TITLE_CHARS = 60


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, as they are stored."""

    asked: str
    answered: str


def clean_title(text: str) -> str:
    """A title as one line of at most TITLE_CHARS characters, cut between words where there are any."""
    visible = "".join(" " if unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs") else one for one in text)
    line = " ".join(visible.split())
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[: TITLE_CHARS - 1]
    words, _, _ = cut.rpartition(" ")
    return f"{words if len(words) > TITLE_CHARS // 2 else cut}…"


def set_title(
    connection: Connection, scope: Scope, public_id: str, title: str, *, replaces: bool = True
) -> str | None:
    """Gives a session of the scope a title and returns it; ` (2)` and so on follow one that is taken.

    None when the session is out of scope or private, nothing is left of the title, or one is there that it
    shall not replace.
    """
    streams = streams_of(connection, scope)
    wanted = clean_title(title)
    found = connection.execute(_open_to_titles(streams, public_id)).one_or_none()
    if not wanted or found is None or (found.title and not replaces):
        return None
    taken = connection.execute(
        select(session.c.title).where(
            session.c.stream_id.in_(streams), session.c.id != found.id, session.c.title != ""
        )
    ).scalars()
    free = _numbered(wanted, {one.casefold() for one in taken})
    connection.execute(update(session).where(session.c.id == found.id).values(title=free))
    return free


def first_words(connection: Connection, session_row: int, max_chars: int) -> str:
    """What a person said first in a session, on one line; for one that has no title."""
    query = select(message.c.content).where(
        message.c.session_id == session_row, message.c.role == "user", message.c.state == "live"
    )
    return preview(connection.execute(query.order_by(message.c.seq).limit(1)).scalar() or "", max_chars)


def first_exchange(connection: Connection, scope: Scope, public_id: str) -> Exchange | None:
    """What a title is made from; None when the session has one, is private, or is further on already."""
    found = connection.execute(_open_to_titles(streams_of(connection, scope), public_id)).one_or_none()
    if found is None or found.title:
        return None
    answered = select(func.count()).where(turn.c.session_id == found.id, turn.c.state == "done")
    if connection.execute(answered).scalar_one() != 1:
        return None
    rows = connection.execute(
        select(message.c.role, message.c.content)
        .where(
            message.c.session_id == found.id,
            message.c.role.in_(("user", "assistant")),
            message.c.state.in_(VISIBLE),
            message.c.content != "",
        )
        .order_by(message.c.seq)
    ).all()
    asked = next((row.content for row in rows if row.role == "user"), "")
    said = next((row.content for row in reversed(rows) if row.role == "assistant"), "")
    return Exchange(asked, said) if asked and said else None


def _open_to_titles(streams: Sequence[int], public_id: str) -> Select[int, str]:
    return select(session.c.id, session.c.title).where(
        session.c.public_id == public_id, session.c.stream_id.in_(streams), session.c.private.is_(False)
    )


def _numbered(title: str, taken: set[str]) -> str:
    if title.casefold() not in taken:
        return title
    bare = re.sub(r" \(\d+\)$", "", title)
    number = 2
    while f"{bare} ({number})".casefold() in taken:
        number += 1
    return f"{bare} ({number})"
