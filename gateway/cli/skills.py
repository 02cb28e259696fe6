"""`trunkline skills`: the shared skills, which only the operator changes, and with --as somebody's own."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.skills.curator import Curated
from trunkline.agent.skills.edits import Origin
from trunkline.agent.skills.folder import check_all_texts, read_folder
from trunkline.agent.skills.format import BadSkill
from trunkline.agent.skills.store import FileSkillStore, Owner, Shared, Shelf
from trunkline.gateway.app import open_house
from trunkline.gateway.cli.failure import Failure
from trunkline.gateway.cli.output import console, loaded_config, nobody, print_json, print_rows
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.state import people

app = typer.Typer(
    help="List, install, check and look after skills.", no_args_is_help=True, add_completion=False
)

Result = TypeVar("Result")
Person = Annotated[
    str | None, typer.Option("--as", help="Somebody's own skills. Without it: those shared by all.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Name = Annotated[str, typer.Argument(help="The skill's name.")]


@app.command("list")
def list_all(person: Person = None, as_json: Json = False) -> None:
    """Every skill, how often it was used, and what can't be used."""
    shelf, archived = _with_store(person, _listed)
    rows = [
        (
            skill.name,
            skill.place,
            skill.description,
            skill.record.made_by,
            skill.record.uses,
            ", ".join(
                word
                for word, holds in (("pinned", skill.record.pinned), ("stale", skill.record.stale))
                if holds
            ),
        )
        for skill in shelf.skills
    ]
    if as_json:
        columns = ("name", "place", "description", "made_by", "uses", "state")
        print_json(
            {
                "skills": [dict(zip(columns, row, strict=True)) for row in rows],
                "refused": [{"name": one.name, "reason": one.reason} for one in shelf.refused],
                "archived": archived,
            }
        )
        return
    print_rows(
        ("name", "place", "description", "made_by", "uses", "state"),
        rows,
        as_json=False,
        none="No skills yet.",
    )
    _print_refused(shelf)
    if archived:
        console.print(f"In the archive: {', '.join(archived)}", markup=False, highlight=False)


@app.command()
def show(
    name: Name,
    file: Annotated[
        str | None, typer.Option(help="A file of the skill, such as references/style.md.")
    ] = None,
    person: Person = None,
) -> None:
    """The text of a skill, or of one of its files."""
    page = _with_store(person, lambda store, owner: store.open(owner, name, file))
    console.print(page.text, markup=False, highlight=False, soft_wrap=True)
    for one in page.files if file is None else ():
        console.print(f"{one.path} ({one.bytes:,} bytes)", markup=False, highlight=False)


@app.command()
def install(
    folder: Annotated[Path, typer.Argument(help="A folder with a SKILL.md in it.")], person: Person = None
) -> None:
    """Copy a skill made elsewhere, if all of it may be used."""
    done = _with_store(person, lambda store, owner: store.install(owner, folder, now_ms()))
    console.print(f"Installed {done.name}.", markup=False, highlight=False)


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder with a SKILL.md in it. Without it: every skill.")
    ] = None,
    person: Person = None,
) -> None:
    """Say what is wrong with a skill before it is installed, or with those there are."""
    if folder is not None:
        try:
            found = read_folder(folder.resolve())
            check_all_texts(folder.resolve(), found)
        except BadSkill as error:
            raise Failure(f"{folder.name} can't be used: {error}") from error
        console.print(f"{found.head.name} can be used.", markup=False, highlight=False)
        return
    shelf, _ = _with_store(person, _listed)
    _print_refused(shelf)
    if shelf.refused:
        raise Failure(f"{len(shelf.refused)} of {len(shelf.refused) + len(shelf.skills)} can't be used.")
    console.print(f"All {len(shelf.skills)} can be used.", highlight=False)


@app.command()
def review(person: Person = None, as_json: Json = False) -> None:
    """What the weekly round would do now, and which skills of the assistant's own do the same."""
    found: Curated = _with_store(person, lambda store, owner: store.curate(owner, now_ms(), dry=True))
    if as_json:
        print_json({"stale": found.stale, "archived": found.archived, "overlaps": found.overlaps})
        return
    for heading, names in (
        ("Unused for 30 days, would be left out of the prompt", found.stale),
        ("Unused for 90 days, would be archived", found.archived),
        ("Do the same, could be one", [" + ".join(pair) for pair in found.overlaps]),
    ):
        if names:
            console.print(f"{heading}: {', '.join(names)}", markup=False, highlight=False)
    if found == Curated():
        console.print("Nothing to do. Skills that people wrote, installed or pinned are never touched.")


@app.command()
def archive(name: Name, person: Person = None) -> None:
    """Put a skill away; nothing is deleted."""
    _with_store(person, lambda store, owner: store.archive(owner, name, Origin("command", now_ms())))
    console.print(f"{name} is in the archive.", markup=False, highlight=False)


@app.command()
def restore(name: Name, person: Person = None) -> None:
    """Bring a skill back from the archive."""
    _with_store(person, lambda store, owner: store.restore(owner, name, now_ms()))
    console.print(f"{name} is back.", markup=False, highlight=False)


@app.command()
def pin(
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Take the pin away.")] = False,
    person: Person = None,
) -> None:
    """Keep the assistant from changing or archiving a skill."""
    _with_store(person, lambda store, owner: store.pin(owner, name, pinned=not off))
    console.print(f"{name} is {'no longer ' if off else ''}pinned.", markup=False, highlight=False)


async def _listed(store: FileSkillStore, owner: Owner) -> tuple[Shelf, tuple[str, ...]]:
    return await store.shelf(owner), await store.archived(owner)


def _with_store(person: str | None, work: Callable[[FileSkillStore, Owner], Awaitable[Result]]) -> Result:
    """Runs `work` on the skills of a person that there is, or on the shared ones."""
    config = loaded_config()

    async def run() -> Result:
        if person is None:
            return await work(FileSkillStore(config.home, frozenset(BY_NAME)), Shared())
        async with open_house(config) as house:
            if await house.database.read(lambda c: people.find_person(c, person)) is None:
                raise nobody(person)
            return await work(house.skills, PersonScope(PersonId(person)))

    try:
        return asyncio.run(run())
    except BadSkill as error:
        raise Failure(str(error)) from error


def _print_refused(shelf: Shelf) -> None:
    for one in shelf.refused:
        console.print(f"{one.name} can't be used: {one.reason}", markup=False, highlight=False)
