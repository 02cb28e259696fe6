"""The command `trunkline`. Each command is a module here, loaded when it is used, so that help is quick."""

import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trunkline.gateway.cli.failure import ExitCode, Failure

COMMANDS = {
    "setup": "Answer a few questions; may be run again at any time.",
    "run": "Start the assistant on every platform that has a token, and the web chat.",
    "chat": "Talk to the assistant in this terminal.",
    "sessions": "List, show, search, export and delete past conversations.",
    "memory": "Show, edit, export and import what the assistant remembers of a person.",
    "skills": "List, install, check and look after skills.",
    "mcp": "List the tool servers of the settings, and check that they answer.",
    "people": "List people, let them in, link their accounts, export or delete what is theirs.",
    "model": "List models, try a small local one, or serve a model file.",
    "inbox": "List messages that wait or were set aside, try one again, drop it.",
    "db": "Check, copy and measure the database; build its search index anew.",
    "doctor": "Check the settings, the tokens, the model and the web chat's port.",
    "version": "Show the version.",
}


class _CommandsByName(TyperGroup):
    """Lists the commands from the table above, and loads the module of the one that was asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = typer.main.get_command(import_module(f"trunkline.gateway.cli.{name}").app)
        return name, command, rest


def _listed() -> None:
    """Stands in the list of commands for one whose module isn't loaded."""


app = typer.Typer(
    cls=_CommandsByName,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        import_module("trunkline.gateway.cli.version").show()
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """One assistant on every chat platform, with one memory of each person."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_listed)


def _if_loaded(module: str, name: str) -> Any:
    """An error of a module that a command has loaded, which help never does."""
    loaded = sys.modules.get(module)
    return () if loaded is None else getattr(loaded, name)


def main() -> None:
    os.umask(0o077)  # what people said is for the owner of the home folder only
    # The first process of a container has no default action: a stop while it starts would be lost.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except Failure as failure:
        print(failure, file=sys.stderr)  # noqa: T201
        sys.exit(failure.exit_code)
    except _if_loaded("trunkline.gateway.config_faults", "ConfigError") as error:
        print(f"The settings can't be used:\n{error}", file=sys.stderr)  # noqa: T201
        sys.exit(ExitCode.CONFIG)
    except _if_loaded("trunkline.gateway.state.ready", "Unusable") as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(ExitCode.FAILED if error.may_pass else ExitCode.CONFIG)
