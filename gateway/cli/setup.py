"""`trunkline setup`: the flags of the interview."""

from typing import Annotated

import typer

from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.first_run import someone_answers
from trunkline.gateway.cli.output import home_folder, loaded_config
from trunkline.gateway.program import program
from trunkline.gateway.setup import Answers, set_up
from trunkline.gateway.setup_model import ModelAnswers

app = typer.Typer(add_completion=False)


@app.command()
def setup(
    owner: Annotated[str, typer.Option(help="Your name, in any script.")] = "",
    language: Annotated[str, typer.Option(help="Your language, such as en or zh-CN.")] = "",
    preset: Annotated[str, typer.Option(help="openai, openrouter, ollama, lmstudio, llamacpp or vllm.")] = "",
    base_url: Annotated[str, typer.Option(help="Any other OpenAI-compatible address.")] = "",
    model: Annotated[str, typer.Option(help="The model's name at that address.")] = "",
    api_key: Annotated[str, typer.Option(help="Its key; OPENAI_API_KEY in the environment does too.")] = "",
    telegram_token: Annotated[str, typer.Option(help="From @BotFather.")] = "",
    discord_token: Annotated[str, typer.Option(help="From the developer portal.")] = "",
    slack_bot_token: Annotated[str, typer.Option(help="xoxb-…")] = "",
    slack_app_token: Annotated[str, typer.Option(help="xapp-…")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; keep what can't be known empty.")] = False,
) -> None:
    """Answer a few questions; may be run again at any time."""
    folder = home_folder()
    loaded_config()
    answers = Answers(
        owner=owner,
        language=language,
        telegram_token=telegram_token,
        discord_token=discord_token,
        slack_bot_token=slack_bot_token,
        slack_app_token=slack_app_token,
        model=ModelAnswers(preset=preset, base_url=base_url, name=model, api_key=api_key),
    )
    may_ask = not yes and someone_answers()
    problems = set_up(folder, answers, may_ask=may_ask)
    if problems:
        raise Failure(f"Not saved: {len(problems)} of the answers above.", ExitCode.FAILED)
    typer.echo(f"Start it with `{program()} run`, or talk right here with `{program()} chat`.")
