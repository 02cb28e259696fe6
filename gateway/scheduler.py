"""Looks at the clock for reminders and scheduled runs, and has those done that are due.

Due times are those of the wall clock, so neither sleep nor a clock put back or forward upsets them. Each
occurrence is one transaction (`reminder_delivery`); any number of processes may look at once.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from trunkline.gateway.beside_turns import contained
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.reminder_delivery import Fired, House, Line, fire, has_to_wait
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import reminders
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.reminders import Reminder

log = logging.getLogger(__name__)

LONGEST_NAP_S = 1.0
"""Another process may have made a reminder, and the clock may have been put forward."""
SHORTEST_NAP_S = 0.02
AT_ONCE = 20
"""So many are delivered, then the others wait for the next nap's end."""
PATIENCE_MS = 15_000
"""Until one that failed, or found no chat, is tried again."""
TIDY_MS = 3_600_000


class Scheduler:
    """Fires what is due on the platforms that this process is connected to. `clock`: ms since 1970 UTC."""

    def __init__(
        self,
        database: Database,
        delivery: Delivery,
        settings: FileSettings,
        wake: Callable[[SessionKey], None],
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._database = database
        self._delivery = delivery
        self._settings = settings
        self._wake = wake
        self._clock = clock
        self._put_off: dict[int, int] = {}
        self._tidied_ms = 0
        self._since_ms = clock()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            nap_s = LONGEST_NAP_S
            try:
                await self.fire_due()
                nap_s = await self._nap_s()
                await self._tidy()
            except DBAPIError as error:
                log.warning("reminders not looked at: %s", type(error).__name__)
            await asyncio.sleep(nap_s)

    async def fire_due(self) -> int:
        """Has at most `AT_ONCE` of the due occurrences done, the oldest first; returns how many."""
        stamp_ms = self._clock()
        lines = {name: Line(line.tenant, line.thread) for name, line in self._delivery.connected.items()}
        house = House(lines, self._settings, self._delivery.render, self._since_ms)
        done = 0
        for one in await self._database.read(lambda c: reminders.due(c, stamp_ms)):
            if done == AT_ONCE:
                break
            if not (self._is_put_off(one, stamp_ms) or has_to_wait(one, house, stamp_ms)):
                fired: list[Fired] = []
                await contained(self._fire(one, house, stamp_ms, fired), log, "reminder")
                done += len(fired)
        return done

    def _is_put_off(self, one: Reminder, stamp_ms: int) -> bool:
        until_ms = self._put_off.get(one.id, 0)
        return stamp_ms < until_ms <= stamp_ms + PATIENCE_MS  # else the clock has been put back

    async def _fire(self, one: Reminder, house: House, stamp_ms: int, fired: list[Fired]) -> None:
        self._put_off[one.id] = stamp_ms + PATIENCE_MS  # stays so unless it is done
        found = await self._database.write(lambda c: fire(c, one, house, stamp_ms))
        if found is None:
            return
        del self._put_off[one.id]
        fired.append(found)
        if found.send_to is not None:
            self._delivery.kick(*found.send_to)
        if found.wake is not None:
            self._wake(found.wake)

    async def _nap_s(self) -> float:
        """Until the next one is due, but not for long."""
        stamp_ms = self._clock()
        next_ms = await self._database.read(lambda c: reminders.next_due_ms(c, stamp_ms))
        until_s = LONGEST_NAP_S if next_ms is None else (next_ms - stamp_ms) / 1000
        return min(max(until_s, SHORTEST_NAP_S), LONGEST_NAP_S)

    async def _tidy(self) -> None:
        stamp_ms = self._clock()
        if abs(stamp_ms - self._tidied_ms) < TIDY_MS:
            return
        self._tidied_ms = stamp_ms
        await self._database.write(lambda c: reminders.forget_done(c, stamp_ms))
