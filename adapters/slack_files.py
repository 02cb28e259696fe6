"""Files on Slack: fetches what somebody sent, and sends what the house has.

To fetch, the address is found where only an id is known. To send takes three calls: only the last shows the
file, so only of it can it be unknown whether it was done.
"""

import io
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    ChatRef,
    OutboundFile,
    RateLimited,
    Receipt,
    Rejected,
    TooLarge,
    Unavailable,
    Uncertain,
)
from trunkline.adapters.slack_errors import translated, wait_s
from trunkline.adapters.slack_wire import WireFile, WireShares

MESSAGE_FILES = 10
"""Slack names no limit; so many are still looked at."""
MESSAGE_BYTES = 50 * 2**20
_READ_BYTES = 64 * 1024
_MOST = 200


async def fetch_file(web: AsyncWebClient, attachment: Attachment, max_bytes: int, timeout_s: float) -> bytes:
    """The bytes of an attachment, at most `max_bytes`. Raises AdapterError kinds."""
    with translated("the file"):
        address = attachment.ref if "://" in attachment.ref else await _find_address(web, attachment.ref)
        _require_own_host(web, address)
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        headers = {"Authorization": f"Bearer {web.token}"}
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(address, headers=headers, proxy=web.proxy) as response,
        ):
            _require_file(response, attachment)
            return await _read(response, max_bytes)


async def send_files(
    web: AsyncWebClient, to: ChatRef, files: Sequence[OutboundFile], since: datetime | None, timeout_s: float
) -> Receipt:
    """Shows files in the chat or thread, in one message. Since `since` they may be there already.

    Gives the ts of their message, or the first one's id where Slack doesn't tell that yet.
    """
    if since is not None and (shown := await _find_shown(web, to, files, since)) is not None:
        return shown
    ids = [await _upload(web, file, timeout_s) for file in files]
    try:
        with translated("the file", repeatable=False):
            await web.files_completeUploadExternal(
                files=[{"id": one, "title": file.name} for one, file in zip(ids, files, strict=True)],
                channel_id=to.chat,
                thread_ts=to.thread,
            )
    except Uncertain as lost:
        shown_at = await _shown_at(web, ids[0])
        if shown_at is None:
            raise lost from None
        return Receipt(shown_at)
    return Receipt(await _shown_at(web, ids[0]) or ids[0])


async def _upload(web: AsyncWebClient, file: OutboundFile, timeout_s: float) -> str:
    """The id of a file that is at Slack now, shown to nobody yet."""
    with translated("the upload"):
        place = await web.files_getUploadURLExternal(filename=file.name, length=len(file.content))
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as http,
            http.post(str(place["upload_url"]), data=io.BytesIO(file.content), proxy=web.proxy) as response,
        ):
            if response.status != 200:
                raise Unavailable(f"Slack did not take the file (HTTP {response.status})")
    return str(place["file_id"])


async def _shown_at(web: AsyncWebClient, file_id: str) -> str | None:
    """The ts of the message that shows a file; None while Slack tells none: files appear a little later."""
    try:
        with translated("the file"):
            answer = await web.files_info(file=file_id)
    except AdapterError:
        return None
    shares = WireShares.model_validate((answer.get("file") or {}).get("shares") or {})
    posts = [post for where in (shares.public, shares.private) for posts in where.values() for post in posts]
    return posts[0].ts if posts else None


async def _find_shown(
    web: AsyncWebClient, to: ChatRef, files: Sequence[OutboundFile], since: datetime
) -> Receipt | None:
    """A message of ours with files of these names and sizes that the chat was shown since then."""
    wanted = {(file.name, len(file.content)) for file in files}
    oldest = f"{since.timestamp():.6f}"
    with translated("reading the channel"):
        if to.thread is not None:
            answer = await web.conversations_replies(
                channel=to.chat, ts=to.thread, oldest=oldest, limit=_MOST
            )
        else:
            answer = await web.conversations_history(channel=to.chat, oldest=oldest, limit=_MOST)
    for said in answer.get("messages") or ():
        shown = {(one.get("name"), one.get("size")) for one in said.get("files") or ()}
        if said.get("bot_id") and wanted <= shown:
            return Receipt(str(said["ts"]))
    return None


async def _find_address(web: AsyncWebClient, file_id: str) -> str:
    """A stub from Slack Connect is only an id; files.info has the whole record."""
    answer = await web.files_info(file=file_id)
    file = WireFile.model_validate(answer.get("file") or {"id": file_id})
    address = file.url_private_download or file.url_private
    if file.is_external or not address:
        raise Rejected("the file is kept outside Slack and can't be fetched")
    return address


def _require_own_host(web: AsyncWebClient, address: str) -> None:
    """The bot's token goes to Slack only (or to the server that `base_url` names), whatever an event says."""
    parts, api = urlsplit(address), urlsplit(web.base_url)
    host = parts.hostname or ""
    at_slack = parts.scheme == "https" and (
        host == "slack.com" or host.endswith((".slack.com", ".slack-edge.com"))
    )
    if not at_slack and (parts.scheme, parts.netloc) != (api.scheme, api.netloc):
        raise Rejected("the file is kept outside Slack and can't be fetched")


def _require_file(response: aiohttp.ClientResponse, attachment: Attachment) -> None:
    if response.status == 429:
        raise RateLimited("Slack asks to wait before the file", wait_s(response.headers))
    if response.status >= 500:
        raise Unavailable(f"Slack could not send the file (HTTP {response.status})")
    if response.status != 200:
        raise Rejected(f"Slack refused the file (HTTP {response.status})")
    # Without the scope Slack answers 200 with its sign-in page.
    if response.content_type == "text/html" and attachment.mime != "text/html":
        raise AdapterError(
            "Slack sent its sign-in page instead of the file: "
            "the app lacks the scope files:read; add it and install the app again"
        )


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    found = bytearray()
    async for part in response.content.iter_chunked(_READ_BYTES):
        found += part
        if len(found) > max_bytes:
            raise TooLarge(f"the file is larger than {max_bytes} bytes")
    return bytes(found)
