"""The session worker's boundary for what follows a turn beside the others: a review, a title.

Such work must not take the house with it, whatever goes wrong in it.
"""

import logging
from collections.abc import Awaitable

from sqlalchemy.exc import DBAPIError


async def contained(work: Awaitable[None], log: logging.Logger, what: str) -> None:
    """Carries the work out; what fails is logged as `<what> failed`, what is cancelled is cancelled."""
    try:
        await work
    except DBAPIError as error:
        log.warning("%s failed: %s", what, type(error).__name__)
    except Exception as error:  # boundary: session worker
        log.exception("%s failed: %s", what, type(error).__name__)
