"""The styles of a text on their way to Telegram; where it can't read them, the text goes without."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from telegram import MessageEntity
from telegram.error import BadRequest

from trunkline.adapters.base import Chunk

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_NOT_READ = re.compile(r"can't parse|entity|entities")


async def styled(chunk: Chunk, call: Callable[[list[MessageEntity]], Awaitable[_T]]) -> _T:
    """Makes the call with the chunk's entities; once more with none where Telegram could not read them."""
    entities = [
        MessageEntity(one.kind, one.offset, one.length, url=one.url, language=one.language)
        for one in chunk.entities
    ]
    try:
        return await call(entities)
    except BadRequest as exc:
        if not entities or not _NOT_READ.search(exc.message.lower()):
            raise
        logger.warning("styles refused, sent as plain text: %s", exc.message[:200])
        return await call([])
