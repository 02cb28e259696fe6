"""The web chat over real HTTP: who gets in, what is committed, and what a page that follows is told."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest

from tests.adapters.web_house import (
    DEADLINE_S,
    TOKEN,
    Browser,
    House,
    answer_in,
    opened_browser,
    serving,
)
from trunkline.adapters.base import AdapterError, ChatRef, InboundKind
from trunkline.adapters.web.adapter import WebAdapter
from trunkline.adapters.web.conversations import Said
from trunkline.adapters.web.markdown import to_html


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with opened_browser() as opened:
        yield opened


MESSAGE = {"id": "0123456789abcdef", "text": "hello"}


async def test_the_link_sets_a_strict_cookie_and_leads_to_an_address_without_the_token(
    browser: Browser,
) -> None:
    async with browser.http.get(browser.adapter.link, allow_redirects=False) as answer:
        cookie = answer.headers["Set-Cookie"]

        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie


@pytest.mark.parametrize("path", ["/", "/c/earlier", "/?token=wrong", "/c/earlier/events?after=x-1"])
async def test_without_the_link_a_page_says_how_to_get_it_and_shows_nothing(
    browser: Browser, path: str
) -> None:
    status, page = await browser.get(path)

    assert status == 401
    assert "needs its link" in page
    assert "Basel" not in page


async def test_health_answers_without_a_token(browser: Browser) -> None:
    status, said = await browser.get("/healthz")

    assert (status, json.loads(said)) == (200, {"product": "trunkline", "status": "ok"})


async def test_a_foreign_host_name_is_refused(browser: Browser) -> None:
    await browser.sign_in()

    async with browser.http.get(browser.base + "/", headers={"Host": "evil.test"}) as answer:
        assert answer.status == 421


@pytest.mark.parametrize("origin", ["http://evil.test", "null", ""])
async def test_another_page_can_not_post(browser: Browser, origin: str) -> None:
    await browser.sign_in()

    status, _ = await browser.post("chat1", MESSAGE, origin=origin)

    assert status == 403
    assert browser.house.inbox.empty()


async def test_a_post_without_the_cookie_is_refused(browser: Browser) -> None:
    status, _ = await browser.post("chat1", MESSAGE)

    assert status == 401
    assert browser.house.inbox.empty()


async def test_a_message_is_committed_before_the_browser_is_told_that_we_have_it(browser: Browser) -> None:
    await browser.sign_in()

    status, _ = await browser.post("chat1", MESSAGE)
    message = browser.house.inbox.get_nowait()

    assert status == 202
    assert (message.platform, message.tenant, message.chat, message.thread) == (
        "web",
        "local",
        "alice",
        "chat1",
    )
    assert (message.sender.id, message.text, message.kind) == ("alice", "hello", InboundKind.MESSAGE)
    assert message.key == "m:alice:0123456789abcdef:0"


async def test_a_message_that_could_not_be_committed_is_not_shown_as_sent(browser: Browser) -> None:
    await browser.sign_in()
    browser.house.disk_is_full = True

    status, _ = await browser.post("chat1", MESSAGE)

    assert status == 500
    assert "hello" not in (await browser.get("/c/chat1"))[1]


async def test_a_message_sent_twice_has_one_key_and_is_shown_once(browser: Browser) -> None:
    await browser.sign_in()

    await browser.post("chat1", MESSAGE)
    await browser.post("chat1", MESSAGE)

    keys = {browser.house.inbox.get_nowait().key for _ in range(2)}
    assert len(keys) == 1
    assert (await browser.get("/c/chat1"))[1].count('class="person"') == 1


async def test_a_message_that_is_deleted_leaves_the_page_and_those_that_are_open(browser: Browser) -> None:
    await browser.sign_in()
    place = await browser.place("chat1")
    receipt = await browser.adapter.send(answer_in("chat1", "not for long"))
    await browser.adapter.send(answer_in("chat1", "to stay"))

    async with browser.follow("chat1", place) as events:
        await events.next()
        await browser.adapter.delete(ChatRef("alice", "chat1"), receipt.message_id)
        await events.next("reset")

    _, page = await browser.get("/c/chat1")
    assert "to stay" in page
    assert "not for long" not in page
    async with browser.follow("chat1", await browser.place("chat1")) as events:
        assert await events.next("typing") == {"on": False}


@pytest.mark.parametrize(
    ("body", "command", "argument"),
    [
        ({"id": "0123456789", "text": "/resume last week"}, "resume", "last week"),
        ({"id": "0123456789", "text": "/new"}, "new", ""),
        ({"id": "0123456789", "kind": "stop"}, "stop", ""),
    ],
)
async def test_commands_are_told_from_messages(
    browser: Browser, body: object, command: str, argument: str
) -> None:
    await browser.sign_in()

    await browser.post("chat1", body)
    message = browser.house.inbox.get_nowait()

    assert (message.kind, message.command, message.text) == (InboundKind.COMMAND, command, argument)


async def test_a_path_is_no_command(browser: Browser) -> None:
    await browser.sign_in()

    await browser.post("chat1", {"id": "0123456789", "text": "/etc/passwd is what?"})

    assert browser.house.inbox.get_nowait().kind is InboundKind.MESSAGE


@pytest.mark.parametrize(
    "body", [{"id": "0123456789"}, {"id": "a b"}, {"id": "0123456789", "text": 5}, [], "x"]
)
async def test_what_makes_no_sense_gets_a_sentence(browser: Browser, body: object) -> None:
    await browser.sign_in()

    status, answer = await browser.post("chat1", body)

    assert status == 400
    assert json.loads(answer)["error"].endswith(".")
    assert browser.house.inbox.empty()


async def test_an_enormous_message_is_refused_early(browser: Browser) -> None:
    await browser.sign_in()

    status, _ = await browser.post("chat1", {"id": "0123456789", "text": "a" * 600_000})

    assert status == 413


async def test_a_streamed_answer_reaches_the_open_page_and_ends_complete(browser: Browser) -> None:
    await browser.sign_in()

    async with browser.follow("chat1", await browser.place("chat1")) as events:
        receipt = await browser.adapter.send(answer_in("chat1", "Hel"))
        first = await events.next()
        await browser.adapter.edit(receipt.message_id, answer_in("chat1", "Hello **you**"))
        last = await events.next()

    assert (first["id"], first["body"]) == (receipt.message_id, "<p>Hel</p>\n")
    assert (last["id"], last["body"]) == (receipt.message_id, "<p>Hello <strong>you</strong></p>\n")


async def test_typing_is_shown_and_ends(browser: Browser) -> None:
    await browser.sign_in()

    async with browser.follow("chat1", await browser.place("chat1")) as events:
        seen = [await events.next("typing")]
        for on in (True, False):
            await browser.adapter.typing(ChatRef("alice", "chat1"), on=on)
            seen.append(await events.next("typing"))

    assert [one["on"] for one in seen] == [False, True, False]


async def test_a_page_that_comes_back_gets_what_it_missed_once(browser: Browser) -> None:
    await browser.sign_in()
    async with browser.follow("chat1", await browser.place("chat1")) as events:
        await browser.adapter.send(answer_in("chat1", "one"))
        await events.next()
        left_at = events.last_id

    receipt = await browser.adapter.send(answer_in("chat1", "tw"))
    await browser.adapter.edit(receipt.message_id, answer_in("chat1", "two"))
    await browser.adapter.send(answer_in("chat1", "three"))
    async with browser.follow("chat1", left_at) as events:
        missed = [await events.next(), await events.next()]
        await browser.adapter.send(answer_in("chat1", "four"))
        following = await events.next()

    assert [one["body"] for one in (*missed, following)] == [
        f"<p>{n}</p>\n" for n in ("two", "three", "four")
    ]


async def test_a_page_from_before_a_restart_is_told_to_load_anew(browser: Browser) -> None:
    await browser.sign_in()

    async with browser.follow("chat1", "0badc0de-7") as events:
        assert await events.next("reset") == {}


async def test_a_page_that_missed_more_than_is_kept_is_told_to_load_anew(browser: Browser) -> None:
    await browser.sign_in()
    place = await browser.place("chat1")

    for number in range(500):
        await browser.adapter.send(answer_in("chat1", f"line {number}"))

    async with browser.follow("chat1", place) as events:
        assert await events.next("reset") == {}


async def test_conversations_do_not_see_each_other(browser: Browser) -> None:
    await browser.sign_in()

    async with browser.follow("chat1", await browser.place("chat1")) as events:
        await browser.adapter.send(answer_in("chat2", "elsewhere"))
        await browser.adapter.send(answer_in("chat1", "here"))

        assert (await events.next())["body"] == "<p>here</p>\n"


async def test_the_same_nonce_is_shown_once(browser: Browser) -> None:
    await browser.sign_in()

    receipts = [await browser.adapter.send(answer_in("chat1", "once", nonce="7-0")) for _ in range(2)]

    assert receipts[0] == receipts[1]
    assert (await browser.get("/c/chat1"))[1].count("<p>once</p>") == 1


async def test_earlier_conversations_and_their_history_come_from_the_house(browser: Browser) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    browser.house.said = (Said(True, "where to <i>?", at), Said(False, "To **Basel**", at))
    await browser.sign_in()

    _, page = await browser.get("/c/earlier")

    assert "Trip to &lt;Basel&gt;" in page
    assert "where to &lt;i&gt;?" in page
    assert "To <strong>Basel</strong>" in page


async def test_what_the_house_already_wrote_down_is_not_shown_twice(browser: Browser) -> None:
    await browser.sign_in()
    await browser.post("earlier", {"id": "0123456789", "text": "again?"})
    await browser.adapter.send(answer_in("earlier", "yes"))
    now, at = datetime.now(UTC), datetime(2026, 1, 1, tzinfo=UTC)
    # What stands in no transcript is told from the page's own by its id, whatever the clock says.
    told = await browser.adapter.send(answer_in("earlier", "and no"))
    browser.house.said = (
        Said(False, "and no", at, id=told.message_id),
        Said(True, "again?", now),
        Said(False, "yes", now),
    )

    _, page = await browser.get("/c/earlier")

    assert (page.count("again?</div>"), page.count("<p>yes</p>"), page.count("<p>and no</p>")) == (1, 1, 1)


async def test_it_works_without_a_house_that_remembers() -> None:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", TOKEN)
    jar = aiohttp.CookieJar(unsafe=True)
    async with serving(adapter, house), aiohttp.ClientSession(cookie_jar=jar) as http:
        browser = Browser(adapter, house, http)
        await browser.sign_in()
        await browser.post("chat1", MESSAGE)

        assert ">hello<" in (await browser.get("/c/chat1"))[1]


async def test_every_answer_forbids_scripts_that_are_not_ours(browser: Browser) -> None:
    await browser.sign_in()

    for path in ("/c/chat1", "/static/chat.js", "/nowhere", "/healthz"):
        async with browser.http.get(browser.base + path) as answer:
            assert "script-src 'self';" in answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_a_port_in_use_is_said_in_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(AdapterError, match=f"can't use port {port}.*platforms.web.port"):
            await WebAdapter("127.0.0.1", port, "alice", TOKEN).run(House().deliver, lambda _: None)


async def test_it_ends_on_cancel_with_a_page_open_and_gives_its_port_back(browser: Browser) -> None:
    house = House()
    adapter = WebAdapter("127.0.0.1", 0, "alice", TOKEN)
    jar = aiohttp.CookieJar(unsafe=True)
    async with asyncio.timeout(DEADLINE_S), aiohttp.ClientSession(cookie_jar=jar) as http:
        async with serving(adapter, house):
            page = Browser(adapter, house, http)
            await page.sign_in()
            following = page.follow("chat1", await page.place("chat1"))
            await (await following.__aenter__()).next("typing")
        again = WebAdapter("127.0.0.1", adapter.port, "alice", TOKEN)
        async with serving(again, house):
            assert again.port == adapter.port


@pytest.mark.parametrize(
    "markdown",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "![a](javascript:alert(1))",
        '![x](https://e.test/p.png" onerror="alert(1))',
        '```"><script>\nx\n```',
        'https://e.test/"onmouseover="alert(1)',
    ],
)
def test_nothing_the_model_writes_becomes_markup_of_its_own(markdown: str) -> None:
    html = to_html(markdown)

    assert not any(part in html for part in ("<script", "<img", 'href="javascript', 'href="data', '" on'))


def test_links_open_apart_and_pictures_are_not_fetched() -> None:
    html = to_html("[a](https://e.test/x) ![pic](https://e.test/p.png) see https://e.test/y.")

    assert html.count('rel="noopener noreferrer nofollow"') == 3
    assert 'href="https://e.test/y"' in html
    assert "<img" not in html


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b"])
def test_blank_text_renders_to_no_chunk(blank: str) -> None:
    assert WebAdapter("127.0.0.1", 0, "alice", TOKEN).render(blank) == ()
