"""The tool servers of the settings: connected beside the turns, their tools given to whoever may use them.

The library that speaks with them is loaded in the background, and only where there is a server.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trunkline.agent.extras import install_command
from trunkline.agent.scope import Scope
from trunkline.agent.tools.base import Tool
from trunkline.gateway.config import Config
from trunkline.gateway.tool_access import limited, may_use

if TYPE_CHECKING:
    from trunkline.agent.tools.mcp import McpConnection

log = logging.getLogger(__name__)

HOW_TO_INSTALL = f"install it with `{install_command('mcp')}`"


class McpServers:
    """The connections of one process. `taken` are names of tools that theirs can't have."""

    def __init__(self, config: Config, taken: Iterable[str]) -> None:
        self._config = config
        self._taken = frozenset(taken)
        self._connections: dict[str, McpConnection] = {}
        self._told: frozenset[str] = frozenset()

    def tools(self, scope: Scope) -> tuple[Tool[Any], ...]:
        """The tools that may be used in a scope, of every server that was connected once."""
        owner, names = self._config.owner, set(self._taken)
        found: list[Tool[Any]] = []
        doubled: set[str] = set()
        for name, connection in self._connections.items():
            allowed = self._config.mcp.servers[name].allow
            for tool in connection.tools:
                if tool.name in names:
                    doubled.add(f"{name}: {tool.name}")
                    continue
                names.add(tool.name)
                if may_use(scope, allowed, owner):
                    found.append(limited(tool, allowed, owner))
        if doubled - self._told:
            log.warning("tools left out, their names are taken: %s", ", ".join(sorted(doubled)))
            self._told |= doubled
        return tuple(found)

    async def run(self) -> None:
        """Keeps every server connected until cancelled."""
        if not self._config.mcp.servers:
            return
        self._connections = await asyncio.to_thread(make_connections, self._config)
        async with asyncio.TaskGroup() as group:
            for name, connection in self._connections.items():
                group.create_task(connection.run(), name=f"tool server {name}")


def make_connections(config: Config) -> dict[str, "McpConnection"]:
    """The connections of the settings, none made yet; empty, with a warning, without the extra."""
    if find_spec("mcp") is None:
        log.warning("tool servers are off: %s", HOW_TO_INSTALL)
        return {}
    mcp = import_module("trunkline.agent.tools.mcp")
    keys = config.secrets.mcp_keys

    def known(names: Mapping[str, str]) -> dict[str, str]:
        return {theirs: keys[ours] for theirs, ours in names.items() if keys.get(ours)}

    return {
        name: mcp.McpConnection(
            mcp.ServerSpec(
                name,
                command=server.command,
                args=server.args,
                env=known(server.env),
                url=server.url or "",
                headers=known(server.headers_env),
                wanted=server.tools,
                timeout_s=server.timeout_s,
            )
        )
        for name, server in config.mcp.servers.items()
    }


def missing_secrets(config: Config, name: str) -> tuple[str, ...]:
    """The secrets that a server is to be given and that are not set."""
    return tuple(
        secret for secret in config.mcp.servers[name].secrets if not config.secrets.mcp_keys.get(secret)
    )
