"""Receiving from Slack over Socket Mode: in order, and acknowledged only when the message is stored.

The libraries acknowledge an event at once and run each in a task of its own. Here requests wait in one queue,
Bolt runs the listener before the answer, and only a listener that returned is acknowledged; one that raised
is not, and Slack sends the event again.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from time import time
from typing import NoReturn

import aiohttp
from slack_bolt.adapter.socket_mode.async_base_handler import AsyncBaseSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import AdapterError, Rejected, Unauthorized, Unavailable
from trunkline.adapters.slack_errors import translated
from trunkline.adapters.slack_inbound import Identity

_log = logging.getLogger(__name__)

Take = Callable[[Mapping[str, object]], Awaitable[None]]
"""Stores what a request body says; raising means that Slack shall send it again."""

# Slack sends at most 30,000 events an hour per workspace; what doesn't fit is left for Slack to repeat.
_WAITING_REQUESTS = 1000
_ACK_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 5.0


class _Client(SocketModeClient):
    """The library's client tries for ever with a token that was taken back: `refused` tells of it."""

    def __init__(
        self, app_token: str, web_client: AsyncWebClient, logger: logging.Logger, ping_s: float
    ) -> None:
        super().__init__(app_token, logger, web_client, web_client.proxy, ping_interval=ping_s)
        self.refused: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

    async def issue_new_wss_url(self) -> str:
        try:
            with translated("opening Socket Mode"):
                return await super().issue_new_wss_url()
        except (Unauthorized, Rejected) as exc:
            refused = _wrong_app_token(exc)
            if not self.refused.done():
                self.refused.set_exception(refused)
            raise refused from exc


class Socket(AsyncBaseSocketModeHandler):
    """One Socket Mode connection, kept up by the library through refreshes and drops."""

    def __init__(self, app: AsyncApp, client: _Client) -> None:
        self.app = self._bolt = app
        self.client = client
        self._socket_client = client
        self._greeted = asyncio.Event()
        self._greeted_s = time()
        self._waiting: asyncio.Queue[SocketModeRequest] = asyncio.Queue(_WAITING_REQUESTS)
        client.message_listeners.append(self._notice)
        client.socket_mode_request_listeners.append(self.handle)

    async def connect(self, timeout_s: float) -> None:
        """Returns when Slack has greeted. Raises Unauthorized for a bad token, Unavailable when too late."""
        try:
            async with asyncio.timeout(timeout_s):
                # The library keeps trying a dead address; an error here must come to us instead.
                self._socket_client.wss_uri = await self._socket_client.issue_new_wss_url()
                await self._socket_client.connect()  # type: ignore[no-untyped-call]
                await self._greeted.wait()
        except TimeoutError as exc:
            raise Unavailable(f"Slack's socket did not open within {timeout_s:g} s") from exc

    async def _notice(self, _: AsyncBaseSocketModeClient, message: dict[str, object], __: str | None) -> None:
        if message.get("type") == "hello":
            self._greeted.set()
            self._greeted_s = time()

    @property
    def heard_ago_s(self) -> float:
        """Since the last pong; since the greeting, where there was none yet."""
        return time() - max(self._greeted_s, self._socket_client.last_ping_pong_time or 0.0)

    async def handle(self, _: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        try:
            self._waiting.put_nowait(request)
        except asyncio.QueueFull:
            _log.warning("slack requests wait already, left for Slack to repeat count=%d", _WAITING_REQUESTS)

    async def answer_requests(self) -> NoReturn:
        """Takes the requests one after the other, in the order in which they came, for ever."""
        while True:
            request = await self._waiting.get()
            response = await self._dispatch(request)
            try:
                async with asyncio.timeout(_ACK_TIMEOUT_S):
                    await send_async_response(self.client, request, response, time())
            except (aiohttp.ClientError, ConnectionError, TimeoutError) as exc:
                _log.info(
                    "slack acknowledgement not sent, the event will be repeated cause=%s", type(exc).__name__
                )

    async def _dispatch(self, request: SocketModeRequest) -> BoltResponse:
        try:
            parsed = AsyncBoltRequest(mode="socket_mode", body=request.payload)
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            # Bolt trips over fields of an unexpected type, and would again if the event came again.
            _log.warning("slack request not understood type=%s cause=%s", request.type, type(exc).__name__)
            return BoltResponse(status=200)
        return await self._bolt.async_dispatch(parsed)

    async def watch(self, every_s: float, patience_s: float) -> NoReturn:
        """Raises when the connection is lost: Unauthorized at once, AdapterError after `patience_s`."""
        refused = self._socket_client.refused
        loop = asyncio.get_running_loop()
        last_up = loop.time()
        while True:
            await asyncio.wait({refused}, timeout=every_s)
            if refused.done():
                refused.result()
            if await self._socket_client.is_connected():
                last_up = loop.time()
            elif loop.time() - last_up > patience_s:
                raise AdapterError(f"Slack's socket was lost and did not come back within {patience_s:g} s")


@asynccontextmanager
async def open_socket(
    app: AsyncApp, app_token: str, web: AsyncWebClient, *, ping_s: float
) -> AsyncIterator[Socket]:
    """A socket that is not connected yet, closed at the end whatever happens."""
    client = _Client(app_token, web, app.logger, ping_s)
    try:
        yield Socket(app, client)
    finally:
        if not client.refused.cancel():
            client.refused.exception()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await client.close()  # type: ignore[no-untyped-call]
        except TimeoutError:
            _log.warning("slack socket did not close in time")


def build_app(web: AsyncWebClient, identity: Identity, logger: logging.Logger, take: Take) -> AsyncApp:
    """A Bolt app whose every listener is `take`, run before the answer.

    `authorize` answers from `identity`: by itself Bolt asks Slack at the first event, and acknowledges and
    drops that event when the question fails.
    """

    async def authorize() -> AuthorizeResult:
        return AuthorizeResult(
            enterprise_id=None,
            team_id=identity.team,
            bot_user_id=identity.user,
            bot_id=identity.bot,
            bot_token=web.token,
        )

    app = AsyncApp(
        # Bolt sets the level of the logger that bears this name.
        name=logger.name,
        logger=logger,
        client=web,
        authorize=authorize,
        process_before_response=True,
        request_verification_enabled=False,
        ssl_check_enabled=False,
        url_verification_enabled=False,
        ignoring_self_events_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )
    anything = re.compile(".*")

    @app.event(anything)
    async def take_event(body: dict[str, object]) -> None:
        await take(body)

    @app.command(anything)
    async def take_command(body: dict[str, object], ack: AsyncAck) -> None:
        await take(body)
        await ack()

    @app.action(anything)
    async def take_press(body: dict[str, object], ack: AsyncAck) -> None:
        await take(body)
        await ack()

    return app


async def raised(failure: asyncio.Future[NoReturn]) -> NoReturn:
    """Waits for what ends a connection, and raises it."""
    await failure


def _wrong_app_token(exc: AdapterError) -> Unauthorized:
    return Unauthorized(
        f"SLACK_APP_TOKEN was refused: {exc}. It begins with xapp- and is made under Basic Information, "
        "App-Level Tokens, with the scope connections:write; Socket Mode must be switched on"
    )
