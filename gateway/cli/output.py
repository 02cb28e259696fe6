"""What the commands share: the settings, tables, and JSON for other programs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.owner import act_as_owner
from trunkline.gateway.config import Config, home, home_path, load_config
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.program import program

console = Console(soft_wrap=not sys.stdout.isatty())  # in a pipe a sentence stays on one line
Value = TypeVar("Value")


def home_folder() -> Path:
    """The home folder, made if missing; from here on root acts as its owner."""
    act_as_owner(home_path())
    return _or_exit(home)


def loaded_config() -> Config:
    folder = home_folder()
    return _or_exit(lambda: load_config(folder))


def person_scope(config: Config, person: str | None) -> PersonScope:
    """What `person` may see; the owner where nobody is named."""
    slug = person or config.owner
    if slug is None:
        raise Failure(
            f"There is no owner yet: run `{program()} setup`, or name somebody with --as.", ExitCode.CONFIG
        )
    return PersonScope(PersonId(slug))


def nobody(slug: str) -> Failure:
    """There is no such person."""
    return Failure(
        f"There is nobody called {slug}; `{program()} people list` shows who there is.", ExitCode.NOT_FOUND
    )


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    as_json: bool,
    none: str = "Nothing here yet.",
    out: Console = console,
) -> None:
    """A table, or with `as_json` a list of objects with the column names as keys.

    In a table an id stays on one line, so that it can be copied.
    """
    rows = list(rows)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    if not rows:
        out.print(none)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "id")
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    out.print(table, soft_wrap=False)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def local_time(moment: datetime, *, as_json: bool) -> str:
    return moment.isoformat() if as_json else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _or_exit(read: Callable[[], Value]) -> Value:
    try:
        return read()
    except ConfigError as error:
        raise Failure(f"The settings can't be used:\n{error}", ExitCode.CONFIG) from error
