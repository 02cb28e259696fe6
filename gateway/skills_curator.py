"""Once a week, when the house is quiet, has unused skills looked after; says what was put away.

What is done to which skill is agent/skills/curator's; hand-written, installed and pinned ones are left alone.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import ChatRef, OutboundMessage
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomScope
from trunkline.agent.skills.curator import Curated
from trunkline.agent.skills.format import BadSkill
from trunkline.agent.skills.store import SkillStore
from trunkline.gateway.clock import now_ms
from trunkline.gateway.memory_approval import Render
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.state import kv, outbox, people, sessions, turns
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

EVERY_MS = 7 * 86_400_000
QUIET_MS = 30 * 60_000
"""So long no turn may have begun: the curator is in nobody's way."""
LOOK_S = 600.0
LAST_RUN = "skills.curated"
NOBODY = AccountId(0)
"""The asker in a room's scope where nobody asks."""


class Curator:
    """The weekly round. `kick` sets off what was planned for a chat."""

    def __init__(
        self, database: Database, store: SkillStore, render: Render, kick: Callable[[str, str], None]
    ) -> None:
        self._database = database
        self._store = store
        self._render = render
        self._kick = kick

    async def run(self) -> None:
        """Looks whether it is time, again and again, until it is cancelled."""
        while True:
            try:
                await self.look(now_ms())
            except DBAPIError as error:
                log.warning("skills not looked after: %s", type(error).__name__)
            await asyncio.sleep(LOOK_S)

    async def look(self, at_ms: int) -> bool:
        """Makes the round if a week has passed and the house is quiet; the first look begins a week."""
        if not await self._database.write(lambda c: _take_turn(c, at_ms)):
            return False
        owners = await self._database.read(_owners)
        for owner in owners:
            try:
                found = await self._store.curate(owner, at_ms, dry=False)
            except BadSkill as error:
                log.warning("skills not looked after: %s", type(error.__cause__).__name__)
                continue
            if found != Curated():
                log.info(
                    "skills looked after: stale=%d archived=%d overlaps=%d",
                    len(found.stale),
                    len(found.archived),
                    len(found.overlaps),
                )
            if found.archived and isinstance(owner, PersonScope):
                await self._tell(owner.person, found, at_ms)
        return True

    async def _tell(self, slug: PersonId, found: Curated, at_ms: int) -> None:
        def work(connection: Connection) -> tuple[str, str] | None:
            known = people.find_person(connection, slug)
            place = None if known is None else sessions.home_of(connection, known.id)
            if known is None or place is None:
                return None
            text = say("skills_curated", known.language, names=", ".join(found.archived))
            to = ChatRef(place.chat, place.thread or None)
            chunks = self._render(place.platform, text)
            outbox.plan(
                connection,
                outbox.notice(place),
                [dump_outbound(OutboundMessage(to, chunk, quiet=True)) for chunk in chunks],
                at_ms,
            )
            return place.platform, place.chat

        told = await self._database.write(work)
        if told is not None:
            self._kick(*told)


def _take_turn(connection: Connection, at_ms: int) -> bool:
    """Whether the round is due; it counts as made, so that of several processes one makes it."""
    last = kv.get_value(connection, LAST_RUN)
    if last is not None and at_ms - int(last) < EVERY_MS:
        return False
    if last is not None and not turns.is_quiet(connection, at_ms - QUIET_MS):
        return False
    kv.put_value(connection, LAST_RUN, str(at_ms))
    return last is not None


def _owners(connection: Connection) -> list[PersonScope | RoomScope]:
    slugs = [one.slug for one in people.list_people(connection)]
    rooms = people.list_rooms(connection)
    return [*map(PersonScope, slugs), *(RoomScope(one.slug, NOBODY) for one in rooms)]
