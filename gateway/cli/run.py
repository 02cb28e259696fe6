"""`trunkline run`: the assistant on every platform until it is stopped; set-up first when there was none."""

import asyncio

import typer

from trunkline.gateway.app import serve
from trunkline.gateway.cli.first_run import config_after_set_up
from trunkline.gateway.cli.model_file import model_file_served
from trunkline.gateway.logs import configure_logs

app = typer.Typer()


@app.command()
def run() -> None:
    """Start the assistant on every platform that has a token, and the web chat."""
    config = config_after_set_up()
    configure_logs(config.logs.level, config.logs.format, config.secrets.values)
    raise typer.Exit(asyncio.run(serve(config, model_file_served)))
