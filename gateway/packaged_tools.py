"""Tools that other installed packages bring, by the entry-point group `trunkline.tools`.

Each names a function without arguments that returns a Tool or a tuple of them. One that is broken is named in
a sentence and left out; nobody but the owner gets one unless the settings allow it. They run apart from the
chats, since a package may block.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction
from typing import Any

from pydantic import BaseModel

from trunkline.agent.tools.base import Tool
from trunkline.gateway.apart import Apart
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.tool_access import limited

log = logging.getLogger(__name__)

GROUP = "trunkline.tools"

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")


class _Broken(Exception):
    """Why an entry point brings no tools."""


def load_packaged_tools(
    taken: Iterable[str], settings: FileSettings, say: Callable[[str], None]
) -> tuple[Tool[Any], ...]:
    """Every usable tool of installed packages; `say` gets a sentence for each that is not.

    `taken` are names that can't be used again.
    """
    names = set(taken)
    apart = Apart()
    found: list[Tool[Any]] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            tools, known = _made(point), set(names)
            for tool in tools:
                if tool.name in known:
                    raise _Broken(f"there is a tool called {tool.name} already")
                known.add(tool.name)
            names = known
        except _Broken as error:
            package = point.dist.name if point.dist is not None else point.value
            say(f"The tools “{point.name}” of the package {package} are left out: {error}.")
            continue
        for tool in tools:
            moved = replace(tool, run=apart.tool(tool.run))
            found.append(limited(moved, _allowed(settings.tools, tool.name), settings.owner))
    return tuple(found)


def _allowed(entries: Mapping[str, Any], tool: str) -> frozenset[str]:
    entry = entries.get(tool)
    return frozenset() if entry is None else frozenset(entry.allow)


def _made(point: EntryPoint) -> tuple[Tool[Any], ...]:
    try:
        made = point.load()()
    except Exception as error:  # boundary: another package's code
        log.warning("packaged tools failed: %s", point.name, exc_info=True)
        raise _Broken(f"loading them failed with {type(error).__name__}; the log has the details") from error
    tools = made if isinstance(made, tuple) else (made,)
    for tool in tools:
        _check(tool)
    return tools


def _check(tool: object) -> None:
    if not isinstance(tool, Tool):
        raise _Broken(f"they are of the type {type(tool).__name__}, not Tool")
    if not isinstance(tool.name, str) or _NAME.fullmatch(tool.name) is None:
        raise _Broken("a tool's name has 1 to 64 letters, digits, _ and -")
    if not (isinstance(tool.arguments, type) and issubclass(tool.arguments, BaseModel)):
        raise _Broken(f"the arguments of {tool.name} are no pydantic model")
    if not (callable(tool.run) and (iscoroutinefunction(tool.run) or _is_async_object(tool.run))):
        raise _Broken(f"{tool.name} is not run by an async function")
    if not isinstance(tool.description, str) or not tool.description.strip():
        raise _Broken(f"{tool.name} has no description")
    try:
        tool.arguments.model_json_schema()
    except Exception as error:  # boundary: another package's code
        log.warning("packaged tool has no schema: %s", tool.name, exc_info=True)
        raise _Broken(f"the arguments of {tool.name} have no JSON schema") from error


def _is_async_object(run: object) -> bool:
    return iscoroutinefunction(getattr(run, "__call__", None))  # noqa: B004  # an object that is called
