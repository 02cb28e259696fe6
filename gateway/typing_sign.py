"""Shows that an answer is being written, as the platform does that, for as long as it is."""

import asyncio
import logging
from contextlib import suppress

from trunkline.adapters.base import Adapter, AdapterError, RateLimited
from trunkline.gateway.delivery import Delivery, Destination

log = logging.getLogger(__name__)

TYPING_TIMEOUT_S = 5.0


async def keep_typing(delivery: Delivery, where: Destination) -> None:
    """Shows the sign until it is cancelled, and takes it away then.

    A message that is posted meanwhile takes it away on every platform, so it is shown anew after each.
    """
    adapter = delivery.adapter(where.platform)
    if adapter is None or adapter.limits.typing_interval_s is None:
        return
    with delivery.told_of_posts(where.platform, where.to) as posted:
        try:
            while True:
                posted.clear()
                await _show(delivery, adapter, where, on=True)
                with suppress(TimeoutError):
                    async with asyncio.timeout(adapter.limits.typing_interval_s):
                        await posted.wait()
        finally:
            await _show(delivery, adapter, where, on=False)


async def _show(delivery: Delivery, adapter: Adapter, where: Destination, *, on: bool) -> None:
    """Whatever goes wrong with the sign, the turn goes on."""
    chat = where.to.chat
    if delivery.held_s(where.platform, chat):
        return
    try:
        async with asyncio.timeout(TYPING_TIMEOUT_S):
            await adapter.typing(where.to, on=on)
    except RateLimited as error:
        delivery.hold(where.platform, chat, error.retry_after_s)
    except (AdapterError, TimeoutError) as error:
        log.debug("typing not shown: %s", type(error).__name__)
    except Exception:  # boundary: delivery
        log.exception("typing failed: %s", where.platform)
