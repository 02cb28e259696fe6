"""The session worker's boundary for what follows a turn beside the others: a review, a title.

Such work must not take the house with it, whatever goes wrong in it.
"""

import logging
from collections.abc import Awaitable
from typing import Protocol

from sqlalchemy.exc import DBAPIError

from trunkline.gateway.opening import Opened


class FollowsTurns(Protocol):
    """Does something after turns, in tasks of its own."""

    def after_turn(self, opened: Opened, /) -> None:
        """Never waits."""
        ...


async def contained(work: Awaitable[None], log: logging.Logger, what: str) -> None:
    """Carries the work out; what fails is logged as `<what> failed`, what is cancelled is cancelled."""
    try:
        await work
    except DBAPIError as error:
        log.warning("%s failed: %s", what, type(error).__name__)
    except Exception as error:  # boundary: session worker
        log.exception("%s failed: %s", what, type(error).__name__)
