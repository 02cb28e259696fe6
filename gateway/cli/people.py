"""`trunkline people`: who may talk to the assistant, which accounts are whose, and what is theirs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from sqlalchemy import Connection

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway import joining
from trunkline.gateway.app import OpenHouse, belongings, open_house
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config, nobody, print_json, print_rows
from trunkline.gateway.clock import now_ms
from trunkline.gateway.erasing import Erased, erase_person
from trunkline.gateway.exporting import export_person
from trunkline.gateway.identity import approve
from trunkline.gateway.program import program
from trunkline.gateway.roles import ROLE_ORDER
from trunkline.gateway.state import links
from trunkline.gateway.state.codes import Refused
from trunkline.gateway.state.people import (
    accounts_of,
    change_person,
    ensure_account,
    find_person,
    give_account,
    list_people,
    load_account,
)
from trunkline.gateway.state.records import Account, Person

app = typer.Typer(
    help="List people, let them in, link their accounts, export or delete what is theirs.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Slug = Annotated[str, typer.Argument(metavar="PERSON", help="As `trunkline people list` shows it.")]
Result = TypeVar("Result")

IN_CONFIG = "{slug} is set in config.yaml (`people`), which wins over the database: change it there."


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """Everybody, with their accounts."""

    def read(connection: Connection) -> list[tuple[Person, tuple[Account, ...]]]:
        return [(person, accounts_of(connection, person.id)) for person in list_people(connection)]

    found = _run(lambda house: house.database.read(read))
    rows = (
        (person.slug, person.name, _state(person), person.source, [_shown(account) for account in accounts])
        for person, accounts in found
    )
    print_rows(("person", "name", "role", "source", "accounts"), rows, as_json=as_json, none="Nobody yet.")


@app.command("show")
def show(slug: Slug, as_json: Json = False) -> None:
    """One person: role, accounts, and the names that were joined with theirs."""

    def read(connection: Connection) -> dict[str, object]:
        person = _known(connection, slug)
        owned = accounts_of(connection, person.id)
        return {
            "person": person.slug,
            "name": person.name,
            "role": _state(person),
            "source": person.source,
            "language": person.language,
            "timezone": person.timezone,
            "accounts": [
                {"account": _shown(one), "name": one.label, "source": one.source, "blocked": one.blocked}
                for one in owned
            ],
            "joined": list(links.former_slugs(connection, person.slug)),
        }

    found = _run(lambda house: house.database.read(read))
    if as_json:
        print_json(found)
        return
    accounts = found.pop("accounts")
    for name, value in found.items():
        if value:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            console.print(f"{name}: {shown}", markup=False)
    assert isinstance(accounts, list)
    rows = [tuple(one.values()) for one in accounts]
    print_rows(("account", "name", "source", "blocked"), rows, as_json=False, none="No accounts.")


@app.command("approve")
def approve_code(code: str) -> None:
    """Let in whoever holds this code."""
    outcome = _run(lambda house: house.database.write(lambda c: approve(c, code, now_ms(), typed_by=None)))
    if isinstance(outcome, Refused):
        raise Failure(
            "That code isn't valid: it may be mistyped, used, or older than an hour."
            " Whoever it was for gets a new one by writing again.",
            ExitCode.NOT_FOUND,
        )
    _tell(f"{outcome.person.name or outcome.person.slug} may talk to the assistant now.")


@app.command("link")
def link(
    slug: Slug,
    account: Annotated[str, typer.Argument(help="telegram/ID, discord/ID or slack/TEAM/ID.")],
) -> None:
    """Give an account to a person, whoever had it before; what was said there comes along."""
    place = _parsed(account)

    def work(connection: Connection) -> str:
        person = _known(connection, slug)
        found = ensure_account(connection, *place, label="", now_ms=now_ms())
        if found.source == "config":
            owner = slug if found.person is None else found.person.slug
            raise Failure(IN_CONFIG.format(slug=owner), ExitCode.CONFIG)
        give_account(connection, found.id, person.id, "link")
        return _shown(load_account(connection, found.id))

    shown = _run(lambda house: house.database.write(work))
    _tell(f"{shown} is {slug}'s now.")


@app.command("role")
def set_role(slug: Slug, role: Annotated[str, typer.Argument(help="admin, member or guest.")]) -> None:
    """Give a person a role."""
    if role not in ROLE_ORDER[:-1]:
        raise Failure(f"{role} is no role to give; there are {', '.join(ROLE_ORDER[:-1])}.")

    def work(connection: Connection) -> None:
        person = _changeable(connection, slug)
        change_person(connection, person.id, role=role)

    _run(lambda house: house.database.write(work))
    _tell(f"{slug} has the role {role} now.")


@app.command("remove")
def remove(
    slug: Slug,
    erase: Annotated[bool, typer.Option("--erase", help="Delete all that is theirs, for good.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Take a person's access away; what is theirs stays, unless --erase deletes it."""
    if not erase:
        _run(lambda house: house.database.write(lambda c: _suspend(c, slug)))
        _tell(f"{slug} gets no answer any more. `{program()} people role {slug} member` lets them in again.")
        return
    if not yes and not typer.confirm(f"Delete everything of {slug}, for good?"):
        raise Failure("Nothing was deleted.")

    async def work(house: OpenHouse) -> Erased:
        person = await house.database.read(lambda c: _known(c, slug))
        if person.role == "owner" and person.source != "config":
            raise Failure("There must be an owner; name another one in config.yaml first.")
        return await erase_person(
            house.database, house.memory, belongings(house), house.config.home, person, stop=lambda _: None
        )

    erased = _run(work)
    _tell(
        f"Everything of {slug} is deleted: entries of memory: {erased.entries:,}, "
        f"conversations: {erased.conversations:,}, messages: {erased.messages:,}."
    )
    if erased.keeps_entry:
        _tell("config.yaml still names them: take the entry out, too.")


@app.command("unmerge")
def unmerge(slug: Slug) -> None:
    """Part a person again who was joined with another one; the name is the joined one's."""
    parted = _run(lambda house: joining.part(house.database, house.memory, belongings(house), slug, None))
    if parted is None:
        raise Failure(f"Nobody called {slug} was joined with another person.", ExitCode.NOT_FOUND)
    _tell(f"{slug} is a person apart again." + (f" {parted.lost} entries were lost." if parted.lost else ""))


@app.command("export")
def export(slug: Slug, file: Annotated[Path, typer.Argument(help="A new ZIP file.")]) -> None:
    """Write a person's own copy: memory, conversations and skills, as JSON and Markdown."""

    async def work(house: OpenHouse) -> int:
        await house.database.read(lambda c: _known(c, slug))
        scope = PersonScope(PersonId(slug))
        return await export_person(house.database, house.memory, belongings(house), scope, file, house.files)

    try:
        conversations = _run(work)
    except FileExistsError as error:
        raise Failure(f"{file} is there already; name a new file.") from error
    except OSError as error:
        raise Failure(f"{file} can't be written: {error.strerror}.") from error
    _tell(f"{file}: memory and {conversations} conversations of {slug}.")


def _run(work: Callable[[OpenHouse], Awaitable[Result]]) -> Result:
    config = loaded_config()

    async def with_house() -> Result:
        async with open_house(config) as house:
            return await work(house)

    return asyncio.run(with_house())


def _known(connection: Connection, slug: str) -> Person:
    person = find_person(connection, slug)
    if person is None:
        raise nobody(slug)
    return person


def _changeable(connection: Connection, slug: str) -> Person:
    """A person whom the database decides about. Raises Failure for those of config.yaml and the owner."""
    person = _known(connection, slug)
    if person.source == "config":
        raise Failure(IN_CONFIG.format(slug=slug), ExitCode.CONFIG)
    if person.source == "joined":
        raise Failure(
            f"{slug} was joined with another person; `{program()} people unmerge {slug}` parts them."
        )
    if person.role == "owner":
        raise Failure("The owner's rights can't be changed; name another owner in config.yaml first.")
    change_person(connection, person.id, suspended=False)
    return person


def _suspend(connection: Connection, slug: str) -> None:
    person = _changeable(connection, slug)
    change_person(connection, person.id, suspended=True)


def _parsed(account: str) -> tuple[str, str, str]:
    match account.split("/"):
        case [("telegram" | "discord") as platform, user] if user.isdecimal():
            return platform, "", user
        case ["slack", team, user] if team and user:
            return "slack", team, user
        case _:
            raise Failure("Name the account as telegram/123, discord/456 or slack/T0AB12/U0CD34.")


def _state(person: Person) -> str:
    return "suspended" if person.suspended else person.role


def _shown(account: Account) -> str:
    return "/".join(part for part in (account.platform, account.realm, account.user_id) if part)


def _tell(sentence: str) -> None:
    console.print(sentence, markup=False)
