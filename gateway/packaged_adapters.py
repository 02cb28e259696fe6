"""Platforms that other packages bring: entry points of the group `trunkline.adapters` (docs/adapters.md).

Nothing is loaded until a platform is made; whether one is used says a section of its name in config.yaml.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from trunkline.adapters.base import Adapter, CommandSpec

GROUP = "trunkline.adapters"


class AdapterFactory(Protocol):
    """What an entry point names: makes an adapter from the settings of its section.

    `commands` are for the platform's menu, where it has one. Raises ValueError with a sentence for settings
    that are wrong.
    """

    def __call__(self, settings: Mapping[str, object], commands: Sequence[CommandSpec]) -> Adapter: ...


def installed() -> Mapping[str, EntryPoint]:
    """The platforms of other packages, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def make(name: str, settings: Mapping[str, object], commands: Sequence[CommandSpec]) -> Adapter:
    """A new adapter of an installed platform. Raises what its package raises."""
    factory: AdapterFactory = installed()[name].load()
    return factory(settings, commands)
