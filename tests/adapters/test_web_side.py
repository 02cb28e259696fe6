"""The list of conversations on the page, over real HTTP, and the word on a stop, which is told once."""

from collections.abc import AsyncIterator

import pytest

from tests.adapters.web_house import Browser, answer_in, opened_browser
from trunkline.adapters.base import ChatRef


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with opened_browser() as opened:
        yield opened


async def test_a_conversation_is_renamed_by_the_house(browser: Browser) -> None:
    await browser.sign_in()

    assert (await browser.post("earlier", {"title": "Basel <2026>"}, what="title"))[0] == 200
    assert "Basel &lt;2026&gt;" in (await browser.get("/conversations"))[1]
    assert (await browser.post("unheard-of", {"title": "x"}, what="title"))[0] == 404


@pytest.mark.parametrize("body", [{}, {"title": " "}, {"title": "x" * 201}, {"title": 1}, ["title"]])
async def test_a_title_that_is_none_is_refused(browser: Browser, body: object) -> None:
    await browser.sign_in()

    assert (await browser.post("earlier", body, what="title"))[0] == 400
    assert browser.house.titles == {"earlier": "Trip to <Basel>"}


async def test_a_deleted_conversation_is_gone_from_the_list_and_the_page(browser: Browser) -> None:
    await browser.sign_in()
    await browser.post("earlier", {"id": "0123456789", "text": "a secret"})

    assert (await browser.post("earlier", {}, what="delete"))[0] == 200

    assert "earlier" not in (await browser.get("/conversations"))[1]
    assert "a secret" not in (await browser.get("/c/earlier"))[1]


async def test_a_conversation_that_is_being_answered_is_not_deleted(browser: Browser) -> None:
    await browser.sign_in()
    await browser.adapter.typing(ChatRef("alice", "earlier"), on=True)

    assert (await browser.post("earlier", {}, what="delete"))[0] == 409
    assert "earlier" in browser.house.titles


@pytest.mark.parametrize("what", ["title", "delete"])
async def test_another_page_can_not_rename_or_delete(browser: Browser, what: str) -> None:
    await browser.sign_in()

    status, _ = await browser.post("earlier", {"title": "x"}, "http://evil.test", what)

    assert status == 403
    assert browser.house.titles == {"earlier": "Trip to <Basel>"}


@pytest.mark.parametrize(
    "order", ["edit, word, end", "word, edit, end", "word, end, edit", "end, edit, word"]
)
async def test_a_stop_that_shows_in_the_answer_is_not_told_again(browser: Browser, order: str) -> None:
    await browser.sign_in()
    to = ChatRef("alice", "chat1")
    await browser.adapter.typing(to, on=True)
    shown = await browser.adapter.send(answer_in("chat1", "Thinking", nonce="1-0"))
    await browser.post("chat1", {"id": "0123456789", "kind": "stop"})

    for step in order.split(", "):
        if step == "edit":
            cut_short = answer_in("chat1", "Thinking (stopped here)")
            await browser.adapter.edit(shown.message_id, cut_short)
        elif step == "word":
            await browser.adapter.send(answer_in("chat1", "Stopped.", nonce="2-0"))
        else:
            await browser.adapter.typing(to, on=False)
    await browser.adapter.typing(to, on=True)
    await browser.adapter.send(answer_in("chat1", "The next answer.", nonce="3-0"))

    _, page = await browser.get("/c/chat1")
    assert "stopped here" in page
    assert "<p>Stopped.</p>" not in page
    assert "The next answer." in page


async def test_an_answer_after_a_stop_whose_word_never_came_is_shown(browser: Browser) -> None:
    await browser.sign_in()
    to = ChatRef("alice", "chat1")
    await browser.adapter.typing(to, on=True)
    shown = await browser.adapter.send(answer_in("chat1", "Thinking", nonce="1-0"))
    await browser.post("chat1", {"id": "0123456789", "kind": "stop"})
    await browser.adapter.edit(shown.message_id, answer_in("chat1", "Thinking (stopped here)"))
    await browser.adapter.typing(to, on=False)

    await browser.adapter.typing(to, on=True)
    await browser.adapter.send(answer_in("chat1", "The next answer.", nonce="3-0"))

    assert "The next answer." in (await browser.get("/c/chat1"))[1]


async def test_a_stop_before_anything_was_shown_is_told(browser: Browser) -> None:
    await browser.sign_in()
    to = ChatRef("alice", "chat1")
    await browser.adapter.typing(to, on=True)
    await browser.post("chat1", {"id": "0123456789", "kind": "stop"})

    await browser.adapter.send(answer_in("chat1", "Stopped.", nonce="2-0"))
    await browser.adapter.typing(to, on=False)

    assert "<p>Stopped.</p>" in (await browser.get("/c/chat1"))[1]
