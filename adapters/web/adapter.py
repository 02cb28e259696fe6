"""The web chat as a platform: a page on this machine for one person, whose conversations are its threads."""

import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import uvicorn
from starlette.types import ASGIApp

from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    ChatKind,
    ChatRef,
    Chunk,
    CommandSpec,
    Deliver,
    InboundKind,
    InboundMessage,
    Limits,
    OutboundMessage,
    Receipt,
    Rejected,
    ReplyTo,
    Sender,
)
from trunkline.adapters.markup.blocks import is_blank
from trunkline.adapters.web.conversations import Conversations
from trunkline.adapters.web.files import Cabinet, Uploads, attachment_of, link_to
from trunkline.adapters.web.guard import Guard
from trunkline.adapters.web.hub import Hub
from trunkline.adapters.web.site import Posted, Receiver, Site
from trunkline.adapters.web.stops import Stops

TENANT = "local"

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:\s+(.*))?\Z", re.DOTALL)
_SHUTDOWN_S = 2.0


class WebAdapter:
    """Serves the page on `host` and `port` (0: any free one) to whoever opens `link`, as `person`.

    `names` are further values of the Host header it answers to, such as that of a proxy before it.
    """

    platform = "web"
    limits = Limits(
        message_chars=1_000_000,
        edit_interval_s=0.15,
        group_edit_interval_s=0.15,
        typing_interval_s=20.0,
        nonce=True,
    )

    def __init__(
        self,
        host: str,
        port: int,
        person: str,
        token: str,
        *,
        conversations: Conversations | None = None,
        cabinet: Cabinet | None = None,
        commands: Sequence[CommandSpec] = (),
        names: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.port = port
        self._person = person
        self._token = token
        self._conversations = conversations
        self._uploads = None if cabinet is None else Uploads(cabinet)
        self._names = names
        self._commands = commands
        self._hub = Hub()
        self._stops = Stops()

    @property
    def link(self) -> str:
        """The address that lets a browser in; known for sure once `run` has called `connected`."""
        return f"http://{_local_name(self.host)}:{self.port}/?token={self._token}"

    async def run(self, deliver: Deliver, connected: Callable[[str], None]) -> None:
        """Serves until cancelled. Raises AdapterError if the port can't be had."""
        listener = _listen(self.host, self.port)
        self.port = listener.getsockname()[1]
        self._hub.open()
        site = Site(
            self._person,
            self._guard(),
            self._hub,
            self._receiver(deliver),
            self._conversations,
            uploads=self._uploads,
            commands=self._commands,
        )
        server = _Server(site.app(), started=lambda: connected(TENANT))
        try:
            await server.serve(sockets=[listener])
        finally:
            self._hub.close()
            await server.end(listener)

    def render(self, markdown: str) -> tuple[Chunk, ...]:
        """One chunk: a page has no limit, and turns Markdown into HTML when it is shown."""
        return () if is_blank(markdown) else (Chunk(markdown),)

    async def send(self, message: OutboundMessage) -> Receipt:
        thread = _thread_of(message.to)
        id = f"n{message.nonce}" if message.nonce else secrets.token_hex(8)
        if not self._hub.knows(thread, id) and not self._stops.holds(thread, id, message):
            self._put(thread, id, message)
        return Receipt(id)

    async def edit(self, message_id: str, message: OutboundMessage) -> Receipt:
        thread = _thread_of(message.to)
        self._stops.edited(thread, message_id, message.chunk.text)
        self._put(thread, message_id, message)
        return Receipt(message_id)

    def _put(self, thread: str, id: str, message: OutboundMessage) -> None:
        # The page has a button of its own to stop with.
        buttons = tuple(button for button in message.buttons if button.action != "stop")
        text = message.chunk.text if message.file is None else link_to(thread, message.file)
        self._hub.put(thread, id, text, by_person=False, buttons=buttons)

    async def delete(self, to: ChatRef, message_id: str) -> None:
        self._hub.remove(_thread_of(to), message_id)

    async def typing(self, to: ChatRef, *, on: bool) -> None:
        thread = _thread_of(to)
        self._hub.set_typing(thread, on=on)
        if on:
            self._stops.begun(thread)
        else:
            for id, message in self._stops.ended(thread):
                self._put(thread, id, message)

    async def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        if self._uploads is None:
            raise Rejected("the web chat carries no files")
        return await self._uploads.read(attachment, max_bytes)

    def _guard(self) -> Guard:
        own = (self.host, "127.0.0.1", "localhost", "[::1]")
        hosts = {f"{name}:{self.port}" for name in own} | set(self._names)
        return Guard(self._token, frozenset(host.lower() for host in hosts), self.port)

    def _receiver(self, deliver: Deliver) -> Receiver:
        async def receive(thread: str, posted: Posted, language: str) -> None:
            message = self._inbound(thread, posted, language)
            shown = posted.kind == "message"
            cut_short = self._hub.ends_with_answer(thread)
            text = "\n".join(filter(None, (posted.text, *(f"📎 {one.name}" for one in self._files(posted)))))
            fresh = shown and self._hub.put(thread, posted.id, text, by_person=True)
            if message.command == "stop" and self._hub.is_typing(thread):
                self._stops.asked(thread, self._hub.texts(thread), cut_short=cut_short)
            committed = False
            try:
                await deliver(message)
                committed = True
            finally:
                if fresh and not committed:
                    self._hub.take_back(thread, posted.id)

        return receive

    def _files(self, posted: Posted) -> tuple[Attachment, ...]:
        """What was uploaded for this message."""
        found = None if self._uploads is None else self._uploads.find(posted.files)
        return tuple(attachment_of(upload) for upload in found or ())

    def _inbound(self, thread: str, posted: Posted, language: str) -> InboundMessage:
        if posted.kind == "press":
            return self._press(thread, posted, language)
        called = _COMMAND.match(posted.text.strip()) if posted.kind == "message" else None
        command = "stop" if posted.kind == "stop" else called[1] if called else None
        return InboundMessage(
            platform=self.platform,
            tenant=TENANT,
            kind=InboundKind.COMMAND if command else InboundKind.MESSAGE,
            chat=self._person,
            chat_kind=ChatKind.DIRECT,
            sender=Sender(self._person, self._person),
            sent_at=datetime.now(UTC),
            text=(called[2] or "") if called else posted.text,
            thread=thread,
            message_id=posted.id,
            command=command,
            attachments=self._files(posted),
            mentions_me=True,
            language=language,
        )

    def _press(self, thread: str, posted: Posted, language: str) -> InboundMessage:
        return InboundMessage(
            platform=self.platform,
            tenant=TENANT,
            kind=InboundKind.BUTTON,
            chat=self._person,
            chat_kind=ChatKind.DIRECT,
            sender=Sender(self._person, self._person),
            sent_at=datetime.now(UTC),
            text=posted.text,
            thread=thread,
            event_id=posted.id,
            reply_to=ReplyTo(posted.under, TENANT, is_own=True) if posted.under else None,
            mentions_me=True,
            language=language,
        )


class _Server(uvicorn.Server):
    """uvicorn as a guest: it leaves signals to the house and says when it is ready."""

    def __init__(self, app: ASGIApp, started: Callable[[], None]) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none"))
        self._on_started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    async def end(self, listener: socket.socket) -> None:
        """Closes every connection; those that do not end in time are cut."""
        if not self.started:
            listener.close()
            return
        self.config.timeout_graceful_shutdown = int(_SHUTDOWN_S)
        await self.shutdown([listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise AdapterError(
            f"the web page can't use port {port} on {host} ({error.strerror}): end the program that has it, "
            "or set platforms.web.port to another number"
        ) from error
    return listener


def _local_name(host: str) -> str:
    """The name to open the page by on this machine, where `host` may mean every interface."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _thread_of(to: ChatRef) -> str:
    if to.thread is None:
        raise Rejected("a web message needs a conversation to go to")
    return to.thread
