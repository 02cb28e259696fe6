"""`trunkline sessions`: past conversations of one person, as that person may see them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.markup import escape
from rich.progress import track
from sqlalchemy import Connection

from trunkline.agent.ports import SearchFailed, SearchOutcome, SearchQuery, SessionView
from trunkline.gateway.app import OpenHouse, open_house
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import (
    console,
    loaded_config,
    local_time,
    person_scope,
    print_json,
    print_rows,
)
from trunkline.gateway.cli.sessions_export import write_export
from trunkline.gateway.config import Config
from trunkline.gateway.file_sweep import sweep_dropped
from trunkline.gateway.program import program
from trunkline.gateway.secrets import mask_secrets
from trunkline.gateway.state import deletion, session_titles, sessions_view
from trunkline.gateway.state.deletion import Deleted
from trunkline.gateway.state.messages import streams_of

app = typer.Typer(
    help="List, show, search, export and delete past conversations.",
    no_args_is_help=True,
    add_completion=False,
)

As = Annotated[str | None, typer.Option("--as", metavar="PERSON", help="Whose; the owner's by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
Value = TypeVar("Value")

SHOWN_CHARS = 100_000
ID_PART_CHARS = 6


@app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20,
    platform: Annotated[str | None, typer.Option(help="Only this platform's.")] = None,
    person: As = None,
    as_json: Json = False,
) -> None:
    """Newest first."""
    config = loaded_config()
    scope = person_scope(config, person)
    cards = _read(config, lambda c: sessions_view.list_sessions(c, scope, limit, platform))
    print_rows(
        ("id", "last", "platform", "messages", "title"),
        (
            (card.id, local_time(card.last, as_json=as_json), card.platform, card.message_count,
             card.title or card.preview)
            for card in cards
        ),
        as_json=as_json,
        none="No conversations yet.",
    )  # fmt: skip


@app.command()
def show(session: str, person: As = None, as_json: Json = False) -> None:
    """Print one conversation, named by its id or by six or more signs of the id's beginning or end."""

    async def read(house: OpenHouse) -> SessionView | None:
        known = await house.database.read(lambda c: sessions_view.session_ids(c, scope))
        return await house.search.read(scope, _whole_id(session, known), SHOWN_CHARS)

    config = loaded_config()
    scope = person_scope(config, person)
    view = _in_house(config, read)
    if view is None:
        raise _unknown(session, scope.person)
    if as_json:
        lines = [
            {"id": line.id, "role": line.role, "author": line.author, "time": line.created.isoformat(),
             "text": line.text}
            for line in view.lines
        ]  # fmt: skip
        print_json({"id": view.card.id, "title": view.card.title, "omitted": view.omitted, "lines": lines})
        return
    console.print(f"[bold]{escape(view.card.title or view.card.preview)}[/]  {view.card.platform}")
    for line in view.lines:
        when = local_time(line.created, as_json=False)
        console.print(f"\n[dim]{when}[/] [bold]{escape(line.author or line.role)}[/]")
        console.print(line.text, markup=False, highlight=False)
    if view.omitted:
        console.print(f"\n[dim]{view.omitted} messages left out.[/]")


@app.command()
def search(
    query: str,
    limit: Annotated[int, typer.Option(min=1, max=10)] = 5,
    person: As = None,
    as_json: Json = False,
) -> None:
    """Find conversations by what was said."""

    async def find(house: OpenHouse) -> SearchOutcome:
        return await house.search.search(scope, SearchQuery(query, limit=limit))

    config = loaded_config()
    scope = person_scope(config, person)
    try:
        outcome = _in_house(config, find)
    except SearchFailed as error:
        raise Failure(f"The search could not be carried out; `{program()} doctor` may know why.") from error
    rows = (
        (hit.card.id, local_time(hit.card.last, as_json=as_json), hit.card.platform,
         hit.card.title, next((line.text for line in hit.excerpt if line.matched), hit.card.preview))
        for hit in outcome.hits
    )  # fmt: skip
    print_rows(
        ("id", "last", "platform", "title", "excerpt"), rows, as_json=as_json, none="Nothing was found."
    )
    if outcome.relaxed:
        typer.echo("Not all of the words were found together.", err=True)
    if outcome.degraded:
        typer.echo(f"The search index lacks messages; `{program()} db reindex` mends it.", err=True)


@app.command()
def export(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Ids; all that the person may see if none.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Text for people, not JSON.")] = False,
    output: Annotated[Path | None, typer.Option(help="A new file, in place of the screen.")] = None,
    person: As = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, which is the default.")] = False,
) -> None:
    """Write whole conversations, with nothing cut, as JSON or Markdown."""
    if markdown and as_json:
        raise Failure("Choose one of --json and --markdown.", ExitCode.CONFIG)
    config = loaded_config()
    scope = person_scope(config, person)

    async def work(house: OpenHouse) -> int:
        known = await house.database.read(lambda c: sessions_view.session_ids(c, scope))
        for one in sessions or ():
            if one not in known:
                raise _unknown(one, scope.person)
        return write_export(house.database, scope, sessions or known, output, markdown=markdown)

    count = _in_house(config, work)
    if output is not None:
        console.print(
            f"{count} conversation{'s are' if count != 1 else ' is'} in {output}.",
            markup=False,
            highlight=False,
        )


@app.command()
def rename(session: str, title: str, person: As = None, as_json: Json = False) -> None:
    """Give a conversation another title."""
    config = loaded_config()
    scope = person_scope(config, person)
    masked = mask_secrets(title, config.secrets.values)
    if not session_titles.clean_title(masked):
        raise Failure("A title needs at least one letter.")
    given = _write(config, lambda c: session_titles.set_title(c, scope, session, masked))
    if given is None:
        raise _unknown(session, scope.person)
    if as_json:
        print_json({"id": session, "title": given})
    else:
        console.print(f"It is called “{given}” now.", markup=False, highlight=False)


@app.command()
def delete(sessions: list[str], person: As = None, yes: Yes = False, as_json: Json = False) -> None:
    """Delete conversations for good, a room's for everybody in it."""
    config = loaded_config()
    scope = person_scope(config, person)
    known = _read(config, lambda c: {one: sessions_view.show_session(c, scope, one) for one in sessions})
    for one, card in known.items():
        if card is None:
            raise _unknown(one, scope.person)
    _confirm(f"Delete {len(known)} conversations for good?", yes=yes)
    gone = _in_house(config, lambda house: _delete(house, lambda c: streams_of(c, scope), list(known)))
    _report(gone, as_json=as_json)


@app.command()
def prune(
    older_than: Annotated[
        int | None,
        typer.Option(min=1, metavar="DAYS", help="Without it, sessions.keep_days of the settings."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--everyone", help="All people's, and the rooms'.")] = False,
    person: As = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete a person's direct conversations that have long been silent."""
    config = loaded_config()
    days = older_than or config.sessions.keep_days
    if days is None:
        raise Failure("Say how old: --older-than DAYS, or set sessions.keep_days.", ExitCode.CONFIG)
    before_ms = int((datetime.now(UTC) - timedelta(days=days)).timestamp() * 1000)
    scope = None if everyone else person_scope(config, person)

    def streams(connection: Connection) -> tuple[int, ...]:
        if scope is None:
            return deletion.every_stream(connection)
        return deletion.own_streams(connection, scope)

    old = _read(config, lambda c: deletion.sessions_before(c, streams(c), before_ms))
    if old:
        _confirm(f"Delete {len(old)} conversations silent for {days} days, for good?", yes=yes)
    gone = _in_house(config, lambda house: _delete(house, streams, old))
    _report(gone, as_json=as_json)


@app.command()
def stats(person: As = None, as_json: Json = False) -> None:
    """Count conversations, messages and tokens."""
    config = loaded_config()
    scope = person_scope(config, person)
    found = _read(config, lambda c: sessions_view.figures(c, scope))
    times = {
        name: None if moment is None else local_time(moment, as_json=as_json)
        for name, moment in (("first", found.first), ("last", found.last))
    }
    counts = {
        "sessions": found.sessions,
        "messages": found.messages,
        "prompt_tokens": found.prompt_tokens,
        "cached_tokens": found.cached_tokens,
        "completion_tokens": found.completion_tokens,
    }
    if as_json:
        print_json({"person": scope.person, **counts, **times})
        return
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in counts.items()]
    rows += [(name, shown) for name, shown in times.items() if shown is not None]
    print_rows(("what", "value"), rows, as_json=False)


async def _delete(
    house: OpenHouse, streams: Callable[[Connection], Sequence[int]], chosen: Sequence[str]
) -> Deleted:
    """One conversation at a time, so that chats go on meanwhile; then the file is rewritten once."""
    sessions, messages = 0, 0
    for one in track(chosen, "deleting", console=console, transient=True, disable=not console.is_terminal):
        gone = await house.database.write(lambda c, one=one: deletion.delete_session(c, streams(c), one))  # type: ignore[misc]
        sessions, messages = sessions + gone.sessions, messages + gone.messages
    if sessions:
        await deletion.leave_no_trace(house.database)
        await sweep_dropped(house.database, house.files)
    return Deleted(sessions, messages)


def _report(gone: Deleted, *, as_json: bool) -> None:
    if as_json:
        print_json({"sessions": gone.sessions, "messages": gone.messages})
    else:
        console.print(f"Deleted: {gone.sessions} conversations, {gone.messages} messages.", highlight=False)


def _confirm(question: str, *, yes: bool) -> None:
    if not yes and not typer.confirm(question, default=False, err=True):
        raise Failure("Nothing was deleted.")


def _whole_id(given: str, known: Sequence[str]) -> str:
    """The id that `given` is the beginning or end of; as it was given where none is."""
    if given in known or len(given) < ID_PART_CHARS:
        return given
    meant = [one for one in known if one.startswith(given) or one.endswith(given)]
    if len(meant) > 1:
        raise Failure(f"{given} may be any of {len(meant)} conversations: give more of the id.")
    return meant[0] if meant else given


def _unknown(session: str, person: str) -> Failure:
    return Failure(f"There is no conversation {session} of {person}.", ExitCode.NOT_FOUND)


def _read(config: Config, work: Callable[[Connection], Value]) -> Value:
    return _in_house(config, lambda house: house.database.read(work))


def _write(config: Config, work: Callable[[Connection], Value]) -> Value:
    return _in_house(config, lambda house: house.database.write(work))


def _in_house(config: Config, work: Callable[[OpenHouse], Awaitable[Value]]) -> Value:
    async def opened() -> Value:
        async with open_house(config) as house:
            return await work(house)

    return asyncio.run(opened())
