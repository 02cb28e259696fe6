"""`trunkline sessions`: past conversations of one person, as that person may see them."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from trunkline.agent.ports import SearchFailed, SearchOutcome, SearchQuery, SessionCard, SessionView
from trunkline.gateway.app import open_house
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import (
    console,
    loaded_config,
    local_time,
    person_scope,
    print_json,
    print_rows,
)

app = typer.Typer(help="List, show and search past conversations.", no_args_is_help=True)

As = Annotated[str | None, typer.Option("--as", metavar="PERSON", help="Whose; the owner's by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]

SHOWN_CHARS = 100_000


@app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 20, person: As = None, as_json: Json = False
) -> None:
    """Newest first."""

    async def browse() -> tuple[SessionCard, ...]:
        async with open_house(config) as house:
            return await house.search.browse(scope, limit)

    config = loaded_config()
    scope = person_scope(config, person)
    cards = asyncio.run(browse())
    print_rows(
        ("id", "last", "platform", "messages", "title"),
        (
            (card.id, local_time(card.last, as_json=as_json), card.platform, str(card.message_count),
             card.title or card.preview)
            for card in cards
        ),
        as_json=as_json,
        none="No conversations yet.",
    )  # fmt: skip


@app.command()
def show(session: str, person: As = None, as_json: Json = False) -> None:
    """Print one conversation."""

    async def read() -> SessionView | None:
        async with open_house(config) as house:
            return await house.search.read(scope, session, SHOWN_CHARS)

    config = loaded_config()
    scope = person_scope(config, person)
    view = asyncio.run(read())
    if view is None:
        raise Failure(f"There is no conversation {session} of {scope.person}.", ExitCode.NOT_FOUND)
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

    async def find() -> SearchOutcome:
        async with open_house(config) as house:
            return await house.search.search(scope, SearchQuery(query, limit=limit))

    config = loaded_config()
    scope = person_scope(config, person)
    try:
        outcome = asyncio.run(find())
    except SearchFailed as error:
        raise Failure("The search could not be carried out; `trunkline doctor` may know why.") from error
    rows = (
        (hit.card.id, local_time(hit.card.last, as_json=as_json), hit.card.platform,
         next((line.text for line in hit.excerpt if line.matched), hit.card.preview))
        for hit in outcome.hits
    )  # fmt: skip
    print_rows(("id", "last", "platform", "excerpt"), rows, as_json=as_json, none="Nothing was found.")
