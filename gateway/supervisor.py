"""Keeps one adapter connected: runs it again when it is lost, lets it rest when only a person can help."""

import asyncio
import logging
import random
from collections.abc import Callable

from trunkline.adapters.base import Adapter, AdapterError, Deliver, Unauthorized

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
STEADY_S = 120.0
"""A connection that held this long was a good one: the next loss starts from the shortest wait."""


async def supervise(
    make: Callable[[], Adapter],
    deliver: Deliver,
    connected: Callable[[Adapter, str], None],
    lost: Callable[[], None],
    tell: Callable[[str], None],
) -> bool:
    """Runs an adapter until it ends by itself; false when only a person can mend it.

    `lost` is called after each run, whether or not it was connected; `tell` gets sentences for the operator.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began_s = loop.time()
        try:
            adapter = make()
            await adapter.run(deliver, lambda tenant, adapter=adapter: connected(adapter, tenant))  # type: ignore[misc]
            return True
        except Unauthorized as error:
            tell(str(error))
            return False
        except AdapterError as error:
            if failures == 0:
                tell(f"{str(error).removesuffix('.')}. I keep trying.")
            log.warning("adapter lost: %s", error)
        except Exception as error:  # boundary: adapter supervisor
            log.exception("adapter failed: %s", type(error).__name__)
        finally:
            lost()
        failures = 0 if loop.time() - began_s > STEADY_S else failures + 1
        longest_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(failures, 6))
        await asyncio.sleep(random.uniform(longest_s / 2, longest_s))
