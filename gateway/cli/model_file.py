"""Serves the settings' model file, where they name one, for as long as a command runs."""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from trunkline.gateway.config import Config
from trunkline.gateway.local_model import LocalModelFailed, serving

CONTEXT_TOKENS = 8192


@asynccontextmanager
async def model_file_served(config: Config) -> AsyncIterator[Config]:
    """The settings to go on with. A file that can't be served is a sentence, and there is then no model."""
    if config.model.file is None:
        yield config
        return
    async with AsyncExitStack() as stack:
        try:
            served = await stack.enter_async_context(
                serving(config.model.file, context_tokens=config.model.context_tokens or CONTEXT_TOKENS)
            )
        except LocalModelFailed as failed:
            sys.stderr.write(f"{failed}\n")
            yield config
            return
        choice = config.model.model_copy(update={"name": served.model, "base_url": served.base_url})
        yield config.model_copy(update={"model": choice})
