"""The bot's own reactions: the model's on what it answers, and the acknowledging one where that is set."""

import asyncio
import logging
from collections.abc import Callable

from trunkline.adapters.base import Adapter, AdapterError, ChatRef, InboundMessage, RateLimited, Reacts
from trunkline.agent.tools.base import ToolContext
from trunkline.gateway.state import presses, reacted
from trunkline.gateway.state.database import Database

log = logging.getLogger(__name__)

CALL_S = 10.0
ACKNOWLEDGE_S = 3.0
NONE_HERE = "There are no reactions where this person writes. Say it in words."
NO_MESSAGE = "There is no message here that could bear a reaction. Say it in words."
NOT_ALLOWED = "That one isn't possible here. These are: {allowed}"
REFUSED = "The platform did not take the reaction. Go on without it."
SHOWN_ALLOWED = 24

AdapterOf = Callable[[str], Adapter | None]


class Reactions:
    """The Reactor of the model's tool. `adapter_of` gives a platform's adapter while it is connected."""

    def __init__(self, database: Database, adapter_of: AdapterOf) -> None:
        self._database = database
        self._adapter_of = adapter_of

    async def react(self, context: ToolContext, emoji: str) -> str | None:
        adapter = self._adapter_of(context.platform)
        if not isinstance(adapter, Reacts):
            return NONE_HERE
        allowed = adapter.reactions
        bare = emoji.replace("\ufe0f", "")
        if allowed is not None and emoji not in allowed:
            if bare not in allowed:
                some = " ".join(sorted(allowed)[:SHOWN_ALLOWED])
                return NOT_ALLOWED.format(allowed=some)
            emoji = bare
        turn = context.turn
        found = await self._database.read(lambda c: (presses.find_turn(c, turn), reacted.asked_in(c, turn)))
        place, message_id = found
        if place is None or message_id is None:
            return NO_MESSAGE
        try:
            async with asyncio.timeout(CALL_S):
                await adapter.react(ChatRef(place.key.chat, place.key.thread or None), message_id, emoji)
        except (AdapterError, TimeoutError) as error:
            log.info("reaction not put: %s on %s", type(error).__name__, context.platform)
            return REFUSED
        return None


async def acknowledge(adapter: Adapter | None, message: InboundMessage, emoji: str) -> None:
    """Shows on the message that it has been seen. A courtesy: whatever happens, the turn goes on."""
    if not emoji or not isinstance(adapter, Reacts) or message.message_id is None:
        return
    try:
        async with asyncio.timeout(ACKNOWLEDGE_S):
            await adapter.react(ChatRef(message.chat, message.thread), message.message_id, emoji)
    except RateLimited:
        log.info("acknowledging reaction left out: %s asks to wait", message.platform)
    except (AdapterError, TimeoutError) as error:
        log.info("acknowledging reaction not put: %s on %s", type(error).__name__, message.platform)
