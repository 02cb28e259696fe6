"""The styles of a text on their way to Telegram; where it can't read them, the text goes without."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from telegram import MessageEntity
from telegram.error import BadRequest

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.telegram import calling_nobody

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_NOT_READ = re.compile(r"can't parse|entity|entities")


async def styled(chunk: Chunk, call: Callable[[str, list[MessageEntity]], Awaitable[_T]]) -> _T:
    """Makes the call with the chunk's text and entities; once more with no entities where Telegram could not
    read them. By neither is anybody called."""
    chunk = calling_nobody(chunk)
    entities = [
        MessageEntity(one.kind, one.offset, one.length, url=one.url, language=one.language)
        for one in chunk.entities
    ]
    try:
        return await call(chunk.text, entities)
    except BadRequest as exc:
        if not entities or not _NOT_READ.search(exc.message.lower()):
            raise
        logger.warning("styles refused, sent as plain text: %s", exc.message[:200])
        return await call(calling_nobody(Chunk(chunk.text)).text, [])
