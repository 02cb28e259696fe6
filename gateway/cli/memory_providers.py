"""`trunkline memory setup` and `trunkline memory status`: the external memory providers."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from trunkline.gateway.app import open_house
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.first_run import someone_answers
from trunkline.gateway.cli.output import (
    console,
    home_folder,
    loaded_config,
    person_scope,
    print_json,
    print_rows,
)
from trunkline.gateway.program import program
from trunkline.gateway.provider_setup import set_up_provider
from trunkline.gateway.provider_status import ProviderStatus, provider_statuses
from trunkline.gateway.setup_interview import Interview

COLUMNS = ("id", "works", "stored", "mirrored", "waiting", "note")


def setup(
    name: Annotated[str, typer.Argument(help="Which provider; without it you are asked.")] = "",
    key: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A secret of it.")] = None,
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take what flags and .env say.")] = False,
) -> None:
    """Set up an external memory provider: what to install, its keys, a test, the settings."""
    loaded_config()
    interview = Interview(home_folder(), console, may_ask=not yes and someone_answers())
    options = {name: _as_yaml(value) for name, value in _pairs(option or []).items()}
    if not set_up_provider(interview, name, _pairs(key or []), options):
        raise Failure("Nothing was saved.", ExitCode.FAILED)


def status(
    person: Annotated[
        str | None, typer.Option("--as", metavar="PERSON", help="Whose amount; the owner's by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Show the external memory providers: whether they work, how much they hold, what waits for them."""
    config = loaded_config()
    scope = person_scope(config, person)

    async def work() -> tuple[ProviderStatus, ...]:
        async with open_house(config) as house:
            return await provider_statuses(config, house.database, scope)

    found = asyncio.run(work())
    if as_json:
        print_json({"person": scope.person, "providers": [asdict(one) for one in found]})
        return
    none = f"No external memory provider is set up; `{program()} memory setup` does it."
    print_rows(COLUMNS, [_row(one) for one in found], as_json=False, none=none)


def _row(one: ProviderStatus) -> tuple[object, ...]:
    stored = "?" if one.stored is None else one.stored
    told = [one.problem or one.last_error]
    told += [f"{one.failures} failures since the start"] if one.failures else []
    told += [f"{one.refused} refused"] if one.refused else []
    told += [f"{one.not_erased} not erased"] if one.not_erased else []
    note = "; ".join(filter(None, told))
    return one.name, "no" if one.problem else "yes", stored, one.mirrored, one.waiting, note


def _pairs(given: list[str]) -> dict[str, str]:
    """Raises Failure for what is not NAME=VALUE; shows no value."""
    pairs = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise Failure("Give each as NAME=VALUE.", ExitCode.CONFIG)
        pairs[name] = value
    return pairs


def _as_yaml(value: str) -> object:
    """A setting's value as it would stand in the file: a number, true, a text."""
    try:
        return YAML(typ="safe").load(value)
    except YAMLError:
        return value
