"""Fetches a file that somebody sent on Slack: finds its address where only an id is known, then its bytes."""

from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import AdapterError, Attachment, RateLimited, Rejected, Unavailable
from trunkline.adapters.slack_errors import translated
from trunkline.adapters.slack_wire import WireFile

_READ_BYTES = 64 * 1024


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
        raise RateLimited(
            "Slack asks to wait before the file", float(response.headers.get("Retry-After", "10"))
        )
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
            raise Rejected(f"the file is larger than {max_bytes} bytes")
    return bytes(found)
