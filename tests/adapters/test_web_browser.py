"""The web chat in a real browser: what a person sees and does."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from trunkline.adapters.base import (
    Button,
    ChatRef,
    Chunk,
    CommandSpec,
    InboundKind,
    InboundMessage,
    OutboundMessage,
)
from trunkline.adapters.web.adapter import WebAdapter
from trunkline.adapters.web.conversations import Conversation, Said

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
try:
    from playwright.async_api import Browser, Page, async_playwright, expect
except ImportError:
    CHROMIUM = None
else:
    expect.set_options(timeout=60_000)

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None and "CI" not in os.environ,
        reason="needs Chromium (apt-get install chromium) and the playwright package",
    ),
]


@dataclass
class House:
    inbox: asyncio.Queue[InboundMessage] = field(default_factory=asyncio.Queue)

    titles: dict[str, str] = field(default_factory=dict)

    async def deliver(self, message: InboundMessage) -> None:
        await self.inbox.put(message)

    async def list(self, person: str) -> tuple[Conversation, ...]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return tuple(Conversation(thread, title, at) for thread, title in self.titles.items())

    async def history(self, person: str, thread: str) -> tuple[Said, ...]:
        return ()

    async def rename(self, person: str, thread: str, title: str) -> bool:
        self.titles[thread] = title
        return True

    async def delete(self, person: str, thread: str) -> None:
        self.titles.pop(thread, None)

    async def has_file(self, person: str, thread: str, sha256: str) -> bool:
        return False


COMMANDS = (
    CommandSpec("new", "begin a new conversation"),
    CommandSpec("status", "say how things are"),
    CommandSpec("search", "find what was said", "<words>"),
)


@asynccontextmanager
async def serving(adapter: WebAdapter, house: House) -> AsyncIterator[None]:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(adapter.run(house.deliver, lambda _: ready.set()))
        await ready.wait()
        try:
            yield
        finally:
            running.cancel()


@dataclass
class Visit:
    """An open page of a new conversation, and the house behind it."""

    adapter: WebAdapter
    house: House
    page: "Page"

    @property
    def to(self) -> ChatRef:
        return ChatRef("alice", self.page.url.rsplit("/", 1)[1])

    async def say(self, text: str) -> InboundMessage:
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.page.keyboard.press("Enter")
        async with asyncio.timeout(60):
            return await self.house.inbox.get()

    async def answer(self, text: str) -> str:
        return (await self.adapter.send(OutboundMessage(self.to, Chunk(text)))).message_id


@pytest.fixture
async def browser() -> AsyncIterator["Browser"]:
    assert CHROMIUM, "CI must have Chromium and playwright"
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        await started.close()


@pytest.fixture
async def visit(browser: "Browser") -> AsyncIterator[Visit]:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", "tok", conversations=house, commands=COMMANDS)
    async with serving(adapter, house):
        context = await browser.new_context(
            viewport={"width": 1280, "height": 800}, permissions=["clipboard-read", "clipboard-write"]
        )
        page = await context.new_page()
        await page.goto(adapter.link)
        yield Visit(adapter, house, page)
        await context.close()


async def test_what_is_typed_is_sent_and_shown(visit: Visit) -> None:
    message = await visit.say("hello <b>there</b>")

    assert (message.text, message.thread) == ("hello <b>there</b>", visit.to.thread)
    await expect(visit.page.locator(".person .body")).to_have_text("hello <b>there</b>")
    await expect(visit.page.get_by_label("Message", exact=True)).to_have_value("")


async def test_shift_enter_starts_a_new_line(visit: Visit) -> None:
    box = visit.page.get_by_label("Message", exact=True)
    await box.fill("one")
    await visit.page.keyboard.press("Shift+Enter")
    await visit.page.keyboard.type("two")
    await visit.page.keyboard.press("Enter")

    async with asyncio.timeout(60):
        assert (await visit.house.inbox.get()).text == "one\ntwo"


async def test_a_streamed_answer_grows_in_place(visit: Visit) -> None:
    id = await visit.answer("First")
    await expect(visit.page.locator(".answer")).to_have_text("TrunklineFirst")

    await visit.adapter.edit(id, OutboundMessage(visit.to, Chunk("First, **bold**.")))

    await expect(visit.page.locator(".answer strong")).to_have_text("bold")
    await expect(visit.page.locator(".answer")).to_have_count(1)


async def test_the_stop_button_is_there_while_answering_and_stops(visit: Visit) -> None:
    stop = visit.page.get_by_label("Stop answering")
    await expect(stop).to_be_hidden()

    await visit.adapter.typing(visit.to, on=True)
    await stop.click()
    async with asyncio.timeout(60):
        assert (await visit.house.inbox.get()).command == "stop"
    await visit.adapter.typing(visit.to, on=False)

    await expect(stop).to_be_hidden()


async def test_a_button_under_an_answer_is_pressed_and_goes_with_an_edit(visit: Visit) -> None:
    await visit.say("hello")
    again = Button("retry", "↻ Retry", "7")
    sent = await visit.adapter.send(OutboundMessage(visit.to, Chunk("An answer"), buttons=(again,)))

    await visit.page.get_by_role("button", name="↻ Retry").click()
    async with asyncio.timeout(60):
        pressed = await visit.house.inbox.get()
    await visit.adapter.edit(sent.message_id, OutboundMessage(visit.to, Chunk("Another answer")))
    await visit.page.get_by_text("Another answer").wait_for()

    assert (pressed.kind, pressed.text) == (InboundKind.BUTTON, "retry:7")
    assert pressed.reply_to is not None
    assert pressed.reply_to.message_id == sent.message_id
    assert await visit.page.get_by_role("button", name="↻ Retry").count() == 0


async def test_reload_shows_what_was_said(visit: Visit) -> None:
    await visit.say("question")
    await visit.answer("answer")

    await visit.page.reload()

    await expect(visit.page.locator("#messages > li")).to_have_count(2)
    await expect(visit.page.locator(".answer")).to_contain_text("answer")


async def test_a_script_in_model_text_does_not_run(visit: Visit) -> None:
    dialogs: list[str] = []
    visit.page.on("dialog", lambda dialog: dialogs.append(dialog.message))

    await visit.answer(
        "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) ![y](https://e.test/p.png)"
    )
    await visit.page.reload()
    await expect(visit.page.locator(".answer")).to_contain_text("<script>")

    assert dialogs == []
    assert await visit.page.locator(".answer script, .answer img").count() == 0


async def test_a_script_that_got_in_all_the_same_would_be_refused_by_the_policy(visit: Visit) -> None:
    refused = visit.page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
            document.getElementById("messages").innerHTML = "<li><img src='x' onerror='window.ran = 1'></li>";
        })"""
    )

    assert (await refused).startswith("script-src")
    assert await visit.page.evaluate("window.ran") is None


async def test_a_phone_has_no_horizontal_scroll(visit: Visit) -> None:
    await visit.page.set_viewport_size({"width": 375, "height": 812})
    wide = (
        "| "
        + " | ".join(f"column number {n}" for n in range(9))
        + " |\n"
        + "|---" * 9
        + "|\n"
        + "| x " * 9
        + "|"
    )
    await visit.say("w" * 300)
    await visit.answer(f"# {'h' * 200}\n\n{wide}\n\n```\n{'code ' * 100}\n```\n\nhttps://e.test/{'u' * 300}")
    await expect(visit.page.locator(".answer")).to_have_count(1)

    overflow = "document.documentElement.scrollWidth - window.innerWidth"
    assert await visit.page.evaluate(overflow) <= 0
    await visit.page.get_by_role("button", name="Conversations").click()
    await expect(visit.page.get_by_role("link", name="New conversation").first).to_be_visible()
    assert await visit.page.evaluate(overflow) <= 0


async def test_a_lost_connection_is_shown_and_what_was_missed_comes_once(browser: "Browser") -> None:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", "tok")
    page = await browser.new_page()
    async with serving(adapter, house):
        await page.goto(adapter.link)
        visit = Visit(adapter, house, page)
        await visit.answer("before")
        await expect(page.locator(".answer")).to_have_count(1)

    await expect(page.get_by_text("Connection lost")).to_be_visible()

    await visit.answer("while away")
    async with serving(adapter, house):
        await expect(page.get_by_text("Connection lost")).to_be_hidden()
        await expect(page.locator(".answer")).to_have_text(["Trunklinebefore", "Trunklinewhile away"])
        await page.close()


async def test_what_could_not_be_sent_stays_in_the_box(browser: "Browser") -> None:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", "tok")
    page = await browser.new_page()
    async with serving(adapter, house):
        await page.goto(adapter.link)

    await page.get_by_label("Message", exact=True).fill("precious")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("alert")).to_contain_text("Not sent")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("precious")
    await page.close()


async def test_a_new_conversation_is_in_the_list_as_soon_as_it_has_begun(visit: Visit) -> None:
    listed = visit.page.get_by_role("navigation").get_by_role("link")
    await expect(listed).to_have_count(0)

    await visit.say("Where is the boiler?")
    await expect(listed).to_have_text(["Where is the boiler?"])

    await visit.adapter.typing(visit.to, on=True)
    visit.house.titles[visit.to.thread or ""] = "The boiler"
    await visit.adapter.typing(visit.to, on=False)
    await expect(listed).to_have_text(["The boiler"])
    await expect(listed).to_have_attribute("aria-current", "page")


async def test_a_slash_opens_a_menu_of_commands_that_the_keys_walk_through(visit: Visit) -> None:
    box, menu = visit.page.get_by_label("Message", exact=True), visit.page.get_by_role("listbox")
    await expect(menu).to_be_hidden()

    await box.press_sequentially("/s")
    await expect(menu.get_by_role("option")).to_have_count(2)
    await box.press("ArrowDown")
    await box.press("Enter")
    await expect(box).to_have_value("/search ")
    await expect(menu).to_be_hidden()
    await box.press_sequentially("boiler")
    await box.press("Enter")

    async with asyncio.timeout(60):
        sent = await visit.house.inbox.get()
    assert (sent.command, sent.text) == ("search", "boiler")


async def test_a_command_that_is_typed_whole_is_sent_by_enter_and_escape_closes_the_menu(
    visit: Visit,
) -> None:
    box, menu = visit.page.get_by_label("Message", exact=True), visit.page.get_by_role("listbox")

    await box.press_sequentially("/ne")
    await box.press("Escape")
    await expect(menu).to_be_hidden()
    await box.press_sequentially("w")
    await expect(menu).to_be_visible()
    await box.press("Enter")

    async with asyncio.timeout(60):
        assert (await visit.house.inbox.get()).command == "new"


async def test_a_conversation_is_renamed_in_its_place(visit: Visit) -> None:
    visit.house.titles.update(a="One", b="Two " + "words without an end " * 9)
    await visit.page.reload()

    await visit.page.get_by_role("link", name="One").hover()
    button = await visit.page.get_by_role("button", name="Delete One").bounding_box()
    side = await visit.page.locator("#side").bounding_box()
    assert button is not None
    assert side is not None
    assert button["x"] + button["width"] <= side["width"]
    await visit.page.get_by_role("button", name="Rename One").click()
    await visit.page.get_by_label("New title").fill("First <b>")
    await visit.page.keyboard.press("Enter")

    await expect(visit.page.get_by_role("link", name="First <b>")).to_be_visible()
    assert visit.house.titles["a"] == "First <b>"


async def test_a_conversation_is_deleted_after_a_question(visit: Visit) -> None:
    visit.house.titles.update(a="One", b="Two")
    await visit.page.reload()
    delete, sure = visit.page.get_by_role("button", name="Delete One"), visit.page.get_by_role("dialog")

    await visit.page.get_by_role("link", name="One").hover()
    await delete.click()
    await sure.get_by_role("button", name="Keep it").click()
    assert visit.house.titles == {"a": "One", "b": "Two"}
    await visit.page.get_by_role("link", name="One").hover()
    await delete.click()
    await sure.get_by_role("button", name="Delete").click()

    await expect(visit.page.get_by_role("navigation").get_by_role("link")).to_have_text(["Two"])
    assert visit.house.titles == {"b": "Two"}


async def test_an_answer_and_its_code_can_be_copied(visit: Visit) -> None:
    await visit.answer("Do **this**:\n\n```sh\nmake run\n```")

    await visit.page.locator(".answer").hover()
    await visit.page.get_by_role("button", name="Copy answer").click()
    await expect(visit.page.get_by_role("button", name="Copy answer")).to_have_class("copy done")
    assert (await visit.page.evaluate("navigator.clipboard.readText()")).split() == [
        "Do",
        "this:",
        "make",
        "run",
    ]

    await visit.page.get_by_role("button", name="Copy code").click()
    await expect(visit.page.get_by_role("button", name="Copy code")).to_have_text("Copied")
    assert (await visit.page.evaluate("navigator.clipboard.readText()")).strip() == "make run"
