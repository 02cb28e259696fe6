"""`trunkline db`: the health, the size, copies and the search index of the database."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy.exc import SQLAlchemyError

from trunkline.gateway import backups
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config, print_json, print_rows
from trunkline.gateway.config import Config
from trunkline.gateway.program import program
from trunkline.gateway.state import checks, messages
from trunkline.gateway.state.checks import Check
from trunkline.gateway.state.database import Database, sqlite_file
from trunkline.gateway.state.migrate import DatabaseTooNew, migrate_now
from trunkline.gateway.state.mounts import network_kind

app = typer.Typer(
    help="Check, copy and measure the database; build its search index anew.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


@app.command()
def check(as_json: Json = False) -> None:
    """Look for damage, and compare the search index with the messages."""
    with opened_database(loaded_config(), migrated=False) as database:
        found = checks.check(database)
    if as_json:
        print_json([{"subject": one.subject, "fine": one.fine, "sentence": one.sentence} for one in found])
    else:
        for one in found:
            _print(one)
    wrong = sum(not one.fine for one in found)
    if wrong:
        raise Failure(f"{wrong} of {len(found)} checks found something.", ExitCode.FAILED)


@app.command()
def backup(
    target: Annotated[
        Path | None, typer.Argument(help="A new file; by default in backups/ of the home.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the database to one file while the assistant goes on, without private conversations."""
    config = loaded_config()
    is_ours = target is None
    if target is None:
        folder = config.home / backups.FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        target = folder / f"state-{datetime.now():%Y%m%d-%H%M%S}.db"  # noqa: DTZ005
    with opened_database(config) as database:
        if not database.is_sqlite:
            raise Failure("This database is a PostgreSQL: use pg_dump, which copies people's memory, too.")
        try:
            backups.make(database, target)
        except FileExistsError as error:
            raise Failure(f"{target} is there already; name a new file.") from error
        except OSError as error:
            raise Failure(f"{target} can't be written: {error.strerror}.") from error
    size_bytes = target.stat().st_size
    if as_json:
        print_json({"file": str(target), "bytes": size_bytes})
    else:
        console.print(f"Copied to {target} ({_sized(size_bytes)}).", markup=False, highlight=False)
        console.print("It holds the conversations, not the files beside it in the home folder.")
        if is_ours:
            console.print(f"The running assistant deletes it after {backups.KEPT_DAYS} days.")


@app.command()
def reindex(as_json: Json = False) -> None:
    """Build the search index anew from the messages."""
    with opened_database(loaded_config()) as database, _progress(aloud=not as_json) as progress:
        indexed = messages.reindex(database, progress)
    if as_json:
        print_json({"indexed": indexed})
    else:
        console.print(f"{indexed:,} messages are in the index.", highlight=False)


@app.command()
def stats(as_json: Json = False) -> None:
    """Show rows, bytes and the journal in force."""
    config = loaded_config()
    with opened_database(config) as database:
        found = database.read_now(checks.size)
        path = sqlite_file(config.database_url)
    log_bytes = sum(
        one.stat().st_size for one in (Path(f"{path}-wal"), Path(f"{path}-journal")) if one.exists()
    )
    mount = None if path is None else network_kind(path)
    if as_json:
        print_json(
            {
                "engine": found.engine,
                "journal_mode": found.journal,
                "network_mount": mount,
                "file_bytes": found.file_bytes,
                "free_bytes": found.free_bytes,
                "log_bytes": log_bytes,
                "rows": found.rows,
            }
        )
        return
    facts = [("engine", found.engine), ("size", _sized(found.file_bytes))]
    if path is not None:
        facts += [
            ("of it free", _sized(found.free_bytes)),
            ("log", _sized(log_bytes)),
            ("journal mode", found.journal + (f" (the folder is on a {mount} mount)" if mount else "")),
        ]
    print_rows(("what", "value"), facts, as_json=False)
    console.print()
    print_rows(("table", "rows"), [(name, f"{count:,}") for name, count in found.rows.items()], as_json=False)


@contextmanager
def opened_database(config: Config, *, migrated: bool = True) -> Iterator[Database]:
    """The database as it is, opened if there is one. What it raises becomes a sentence."""
    path = sqlite_file(config.database_url)
    if path is not None and not path.exists():
        raise Failure("There is no database yet: it is made at the first start.", ExitCode.NOT_FOUND)
    try:
        with Database(config.database_url) as database:
            if migrated:
                migrate_now(database)
            yield database
    except DatabaseTooNew as error:
        raise Failure(str(error)) from error
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise Failure(f"The database can't be used ({cause}); `{program()} db check` says more.") from error


@contextmanager
def _progress(*, aloud: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not (aloud and sys.stdout.isatty())) as bar:
        task = bar.add_task("indexing")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(one: Check) -> None:
    mark = "[green]ok[/]  " if one.fine else "[red]no[/]  "
    console.print(f"{mark}[bold]{one.subject:11}[/]{escape(one.sentence)}", highlight=False, soft_wrap=True)


def _sized(size_bytes: int) -> str:
    value, unit = float(size_bytes), "bytes"
    for larger in ("KB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
