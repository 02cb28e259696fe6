"""The providers there are, by name. A provider's module is loaded only when its name is asked for."""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from trunkline.agent.extras import install_command
from trunkline.agent.providers.base import ProviderKind

ENTRY_POINTS = "trunkline.memory_providers"
"""Third parties name a ProviderKind under this group."""

MODULES = {
    "byterover": "trunkline.agent.providers.byterover",
    "holographic": "trunkline.agent.providers.holographic",
    "mem0": "trunkline.agent.providers.mem0",
    "honcho": "trunkline.agent.providers.honcho",
    "retaindb": "trunkline.agent.providers.retaindb",
    "openviking": "trunkline.agent.providers.openviking",
    "hindsight": "trunkline.agent.providers.hindsight",
    "supermemory": "trunkline.agent.providers.supermemory",
}
"""One line for each of ours: the module whose `KIND` describes it."""


class UnknownProvider(LookupError):
    """Nobody provides this name."""


def names() -> tuple[str, ...]:
    """All names there are, ours first."""
    return (*MODULES, *(point.name for point in _foreign()))


def kind_of(name: str) -> ProviderKind[Any]:
    """Loads a provider's module. Raises UnknownProvider, and ImportError for a broken foreign package."""
    if name in MODULES:
        kind = import_module(MODULES[name]).KIND
    else:
        point = next((point for point in _foreign() if point.name == name), None)
        if point is None:
            raise UnknownProvider(name)
        kind = point.load()
    assert isinstance(kind, ProviderKind)
    return kind


def missing_modules(kind: ProviderKind[Any]) -> tuple[str, ...]:
    """What of the extra is not installed. Nothing is imported to find out."""
    return tuple(module for module in kind.imports if find_spec(module) is None)


def install_hint(kind: ProviderKind[Any]) -> str:
    """What to type for a provider whose extra is missing."""
    return install_command(kind.extra)


def _foreign() -> tuple[EntryPoint, ...]:
    return tuple(point for point in entry_points(group=ENTRY_POINTS) if point.name not in MODULES)
