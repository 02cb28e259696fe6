"""The HTTP requests of the Telegram library, mended in two places; what is asked for is `telegram`'s.

A request is carried through to its end whoever stops waiting for it: httpcore 1.0 never gives a connection
back whose request was cancelled at a bad moment, and after some hundred of them nothing can be sent any more.
"""

import asyncio
import logging
from typing import Any

from telegram import Update
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

logger = logging.getLogger(__name__)

CLOSE_S = 2.0
"""How long the end of a connection waits for requests that nobody waits for."""


class WholeRequest(HTTPXRequest):
    """Shields its requests from cancellation. Each has its own time-outs; `shutdown` ends what is left."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._under_way: set[asyncio.Task[tuple[int, bytes] | TelegramError]] = set()

    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        request = asyncio.get_running_loop().create_task(self._settled(*args, **options))
        self._under_way.add(request)
        request.add_done_callback(self._under_way.discard)
        outcome = await asyncio.shield(request)
        if isinstance(outcome, TelegramError):
            raise outcome
        return outcome

    async def _settled(self, *args: Any, **options: Any) -> tuple[int, bytes] | TelegramError:
        """The answer or the failure as a value: there may be nobody left to raise it to."""
        try:
            return await super().do_request(*args, **options)
        except TelegramError as error:
            return error

    async def shutdown(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSE_S)
        for request in self._under_way:
            request.cancel()
        await super().shutdown()


class PollRequest(HTTPXRequest):
    """Blanks updates the library can't parse, so that one of them doesn't hold up all that follow.

    A poll may be cancelled: that is the end of the adapter, and of its connections.
    """

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        answer = HTTPXRequest.parse_json_payload(payload)
        updates = answer.get("result")
        if isinstance(updates, list):
            answer["result"] = [
                one if _is_parsable(one) else {"update_id": one["update_id"]} for one in updates
            ]
        return answer


def _is_parsable(update: dict[str, Any]) -> bool:
    try:
        Update.de_json(update, None)
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        logger.warning("update skipped, not parsable: %s (%s)", update.get("update_id"), type(exc).__name__)
        return False
    return True
