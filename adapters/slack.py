"""Slack by slack-bolt and Socket Mode: connects, sends, edits, shows the status, fetches files.

Reading what comes in is slack_inbound's job, order and acknowledgement slack_socket's, rendering markup's.

What this adapter chooses where Slack leaves a choice:

- `tenant` is the bot's user id (not its bot id): it is what people mention and what memberships name. `realm`
  is the workspace (team) of the event, since user ids are unique only there.
- A mention at a channel's top level opens a thread: its `thread` is its own ts, so the answer is posted under
  it and the thread is the session. That is where people of Slack look for the answer to a question put to one
  of many in a channel. Top-level talk without a mention has no thread: it is the channel's own session.
- In a direct chat the top level is one session and is answered there; a thread in it is a session of its own.
- Commands: `/trunkline name words` anywhere; `!name words` in direct chats, in threads and after a mention;
  and '@bot name' when nothing follows, so that '@bot help me with this' stays a question.
- Nobody's name is asked of Slack before the message is delivered. `name_of` asks later, for those who may
  speak, and what it learns labels later messages.
- Slack's Web API can't refuse a double. Each message carries the outbox's nonce as metadata, by which `find`
  tells whether a message whose answer was lost had arrived; `send` does so itself when it is in doubt.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from typing import NoReturn

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import Block
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    ChatRef,
    Chunk,
    CommandSpec,
    Deliver,
    InboundMessage,
    Limits,
    NotStored,
    OutboundMessage,
    Receipt,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.adapters.inline import named
from trunkline.adapters.markup.slack import render_slack
from trunkline.adapters.slack_buttons import EMOJI, attachments, name_of_emoji
from trunkline.adapters.slack_errors import error_of, translated
from trunkline.adapters.slack_files import MESSAGE_BYTES, MESSAGE_FILES, fetch_file, send_files
from trunkline.adapters.slack_inbound import (
    PLATFORM,
    Identity,
    InboundReader,
    opened_pane,
    parse_interaction,
)
from trunkline.adapters.slack_members import Members
from trunkline.adapters.slack_names import Names
from trunkline.adapters.slack_socket import Socket, build_app, open_socket, raised
from trunkline.adapters.slack_status import Status
from trunkline.adapters.slack_streams import SlackStreams
from trunkline.adapters.slack_text import without_pings
from trunkline.adapters.slack_wire import WireHistory

_log = logging.getLogger(__name__)

_SLACK_API = "https://slack.com/api/"
# chat.update takes 4000 UTF-8 bytes of text and not one more (measured by others); a little is kept free.
_MESSAGE_BYTES = 3900
_EVENT_TYPE = "trunkline"
# Below what load balancers keep idle connections for: a request on one just closed would be in doubt.
_KEEP_ALIVE_S = 10.0
_LOOK_BACK = timedelta(hours=1)
_CLOCKS_DIFFER = timedelta(minutes=5)
_MOST_AT_ONCE = 999
_MOST_PROMPTS = 4
_PROMPTS_S = 1.5
_MOST_NAMES = 10
# A mention whose name wasn't known when it came.
_USER_ID = re.compile(r"@([UW][A-Z0-9]{4,20})\b")
_WHERE_BOT_TOKEN = (
    "Copy the Bot User OAuth Token, which begins with xoxb-, from OAuth & Permissions in the app's settings"
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Waits, in seconds. `lost_after_s` is how long the library may try to mend a lost socket by itself."""

    ping_s: float = 5.0
    connect_s: float = 20.0
    lost_after_s: float = 40.0
    check_s: float = 5.0
    call_s: float = 30.0
    download_s: float = 60.0


Suggest = Callable[[str, str], Awaitable[Sequence[str]]]


class SlackAdapter:
    """One Slack app installed in one workspace (or one organisation). Implements `Adapter`.

    `base_url` is the Web API's address with its path (default https://slack.com/api/); `proxy` an HTTP proxy,
    by default that of the environment. `suggest` says what to suggest, at most four lines, to a team's user
    who opens the assistant's pane: nothing to somebody who may not talk. With `streams` answers in threads
    are shown by Slack's own streams while they are written.
    """

    def __init__(
        self,
        bot_token: str,
        app_token: str,
        *,
        commands: Sequence[CommandSpec] = (),
        base_url: str | None = None,
        proxy: str | None = None,
        timing: Timing | None = None,
        suggest: Suggest | None = None,
        streams: bool = False,
    ) -> None:
        self._app_token = app_token
        self._commands = frozenset(spec.name.casefold() for spec in commands)
        self._timing = timing or Timing()
        self._suggest = suggest
        # The libraries print whole messages at DEBUG and repeat failed posts by default; both are off.
        self._library_log = logging.getLogger(f"{__name__}.library")
        self._library_log.setLevel(logging.ERROR)
        self._web = AsyncWebClient(
            token=bot_token,
            base_url=base_url or _SLACK_API,
            proxy=proxy,
            timeout=int(self._timing.call_s),
            logger=self._library_log,
            retry_handlers=[],
        )
        self._names = Names(self._web)
        self._members = Members(self._web)
        self._status = Status(self._web)
        self._streams = SlackStreams(self._web, wanted=streams)
        self._reader: InboundReader | None = None
        self._socket: Socket | None = None

    @property
    def platform(self) -> str:
        return PLATFORM

    @property
    def reactions(self) -> frozenset[str] | None:
        return frozenset(EMOJI)

    @property
    def limits(self) -> Limits:
        # Slack's status fades after two minutes and with each post.
        return Limits(
            message_chars=_MESSAGE_BYTES,
            edit_interval_s=1.5,
            group_edit_interval_s=1.5,
            typing_interval_s=20.0,
            looks_back=True,
            album_files=MESSAGE_FILES,
            album_bytes=MESSAGE_BYTES,
        )

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        return tuple(render_slack(markdown, limit_bytes=_MESSAGE_BYTES))

    # Receiving

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        timeout = aiohttp.ClientTimeout(total=self._timing.call_s, connect=self._timing.connect_s)
        connector = aiohttp.TCPConnector(keepalive_timeout=_KEEP_ALIVE_S)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            self._web.session = http
            identity = await self._identify()
            try:
                await self._receive(identity, deliver, connected)
            except BaseExceptionGroup as group:
                failed, others = group.split(AdapterError)
                if failed is None or others is not None:
                    raise
                raise _first(failed) from group

    async def _receive(self, identity: Identity, deliver: Deliver, connected: Callable[[str], None]) -> None:
        reader = self._reader = InboundReader(identity, self._commands, self._names.known)

        not_stored: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()

        async def take(body: object) -> None:
            message = reader.read(body) if isinstance(body, dict) else None
            if not_stored.done():
                not_stored.result()
            if message is not None:
                try:
                    await deliver(message)
                except NotStored as exc:
                    # What came later must not overtake it: the next connection reads all of it back.
                    not_stored.set_exception(exc)
                    raise
            elif isinstance(body, dict) and (pane := opened_pane(body)) is not None:
                await self._welcome(str(body.get("team_id") or identity.team), *pane)

        app = build_app(self._web, identity, self._library_log, take)
        async with (
            open_socket(app, self._app_token, self._web, ping_s=self._timing.ping_s) as socket,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(socket.answer_requests())
            tasks.create_task(raised(not_stored))
            await socket.connect(self._timing.connect_s)
            self._socket = socket
            _log.info("slack connected team=%s user=%s", identity.team, identity.user)
            connected(identity.user)
            await socket.watch(self._timing.check_s, self._timing.lost_after_s)

    @property
    def deaf_after_s(self) -> float:
        return self._timing.lost_after_s

    @property
    def heard_ago_s(self) -> float:
        return inf if self._socket is None else self._socket.heard_ago_s

    async def _welcome(self, team: str, user: str, channel: str, thread: str) -> None:
        """What one could ask, in a pane just opened. A courtesy: it is tried once and never raises."""
        lines = () if self._suggest is None else await self._suggest(team, user)
        if not lines:
            return
        prompts = [{"title": line, "message": line} for line in lines[:_MOST_PROMPTS]]
        try:
            with translated("the suggestions"):
                async with asyncio.timeout(_PROMPTS_S):
                    await self._web.assistant_threads_setSuggestedPrompts(
                        channel_id=channel, thread_ts=thread, prompts=prompts
                    )
        except AdapterError as exc:
            _log.debug("slack suggestions not set cause=%s", exc)

    async def entitle(self, to: ChatRef, title: str) -> None:
        """Gives a thread of the assistant's pane its title. Raises AdapterError."""
        if to.thread is None or not to.chat.startswith("D"):
            return
        with translated("the title"):
            await self._web.assistant_threads_setTitle(channel_id=to.chat, thread_ts=to.thread, title=title)

    async def read_back(self, place: ChatRef, after: str, max_messages: int) -> tuple[InboundMessage, ...]:
        """Slack repeats an event for some minutes only; its answers come newest first, or a thread's oldest
        first, at most 999."""
        reader, limit = self._reader, min(max_messages, _MOST_AT_ONCE)
        if reader is None:
            raise Unavailable("Slack is not connected.")
        with translated("reading the channel"):
            if place.thread is not None:
                answer = await self._web.conversations_replies(
                    channel=place.chat, ts=place.thread, oldest=after, limit=limit
                )
            else:
                answer = await self._web.conversations_history(channel=place.chat, oldest=after, limit=limit)
        said = sorted(answer.get("messages") or (), key=lambda message: str(message["ts"]))
        found = (reader.read_again(message, place.chat) for message in said if message["ts"] > after)
        return tuple(message for message in found if message is not None)

    async def said_before(self, place: ChatRef, before: str, max_messages: int) -> tuple[InboundMessage, ...]:
        """A thread's first message, and the newest of at most 999 before the one of that id."""
        reader = self._reader
        if reader is None:
            raise Unavailable("Slack is not connected.")
        with translated("reading the thread"):
            answer = await self._web.conversations_replies(
                channel=place.chat, ts=place.thread or "", latest=before, limit=_MOST_AT_ONCE
            )
        said = sorted(answer.get("messages") or (), key=lambda message: str(message["ts"]))
        earlier = [message for message in said if message["ts"] < before]
        chosen = [*earlier[:1], *earlier[1:][-(max_messages - 1) :]]
        found = (reader.read_again(message, place.chat) for message in chosen)
        return tuple(message for message in found if message is not None)

    async def _identify(self) -> Identity:
        try:
            with translated("auth.test"):
                answer = await self._web.auth_test()
        except Unauthorized as exc:
            raise Unauthorized(f"SLACK_BOT_TOKEN was refused: {exc}. {_WHERE_BOT_TOKEN}") from exc
        user, bot, team = answer.get("user_id"), answer.get("bot_id"), answer.get("team_id")
        if not (user and bot):
            raise Unauthorized(f"SLACK_BOT_TOKEN belongs to no bot. {_WHERE_BOT_TOKEN}")
        return Identity(str(user), str(bot), str(team or ""))

    async def name_of(self, user: str) -> str:
        """A person's name as Slack shows it, or the id. Asks Slack: call it only for who was let in."""
        return await self._names.find(user)

    async def with_names(self, text: str) -> str:
        """The text with names for the ids of people nobody had asked about yet, ten at most."""
        ids = list(dict.fromkeys(_USER_ID.findall(text)))[:_MOST_NAMES]
        names = {}
        for user in ids:
            with suppress(Rejected):  # nobody of that id: the words stay as they were written
                names[user] = await self._names.find(user)
        return _USER_ID.sub(lambda found: f"@{named(names.get(found[1]), found[1])}", text)

    async def is_in(self, chat: str, user: str) -> bool:
        return await self._members.is_in(chat, user)

    # Sending

    async def send(self, message: OutboundMessage) -> Receipt:
        """Posts in the chat or thread; Slack has no use for `reply_to` (that is its thread) and `quiet`."""
        if message.files:
            return await self._send_files(message)
        text = without_pings(message.chunk.text, message.mention)
        if message.ephemeral:
            return await self._whisper(message, text)
        if message.tried_since is not None:
            earlier = await self.find(message.to, message.nonce, message.tried_since)
            if earlier is not None:
                return earlier
        try:
            return await self._post(message, text)
        except Uncertain as lost:
            return await self._look_for(message, lost)
        except Unreachable:
            # A slash command works where the bot is no member; there only its asker can be answered.
            if message.to.interaction is None:
                raise
            return await self._whisper(message, text)

    async def _send_files(self, message: OutboundMessage) -> Receipt:
        if message.ephemeral and not message.to.chat.startswith("D"):
            raise Rejected("a file can't be shown to one person only")
        since = None if message.tried_since is None else message.tried_since - _CLOCKS_DIFFER
        return await send_files(self._web, message.to, message.files, since, self._timing.download_s)

    async def _post(self, message: OutboundMessage, text: str) -> Receipt:
        with translated("the message", repeatable=False):
            answer = await self._web.chat_postMessage(
                channel=message.to.chat,
                text=text,
                thread_ts=message.to.thread,
                unfurl_links=False,
                unfurl_media=False,
                attachments=attachments(message.buttons) or None,
                metadata=_metadata(message.nonce) if message.nonce else None,
            )
        return Receipt(str(answer["ts"]))

    async def _look_for(self, message: OutboundMessage, lost: Uncertain) -> Receipt:
        try:
            found = await self.find(message.to, message.nonce) if message.nonce else None
        except AdapterError:
            raise lost from None
        if found is None:
            raise lost
        return found

    async def find(self, to: ChatRef, nonce: str, since: datetime | None = None) -> Receipt | None:
        """The message that carries `nonce`, among those of its chat or thread since then (an hour ago).

        None proves nothing: Slack's reads may lag behind its writes.
        """
        began = datetime.now(UTC) - _LOOK_BACK if since is None else since - _CLOCKS_DIFFER
        oldest = f"{began.timestamp():.6f}"
        with translated("reading the channel"):
            if to.thread is not None:
                answer = await self._web.conversations_replies(
                    channel=to.chat,
                    ts=to.thread,
                    limit=_MOST_AT_ONCE,
                    oldest=oldest,
                    include_all_metadata=True,
                )
            else:
                answer = await self._web.conversations_history(
                    channel=to.chat, limit=_MOST_AT_ONCE, oldest=oldest, include_all_metadata=True
                )
            said = WireHistory.model_validate(answer.data).messages
        wanted = _metadata(nonce)
        return next((Receipt(message.ts) for message in said if message.metadata == wanted), None)

    async def _whisper(self, message: OutboundMessage, text: str) -> Receipt:
        """An answer for one person's eyes, never put where others could read it.

        Through a response URL Slack gives no id: the receipt's is empty, and there is nothing to edit.
        """
        to = message.to
        asker, url = parse_interaction(to.interaction) if to.interaction else (message.mention, "")
        alive = to.interaction_expires is not None and datetime.now(UTC) < to.interaction_expires
        if url and alive and await self._respond(url, text):
            return Receipt("")
        if to.chat.startswith("D"):
            return await self._post(message, text)
        if not asker:
            raise Rejected("a private answer needs to know who asked")
        with translated("the private answer", repeatable=False):
            answer = await self._web.chat_postEphemeral(
                channel=to.chat, user=asker, text=text, thread_ts=to.thread
            )
        return Receipt(str(answer["message_ts"]))

    async def _respond(self, url: str, text: str) -> bool:
        """Answers through a response URL; False when it is used up (five answers) or has expired."""
        webhook = AsyncWebhookClient(
            url,
            timeout=int(self._timing.call_s),
            session=self._web.session,
            proxy=self._web.proxy,
            logger=self._library_log,
            retry_handlers=[],
        )
        with translated("the private answer", repeatable=False):
            answer = await webhook.send(
                text=text,
                response_type="ephemeral",
                replace_original=False,
                unfurl_links=False,
                unfurl_media=False,
            )
            if answer.status_code == 429 or answer.status_code >= 500:
                raise SlackApiError("refused", answer)  # type: ignore[no-untyped-call]
        return answer.status_code == 200

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        """An edit whose answer was lost is Unavailable, not Uncertain: the same edit again does no harm."""
        text = without_pings(message.chunk.text, message.mention)
        channel, cards = message.to.chat, attachments(message.buttons)
        # What was streamed stands in blocks, which Slack would keep.
        blocks: list[Block] | None = [] if self._streams.wanted else None
        update = partial(self._web.chat_update, channel=channel, ts=message_id, blocks=blocks)
        with translated("the edit"):
            await self._streams.once_ended(channel, message_id, partial(update, text=text, attachments=cards))
        return Receipt(message_id)

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        """Adds one more; an empty emoji does nothing, since earlier ones aren't known."""
        name = name_of_emoji(emoji)
        if not emoji:
            return
        if name is None:
            raise Rejected("Slack has another name for that emoji than the adapter knows.")
        with translated("the reaction"):
            try:
                await self._web.reactions_add(channel=to.chat, timestamp=message_id, name=name)
            except SlackApiError as exc:
                if error_of(exc) != "already_reacted":
                    raise

    async def delete(self, to: ChatRef, message_id: str) -> None:
        with translated("the deletion"):
            try:
                delete = partial(self._web.chat_delete, channel=to.chat, ts=message_id)
                await self._streams.once_ended(to.chat, message_id, delete)
            except SlackApiError as exc:
                if error_of(exc) != "message_not_found":
                    raise

    async def typing(self, to: ChatRef, *, on: bool) -> None:
        """Sets or clears the status of a thread. Never raises."""
        await self._status.show(to, on=on)

    def streams_in(self, to: ChatRef) -> bool:
        return self._streams.possible_in(to)

    async def begin_stream(self, to: ChatRef, reader: str, realm: str) -> Receipt:
        return await self._streams.begin(to, reader, realm)

    async def add_to_stream(self, to: ChatRef, message_id: str, markdown: str, shown_chars: int) -> None:
        await self._streams.add(to, message_id, markdown, shown_chars)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        return await fetch_file(self._web, attachment, max_bytes, self._timing.download_s)


def _metadata(nonce: str) -> dict[str, object]:
    return {"event_type": _EVENT_TYPE, "event_payload": {"nonce": nonce}}


def _first(group: BaseExceptionGroup[AdapterError]) -> AdapterError:
    """A task group wraps what ended it; the supervisor wants the error itself."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
