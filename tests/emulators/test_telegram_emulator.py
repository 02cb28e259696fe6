"""The Telegram emulator itself: that it refuses what Telegram refuses, and that its checks can fail."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.emulators.telegram import TelegramEmulator
from tests.emulators.telegram_methods import COMMANDS_LIMIT_BYTES, FloodLimits
from tests.emulators.telegram_spec import SPECS_VARIABLE, BotApiSpec, detected_entities, entity_fault

ANN = 1001
GROUP = -1002000000001
FORUM = -1002000000002


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        emulator.private_chat(ANN)
        yield emulator


async def ask(telegram: TelegramEmulator, method: str, **arguments: Any) -> dict[str, Any]:
    """A call without any library between; gives the answer's body."""
    url = f"{telegram.url}/bot{telegram.token}/{method}"
    async with aiohttp.ClientSession() as session, session.post(url, data=arguments) as response:
        body: dict[str, Any] = await response.json()
    assert body["ok"] == (response.status == 200)
    return body


@pytest.mark.parametrize(
    ("method", "arguments", "code", "description"),
    [
        ("sendMessage", {"chat_id": ANN, "text": "x" * 4097}, 400, "Bad Request: message is too long"),
        ("sendMessage", {"chat_id": ANN, "text": " \n"}, 400, "Bad Request: message text is empty"),
        ("sendMessage", {"chat_id": 5, "text": "x"}, 400, "Bad Request: chat not found"),
        (
            "sendMessage",
            {"chat_id": ANN, "text": "x", "entities": '[{"type":"bold","offset":0,"length":2}]'},
            400,
            "Bad Request: entity beginning at UTF-16 offset 0 ends after the end of the text "
            "at UTF-16 offset 2",
        ),
        (
            "sendMessage",
            {"chat_id": ANN, "text": "x", "reply_parameters": '{"message_id":77}'},
            400,
            "Bad Request: message to be replied not found",
        ),
        (
            "sendMessage",
            {"chat_id": FORUM, "text": "x", "message_thread_id": 12},
            400,
            "Bad Request: message thread not found",
        ),
        (
            "sendMessage",
            {"chat_id": FORUM, "text": "x", "message_thread_id": 1},
            400,
            "Bad Request: message thread not found",
        ),
        (
            "editMessageText",
            {"chat_id": ANN, "message_id": 9, "text": "x"},
            400,
            "Bad Request: message to edit not found",
        ),
        ("deleteMessage", {"chat_id": ANN, "message_id": 9}, 400, "Bad Request: message to delete not found"),
        (
            "sendMessageDraft",
            {"chat_id": FORUM, "draft_id": 1, "text": "x"},
            400,
            "Bad Request: method is available only for private chats",
        ),
        (
            "getFile",
            {"file_id": "?"},
            400,
            "Bad Request: wrong file_id or the file is temporarily unavailable",
        ),
        ("sendNothing", {}, 404, "Not Found: method not found"),
    ],
)
async def test_a_refusal_uses_telegrams_words(
    telegram: TelegramEmulator, method: str, arguments: dict[str, Any], code: int, description: str
) -> None:
    telegram.group(FORUM, topics=(11,))

    answer = await ask(telegram, method, **arguments)

    assert (answer["error_code"], answer["description"]) == (code, description)


async def test_a_general_topic_takes_chat_actions(telegram: TelegramEmulator) -> None:
    telegram.group(FORUM, topics=(11,))

    answer = await ask(telegram, "sendChatAction", chat_id=FORUM, message_thread_id=1, action="typing")

    assert answer["ok"]


async def test_a_draft_is_shown_and_leaves_no_message(telegram: TelegramEmulator) -> None:
    await ask(telegram, "sendMessageDraft", chat_id=ANN, draft_id=3, text="so far")

    assert telegram.drafts == {(ANN, 3): "so far"}
    assert telegram.sent(ANN) == []
    await ask(telegram, "sendMessage", chat_id=ANN, text="all of it")
    assert telegram.drafts == {}


async def test_documents_and_photos_are_kept_as_sent(telegram: TelegramEmulator) -> None:
    for method, name in (("sendDocument", "document"), ("sendPhoto", "photo")):
        form = aiohttp.FormData({"chat_id": str(ANN), "caption": f"a {name}"})
        form.add_field(name, b"\x89PNG content", filename=f"{name}.bin")
        url = f"{telegram.url}/bot{telegram.token}/{method}"
        async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
            assert response.status == 200

    assert [(shown.text, shown.file_name) for shown in telegram.sent(ANN)] == [
        ("a document", "document.bin"),
        ("a photo", None),
    ]
    assert list(telegram.files.values()).count(b"\x89PNG content") == 2


@pytest.mark.parametrize(
    ("method", "name", "content", "filename"),
    [
        ("sendPhoto", "photo", b"no picture", "photo.png"),
        ("sendPhoto", "photo", b"\x89PNG" + bytes(10 * 2**20), "photo.png"),
        ("sendVoice", "voice", b"a voice", "voice.exe"),
        ("sendDocument", "document", b"", "empty.txt"),
    ],
)
async def test_a_file_of_the_wrong_kind_or_size_is_refused(
    telegram: TelegramEmulator, method: str, name: str, content: bytes, filename: str
) -> None:
    form = aiohttp.FormData({"chat_id": str(ANN)})
    form.add_field(name, io.BytesIO(content), filename=filename)
    url = f"{telegram.url}/bot{telegram.token}/{method}"
    async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
        assert response.status == 400
    assert telegram.sent(ANN) == []


async def test_a_deleted_message_is_no_longer_shown_and_a_reaction_is(telegram: TelegramEmulator) -> None:
    first, second = [await ask(telegram, "sendMessage", chat_id=ANN, text=text) for text in ("a", "b")]
    await ask(telegram, "deleteMessage", chat_id=ANN, message_id=first["result"]["message_id"])
    thumb = '[{"type":"emoji","emoji":"👍"}]'
    message_id = second["result"]["message_id"]
    await ask(telegram, "setMessageReaction", chat_id=ANN, message_id=message_id, reaction=thumb)
    tick = await ask(
        telegram, "setMessageReaction", chat_id=ANN, message_id=message_id, reaction=thumb.replace("👍", "✅")
    )

    assert [(shown.text, shown.reactions) for shown in telegram.sent(ANN)] == [("b", ("👍",))]
    assert tick["description"] == "Bad Request: REACTION_INVALID"


async def test_a_newer_poll_ends_the_older_one(telegram: TelegramEmulator) -> None:
    async with asyncio.TaskGroup() as tasks:
        older = tasks.create_task(ask(telegram, "getUpdates", timeout=50))
        await telegram.wait_for(lambda: telegram.is_polled)
        newer = tasks.create_task(ask(telegram, "getUpdates", timeout=50))
        refused = await older
        await telegram.direct_message(ANN, "hi")

    assert (refused["error_code"], refused["description"]) == (
        409,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
    )
    assert [update["message"]["text"] for update in newer.result()["result"]] == ["hi"]


async def test_an_update_comes_until_its_offset_is_passed(telegram: TelegramEmulator) -> None:
    said = [await telegram.direct_message(ANN, text) for text in ("a", "b")]

    again = [(await ask(telegram, "getUpdates", offset=0))["result"] for _ in range(2)]
    rest = (await ask(telegram, "getUpdates", offset=said[1].update_id))["result"]

    assert [len(updates) for updates in again] == [2, 2]
    assert [update["message"]["text"] for update in rest] == ["b"]


async def test_polling_is_refused_while_a_webhook_is_set(telegram: TelegramEmulator) -> None:
    telegram.webhook_url = "https://example.org/hook"

    assert (await ask(telegram, "getUpdates"))["description"].startswith("Conflict: can't use getUpdates")
    await ask(telegram, "deleteWebhook")
    assert (await ask(telegram, "getUpdates"))["ok"]


async def test_a_flood_is_refused_with_the_time_to_wait(telegram: TelegramEmulator) -> None:
    telegram.flood = FloodLimits(chat_burst=2)

    answers = [await ask(telegram, "sendMessage", chat_id=ANN, text=str(n)) for n in range(3)]

    assert [answer["ok"] for answer in answers] == [True, True, False]
    seconds = answers[2]["parameters"]["retry_after"]
    assert 1 <= seconds <= 2
    assert answers[2]["description"] == f"Too Many Requests: retry after {seconds}"


async def test_privacy_mode_passes_on_only_what_addresses_the_bot() -> None:
    async with TelegramEmulator(privacy=True).running() as telegram:
        await telegram.group_message(GROUP, ANN, "among ourselves", mention=False)
        await telegram.group_message(GROUP, ANN, "to you")
        await telegram.group_message(GROUP, ANN, "/help", mention=False)

        updates = (await ask(telegram, "getUpdates"))["result"]

    assert [update["message"]["text"] for update in updates] == ["@TrunklineBot to you", "/help"]


async def test_a_wrong_token_is_unauthorised_and_a_malformed_one_not_found(
    telegram: TelegramEmulator,
) -> None:
    right = telegram.token
    answers = []
    for token in ("42:wrong", "nonsense"):
        telegram.token, wrong = token + "x", token
        url = f"{telegram.url}/bot{wrong}/getMe"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            answers.append((response.status, (await response.json())["description"]))
        telegram.token = right

    assert answers == [(401, "Unauthorized"), (404, "Not Found")]


async def test_a_menu_over_the_budget_is_refused_and_the_old_one_stays(telegram: TelegramEmulator) -> None:
    await ask(telegram, "setMyCommands", commands='[{"command":"stop","description":"End"}]')
    entry = '{"command":"stop","description":"' + "x" * 250 + '"}'
    many = "[" + ",".join([entry] * (COMMANDS_LIMIT_BYTES // 250 + 1)) + "]"

    answer = await ask(telegram, "setMyCommands", commands=many)

    assert answer["description"] == "Bad Request: BOT_COMMANDS_TOO_MUCH"
    assert telegram.commands == [{"command": "stop", "description": "End"}]


async def test_chats_and_members_are_told(telegram: TelegramEmulator) -> None:
    telegram.group(GROUP, "Harbour")
    await telegram.leave(GROUP, ANN)

    chat = await ask(telegram, "getChat", chat_id=GROUP)
    member = await ask(telegram, "getChatMember", chat_id=GROUP, user_id=ANN)
    myself = await ask(telegram, "getChatMember", chat_id=GROUP, user_id=telegram.me["id"])

    assert chat["result"]["title"] == "Harbour"
    assert (member["result"]["status"], myself["result"]["status"]) == ("left", "member")
    assert telegram.violations == []


# the oracles


def test_tdlib_finds_commands_and_mentions_in_utf16_units() -> None:
    assert detected_entities("😀 @TheBot") == [{"type": "mention", "offset": 3, "length": 7}]
    assert detected_entities("/usr/bin") == []


def test_tdlib_refuses_half_an_emoji() -> None:
    half = {"type": "bold", "offset": 0, "length": 1}

    assert entity_fault("a😀", [half]) is None
    assert "middle of a UTF-16 symbol" in str(entity_fault("😀", [half]))


@pytest.fixture
def spec() -> BotApiSpec:
    spec = BotApiSpec.load()
    if spec is None:
        pytest.skip(f"{SPECS_VARIABLE} names no folder with the published descriptions")
    return spec


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"chat_id": 1}, "text is missing"),
        ({"chat_id": 1, "text": "x", "reply_to_message_id": 3}, "unknown field reply_to_message_id"),
        ({"chat_id": 1.5, "text": "x"}, "is no Integer"),
        (
            {"chat_id": 1, "text": "x", "entities": [{"type": "bold", "offset": "0", "length": 1}]},
            "is no Integer",
        ),
        ({"chat_id": 1, "text": "x", "reply_markup": {"inline_keyboard": [{"text": "y"}]}}, "is no array"),
    ],
)
def test_the_description_finds_a_wrong_call(
    spec: BotApiSpec, arguments: dict[str, Any], complaint: str
) -> None:
    breaches = spec.call_breaches("sendMessage", arguments)

    assert any(complaint in breach for breach in breaches)


def test_the_description_finds_a_wrong_update(spec: BotApiSpec) -> None:
    chat = {"id": 1, "type": "private"}

    assert spec.update_breaches({"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": chat}}) == []
    assert spec.update_breaches({"update_id": 1, "message": {"message_id": 1, "chat": chat}}) == [
        "Update(Update).message(Message): date is missing"
    ]


async def test_a_wrong_call_is_among_the_violations(spec: BotApiSpec, telegram: TelegramEmulator) -> None:
    await ask(telegram, "sendMessage", chat_id=ANN, text="x", disable_web_page_preview="true")

    assert telegram.violations == ["sendMessage: unknown field disable_web_page_preview"]
