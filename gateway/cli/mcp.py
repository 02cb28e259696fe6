"""`trunkline mcp`: the tool servers of the settings, and whether they answer."""

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.output import console, loaded_config
from trunkline.gateway.config import Config
from trunkline.gateway.mcp_servers import HOW_TO_INSTALL, make_connections, missing_secrets

if TYPE_CHECKING:
    from trunkline.agent.tools.mcp import McpConnection

app = typer.Typer(
    help="List the tool servers of the settings, and check that they answer.",
    no_args_is_help=True,
    add_completion=False,
)

CHECK_S = 30.0


@app.command("list")
def list_servers() -> None:
    """List the tool servers of the settings, and who may use them."""
    config = loaded_config()
    if not config.mcp.servers:
        console.print("There are no tool servers; docs/mcp.md shows how to add one.")
    for name, server in config.mcp.servers.items():
        where = server.url or " ".join((server.command, *server.args))
        allowed = ", ".join(server.allow) or f"{config.owner or 'the owner'} (the owner)"
        console.print(f"{name}  {where}", markup=False, highlight=False)
        console.print(f"  allowed to: {allowed}", markup=False, highlight=False)
        for secret in missing_secrets(config, name):
            console.print(f"  {secret} is not set in the environment or .env", markup=False, highlight=False)


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="The servers to check; all without one.")] = None,
) -> None:
    """Connect to the tool servers and list their tools."""
    config = loaded_config()
    unknown = [name for name in names or () if name not in config.mcp.servers]
    if unknown:
        raise Failure(f"There is no tool server called {', '.join(unknown)} in the settings.")
    if find_spec("mcp") is None:
        raise Failure(f"The software for tool servers is not installed: {HOW_TO_INSTALL}.")
    chosen = tuple(names or config.mcp.servers)
    if not asyncio.run(_check(config, chosen)):
        raise typer.Exit(ExitCode.FAILED)


async def _check(config: Config, names: Sequence[str]) -> bool:
    connections = {name: one for name, one in make_connections(config).items() if name in names}
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one.run()) for one in connections.values()]
        waits = [group.create_task(one.wait_until_tried(CHECK_S)) for one in connections.values()]
        for wait in waits:
            await wait
        for name, one in connections.items():
            _show(name, one)
        good = all(not one.reason for one in connections.values())
        for task in running:
            task.cancel()
    return good


def _show(name: str, one: "McpConnection") -> None:
    if one.reason:
        console.print(f"{name}: not reached: {one.reason}", markup=False, highlight=False)
        return
    console.print(f"{name}: {len(one.tools)} tools", markup=False, highlight=False)
    for tool in one.tools:
        words = tool.description.partition("\n")[0][:80]
        console.print(f"  {tool.name}  {words}", markup=False, highlight=False)
    for sentence in one.left_out:
        console.print(f"  left out: {sentence}", markup=False, highlight=False)
