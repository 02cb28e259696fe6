"""`trunkline memory`: what the assistant remembers of one person, to see, edit, take away and bring in."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from trunkline.agent.memory.entries import join_entries, normalise, parse_entries
from trunkline.agent.memory.files import FILE_NAMES, MemoryFolders, make_folder
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, Outcome, Unchanged, Written
from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.ports import JournalEntry, Target, WriteOrigin
from trunkline.agent.scope import PersonScope
from trunkline.gateway.app import OpenHouse, open_house
from trunkline.gateway.cli import memory_providers
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config, nobody, person_scope, print_json
from trunkline.gateway.config import editor_command
from trunkline.gateway.memory_control import ORDER, changes_of, exported
from trunkline.gateway.state import people

app = typer.Typer(
    help="Show, edit, export and import what the assistant remembers of a person.",
    no_args_is_help=True,
    add_completion=False,
)

app.command("setup")(memory_providers.setup)
app.command("status")(memory_providers.status)

Person = Annotated[str | None, typer.Option("--as", metavar="PERSON", help="Whose; the owner's by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
STORES: dict[str, Target] = {"user": "user", "notes": "memory", "memory": "memory"}

Result = TypeVar("Result")


class Import(BaseModel):
    """The file that `export` writes; more of it may be there."""

    model_config = ConfigDict(extra="ignore", strict=True)

    user: list[str] = []
    memory: list[str] = []


@app.callback()
def memory() -> None:
    """Show, edit, export and import what the assistant remembers of a person."""


@app.command()
def show(person: Person = None, as_json: Json = False) -> None:
    """Print both stores of a person."""
    scope, snapshot = _with_house(person, _read)
    if as_json:
        print_json({"person": scope.person, "user": snapshot.user, "memory": snapshot.memory})
    else:
        _print_store(f"About {scope.person} (USER.md)", snapshot.user)
        _print_store("The assistant's notes (MEMORY.md)", snapshot.memory)
    _refuse_unreadable(snapshot)


@app.command()
def edit(
    store: Annotated[str, typer.Argument(help="user or notes.")] = "user",
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Change a store in your editor ($VISUAL or $EDITOR); what is saved meanwhile is kept."""
    target = STORES.get(store)
    if target is None:
        raise Failure(f"There is no store called {store}: it is user or notes.", ExitCode.NOT_FOUND)

    async def work(house: OpenHouse, scope: PersonScope) -> tuple[Outcome, Path]:
        known = await house.memory.read(scope)
        _refuse_unreadable(known, target)
        before = known.entries_of(target)
        draft = _new_draft(MemoryFolders(house.config.home).path_of(scope, target), join_entries(before))
        # The editor has the terminal, and the assistant goes on writing: no lock is held meanwhile.
        await asyncio.to_thread(_open_editor, draft)
        after = _read_draft(draft)
        if before and not after:
            raise Failure("The text came back empty, so nothing was changed: `/memory forget` is for that.")
        operations = _operations(before, after)
        if not operations:
            return Unchanged(target, "Nothing changed.", before), draft
        origin = WriteOrigin("command", "terminal")
        return await house.memory.apply(scope, target, operations, origin), draft

    _, (outcome, draft) = _with_house(person, work)
    if isinstance(outcome, Failed):
        raise Failure(f"Nothing was changed: {outcome.error}\nYour text is kept in {draft}.")
    draft.unlink()
    _report(target, outcome, as_json=as_json)


@app.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; without it to standard output.")] = None,
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Write both stores as JSON, which `import` reads."""
    _, snapshot = _with_house(person, _read)
    _refuse_unreadable(snapshot)
    text = exported(snapshot) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file} can't be written: {error.strerror}.") from error
    counts = {"user": len(snapshot.user), "memory": len(snapshot.memory)}
    if as_json:
        print_json({"file": str(file), **counts})
    else:
        console.print(f"Wrote {_entries(sum(counts.values()))} to {file}.", markup=False, highlight=False)


@app.command("import")
def import_entries(
    file: Annotated[Path, typer.Argument(help="A file that `export` wrote; - is standard input.")],
    person: Person = None,
    as_json: Json = False,
) -> None:
    """Add the entries of a file to both stores: each store takes all of its entries or none."""
    wanted = _read_import(file)

    async def work(house: OpenHouse, scope: PersonScope) -> list[tuple[Target, Outcome]]:
        outcomes: list[tuple[Target, Outcome]] = []
        for target in ORDER:
            entries = wanted.user if target == "user" else wanted.memory
            if entries:
                operations = [Operation("add", entry) for entry in entries]
                origin = WriteOrigin("import", "terminal")
                outcomes.append((target, await house.memory.apply(scope, target, operations, origin)))
        return outcomes

    _, outcomes = _with_house(person, work)
    added = {target: _added(outcome) for target, outcome in outcomes}
    if as_json:
        print_json({"user": added.get("user", 0), "memory": added.get("memory", 0)})
    else:
        for target, outcome in outcomes:
            if not isinstance(outcome, Failed):
                console.print(f"{FILE_NAMES[target]}: {_entries(added[target], 'new ')}.", highlight=False)
    refused = [(target, outcome.error) for target, outcome in outcomes if isinstance(outcome, Failed)]
    if refused:
        raise Failure(
            "\n".join(f"{FILE_NAMES[target]}: nothing was imported. {error}" for target, error in refused)
        )


def _with_house(
    person: str | None, work: Callable[[OpenHouse, PersonScope], Awaitable[Result]]
) -> tuple[PersonScope, Result]:
    """Runs `work` on the open stores, for a person that there is."""
    config = loaded_config()
    scope = person_scope(config, person)

    async def run() -> Result:
        async with open_house(config) as house:
            if await house.database.read(lambda c: people.find_person(c, scope.person)) is None:
                raise nobody(scope.person)
            return await work(house, scope)

    return scope, asyncio.run(run())


async def _read(house: OpenHouse, scope: PersonScope) -> MemorySnapshot:
    return await house.memory.read(scope)


def _refuse_unreadable(snapshot: MemorySnapshot, *wanted: Target) -> None:
    broken = [FILE_NAMES[target] for target in snapshot.unreadable if not wanted or target in wanted]
    if broken:
        raise Failure(f"Can't be read: {', '.join(broken)}. Is the file UTF-8 text, and yours?")


def _new_draft(path: Path, text: str) -> Path:
    """A store's text in the person's folder for editing; a text that was refused before stays as it is.

    Its name is a backup's, so that it goes when a fact is forgotten.
    """
    make_folder(path.parent)
    for number in count(1):
        draft = path.with_name(f"{path.name}.bak-edit{number}.md")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return draft
    raise AssertionError("count ends never")


def _open_editor(draft: Path) -> None:
    editor = editor_command()
    try:
        done = subprocess.run((*shlex.split(editor), str(draft)), check=False)
    except (OSError, ValueError) as error:
        draft.unlink()
        raise Failure(f"The editor {editor} can't be started; name another one in EDITOR.") from error
    if done.returncode != 0:
        raise Failure(
            f"The editor ended with {done.returncode}, so nothing was changed. Your text is kept in {draft}."
        )


def _read_draft(draft: Path) -> tuple[str, ...]:
    try:
        return parse_entries(draft.read_text(encoding="utf-8")).entries
    except FileNotFoundError as error:
        raise Failure(f"{draft} is gone, so nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise Failure(f"Nothing was changed: the text is not UTF-8. It is kept in {draft}.") from error


def _operations(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[Operation, ...]:
    """What was done to the entries in the editor; what changes in the store meanwhile stays as it is."""
    kept = {normalise(entry) for entry in after}
    operations = []
    for change in changes_of(JournalEntry("user", "edit", before, after)):
        moved = change.old is not None and normalise(change.old) in kept
        match change.old, change.new:
            case str(old), str(new) if not moved or normalise(old) == normalise(new):
                operations.append(Operation("replace", new, old))
            case str(old), None if not moved:
                operations.append(Operation("remove", old_text=old))
            case _, str(new):
                operations.append(Operation("add", new))
            case _:
                continue
    return tuple(operations)


def _read_import(file: Path) -> Import:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return Import.model_validate_json(text)
    except OSError as error:
        raise Failure(f"{file} can't be read: {error.strerror}.", ExitCode.NOT_FOUND) from error
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is not UTF-8 text; nothing was imported.") from error
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise Failure(
            f"{file} is not a memory export; nothing was imported. In {place}: {fault['msg']}."
        ) from error


def _added(outcome: Outcome) -> int:
    return len(outcome.after) - len(outcome.before) if isinstance(outcome, Written) else 0


def _report(target: Target, outcome: Outcome, *, as_json: bool) -> None:
    changed = not isinstance(outcome, Unchanged)
    if as_json:
        print_json({"store": target, "changed": changed})
    else:
        console.print(f"{FILE_NAMES[target]} {'changed' if changed else 'is unchanged'}.", highlight=False)


def _print_store(heading: str, entries: tuple[str, ...]) -> None:
    console.print(f"[bold]{heading}[/]")
    for entry in entries:
        console.print(f"- {entry}", markup=False, highlight=False)
    if not entries:
        console.print("Nothing yet.")


def _entries(count: int, kind: str = "") -> str:
    return f"{count} {kind}{'entry' if count == 1 else 'entries'}"
