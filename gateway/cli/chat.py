"""`trunkline chat`: a conversation in the terminal. Its log goes to a file, since the screen is taken."""

import asyncio
from typing import Annotated

import typer

from trunkline.agent.scope import PersonId
from trunkline.gateway.app import chat as chat_in_terminal
from trunkline.gateway.cli.first_run import config_after_set_up
from trunkline.gateway.cli.model_file import model_file_served
from trunkline.gateway.cli.output import person_scope
from trunkline.gateway.config import Config
from trunkline.gateway.logs import configure_logs

app = typer.Typer(add_completion=False)


@app.command()
def chat(
    person: Annotated[str | None, typer.Option("--as", metavar="PERSON", help="Who is talking.")] = None,
    conversation: Annotated[str, typer.Option(help="Which of the person's conversations.")] = "main",
) -> None:
    """Talk to the assistant in this terminal."""
    config = config_after_set_up()
    speaker = person_scope(config, person).person
    configure_logs(
        config.logs.level, config.logs.format, config.secrets.values, config.home / "logs" / "chat.log"
    )
    raise typer.Exit(asyncio.run(_talked(config, speaker, conversation)))


async def _talked(config: Config, speaker: PersonId, conversation: str) -> int:
    async with model_file_served(config) as ready:
        return await chat_in_terminal(ready, speaker, conversation)
