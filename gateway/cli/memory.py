"""`trunkline memory`: what the assistant remembers of one person."""

import asyncio
from typing import Annotated

import typer

from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.gateway.app import open_house
from trunkline.gateway.cli.failure import Failure
from trunkline.gateway.cli.output import console, loaded_config, person_scope, print_json

app = typer.Typer(help="Show what the assistant remembers of a person.", no_args_is_help=True)


@app.callback()
def memory() -> None:
    """Show what the assistant remembers of a person."""


@app.command()
def show(
    person: Annotated[
        str | None, typer.Option("--as", metavar="PERSON", help="Whose; the owner's by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Print both stores of a person."""

    async def read() -> MemorySnapshot:
        async with open_house(config) as house:
            return await house.memory.read(scope)

    config = loaded_config()
    scope = person_scope(config, person)
    snapshot = asyncio.run(read())
    if as_json:
        print_json({"person": scope.person, "user": snapshot.user, "memory": snapshot.memory})
    else:
        _print_store(f"About {scope.person} (USER.md)", snapshot.user)
        _print_store("The assistant's notes (MEMORY.md)", snapshot.memory)
    if snapshot.unreadable:
        raise Failure(f"Can't be read: {', '.join(snapshot.unreadable)}. Is the file UTF-8 text, and yours?")


def _print_store(heading: str, entries: tuple[str, ...]) -> None:
    console.print(f"[bold]{heading}[/]")
    for entry in entries:
        console.print(f"- {entry}", markup=False, highlight=False)
    if not entries:
        console.print("Nothing yet.")
