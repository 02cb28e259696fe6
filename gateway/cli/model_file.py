"""Serves the settings' model file, where they name one, for as long as a command runs; a server that dies is
started again under the same address."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from trunkline.gateway.config import Config
from trunkline.gateway.local_model import LocalModelFailed, ServedModel, serving

log = logging.getLogger(__name__)

CONTEXT_TOKENS = 8192
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LIVED_S = 60.0
"""A server that has lived for so long is started again after the first pause."""


@asynccontextmanager
async def model_file_served(config: Config) -> AsyncIterator[Config]:
    """The settings to go on with. A file that can't be served is a sentence, and there is then no model."""
    file, context_tokens = config.model.file, config.model.context_tokens or CONTEXT_TOKENS
    if file is None:
        yield config
        return
    first: asyncio.Future[ServedModel] = asyncio.get_running_loop().create_future()
    try:
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(_keep(file, context_tokens, first), name="model server")
            try:
                served = await first
                choice = config.model.model_copy(update={"name": served.model, "base_url": served.base_url})
                config = config.model_copy(update={"model": choice})
            except LocalModelFailed as failed:
                sys.stderr.write(f"{failed}\n")
            try:
                yield config
            finally:
                keeper.cancel()
    except BaseExceptionGroup as raised:
        # What a command says of itself must reach its caller as it was raised.
        if len(raised.exceptions) == 1:
            raise raised.exceptions[0] from None
        raise


async def _keep(file: Path, context_tokens: int, first: "asyncio.Future[ServedModel]") -> None:
    """Serves until cancelled. What the first start comes to is told to `first`; its failure ends it."""
    loop = asyncio.get_running_loop()
    port, pause_s = 0, FIRST_PAUSE_S
    while True:
        started_s = loop.time()
        try:
            async with serving(file, port=port, context_tokens=context_tokens) as served:
                port = urlsplit(served.base_url).port or 0
                if not first.done():
                    first.set_result(served)
                await served.ended()
        except LocalModelFailed as failed:
            if not first.done():
                first.set_exception(failed)
                return
            log.warning("model server not started again: %s", failed.fault)
        if loop.time() - started_s > LIVED_S:
            pause_s = FIRST_PAUSE_S
        log.warning("model server ended: started again in %g s", pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
