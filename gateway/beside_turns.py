"""What follows a turn beside the others, such as a review or a title: its wait for the answer, its boundary.

Such work must not take the house with it, whatever goes wrong in it.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from sqlalchemy.exc import DBAPIError

from trunkline.gateway.opening import Opened
from trunkline.gateway.state import reviews
from trunkline.gateway.state.database import Database

DELIVERY_LOOK_S = 0.25
DELIVERY_LOOKS = 240


class FollowsTurns(Protocol):
    """Does something after turns, in tasks of its own."""

    def after_turn(self, opened: Opened, /) -> None:
        """Never waits."""
        ...


async def wait_for_delivery(database: Database, turn: int) -> None:
    """Lets a turn's answer go out first, for a while at most: a platform that is down stops no such work."""
    for _ in range(DELIVERY_LOOKS):
        if not await database.read(lambda c: reviews.is_going_out(c, turn)):
            return
        await asyncio.sleep(DELIVERY_LOOK_S)


async def contained(work: Awaitable[None], log: logging.Logger, what: str) -> None:
    """Carries the work out; what fails is logged as `<what> failed`, what is cancelled is cancelled."""
    try:
        await work
    except DBAPIError as error:
        log.warning("%s failed: %s", what, type(error).__name__)
    except Exception as error:  # boundary: session worker
        log.exception("%s failed: %s", what, type(error).__name__)
