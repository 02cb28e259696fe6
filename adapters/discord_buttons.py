"""Discord's buttons: rows under messages, and presses, which are taken over within their three seconds."""

import asyncio
import logging
from collections.abc import Sequence

import aiohttp
import discord

from trunkline.adapters.base import Button

log = logging.getLogger(__name__)

_DEFER_TIMEOUT_S = 3.0
_ALREADY_ANSWERED = 40060


def view(buttons: Sequence[Button]) -> discord.ui.View | None:
    """A row that nothing in this process waits for: presses come as events, after a restart, too."""
    if not buttons:
        return None
    shown = discord.ui.View(timeout=None)
    for button in buttons:
        shown.add_item(discord.ui.Button(label=button.label[:80], custom_id=button.payload))
    shown.stop()
    return shown


async def deferred(interaction: discord.Interaction) -> bool:
    """Takes a press over without changing what is shown; false when Discord refused, so that no private
    answer is possible. The press itself is never lost."""
    try:
        async with asyncio.timeout(_DEFER_TIMEOUT_S):
            await interaction.response.defer()
    except discord.InteractionResponded:
        return True
    except discord.HTTPException as error:
        if error.code == _ALREADY_ANSWERED:
            return True
        log.warning("button not deferred, answered in the chat: code=%d", error.code)
        return False
    except (aiohttp.ClientError, OSError) as error:
        log.warning("deferral of a button got lost: error=%r", error)
    return True
