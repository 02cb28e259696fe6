"""Turns discord.py's and aiohttp's exceptions into the contract's, once, at the edge."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import discord

from trunkline.adapters.base import (
    AdapterError,
    RateLimited,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)

REQUEST_TIMEOUT_S = 60.0
"""Bounds one call with all of discord.py's own retries: five tries, waits of the server's choosing."""

_WALL_WAIT_S = 60.0
# Unknown channel, no access, no right to write, closed direct messages, no shared server, closed thread.
_CHAT_IS_CLOSED = frozenset({10003, 50001, 50007, 50008, 50013, 50083, 50278, 160005})
_BAD_TOKEN = (
    "Discord refused the bot token. Copy it again from Bot, Reset Token, at "
    "https://discord.com/developers/applications and set DISCORD_BOT_TOKEN."
)
_MISSING_INTENT = (
    "Discord refused the message content intent. Switch on Message Content Intent under Bot, Privileged "
    "Gateway Intents, at https://discord.com/developers/applications, then start again."
)


@asynccontextmanager
async def translated(*, repeatable: bool, timeout_s: float = REQUEST_TIMEOUT_S) -> AsyncIterator[None]:
    """Bounds a call in time and raises AdapterError kinds only.

    `repeatable` says that doing it twice does no harm, so that an answer that got lost is Unavailable
    and not Uncertain.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        raise translate(error, repeatable=repeatable) from error
    except RuntimeError as error:
        # aiohttp's word for a session that ended while discord.py waited to try again.
        if "closed" not in str(error):
            raise
        raise translate(error, repeatable=repeatable) from error


def translate(error: Exception, *, repeatable: bool) -> AdapterError:
    match error:
        case discord.LoginFailure():
            return Unauthorized(_BAD_TOKEN)
        case discord.PrivilegedIntentsRequired():
            return Unauthorized(_MISSING_INTENT)
        case discord.ConnectionClosed():
            return _hung_up(error)
        case discord.RateLimited():
            return RateLimited("Discord asks to wait.", error.retry_after)
        case discord.HTTPException():
            return _refused(error, repeatable=repeatable)
        # Neither a name, a connection nor a proxy's tunnel: no byte of the request has left.
        case aiohttp.ClientConnectorError() | aiohttp.ClientHttpProxyError():
            return Unavailable(f"Discord could not be reached: {error}")
    if repeatable:
        return Unavailable(f"Discord did not answer: {error!r}")
    return Uncertain(f"Discord's answer got lost: {error!r}")


def _refused(error: discord.HTTPException, *, repeatable: bool) -> AdapterError:
    if error.status == 429:
        return RateLimited("Discord asks to wait.", _asked_wait_s(error))
    if error.status >= 500:
        kind = Unavailable if repeatable else Uncertain
        return kind(f"Discord has a fault of its own (HTTP {error.status}).")
    if error.code in _CHAT_IS_CLOSED:
        return Unreachable(f"Discord does not let the bot write there: {error.text} ({error.code}).")
    if error.status == 401:
        return Unauthorized(_BAD_TOKEN)
    return Rejected(f"Discord refused this: {error.text} ({error.code}).")


def _asked_wait_s(error: discord.HTTPException) -> float:
    """The wall before the API names no wait in a body discord.py reads, at most in a header."""
    try:
        return float(error.response.headers.get("Retry-After", _WALL_WAIT_S))
    except ValueError:
        return _WALL_WAIT_S


def _hung_up(error: discord.ConnectionClosed) -> AdapterError:
    match error.code:
        case 4004:
            return Unauthorized(_BAD_TOKEN)
        case 4014:
            return Unauthorized(_MISSING_INTENT)
    return Unavailable(f"Discord closed the connection for good (code {error.code}).")
