"""Fetches attachments from Discord's file server, whose addresses last about a day, and makes own ones."""

import io

import aiohttp
import discord

from trunkline.adapters.base import Attachment, OutboundFile, Rejected, TooLarge, Unavailable
from trunkline.adapters.discord_errors import translated
from trunkline.adapters.discord_listener import Listener

DOWNLOAD_TIMEOUT_S = 120.0
MESSAGE_FILES = 10
REQUEST_BYTES = 24 * 2**20
"""A little under the 25 MB that one request may hold (Discord, Uploading Files)."""
_PIECE_BYTES = 65_536


async def fetch_file(client: Listener, attachment: Attachment, max_bytes: int) -> bytes:
    """The whole file. `ref` is channel, message and file id and the address, parted by spaces.

    When the address has run out the message is asked for a fresh one, once. Raises AdapterError.
    """
    if attachment.size_bytes is not None and attachment.size_bytes > max_bytes:
        raise _too_large(attachment, max_bytes)
    channel_id, message_id, file_id, url = attachment.ref.split(" ", 3)
    async with translated(repeatable=True, timeout_s=DOWNLOAD_TIMEOUT_S):
        content = await _read(client.files, url, attachment, max_bytes)
        if content is None:
            held = client.get_partial_messageable(int(channel_id)).get_partial_message(int(message_id))
            url = _address(await held.fetch(), int(file_id))
            content = await _read(client.files, url, attachment, max_bytes)
    if content is None:
        raise Rejected(f"Discord no longer has the file {attachment.name}.")
    return content


async def _read(
    session: aiohttp.ClientSession, url: str, attachment: Attachment, max_bytes: int
) -> bytes | None:
    """None when the address is no longer good."""
    async with session.get(url) as response:
        if response.status in (403, 404):
            return None
        if response.status != 200:
            raise Unavailable(f"Discord's file server answered HTTP {response.status}.")
        content = bytearray()
        async for piece in response.content.iter_chunked(_PIECE_BYTES):
            content += piece
            if len(content) > max_bytes:
                raise _too_large(attachment, max_bytes)
        return bytes(content)


def _address(message: discord.Message, file_id: int) -> str:
    files = list(message.attachments)
    for snapshot in message.message_snapshots:
        files += snapshot.attachments
    for file in files:
        if file.id == file_id:
            return file.url
    raise Rejected("The message no longer has this file.")


def made(file: OutboundFile) -> discord.File:
    """The file as the library sends it; a new one for each call, since it is read once."""
    return discord.File(io.BytesIO(file.content), filename=file.name)


def is_in(message: discord.Message, file: OutboundFile) -> bool:
    """Whether a message carries this file, as far as its name and size tell."""
    name = made(file).filename
    return any(one.filename == name and one.size == len(file.content) for one in message.attachments)


def _too_large(attachment: Attachment, max_bytes: int) -> TooLarge:
    return TooLarge(f"{attachment.name} is larger than {max_bytes} bytes.")
