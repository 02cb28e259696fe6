"""`trunkline inbox`: messages that wait, and those that were set aside because they could not be answered."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from sqlalchemy import Connection

from trunkline.gateway.cli.db import opened_database
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config, local_time, print_rows
from trunkline.gateway.clock import now_ms
from trunkline.gateway.program import program
from trunkline.gateway.state import inbox_care

app = typer.Typer(
    help="List messages that wait or were set aside, try one again, drop it.",
    no_args_is_help=True,
    add_completion=False,
)

LISTED_MOST = 500
Ids = Annotated[list[int], typer.Argument(help="Numbers as `list` shows them.", min=1)]


@app.command("list")
def list_rows(
    waiting: Annotated[bool, typer.Option(help="Show those that wait or are being answered, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Messages that were set aside. What they say is not shown."""
    states = (*inbox_care.SET_ASIDE, *(inbox_care.OPEN if waiting else ()))
    with opened_database(loaded_config()) as database:
        found = database.read_now(lambda c: inbox_care.lines(c, states, LISTED_MOST))
    rows = (
        (
            line.id,
            line.platform,
            line.author,
            line.kind,
            line.state,
            line.reason,
            line.attempts,
            local_time(datetime.fromtimestamp(line.sent_ms / 1000, UTC), as_json=as_json),
        )
        for line in found
    )
    columns = ("id", "platform", "author", "kind", "state", "reason", "attempts", "sent")
    print_rows(columns, rows, as_json=as_json, none="Nothing was set aside.")


@app.command("retry")
def retry_rows(ids: Ids) -> None:
    """Let messages be answered after all; a running assistant takes them up within seconds."""
    _each(ids, inbox_care.retry, "waits again")


@app.command("drop")
def drop_rows(ids: Ids) -> None:
    """Give messages up for good; what they said is forgotten."""
    _each(ids, lambda c, row_id: inbox_care.drop(c, row_id, now_ms()), "is dropped")


def _each(ids: Sequence[int], change: Callable[[Connection, int], bool], outcome: str) -> None:
    missing = []
    with opened_database(loaded_config()) as database:
        for row_id in ids:
            if database.write_now(lambda c, row_id=row_id: change(c, row_id)):  # type: ignore[misc]
                console.print(f"Message {row_id} {outcome}.", markup=False)
            else:
                missing.append(str(row_id))
    if missing:
        raise Failure(
            f"No message was set aside under {', '.join(missing)}: see `{program()} inbox list`.",
            ExitCode.NOT_FOUND,
        )
