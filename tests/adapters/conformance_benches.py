"""The benches of our own adapters: each drives its platform's emulator, or a browser or a terminal."""

import asyncio
import html
import io
import queue
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
from rich.console import Console

from tests.adapters.telegram_house import ANN, FAST
from tests.emulators.base import Fault
from tests.emulators.discord import DiscordEmulator, rate_limited
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, SlackEmulator
from tests.emulators.slack_bench import QUICK
from tests.emulators.telegram import TelegramEmulator
from tests.ports import free_port
from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    ChatRef,
    Chunk,
    CommandSpec,
    InboundMessage,
    OutboundMessage,
    RateLimited,
    Rejected,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.adapters.conformance import AdapterBench, Author, Call, Shown, Where, unsupported
from trunkline.adapters.discord import DiscordAdapter
from trunkline.adapters.slack import SlackAdapter
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.adapters.terminal import TerminalAdapter
from trunkline.adapters.web.adapter import WebAdapter

COMMANDS = (CommandSpec("help", "What I can do", "words"), CommandSpec("stop", "Stop"))
FORUM, TOPIC = -1002000000002, 11
ROBOT = 7777


class TelegramBench(AdapterBench):
    def __init__(self, emulator: TelegramEmulator) -> None:
        self.emulator = emulator
        emulator.group(FORUM, topics=(TOPIC,))
        self._last: tuple[int, int] = (0, 0)

    def adapter(self) -> Adapter:
        return TelegramAdapter(
            self.emulator.token, commands=COMMANDS, base_url=self.emulator.url, pacing=FAST
        )

    def adapter_with_bad_token(self) -> Adapter:
        return TelegramAdapter("42:wrong", base_url=self.emulator.url)

    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        if where == "direct":
            said = await self.emulator.direct_message(ANN, text)
        elif by == "nobody":
            said = await self.emulator.anonymous_admin_message(FORUM, text)
        else:
            self.emulator.person(ROBOT, "Robot", is_bot=True)
            said = await self.emulator.group_message(
                FORUM,
                ANN if by == "person" else ROBOT,
                text,
                mention=mention,
                thread=TOPIC if where == "thread" else None,
                reply_to=None if reply_to is None else int(reply_to),
            )
        self._last = (said.chat_id, said.message_id)
        return str(said.message_id)

    async def edit(self, message_id: str, text: str) -> None:
        await self.emulator.edit_message(ANN, int(message_id), text)

    async def attach(self, name: str, content: bytes, text: str) -> str:
        file = self.emulator.document(content, name, "application/octet-stream")
        return str((await self.emulator.direct_message(ANN, text, media=file)).message_id)

    async def files(self, to: ChatRef) -> Sequence[tuple[str, bytes]]:
        sent = [
            message["document"]
            for message in self.emulator.chats[int(to.chat)].messages.values()
            if "document" in message and self.emulator.is_own(message)
        ]
        return [(file["file_name"], self.emulator.files[file["file_id"]]) for file in sent]

    async def call(self, command: str, argument: str) -> None:
        await self.emulator.direct_message(ANN, f"/{command} {argument}")

    async def press(self, to: ChatRef, message_id: str, label: str) -> None:
        payloads = dict(
            button
            for shown in self.emulator.sent(int(to.chat))
            if shown.message_id == int(message_id)
            for button in shown.buttons
        )
        await self.emulator.press_button(ANN, int(to.chat), int(message_id), payloads[label])

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        await self.emulator.react(ANN, int(to.chat), int(message_id), emoji)

    async def repeat(self) -> None:
        chat, message = self._last
        await self.emulator.push_raw("message", self.emulator.chats[chat].messages[message])

    async def cut(self) -> None:
        self.emulator.fail_next("getUpdates", Fault(drop=True), times=2)

    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        return [
            Shown(
                one.text,
                tuple(label for label, _ in one.buttons),
                re.search(r"(?<!\w)@\w{2}", one.text) is not None,
            )
            for one in self.emulator.sent(int(to.chat))
        ]

    def length(self, chunk: Chunk) -> int:
        return len(chunk.text.encode("utf-16-le")) // 2

    def refuse_next(self, call: Call, kind: type[AdapterError]) -> None:
        def refused(status: int, said: str, **parameters: int) -> Fault:
            body = {"ok": False, "error_code": status, "description": said, "parameters": parameters}
            return Fault(status, body)

        faults = {
            RateLimited: refused(429, "Too Many Requests: retry after 7", retry_after=7),
            Uncertain: Fault(accept_then_drop=True),
            Rejected: refused(400, "Bad Request: ENTITY_BOUNDS_INVALID"),
            Unreachable: refused(403, "Forbidden: bot was blocked by the user"),
        }
        if kind not in faults:
            unsupported()
        method = {"send": "sendMessage", "edit": "editMessageText", "typing": "sendChatAction"}[call]
        self.emulator.fail_next(method, faults[kind])


class DiscordBench(AdapterBench):
    def __init__(self, emulator: DiscordEmulator) -> None:
        self.emulator = emulator
        self._thread: str | None = None

    def adapter(self) -> Adapter:
        return DiscordAdapter(self.emulator.token, commands=COMMANDS, connector=self.emulator.connector)

    def adapter_with_bad_token(self) -> Adapter:
        return DiscordAdapter("wrong", connector=self.emulator.connector)

    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        if where == "direct":
            return await self.emulator.direct_message("77", text)
        if by == "nobody":
            return await self.emulator.webhook_message(self.emulator.general, "Hook", text)
        channel = self.emulator.general
        if where == "thread":
            self._thread = self._thread or await self._open_thread()
            channel = self._thread
        self.emulator.world.add_user("88", "Robot", bot=True)
        return await self.emulator.channel_message(
            channel, "77" if by == "person" else "88", text, mention=mention, reply_to=reply_to
        )

    async def _open_thread(self) -> str:
        return await self.emulator.create_thread(self.emulator.general, "77", "A thread", announce=False)

    async def edit(self, message_id: str, text: str) -> None:
        await self.emulator.edit(self.emulator.direct_chat("77"), message_id, text)

    async def delete(self, message_id: str) -> None:
        await self.emulator.delete(self.emulator.general, message_id)

    async def attach(self, name: str, content: bytes, text: str) -> str:
        file = self.emulator.attachment(name, content, "application/octet-stream")
        return await self.emulator.direct_message("77", text, attachments=[file])

    async def files(self, to: ChatRef) -> Sequence[tuple[str, bytes]]:
        world = self.emulator.world
        held = world.messages.get(to.thread or to.chat, {}).values()
        sent = [file for m in held if m["author"]["id"] == world.bot_id for file in m["attachments"]]
        return [(file["filename"], world.files[urlsplit(file["url"]).path]) for file in sent]

    async def call(self, command: str, argument: str) -> None:
        await self.emulator.slash("77", command, argument)

    async def press(self, to: ChatRef, message_id: str, label: str) -> None:
        await self.emulator.press("77", message_id, label)

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        await self.emulator.react("77", to.chat, message_id, emoji)

    async def repeat(self) -> None:
        await self.emulator.say_again(1)

    async def cut(self) -> None:
        await self.emulator.gateway.cut()

    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        return [
            Shown(one.text, one.buttons, "everyone" in one.pings)
            for one in self.emulator.sent(to.thread or to.chat)
            if not one.ephemeral
        ]

    def refuse_next(self, call: Call, kind: type[AdapterError]) -> None:
        faults = {
            # discord.py sits out shorter waits by itself.
            RateLimited: rate_limited(120.0),
            Uncertain: Fault(),
            Rejected: Fault(400, {"code": 50035, "message": "Invalid Form Body"}),
            Unreachable: Fault(403, {"code": 50007, "message": "Cannot send messages to this user"}),
        }
        if kind not in faults or kind is Uncertain:
            unsupported()  # its sends bear a nonce, so a lost answer is never in doubt
        method = {"send": "create_message", "edit": "edit_message", "typing": "typing"}[call]
        self.emulator.fail_next(method, faults[kind])


class SlackBench(AdapterBench):
    def __init__(self, emulator: SlackEmulator) -> None:
        self.emulator = emulator
        emulator.workspace.add_channel("C1", "channel", ("U1",))
        self._direct = emulator.workspace.direct_channel("U1").id
        self._root: str | None = None

    def adapter(self) -> Adapter:
        return SlackAdapter(
            BOT_TOKEN, APP_TOKEN, commands=COMMANDS, base_url=self.emulator.api_url, timing=QUICK
        )

    def adapter_with_bad_token(self) -> Adapter:
        return SlackAdapter("xoxb-wrong", APP_TOKEN, base_url=self.emulator.api_url, timing=QUICK)

    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        wire = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        if by != "person":
            return await self.emulator.bot_message("C1", wire, user="U0ROBOT" if by == "bot" else None)
        if where == "direct":
            return await self.emulator.direct_message("U1", wire)
        thread = reply_to or (self._root if where == "thread" else None)
        ts = await self.emulator.channel_message("C1", "U1", wire, mention=mention, thread=thread)
        self._root = self._root or ts
        return ts

    async def edit(self, message_id: str, text: str) -> None:
        await self.emulator.message_changed(self._direct, message_id, text)

    async def delete(self, message_id: str) -> None:
        await self.emulator.message_deleted("C1", message_id)

    async def attach(self, name: str, content: bytes, text: str) -> str:
        file = self.emulator.store_file(name, "application/octet-stream", content)
        return await self.emulator.direct_message("U1", text, files=[file])

    async def files(self, to: ChatRef) -> Sequence[tuple[str, bytes]]:
        ids = [file["id"] for post in self.emulator.sent(to.chat, to.thread) for file in post.files]
        stored = self.emulator.workspace.files
        return [(stored[id].name, stored[id].content) for id in ids]

    async def call(self, command: str, argument: str) -> None:
        await self.emulator.slash("U1", self._direct, f"{command} {argument}")

    async def press(self, to: ChatRef, message_id: str, label: str) -> None:
        post = self.emulator.workspace.channels[to.chat].posts[message_id]
        value = next(one["value"] for one in post.buttons if one["text"]["text"] == label)
        await self.emulator.press("U1", to.chat, message_id, value, value)

    async def react(self, to: ChatRef, message_id: str, emoji: str) -> None:
        await self.emulator.react("U1", to.chat, message_id, {"👍": "+1"}[emoji])

    async def repeat(self) -> None:
        await self.emulator.again(self.emulator.socket.deliveries[-1])

    async def cut(self) -> None:
        await self.emulator.socket.drop()

    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        return [
            Shown(
                post.text,
                tuple(button["text"]["text"] for button in post.buttons),
                re.search(r"<!(channel|here|everyone|subteam)", post.text) is not None,
            )
            for post in self.emulator.sent(to.chat, to.thread)
        ]

    def length(self, chunk: Chunk) -> int:
        return len(chunk.text.encode())

    def refuse_next(self, call: Call, kind: type[AdapterError]) -> None:
        if call == "typing":
            unsupported()  # the status is a courtesy: the adapter raises nothing
        method = {"send": "chat.postMessage", "edit": "chat.update"}[call]
        if kind is RateLimited:
            self.emulator.limit_next(method, 7)
        elif kind is Uncertain:
            self.emulator.fail_next(method, Fault(accept_then_drop=True))
        else:
            errors = {
                Unavailable: "service_unavailable",
                Rejected: "msg_too_long",
                Unreachable: "channel_not_found",
            }
            self.emulator.refuse_next(method, errors[kind])


class WebBench(AdapterBench):
    """A browser with the page open; it tries again by itself, as the page lets people do."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._port = free_port()
        self._base = f"http://127.0.0.1:{self._port}"

    def adapter(self) -> Adapter:
        return WebAdapter("127.0.0.1", self._port, "alice", "t0ken")

    async def ready(self) -> None:
        async with self._http.get(f"{self._base}/?token=t0ken"):
            pass

    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        if where != "direct":
            unsupported()
        return await self._post({"text": text})

    async def call(self, command: str, argument: str) -> None:
        await self._post({"text": f"/{command} {argument}"})

    async def repeat(self) -> None:
        await self._post(self._last)

    async def press(self, to: ChatRef, message_id: str, label: str) -> None:
        page = await self._page(to)
        payload = re.search(rf'data-payload="([^"]+)">{label}<', page)
        assert payload is not None
        await self._post({"kind": "press", "text": payload[1], "under": message_id})

    async def _post(self, content: dict[str, str]) -> str:
        self._last = {"id": secrets.token_hex(8), **content}
        for _ in range(3):
            headers = {"Origin": self._base}
            url = f"{self._base}/c/talk/messages"
            async with self._http.post(url, json=self._last, headers=headers) as answer:
                if answer.status == 202:
                    break
        return self._last["id"]

    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        page = await self._page(to)
        return [
            Shown(
                html.unescape(re.sub(r"<[^>]+>", "", body)).strip(),
                tuple(re.findall(r'data-payload="[^"]+">([^<]+)<', buttons)),
            )
            for body, buttons in re.findall(
                r'<li id="[^"]+" class="answer">.*?<div class="body" dir="auto">(.*?)</div>'
                r'((?:<div class="buttons">.*?</div>)?)</li>',
                page,
                re.DOTALL,
            )
        ]

    async def _page(self, to: ChatRef) -> str:
        async with self._http.get(f"{self._base}/c/{to.thread}") as answer:
            return await answer.text()


class TerminalBench(AdapterBench):
    """A pipe: lines in, text out. It reads the next line only when the last one was answered."""

    repeats_unstored = False

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._out = io.StringIO()
        self._unanswered: tuple[Adapter, InboundMessage] | None = None

    def adapter(self) -> Adapter:
        console = Console(file=self._out, width=100)
        return TerminalAdapter(
            "alice", conversation="talk", read_line=self._lines.get, console=console, settle_s=0.05
        )

    async def write(
        self,
        text: str,
        where: Where = "direct",
        *,
        mention: bool = True,
        by: Author = "person",
        reply_to: str | None = None,
    ) -> str:
        if where != "direct":
            unsupported()
        self._lines.put(text)
        await self._answer()
        return ""

    async def call(self, command: str, argument: str) -> None:
        await self.write(f"/{command} {argument}")

    async def delivered(self, adapter: Adapter, message: InboundMessage) -> None:
        self._unanswered = (adapter, message)
        if not self._lines.empty():
            await self._answer()

    async def _answer(self) -> None:
        if self._unanswered is not None:
            adapter, message = self._unanswered
            self._unanswered = None
            await adapter.send(OutboundMessage(ChatRef(message.chat, message.thread), Chunk("ok")))

    async def shown(self, to: ChatRef) -> Sequence[Shown]:
        async with asyncio.timeout(60):
            while not self._out.getvalue().strip():  # noqa: ASYNC110 - the console tells nobody
                await asyncio.sleep(0.01)
        return [Shown(line) for line in self._out.getvalue().splitlines() if line.strip()]

    def close(self) -> None:
        self._lines.put(None)


@asynccontextmanager
async def telegram() -> AsyncIterator[AdapterBench]:
    async with TelegramEmulator().running() as emulator:
        yield TelegramBench(emulator)
        assert emulator.violations == []


@asynccontextmanager
async def discord() -> AsyncIterator[AdapterBench]:
    async with DiscordEmulator().running() as emulator:
        yield DiscordBench(emulator)
        assert emulator.violations == []


@asynccontextmanager
async def slack() -> AsyncIterator[AdapterBench]:
    async with SlackEmulator(ack_timeout_s=2.0).running() as emulator:
        yield SlackBench(emulator)
        assert emulator.violations == []


@asynccontextmanager
async def web() -> AsyncIterator[AdapterBench]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield WebBench(http)


@asynccontextmanager
async def terminal() -> AsyncIterator[AdapterBench]:
    bench = TerminalBench()
    yield bench
    bench.close()


BENCHES = {"telegram": telegram, "discord": discord, "slack": slack, "web": web, "terminal": terminal}
