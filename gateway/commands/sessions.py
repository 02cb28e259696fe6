"""The chat commands on one's conversations: list, take up again, name, search."""

from sqlalchemy import Connection

from trunkline.agent.memory.entries import preview
from trunkline.agent.ports import SearchFailed, SearchQuery, SessionCard
from trunkline.agent.scope import PersonScope
from trunkline.gateway.clock import now_ms, zone_of
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.sentences import say
from trunkline.gateway.state import resuming, session_titles, sessions, sessions_view
from trunkline.gateway.state.records import scope_of

LISTED = 10
FOUND = 5
LINES_OF_A_HIT = 2
SHOWN_CHARS = 160


async def list_sessions(context: CommandContext) -> str:
    scope = scope_of(context.account, context.room)

    def work(connection: Connection) -> tuple[tuple[SessionCard, ...], str]:
        current = sessions.find_open(connection, context.key)
        cards = sessions_view.list_sessions(connection, scope, LISTED)
        return cards, "" if current is None else current.public_id

    cards, current = await context.house.database.read(work)
    if not cards:
        return say("sessions_none", context.language)
    here = say("sessions_here", context.language)
    lines = (
        f"{number}. {_line(card, context)}{f' — {here}' if card.id == current else ''}"
        for number, card in enumerate(cards, 1)
    )
    return "\n".join(
        [say("sessions", context.language), "", *lines, "", say("sessions_resume", context.language)]
    )


async def resume(context: CommandContext) -> str:
    """Takes up one of the asker's direct sessions, of whatever platform, in the chat they write from."""
    scope = scope_of(context.account, context.room)
    words = context.argument.strip()
    if not words or not isinstance(scope, PersonScope):
        return say("resume_what", context.language)
    return await context.house.database.write(lambda c: _resume(c, context, scope, words))


def _resume(connection: Connection, context: CommandContext, scope: PersonScope, words: str) -> str:
    language = context.language
    chosen = _numbered(connection, scope, words) or resuming.find_by_title(connection, scope, words)
    if not chosen:
        return say("resume_none", language, what=preview(words, SHOWN_CHARS))
    if len(chosen) > 1:
        cards = (sessions_view.show_session(connection, scope, one) for one in chosen[:LISTED])
        listed = (f"- {_line(card, context)}" for card in cards if card is not None)
        return "\n".join([say("resume_which", language), "", *listed])
    card = sessions_view.show_session(connection, scope, chosen[0])
    found = resuming.resume(
        connection,
        scope,
        context.key,
        context.account.id,
        chosen[0],
        model=context.house.model,
        now_ms=now_ms(),
    )
    match found:
        case resuming.Resumed() if card is not None:
            return say("resumed", language, session=_line(card, context))
        case "room" | "here":
            return say(f"resume_{found}", language)
        case _:
            return say("resume_none", language, what=preview(words, SHOWN_CHARS))


def _numbered(connection: Connection, scope: PersonScope, words: str) -> tuple[str, ...]:
    """The session at that place in the list of /sessions."""
    if not (words.isascii() and words.isdecimal() and len(words) <= len(str(LISTED))):
        return ()
    cards = sessions_view.list_sessions(connection, scope, LISTED)
    place = int(words) - 1
    return (cards[place].id,) if 0 <= place < len(cards) else ()


async def name_session(context: CommandContext) -> str:
    """Names the conversation of this chat, or says its name."""
    scope = scope_of(context.account, context.room)
    words = context.house.mask(context.argument)

    def work(connection: Connection) -> str:
        current = sessions.find_open(connection, context.key)
        if current is None:
            return say("title_nothing", context.language)
        if not words.strip():
            key = "title_is" if current.title else "title_none"
            return say(key, context.language, title=current.title)
        given = session_titles.set_title(connection, scope, current.public_id, words)
        return say("title_nothing" if given is None else "title_set", context.language, title=given)

    return await context.house.database.write(work)


async def search(context: CommandContext) -> str:
    if not context.argument.strip():
        return say("search_what", context.language)
    try:
        found = await context.house.search.search(
            scope_of(context.account, context.room), SearchQuery(context.argument, limit=FOUND)
        )
    except SearchFailed:
        return say("search_failed", context.language)
    degraded = [say("search_degraded", context.language)] if found.degraded else []
    if not found.hits:
        return "\n\n".join(
            [say("search_none", context.language, query=preview(context.argument, SHOWN_CHARS)), *degraded]
        )
    parts = []
    for hit in found.hits:
        lines = [
            f"> {line.author}: {preview(line.text, SHOWN_CHARS)}" for line in hit.excerpt if line.matched
        ]
        parts.append("\n".join([f"**{_line(hit.card, context)}**", *lines[:LINES_OF_A_HIT]]))
    relaxed = [say("search_relaxed", context.language)] if found.relaxed else []
    return "\n\n".join([*parts, *relaxed, *degraded])


def _line(card: SessionCard, context: CommandContext) -> str:
    """Title, platform and day, the day in the asker's zone."""
    zone = zone_of(context.account.person)
    title = card.title or card.preview or "…"
    return f"{preview(title, SHOWN_CHARS)} ({card.platform}, {card.last.astimezone(zone):%Y-%m-%d})"
