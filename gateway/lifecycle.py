"""What the running house does beside answering: signals, the sweep for what waits, the orderly end."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy.exc import SQLAlchemyError

from trunkline.agent.scope import AccountId
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.sessions import SessionWorkers
from trunkline.gateway.state.records import SessionKey

log = logging.getLogger(__name__)

SWEEP_S = 2.0
SEND_GRACE_S = 5.0
LEAVING_S = SEND_GRACE_S + 5.0
"""What an orderly end takes beside the grace time, at most."""


class Postponed:
    """The commands' view of running turns: the workers, which are made after the commands' desk."""

    workers: SessionWorkers

    def running_for(self, key: SessionKey) -> AccountId | None:
        return self.workers.running_for(key)

    def stop(self, key: SessionKey) -> bool:
        return self.workers.stop(key)

    def stop_gathering(self, key: SessionKey) -> int:
        return self.workers.stop_gathering(key)


async def sweep(delivery: Delivery, workers: SessionWorkers) -> None:
    """Finds what waits: what a dead process left, and what other processes (the command line) planned.

    At once where a platform has been connected, so that interrupted turns go on before new ones begin.
    """
    while True:
        delivery.newly_connected.clear()
        try:
            await delivery.sweep()
            for platform, line in delivery.connected.items():
                await workers.sweep(platform, line.tenant, line.thread)
        except SQLAlchemyError as error:
            log.warning("sweep failed: %s", type(error).__name__)
        with suppress(TimeoutError):
            async with asyncio.timeout(SWEEP_S):
                await delivery.newly_connected.wait()


async def drain(delivery: Delivery, workers: SessionWorkers, grace_s: float) -> None:
    """Lets turns finish, then sends what is planned, all of it in the grace time or a little more."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + grace_s
    await workers.drain(grace_s)
    await delivery.drain(max(until_s - loop.time(), SEND_GRACE_S))


@contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an orderly end; a second one ends at once."""

    def ask() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
