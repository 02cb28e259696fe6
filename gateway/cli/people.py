"""`trunkline people`: who may talk to the assistant."""

import asyncio
from typing import Annotated

import typer
from sqlalchemy import Connection

from trunkline.gateway.app import open_house
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config, print_rows
from trunkline.gateway.clock import now_ms
from trunkline.gateway.identity import Approved, approve
from trunkline.gateway.state.codes import Refused
from trunkline.gateway.state.people import accounts_of, list_people
from trunkline.gateway.state.records import Account, Person

app = typer.Typer(help="List people, and let somebody in by their code.", no_args_is_help=True)


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Everybody, with their accounts."""

    def read(connection: Connection) -> list[tuple[Person, tuple[Account, ...]]]:
        return [(person, accounts_of(connection, person.id)) for person in list_people(connection)]

    async def people() -> list[tuple[Person, tuple[Account, ...]]]:
        async with open_house(config) as house:
            return await house.database.read(read)

    config = loaded_config()
    rows = (
        (person.slug, person.name, "suspended" if person.suspended else person.role, person.source,
         [_shown(account) for account in accounts])
        for person, accounts in asyncio.run(people())
    )  # fmt: skip
    print_rows(("person", "name", "role", "source", "accounts"), rows, as_json=as_json, none="Nobody yet.")


@app.command("approve")
def approve_code(code: str) -> None:
    """Let in whoever holds this code."""

    async def use() -> Approved | Refused:
        async with open_house(config) as house:
            return await house.database.write(
                lambda connection: approve(connection, code, now_ms(), typed_by=None)
            )

    config = loaded_config()
    outcome = asyncio.run(use())
    if isinstance(outcome, Refused):
        raise Failure(
            "That code isn't valid: it may be mistyped, used, or older than an hour."
            " Whoever it was for gets a new one by writing again.",
            ExitCode.NOT_FOUND,
        )
    console.print(
        f"{outcome.person.name or outcome.person.slug} may talk to the assistant now.", markup=False
    )


def _shown(account: Account) -> str:
    return "/".join(part for part in (account.platform, account.realm, account.user_id) if part)
