"""`trunkline model`: what the endpoint has, whether it works, and models on this machine."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from trunkline.agent.openai_client import ToolMode
from trunkline.agent.openai_client_sdk import OPENAI_URL
from trunkline.agent.openai_client_setup import EndpointFailed, check_endpoint, list_models
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.first_run import config_after_set_up, someone_answers
from trunkline.gateway.cli.model_file import CONTEXT_TOKENS, model_file_served
from trunkline.gateway.cli.output import console, loaded_config, print_rows
from trunkline.gateway.config import Config
from trunkline.gateway.local_model import LocalModelFailed, probe_local_servers, serving
from trunkline.gateway.program import program
from trunkline.gateway.setup_interview import Interview
from trunkline.gateway.setup_local import try_small_model
from trunkline.gateway.setup_model import describe_failure

app = typer.Typer(
    help="List models, try a small local one, or serve a model file.",
    no_args_is_help=True,
    add_completion=False,
)

TOOL_WAYS = {
    ToolMode.NATIVE: "calls tools the API's own way",
    ToolMode.SCHEMA: "calls tools by JSON decisions",
    ToolMode.NONE: "can't call tools: it remembers and looks up nothing by itself",
}


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """The models of the endpoint that is set, and of servers that run on this machine."""
    config = loaded_config()
    rows = asyncio.run(_rows(config))
    print_rows(
        ("model", "at", "used"),
        rows,
        as_json=as_json,
        none=f"No model is set and no server runs here: run `{program()} setup`.",
    )


@app.command()
def probe() -> None:
    """Ask the model for a word, and find out how it calls tools."""
    asyncio.run(_probed(loaded_config()))


@app.command("try")
def try_small(
    yes: Annotated[bool, typer.Option("--yes", help="Get it without asking.")] = False,
) -> None:
    """Get a very small local model: good for trying the plumbing, not clever."""
    config = config_after_set_up(with_model=False)
    interview = Interview(config.home, console, someone_answers() and not yes)
    if not yes and not interview.may_ask:
        raise Failure("It is a download of some 130 MB: say so with --yes.", ExitCode.CONFIG)
    if not try_small_model(interview, agreed=yes):
        raise Failure("The model is as it was.", ExitCode.FAILED)
    asyncio.run(_probed(loaded_config()))
    console.print(
        f"Start with `{program()} run` (stop it first where it runs), or talk right here with "
        f"`{program()} chat`.",
        soft_wrap=True,
    )


@app.command()
def serve(
    file: Annotated[Path, typer.Argument(help="A model file (GGUF).")],
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    context_tokens: Annotated[int, typer.Option(min=1024)] = CONTEXT_TOKENS,
) -> None:
    """Serve a model file on this machine until stopped, for Trunkline and other programs."""
    try:
        asyncio.run(_served(file, port, context_tokens))
    except LocalModelFailed as failed:
        raise Failure(str(failed)) from failed
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _rows(config: Config) -> list[tuple[str, str, bool]]:
    rows = []
    used = {(endpoint.name, endpoint.base_url or OPENAI_URL) for endpoint in config.model_endpoints()}
    seen = {url for _, url in used}
    if config.model_endpoints():
        main = config.model_endpoints()[0]
        url = main.base_url or OPENAI_URL
        try:
            names = await list_models(url, main.api_key)
        except EndpointFailed as failed:
            raise Failure(describe_failure(failed.failure, url)) from failed
        rows += [(name, url) for name in names]
    for server in await probe_local_servers():
        if server.base_url not in seen:
            rows += [(name, server.base_url) for name in server.models]
    if config.model.file:
        rows.append((config.model.file.stem, str(config.model.file)))
        used.add((config.model.file.stem, str(config.model.file)))
    return [(name, at, (name, at) in used) for name, at in rows]


async def _probed(config: Config) -> None:
    async with model_file_served(config) as ready:
        endpoints = ready.model_endpoints()
        if not endpoints:
            raise Failure(f"No model is set: run `{program()} setup`.", ExitCode.CONFIG)
        main = endpoints[0]
        url = main.base_url or OPENAI_URL
        check = await check_endpoint(main.name, url, main.api_key)
    if not check.answers and check.failure is not None:
        raise Failure(describe_failure(check.failure, url))
    way = TOOL_WAYS[check.tools] if check.tools else "could not be asked for a tool call"
    console.print(f"{main.name} answers, and {way}.", markup=False, soft_wrap=True)


async def _served(file: Path, port: int, context_tokens: int) -> None:
    async with serving(file, port=port, context_tokens=context_tokens) as served:
        console.print(f"Serving {served.model} at {served.base_url} until you press Ctrl-C.", soft_wrap=True)
        console.print(
            f"To use it: {program()} setup --base-url {served.base_url} --model {served.model}",
            soft_wrap=True,
        )
        await asyncio.Event().wait()
