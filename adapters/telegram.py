"""Telegram: one bot's long polling, sending and downloading over python-telegram-bot.

What updates mean is in `telegram_inbound`; whether and when to repeat a call is the delivery's business.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import httpx
from telegram import (
    Bot,
    ChatMemberBanned,
    ChatMemberLeft,
    ChatMemberRestricted,
    LinkPreviewOptions,
    ReactionTypeEmoji,
    ReplyParameters,
    Update,
)
from telegram.constants import ChatAction, ReactionEmoji
from telegram.error import (
    BadRequest,
    ChatMigrated,
    InvalidToken,
    TelegramError,
    TimedOut,
)

from trunkline.adapters.base import (
    Attachment,
    ChatKind,
    ChatRef,
    Chunk,
    CommandSpec,
    Deliver,
    Limits,
    NotStored,
    OutboundMessage,
    Receipt,
    Rejected,
    TooLarge,
    Unauthorized,
    Unavailable,
    Uncertain,
)
from trunkline.adapters.markup.telegram import MESSAGE_UNITS, render_telegram
from trunkline.adapters.telegram_buttons import Presses, keyboard
from trunkline.adapters.telegram_faults import PollPacing, Setbacks, refused_token, translated
from trunkline.adapters.telegram_files import ALBUM_FILES, UPLOAD_BYTES, send_album, send_file
from trunkline.adapters.telegram_inbound import GENERAL_TOPIC, Myself, moved_group, normalise
from trunkline.adapters.telegram_menu import menu_name, publish_menus, publish_own_menu
from trunkline.adapters.telegram_requests import PollRequest, WholeRequest
from trunkline.adapters.telegram_styles import styled

logger = logging.getLogger(__name__)

CLOUD_API = "https://api.telegram.org"
UPDATES_WANTED = ("message", "edited_message", "callback_query", "my_chat_member", "message_reaction")

CONNECT_S = 10.0
READ_S = 20.0
"""How long a call other than a poll may take to answer."""
DOWNLOAD_S = 120.0
SMALL_CALL_S = 5.0
"""For a call nobody waits for: confirming the last offset."""

SEND_CONNECTIONS = 16
POLL_CONNECTIONS = 2
"""One to poll with and one spare, should the first hang until its time-out."""

MOVED_CHATS_MOST = 1000
"""New ids of migrated groups kept in memory; the oldest is forgotten and learnt again by one refusal."""

_TOPIC_GONE = re.compile(r"message thread not found|topic_closed|topic_deleted|topic_id_invalid")
_MEMBER_HIDDEN = re.compile(r"user not found|participant_id_invalid|admin_required|list is inaccessible")
_PARTED = " "
"""Between the ids of an album's messages."""
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_T = TypeVar("_T")


class TelegramAdapter:
    """One bot. `base_url` is the root of a Bot API server of one's own; `proxy` an HTTP proxy's address;
    `drafts`: answers in private chats are shown by Telegram's own drafts while they are written.

    Raises Unauthorized at once for an empty token.
    """

    platform = "telegram"
    reactions: frozenset[str] | None = frozenset(emoji.value for emoji in ReactionEmoji)
    draft_fades_s = 30.0
    limits = Limits(
        message_chars=MESSAGE_UNITS,
        edit_interval_s=1.0,
        group_edit_interval_s=3.0,
        typing_interval_s=4.0,
        album_files=ALBUM_FILES,
        album_bytes=UPLOAD_BYTES,
    )

    def __init__(
        self,
        token: str,
        *,
        commands: Sequence[CommandSpec] = (),
        base_url: str | None = None,
        proxy: str | None = None,
        pacing: PollPacing | None = None,
        drafts: bool = False,
    ) -> None:
        if not token:
            raise Unauthorized(
                "There is no Telegram bot token. Set TELEGRAM_BOT_TOKEN to the one BotFather gave."
            )
        _quiet_library_logs()
        self._pacing = pacing or PollPacing()
        root = (base_url or CLOUD_API).rstrip("/")
        self._bot = Bot(
            token,
            base_url=f"{root}/bot",
            base_file_url=f"{root}/file/bot",
            request=WholeRequest(
                SEND_CONNECTIONS,
                read_timeout=READ_S,
                write_timeout=READ_S,
                connect_timeout=CONNECT_S,
                pool_timeout=READ_S,
                proxy=proxy,
            ),
            get_updates_request=PollRequest(
                POLL_CONNECTIONS,
                read_timeout=self._pacing.grace_s,
                connect_timeout=CONNECT_S,
                pool_timeout=CONNECT_S,
                proxy=proxy,
            ),
        )
        self._commands = tuple(commands)
        self._proxy = proxy
        self._moved: dict[int, int] = {}
        self._deliver: Deliver | None = None
        self._presses: Presses | None = None
        self._user_name = ""
        self._heard_s = 0.0
        self._drafts = drafts

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        """Polls until cancelled. The next poll, which tells Telegram that we have a batch, goes out only
        after each update of it was delivered; one whose delivery fails comes again."""
        try:
            me = await self._connect()
            self._deliver = deliver
            connected(str(me.id))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publish_menus(self._bot, self._commands))
                self._presses = Presses(self._bot, tasks)
                await self._poll(me, deliver)
        except BaseExceptionGroup as group:
            # What ended the polling; the presses that wait raise nothing.
            raise group.exceptions[0] from group
        finally:
            await self._bot.shutdown()

    async def _connect(self) -> Myself:
        try:
            await self._bot.initialize()
            await self._bot.delete_webhook(drop_pending_updates=False)
        except InvalidToken:
            # The library's own message quotes the token, so it stays out of the traceback.
            raise refused_token() from None
        except TelegramError as exc:
            raise translated(exc, "connecting") from exc
        names = {menu_name(spec): spec.name for spec in self._commands}
        self._heard_s = time.monotonic()
        self._user_name = self._bot.username
        return Myself(self._bot.id, self._user_name, names)

    async def _poll(self, me: Myself, deliver: Deliver) -> None:
        offset: int | None = None
        confirmed: int | None = None
        setbacks = Setbacks(self._pacing)
        try:
            while True:
                try:
                    updates = await self._next_updates(offset)
                except (TelegramError, TimeoutError) as exc:
                    await asyncio.sleep(setbacks.wait_s(exc, time.monotonic()))
                    continue
                setbacks.failures = 0
                self._heard_s = time.monotonic()
                confirmed = offset
                for update in updates:
                    await self._take(update, me, deliver)
                    offset = update.update_id + 1
        finally:
            if offset != confirmed:
                await self._confirm(offset)

    async def _next_updates(self, offset: int | None) -> tuple[Update, ...]:
        async with asyncio.timeout(self.deaf_after_s + CONNECT_S):
            return await self._bot.get_updates(
                offset=offset, timeout=self._pacing.poll_s, allowed_updates=UPDATES_WANTED
            )

    async def _take(self, update: Update, me: Myself, deliver: Deliver) -> None:
        try:
            messages = normalise(update, me)
        except (AttributeError, LookupError, TypeError, ValueError):
            # It would come again for ever and keep everything behind it waiting.
            logger.exception("update skipped, not understood: %d", update.update_id)
            return
        for message in messages:
            await deliver(message)
        if update.callback_query is not None and self._presses is not None:
            if any(message.chat_kind is not ChatKind.DIRECT for message in messages):
                self._presses.hold(update.callback_query.id)
            else:
                await self._presses.acknowledge(update.callback_query.id)

    async def _confirm(self, offset: int | None) -> None:
        try:
            async with asyncio.timeout(SMALL_CALL_S):
                await self._bot.get_updates(offset=offset, limit=1, timeout=0)
        except (TelegramError, TimeoutError) as exc:
            logger.debug("last offset not confirmed: %s", exc)

    @property
    def deaf_after_s(self) -> float:
        return self._pacing.poll_s + self._pacing.grace_s

    @property
    def heard_ago_s(self) -> float:
        """Since the last poll that was answered."""
        return time.monotonic() - self._heard_s

    @property
    def direct_link(self) -> str:
        return f"https://t.me/{self._user_name}" if self._user_name else ""

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        return render_telegram(markdown, MESSAGE_UNITS)

    async def send(self, message: OutboundMessage) -> Receipt:
        """Sends text with entities, link previews off. A reply to a message that is gone is sent as none, to
        a topic that is gone goes to the chat. `mention` means nothing here; only who pressed a button can be
        told something alone, in 200 characters."""
        if message.ephemeral and _number(message.to.chat) < 0 and await self._whisper(message):
            return Receipt("")
        reply = None
        if message.reply_to is not None:
            reply = ReplyParameters(_number(message.reply_to), allow_sending_without_reply=True)

        async def call(chat: int, thread: int | None) -> Receipt:
            if message.album:
                shown = await send_album(self._bot, chat, thread, message.files, reply, quiet=message.quiet)
                return Receipt(_PARTED.join(str(one.message_id) for one in shown))
            if message.file is not None:
                sent = await send_file(self._bot, chat, thread, message.file, reply, quiet=message.quiet)
                return Receipt(str(sent.message_id))
            sent = await styled(
                message.chunk,
                lambda text, entities: self._bot.send_message(
                    chat,
                    text,
                    entities=entities,
                    message_thread_id=thread,
                    reply_parameters=reply,
                    link_preview_options=_NO_PREVIEW,
                    disable_notification=message.quiet,
                    reply_markup=keyboard(message.buttons),
                ),
            )
            return Receipt(str(sent.message_id))

        return await self._in_chat(message.to, "sending", call)

    def shows_drafts(self, to: ChatRef) -> bool:
        """In private chats alone."""
        return self._drafts and _number(to.chat) > 0

    async def show_draft(self, to: ChatRef, draft_id: int, chunk: Chunk) -> None:
        async def call(chat: int, thread: int | None) -> None:
            await styled(
                chunk,
                lambda text, entities: self._bot.send_message_draft(
                    chat, draft_id, text, message_thread_id=thread, entities=entities
                ),
            )

        try:
            await self._in_chat(to, "drafting", call)
        except Unauthorized as exc:
            # A server that knows no drafts says so in a way that the library takes for a bad token; if it is
            # one, polling finds out.
            self._drafts = False
            raise Rejected("This server of the Bot API has no drafts.") from exc

    async def _whisper(self, message: OutboundMessage) -> bool:
        """By the press of a button that is still open; false when there is none and the chat may see it."""
        query, text = message.to.interaction or "", message.chunk.text
        try:
            told = self._presses is not None and await self._presses.whisper(query, text)
        except TelegramError as exc:
            raise translated(exc, "answering a button") from exc
        if not told and message.private:
            raise Rejected("Telegram has no way to tell one person something in a group.")
        return told

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        """A bot has one reaction on a message; an empty emoji takes it back."""

        async def call(chat: int, thread: int | None) -> None:
            # As a bare text the library takes an emoji that it doesn't know for a custom one.
            reaction = [ReactionTypeEmoji(emoji)] if emoji else []
            await self._bot.set_message_reaction(chat, _number(message_id), reaction)

        await self._in_chat(to, "reacting", call)

    async def show_commands(self, chat: str, more: Sequence[CommandSpec]) -> None:
        """In everybody's languages; names in letters that Telegram's menus don't have are left out."""

        async def call(number: int, _: int | None) -> None:
            try:
                await publish_own_menu(self._bot, number, self._commands, more)
            except TimeoutError as exc:
                raise TimedOut from exc

        await self._in_chat(ChatRef(chat), "setting a menu", call)

    async def is_in(self, chat: str, user: str) -> bool:
        """Whether somebody is still in a group, as far as Telegram tells those who are no admins there."""

        async def call(number: int, _: int | None) -> bool:
            try:
                found = await self._bot.get_chat_member(number, _number(user))
            except BadRequest as exc:
                if _MEMBER_HIDDEN.search(exc.message.lower()):
                    return True
                raise
            if isinstance(found, ChatMemberRestricted):
                return found.is_member
            return not isinstance(found, ChatMemberLeft | ChatMemberBanned)

        return await self._in_chat(ChatRef(chat), "asking who is there", call)

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        async def call(chat: int, thread: int | None) -> Receipt:
            try:
                await styled(
                    message.chunk,
                    lambda text, entities: self._bot.edit_message_text(
                        text,
                        chat_id=chat,
                        message_id=_number(message_id),
                        entities=entities,
                        link_preview_options=_NO_PREVIEW,
                        reply_markup=keyboard(message.buttons),
                    ),
                )
            except BadRequest as exc:
                if not exc.message.lower().startswith("message is not modified"):
                    raise
            return Receipt(message_id)

        return await self._in_chat(message.to, "editing", call)

    async def delete(self, to: ChatRef, message_id: str) -> None:
        """Telegram lets bots do so for 48 hours."""

        async def call(chat: int, thread: int | None) -> None:
            # Of an album one may be gone already: the others go all the same.
            for one in message_id.split(_PARTED):
                try:
                    await self._bot.delete_message(chat, _number(one))
                except BadRequest as exc:
                    if "message to delete not found" not in exc.message.lower():
                        raise

        await self._in_chat(to, "deleting", call)

    async def typing(self, to: ChatRef, *, on: bool) -> None:
        """Shows it for five seconds or until the next message; Telegram has no call to end it."""
        if not on:
            return

        async def call(chat: int, thread: int | None) -> None:
            await self._bot.send_chat_action(chat, ChatAction.TYPING, message_thread_id=thread)

        await self._in_chat(to, "typing", call)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """TooLarge when it is larger than `max_bytes` or than the 20 MB the cloud API lets bots fetch."""
        too_large = f"The file is larger than {max_bytes // 2**20} MB."
        if attachment.size_bytes is not None and attachment.size_bytes > max_bytes:
            raise TooLarge(too_large)
        try:
            async with asyncio.timeout(DOWNLOAD_S):
                file = await self._bot.get_file(attachment.ref.partition(":")[0])
                if file.file_size is not None and file.file_size > max_bytes:
                    raise TooLarge(too_large)
                return await self._fetch(file.file_path or "", max_bytes, too_large)
        except TelegramError as exc:
            if isinstance(exc, BadRequest) and "too big" in exc.message.lower():
                raise TooLarge("The file is larger than the 20 MB that Telegram lets bots fetch.") from exc
            error = translated(exc, "downloading")
            raise (Unavailable(str(error)) if isinstance(error, Uncertain) else error) from exc
        except (TimeoutError, httpx.HTTPError) as exc:
            raise Unavailable(f"Telegram didn't hand over the file: {type(exc).__name__}") from exc

    async def _fetch(self, url: str, max_bytes: int, too_large: str) -> bytes:
        """No error of this call may name its address: it holds the token."""
        content = bytearray()
        timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
        async with (
            httpx.AsyncClient(proxy=self._proxy, timeout=timeout) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code >= 500:
                raise Unavailable(f"Telegram didn't hand over the file: HTTP {response.status_code}")
            if response.status_code != 200:
                raise Rejected(f"Telegram no longer has the file: HTTP {response.status_code}")
            async for part in response.aiter_bytes():
                content += part
                if len(content) > max_bytes:
                    raise TooLarge(too_large)
        return bytes(content)

    async def _in_chat(self, to: ChatRef, doing: str, call: Callable[[int, int | None], Awaitable[_T]]) -> _T:
        """Makes the call in the chat; once more where Telegram said it did nothing and named the way: under
        a migrated group's new id, without a deleted topic. Errors come out as AdapterError kinds."""
        chat = _number(to.chat)
        chat = self._moved.get(chat, chat)
        thread = _number(to.thread) if to.thread is not None else None
        thread = None if thread == GENERAL_TOPIC else thread
        moved = False
        while True:
            try:
                return await call(chat, thread)
            except ChatMigrated as exc:
                if moved:
                    raise translated(exc, doing) from exc
                moved = True
                await self._remember_move(chat, exc.new_chat_id)
                chat = exc.new_chat_id
            except BadRequest as exc:
                if thread is None or not _TOPIC_GONE.search(exc.message.lower()):
                    raise translated(exc, doing) from exc
                logger.info("topic is gone, using the chat itself: chat %d topic %d", chat, thread)
                thread = None
            except TelegramError as exc:
                raise translated(exc, doing) from exc

    async def _remember_move(self, old: int, new: int) -> None:
        if len(self._moved) >= MOVED_CHATS_MOST:
            del self._moved[next(iter(self._moved))]
        self._moved[old] = new
        if self._deliver is not None:
            try:
                await self._deliver(moved_group(old, new, self._bot.id))
            except NotStored as exc:
                logger.warning("move of a group not stored: %s", exc)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as exc:
        raise Rejected(f"Telegram has no such id: {text!r}") from exc


def _quiet_library_logs() -> None:
    """The HTTP client names every address it calls, token included; the library quotes what it was sent."""
    for name in ("httpx", "telegram"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("telegram.request.BaseRequest").setLevel(logging.CRITICAL)
