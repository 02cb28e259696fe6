"""Sends a file to a Telegram chat: as a photo or a voice note where it is one, else as a document."""

from collections.abc import Awaitable, Callable
from typing import Any

from telegram import Bot, InputFile, Message, ReplyParameters
from telegram.error import BadRequest

from trunkline.adapters.base import AttachmentKind, OutboundFile, Rejected

PHOTO_BYTES = 10 * 2**20
UPLOAD_BYTES = 50 * 2**20
"""What bots may send (Bot API, Sending files)."""
UPLOAD_S = 180.0
_PHOTOS = ("image/jpeg", "image/png")


async def send_file(
    bot: Bot, chat: int, thread: int | None, file: OutboundFile, reply: ReplyParameters | None, *, quiet: bool
) -> Message:
    """Raises TelegramError, and Rejected for what is larger than bots may send."""
    if len(file.content) > UPLOAD_BYTES:
        raise Rejected(f"The file is larger than the {UPLOAD_BYTES // 2**20} MB that bots may send.")
    more: dict[str, Any] = {
        "message_thread_id": thread,
        "reply_parameters": reply,
        "disable_notification": quiet,
        "write_timeout": UPLOAD_S,
        "read_timeout": UPLOAD_S,
    }

    def content() -> InputFile:
        return InputFile(file.content, filename=file.name)

    special = _special(bot, file)
    if special is not None:
        try:
            return await special(chat, content(), **more)
        except BadRequest as exc:
            # A picture too long or too wide, a chat that takes no voice notes: as a document it goes.
            if not exc.message.upper().startswith(("PHOTO_", "IMAGE_", "VOICE_")):
                raise
    return await bot.send_document(chat, content(), disable_content_type_detection=True, **more)


def _special(bot: Bot, file: OutboundFile) -> Callable[..., Awaitable[Message]] | None:
    if file.kind is AttachmentKind.VOICE and file.mime.startswith("audio/ogg"):
        return bot.send_voice
    if file.kind is AttachmentKind.IMAGE and file.mime in _PHOTOS and len(file.content) <= PHOTO_BYTES:
        return bot.send_photo
    return None
