"""Skills in the menus of commands that platforms have: the shared ones in everybody's, a person's own in the
menu of their direct chat, a room's in the menu of the room.

What fits a menu is the adapter's to say; a skill answers to its name wherever it stands in none.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal

from trunkline.adapters.base import Adapter, AdapterError, CommandSpec, ShowsCommands
from trunkline.agent.scope import PersonId, Scope
from trunkline.agent.skills.store import NO_SKILLS, Shared, Shelf, SkillStore
from trunkline.gateway.beside_turns import contained
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.opening import Opened
from trunkline.gateway.state import sessions
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

MENU_S = 20.0
MOST_SHOWN = 5_000
"""Chats whose menu is known; of others it is asked again, after their next turn."""
MOST_AT_WORK = 16
ARGUMENT = "<words>"

Place = tuple[str, str]
"""A platform, and a chat there."""


def skill_commands(shelf: Shelf, place: Literal["own", "shared"]) -> tuple[CommandSpec, ...]:
    """The skills of one place as commands, but for those that nobody uses.

    Of two names that are one in a menu the first is taken; our own commands come before all.
    """
    taken = {_in_menus(name) for name in BY_NAME}
    found = []
    for skill in shelf.skills:
        name = _in_menus(skill.name)
        if name not in taken and skill.place == place and not skill.record.stale:
            found.append(CommandSpec(skill.name, skill.description, ARGUMENT))
        taken.add(name)
    return tuple(found)


async def shared_commands(store: SkillStore | None) -> tuple[CommandSpec, ...]:
    """The operator's skills as commands; none where skills are off."""
    return () if store is None else skill_commands(await store.shelf(Shared()), "shared")


def _in_menus(name: str) -> str:
    return name.replace("-", "_").lower()


class SkillMenus:
    """Keeps the menus of chats as the skills are that belong there. `run` owns the calls; none is waited for.

    As `Belongings` it has only menus to take away when somebody leaves: the skills are kept elsewhere.
    """

    def __init__(
        self, database: Database, store: SkillStore | None, adapter_of: Callable[[str], Adapter | None]
    ) -> None:
        self._database = database
        self._store = store
        self._adapter_of = adapter_of
        self._shown: OrderedDict[Place, tuple[CommandSpec, ...]] = OrderedDict()
        self._at_work: set[Place] = set()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await asyncio.Event().wait()

    def after_turn(self, opened: Opened) -> None:
        """Has the menu changed when the skills have; what is too much at once is done after a later turn."""
        place = (opened.inbound.platform, opened.inbound.chat)
        if self._group is None or not self._has_menus(place[0]):
            return
        if place not in self._at_work and len(self._at_work) < MOST_AT_WORK:
            self._at_work.add(place)
            self._group.create_task(contained(self._renew(opened.scope, place), log, "menu"), name="menu")

    def _has_menus(self, platform: str) -> bool:
        return isinstance(self._adapter_of(platform), ShowsCommands)

    async def _renew(self, scope: Scope, place: Place) -> None:
        try:
            shelf = NO_SKILLS if self._store is None else await self._store.shelf(scope)
            await self._show(place, skill_commands(shelf, "own"))
        finally:
            self._at_work.discard(place)

    async def _show(self, place: Place, commands: tuple[CommandSpec, ...]) -> None:
        platform, chat = place
        adapter = self._adapter_of(platform)
        if not isinstance(adapter, ShowsCommands) or self._shown.get(place) == commands:
            return
        try:
            async with asyncio.timeout(MENU_S):
                await adapter.show_commands(chat, commands)
        except (AdapterError, TimeoutError) as error:
            log.info("menu not changed: %s on %s", type(error).__name__, platform)
            return
        self._shown[place] = commands
        self._shown.move_to_end(place)
        while len(self._shown) > MOST_SHOWN:
            self._shown.popitem(last=False)

    async def join(self, kept: PersonId, gone: PersonId, /) -> None:
        """Their next turns show it."""

    async def part(self, kept: PersonId, gone: PersonId, /) -> None:
        """Their next turns show it."""

    async def erase(self, slug: PersonId, /) -> None:
        for place in await self._database.read(lambda c: sessions.direct_chats(c, slug)):
            await self._show(place, ())

    async def export(self, slug: PersonId, /) -> Mapping[str, bytes]:
        return {}
