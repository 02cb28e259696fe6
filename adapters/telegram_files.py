"""Sends files to a Telegram chat: as photos or a voice note where they are such, else as documents."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from telegram import Bot, InputFile, InputMediaDocument, InputMediaPhoto, Message, ReplyParameters
from telegram.error import BadRequest

from trunkline.adapters.base import AttachmentKind, OutboundFile, Rejected

PHOTO_BYTES = 10 * 2**20
UPLOAD_BYTES = 50 * 2**20
"""What bots may send (Bot API, Sending files)."""
UPLOAD_S = 180.0
ALBUM_FILES = 10
"""What sendMediaGroup takes, at least two."""
_PHOTOS = ("image/jpeg", "image/png")
_NO_PHOTO = re.compile(r"PHOTO_|IMAGE_|VOICE_")
"""A picture too long or too wide, a chat that takes no voice notes: as a document it goes."""


async def send_file(
    bot: Bot, chat: int, thread: int | None, file: OutboundFile, reply: ReplyParameters | None, *, quiet: bool
) -> Message:
    """Raises TelegramError, and Rejected for what is larger than bots may send."""
    if len(file.content) > UPLOAD_BYTES:
        raise Rejected(f"The file is larger than the {UPLOAD_BYTES // 2**20} MB that bots may send.")
    more = _more(thread, reply, quiet=quiet)

    def content() -> InputFile:
        return InputFile(file.content, filename=file.name)

    special = _special(bot, file)
    if special is not None:
        try:
            return await special(chat, content(), **more)
        except BadRequest as exc:
            if not _NO_PHOTO.search(exc.message.upper()):
                raise
    return await bot.send_document(chat, content(), disable_content_type_detection=True, **more)


async def send_album(
    bot: Bot,
    chat: int,
    thread: int | None,
    files: Sequence[OutboundFile],
    reply: ReplyParameters | None,
    *,
    quiet: bool,
) -> tuple[Message, ...]:
    """Two to ten pictures as one: as documents, all of them, when one is none that Telegram would show.

    Telegram sends an album whole or not at all. Raises as `send_file`.
    """
    if sum(len(file.content) for file in files) > UPLOAD_BYTES:
        raise Rejected(f"The pictures are larger than the {UPLOAD_BYTES // 2**20} MB that bots may send.")
    more = _more(thread, reply, quiet=quiet)
    if all(_is_photo(file) for file in files):
        photos = [InputMediaPhoto(file.content, filename=file.name) for file in files]
        try:
            return await bot.send_media_group(chat, photos, **more)
        except BadRequest as exc:
            if not _NO_PHOTO.search(exc.message.upper()):
                raise
    documents = [
        InputMediaDocument(file.content, filename=file.name, disable_content_type_detection=True)
        for file in files
    ]
    return await bot.send_media_group(chat, documents, **more)


def _more(thread: int | None, reply: ReplyParameters | None, *, quiet: bool) -> dict[str, Any]:
    return {
        "message_thread_id": thread,
        "reply_parameters": reply,
        "disable_notification": quiet,
        "write_timeout": UPLOAD_S,
        "read_timeout": UPLOAD_S,
    }


def _is_photo(file: OutboundFile) -> bool:
    is_shown = file.kind is AttachmentKind.IMAGE and file.mime in _PHOTOS
    return is_shown and len(file.content) <= PHOTO_BYTES


def _special(bot: Bot, file: OutboundFile) -> Callable[..., Awaitable[Message]] | None:
    if file.kind is AttachmentKind.VOICE and file.mime.startswith("audio/ogg"):
        return bot.send_voice
    return bot.send_photo if _is_photo(file) else None
