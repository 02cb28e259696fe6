"""`trunkline run`: the assistant on every platform until it is stopped; set-up first when there was none."""

import asyncio
from typing import Annotated

import typer

from trunkline.gateway.app import serve
from trunkline.gateway.cli.first_run import config_after_set_up
from trunkline.gateway.cli.model_file import model_file_served
from trunkline.gateway.logs import configure_logs

app = typer.Typer(add_completion=False)


@app.command()
def run(
    web_host: Annotated[
        str, typer.Option(help="Where the web chat listens, instead of platforms.web.host.")
    ] = "",
) -> None:
    """Start the assistant on every platform that has a token, and the web chat."""
    config = config_after_set_up()
    if web_host:
        web = config.platforms.web.model_copy(update={"host": web_host})
        config = config.model_copy(update={"platforms": config.platforms.model_copy(update={"web": web})})
    configure_logs(config.logs.level, config.logs.format, config.secrets.values)
    raise typer.Exit(asyncio.run(serve(config, model_file_served)))
