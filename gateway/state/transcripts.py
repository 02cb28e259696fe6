"""Reads sessions back for people and models: cards, lines, stretches. Undone and redacted text never appears.

Everything takes the streams of a scope; a session outside of them reads like one that does not exist.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, literal, or_, select, union_all

from trunkline.agent.ports import SessionCard, SessionView, TranscriptLine
from trunkline.agent.stream_text import FROM
from trunkline.gateway.state.analyser import fold, storable
from trunkline.gateway.state.messages import VISIBLE
from trunkline.gateway.state.schema import account, message, person, session
from trunkline.gateway.state.tool_calls import tool_calls_from_json

PREVIEW_CHARS = 160
LINE_CHARS = 4000
TOOL_LINE_CHARS = 600
CALL_CHARS = 300
PAGE_MESSAGES = 400
MAX_WINDOW = 100

# Nobody but the house writes such a line.
_NUMBERED = re.compile(rf'^{FROM}(?:[^"\\\n]|\\.)*" (#\d+)⟧$', re.MULTILINE)

# How far `context` looks around a match, in messages.
CONTEXT_REACH = 400


def browse(
    connection: Connection,
    streams: Sequence[int],
    limit: int,
    platform: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[SessionCard, ...]:
    """The sessions with the newest messages, newest first; those that went on within limits of time."""
    query = _sessions(streams).where(session.c.message_count > 0)
    if platform is not None:
        query = query.where(session.c.platform == storable(platform))
    if since is not None:
        query = query.where(session.c.last_ms >= int(since.timestamp() * 1000))
    if until is not None:
        query = query.where(session.c.started_ms < int(until.timestamp() * 1000))
    rows = connection.execute(query.order_by(session.c.last_ms.desc(), session.c.id.desc()).limit(limit))
    return tuple(card(connection, row) for row in rows.all())


def find_session(connection: Connection, streams: Sequence[int], public_id: str) -> Row[Any] | None:
    named = session.c.public_id == storable(public_id)
    return connection.execute(_sessions(streams).where(named)).one_or_none()


def sessions_by_row(
    connection: Connection, streams: Sequence[int], ids: Iterable[int]
) -> dict[int, Row[Any]]:
    rows = connection.execute(_BY_ROW, {"streams": streams, "ids": list(ids)})
    return {row.id: row for row in rows}


def card(connection: Connection, row: Row[Any], opening: Sequence[TranscriptLine] = ()) -> SessionCard:
    """The card of a session's row, with its first words of a person as the preview.

    They are read unless `opening`, the session's first lines, holds them.
    """
    words = next((one.text for one in opening if one.role == "user"), None)
    if words is None:
        first = connection.execute(_FIRST_WORDS, {"session_row": row.id}).one_or_none()
        words = "" if first is None else first.content
    preview = shorten(" ".join(words.split()), PREVIEW_CHARS)
    return SessionCard(
        row.public_id,
        row.title,
        row.platform,
        when(row.started_ms),
        when(row.last_ms),
        row.message_count,
        preview,
    )


def read(connection: Connection, row: Row[Any], max_chars: int) -> SessionView:
    """The start and the end of a session, half of `max_chars` each; all of it where it fits."""
    size = connection.execute(select(func.count()).select_from(_visible(row.id).subquery())).scalar_one()
    head = list(connection.execute(_visible(row.id).order_by(message.c.seq).limit(PAGE_MESSAGES)))
    tail = list(connection.execute(_visible(row.id).order_by(message.c.seq.desc()).limit(PAGE_MESSAGES)))
    lines = _fitting([line(one) for one in head], max_chars)
    if len(lines) < size:
        lines = _fitting([line(one) for one in head], max_chars // 2)
        known = {one.id for one in lines}
        used = sum(len(one.text) for one in lines)
        rest = _fitting([line(one) for one in tail if one.id not in known], max_chars - used)
        lines.extend(reversed(rest))
    return SessionView(card(connection, row), tuple(lines), size - len(lines))


def around(connection: Connection, row: Row[Any], message_id: int, window: int) -> SessionView | None:
    """`window` messages (at most MAX_WINDOW) on each side of one; None when the session doesn't have it."""
    if not 0 < message_id < 1 << 63:
        return None
    centre = connection.execute(_visible(row.id).where(message.c.id == message_id)).one_or_none()
    if centre is None:
        return None
    width = max(0, min(window, MAX_WINDOW))
    before = connection.execute(
        _visible(row.id).where(message.c.seq < centre.seq).order_by(message.c.seq.desc()).limit(width)
    ).all()
    after = connection.execute(
        _visible(row.id).where(message.c.seq > centre.seq).order_by(message.c.seq).limit(width)
    ).all()
    size = connection.execute(select(func.count()).select_from(_visible(row.id).subquery())).scalar_one()
    lines = [line(one) for one in reversed(before)]
    lines.append(line(centre, matched=True))
    lines.extend(line(one) for one in after)
    return SessionView(card(connection, row), tuple(lines), size - len(lines))


def context(connection: Connection, row: Row[Any], message_ids: Sequence[int], max_chars: int) -> str:
    """A transcript as text, the messages nearest to the given ones first, in order, gaps marked by `[…]`."""
    centres = connection.execute(
        select(message.c.seq).where(message.c.session_id == row.id, message.c.id.in_(list(message_ids)))
    ).scalars()
    at = sorted(centres) or [1]
    rows = connection.execute(
        _visible(row.id)
        .where(message.c.seq.between(at[0] - CONTEXT_REACH, at[-1] + CONTEXT_REACH))
        .order_by(message.c.seq)
        .limit(PAGE_MESSAGES * 10)
    ).all()
    nearest = sorted(rows, key=lambda one: min(abs(one.seq - seq) for seq in at))
    chosen: dict[int, str] = {}
    used = 0
    for one in nearest:
        shown = line(one)
        written = f"[{shown.created.isoformat(timespec='seconds')}] {shown.author}: {shown.text}"
        written = shorten(written, max(0, max_chars - used - 8))
        if not written or (chosen and used + len(written) + 8 > max_chars):
            break
        chosen[one.seq] = written
        used += len(written) + 8
    return "\n".join(_with_gaps(chosen))[:max_chars]


def exchanges(
    connection: Connection, row: Row[Any], max_chars: int
) -> tuple[tuple[TranscriptLine, ...], tuple[TranscriptLine, ...]]:
    """The first and the last question and answer of a session, each line cut to `max_chars`."""
    rows = sorted(connection.execute(_ENDS, {"session_row": row.id}).all(), key=lambda one: one.seq)
    first = [line(one, max_chars=max_chars) for one in rows if not one.is_last]
    last = [line(one, max_chars=max_chars) for one in rows if one.is_last]
    return tuple(first), tuple(last)


def every_row(connection: Connection, row: Row[Any]) -> Iterator[Row[Any]]:
    """The messages of a session that may be shown, in order, a page at a time, with their authors' names."""
    after = -1
    while page := connection.execute(
        _visible(row.id).where(message.c.seq > after).order_by(message.c.seq).limit(PAGE_MESSAGES)
    ).all():
        yield from page
        after = page[-1].seq


def lines_at(
    connection: Connection, row: Row[Any], seqs: Iterable[int], *, only_compacted: bool = False
) -> list[Row[Any]]:
    """The messages of a session at these places, in order."""
    rows = connection.execute(_LINES_AT, {"session_row": row.id, "seqs": sorted(seqs)}).all()
    return [one for one in rows if one.state == "compacted" or not only_compacted]


def line(
    row: Row[Any], *, matched: bool = False, max_chars: int = LINE_CHARS, surfaces: Sequence[str] = ()
) -> TranscriptLine:
    """One message as it may be shown, cut to `max_chars` around the first of the `surfaces`."""
    author = author_of(row)
    if row.role == "tool":
        max_chars = min(max_chars, TOOL_LINE_CHARS)
    calls = [
        f"[{call.name} {shorten(call.arguments, CALL_CHARS)}]"
        for call in tool_calls_from_json(row.tool_calls)
    ]
    shown = " ".join(part for part in (row.content, *calls) if part)
    return TranscriptLine(
        row.id, row.role, author, excerpt(shown, surfaces, max_chars), when(row.created_ms), matched
    )


def author_of(row: Row[Any]) -> str:
    """Whose words a message is, by the name that is shown; with the number that told namesakes apart."""
    if row.role == "tool":
        return row.tool_name or "tool"
    if row.role == "assistant":
        return row.label or "assistant"
    name = row.label or row.name or "user"
    numbered = _NUMBERED.search(row.sent or "")
    return f"{name} {numbered[1]}" if numbered is not None else name


def excerpt(text: str, surfaces: Sequence[str], max_chars: int) -> str:
    """At most `max_chars` of a text, around the first place where one of the folded surfaces stands."""
    if len(text) <= max_chars:
        return text
    folded = fold(text)
    places = [place for place in (folded.find(surface) for surface in surfaces) if place >= 0]
    start = max(0, min(places, default=0) - max_chars // 3)
    # Folding may change lengths; the place is then a little off, which the margin bears.
    start = min(start, len(text) - max_chars)
    before, after = ("…" if start else ""), ("…" if start + max_chars < len(text) else "")
    return f"{before}{text[start + len(before) : start + max_chars - len(after)]}{after}"


def shorten(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max(0, max_chars - 1)] + "…"


def when(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _sessions(streams: Sequence[int]) -> Select[Any]:
    return _SESSIONS.params(streams=streams)


def _visible(session_row_id: int) -> Select[Any]:
    return _VISIBLE.params(session_row=session_row_id)


# Made once: building a statement costs more than running it. The wide columns are left out.
_SESSIONS = select(*(column for column in session.c if column.name != "snapshot")).where(
    session.c.stream_id.in_(bindparam("streams", expanding=True)), session.c.private.is_(False)
)
_BY_ROW = _SESSIONS.where(session.c.id.in_(bindparam("ids", expanding=True)))
_VISIBLE = (
    select(message, account.c.label, person.c.name)
    .outerjoin(account, account.c.id == message.c.account_id)
    .outerjoin(person, person.c.id == account.c.person_id)
    .where(
        message.c.session_id == bindparam("session_row", type_=message.c.session_id.type),
        message.c.state.in_(VISIBLE),
        or_(message.c.content != "", message.c.tool_calls.is_not(None)),
    )
)
_SPOKEN = _VISIBLE.where(message.c.role != "tool", message.c.content != "")
_FIRST_WORDS = _VISIBLE.where(message.c.role == "user").order_by(message.c.seq).limit(1)
_FIRST_LINES = _SPOKEN.add_columns(literal(0).label("is_last")).order_by(message.c.seq).limit(2)
_LAST_LINES = _SPOKEN.add_columns(literal(1).label("is_last")).order_by(message.c.seq.desc()).limit(2)
_ENDS = union_all(select(_FIRST_LINES.subquery()), select(_LAST_LINES.subquery()))
_LINES_AT = _VISIBLE.where(message.c.seq.in_(bindparam("seqs", expanding=True))).order_by(message.c.seq)


def _fitting(lines: Sequence[TranscriptLine], max_chars: int) -> list[TranscriptLine]:
    """The first lines that fit together."""
    fitting: list[TranscriptLine] = []
    for one in lines:
        max_chars -= len(one.text)
        if max_chars < 0:
            break
        fitting.append(one)
    return fitting


def _with_gaps(by_seq: dict[int, str]) -> list[str]:
    written: list[str] = []
    previous: int | None = None
    for seq in sorted(by_seq):
        if previous is not None and seq != previous + 1:
            written.append("[…]")
        written.append(by_seq[seq])
        previous = seq
    return written
