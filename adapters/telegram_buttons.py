"""Telegram's buttons: keyboards under messages, and the answers that end a pressed button's spinner."""

import asyncio
import logging
from collections.abc import Sequence

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import TelegramError

from trunkline.adapters.base import Button

logger = logging.getLogger(__name__)

PER_ROW = 3
ANSWER_CHARS = 200
"""What a press can be answered with (Bot API, answerCallbackQuery)."""
ANSWER_S = 5.0
PATIENCE_S = 2.0
"""For how long a press in a group waits for a private sentence before it is acknowledged without one."""


def keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    made = [InlineKeyboardButton(button.label, callback_data=button.payload) for button in buttons]
    return InlineKeyboardMarkup([made[at : at + PER_ROW] for at in range(0, len(made), PER_ROW)])


class Presses:
    """Each press is answered once. `tasks` owns the waiting ones."""

    def __init__(self, bot: Bot, tasks: asyncio.TaskGroup) -> None:
        self._bot = bot
        self._tasks = tasks
        self._open: set[str] = set()

    def hold(self, query_id: str) -> None:
        """Keeps a press open for a moment, so that `whisper` can answer it."""
        self._open.add(query_id)
        self._tasks.create_task(self._acknowledge_later(query_id))

    async def acknowledge(self, query_id: str) -> None:
        """Ends the spinner; the answer itself goes to the chat."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._bot.answer_callback_query(query_id)
        except (TelegramError, TimeoutError) as exc:
            logger.debug("button not acknowledged: %s", exc)

    async def whisper(self, query_id: str, text: str) -> bool:
        """Shows it to the presser alone; false when the press is answered already. Raises TelegramError."""
        if query_id not in self._open:
            return False
        self._open.discard(query_id)
        shown = text if len(text) <= ANSWER_CHARS else text[: ANSWER_CHARS - 1] + "…"
        await self._bot.answer_callback_query(query_id, text=shown, show_alert=True)
        return True

    async def _acknowledge_later(self, query_id: str) -> None:
        await asyncio.sleep(PATIENCE_S)
        if query_id in self._open:
            self._open.discard(query_id)
            await self.acknowledge(query_id)
