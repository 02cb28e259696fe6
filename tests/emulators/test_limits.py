"""The limits that the platforms publish, or were measured to have: each emulator refuses what is beyond them.

What the tests of one emulator show already (test_telegram_emulator and so on) is not repeated here.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.emulators import telegram_methods
from tests.emulators.discord import DiscordEmulator
from tests.emulators.slack import BOT_TOKEN, SlackEmulator
from tests.emulators.slack_socket import SOCKETS_MOST
from tests.emulators.telegram import TelegramEmulator
from tests.emulators.telegram_methods import FloodLimits

ANN = 1001
GROUP = -1002000000001
NOW_S = 1_800_000_000


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        emulator.private_chat(ANN)
        emulator.group(GROUP)
        yield emulator


@pytest.fixture
async def discord() -> AsyncIterator[DiscordEmulator]:
    async with DiscordEmulator().running() as emulator:
        yield emulator


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with SlackEmulator().running() as emulator:
        emulator.workspace.add_channel("C1", "channel", ("U1",))
        yield emulator


# Telegram


async def ask(telegram: TelegramEmulator, method: str, **arguments: Any) -> dict[str, Any]:
    url = f"{telegram.url}/bot{telegram.token}/{method}"
    form = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
        body: dict[str, Any] = await response.json()
    return body


def keyboard(*rows: int, payload: str = "stop:1") -> dict[str, Any]:
    button = {"text": "Stop", "callback_data": payload}
    return {"inline_keyboard": [[button] * count for count in rows]}


def commands(*entries: tuple[str, str]) -> list[dict[str, str]]:
    return [{"command": name, "description": text} for name, text in entries]


@pytest.mark.parametrize(
    ("method", "arguments", "refusal"),
    [
        ("sendMessage", {"text": "😀" * 2049}, "message is too long"),
        ("editMessageText", {"message_id": 1, "text": "😀" * 2049}, "message is too long"),
        ("sendMessageDraft", {"draft_id": 1, "text": "x" * 4097}, "message is too long"),
        ("sendMessageDraft", {"draft_id": 0, "text": "x"}, "RANDOM_ID_INVALID"),
        ("sendDocument", {"document": "kept.ogg", "caption": "😀" * 513}, "message caption is too long"),
        ("sendMessage", {"text": "x", "reply_markup": keyboard(9)}, "BUTTONS_TOO_MUCH"),
        ("sendMessage", {"text": "x", "reply_markup": keyboard(*[8] * 13)}, "BUTTONS_TOO_MUCH"),
        (
            "sendMessage",
            {"text": "x", "reply_markup": keyboard(1, payload="é" * 33)},
            "BUTTON_DATA_INVALID",
        ),
        ("sendMessage", {"text": "x", "reply_markup": keyboard(1, payload="")}, "BUTTON_DATA_INVALID"),
        ("answerCallbackQuery", {"callback_query_id": "1", "text": "x" * 201}, "MESSAGE_TOO_LONG"),
        ("sendChatAction", {"action": "thinking"}, "wrong parameter action in request"),
        ("setMyCommands", {"commands": commands(("Stop!", "End"))}, "BOT_COMMAND_INVALID"),
        ("setMyCommands", {"commands": commands(("s" * 33, "End"))}, "BOT_COMMAND_INVALID"),
        ("setMyCommands", {"commands": commands(("stop", ""))}, "BOT_COMMAND_DESCRIPTION_INVALID"),
        ("setMyCommands", {"commands": commands(("stop", "x" * 257))}, "BOT_COMMAND_DESCRIPTION_INVALID"),
        ("setMyCommands", {"commands": commands(*[("a", "b")] * 101)}, "BOT_COMMANDS_TOO_MUCH"),
        ("setMessageReaction", {"message_id": 1, "reaction": [{"emoji": "✅"}]}, "REACTION_INVALID"),
        (
            "setMessageReaction",
            {"message_id": 1, "reaction": [{"emoji": "👀"}, {"emoji": "👍"}]},
            "REACTION_INVALID",
        ),
    ],
)
async def test_telegram_refuses_what_is_beyond_its_limits(
    telegram: TelegramEmulator, method: str, arguments: dict[str, Any], refusal: str
) -> None:
    telegram.voice(b"OggS", "kept.ogg")
    await ask(telegram, "sendMessage", chat_id=ANN, text="hello")

    answer = await ask(telegram, method, chat_id=ANN, **arguments)

    assert answer["description"] == f"Bad Request: {refusal}"


async def test_telegram_takes_what_is_just_within_its_limits(telegram: TelegramEmulator) -> None:
    for arguments in (
        {"text": "😀" * 2048},
        {"text": "x", "reply_markup": keyboard(*[8] * 12, 4)},
        {"text": "x", "reply_markup": keyboard(1, payload="é" * 32)},
    ):
        assert (await ask(telegram, "sendMessage", chat_id=ANN, **arguments))["ok"]


async def test_telegram_styles_a_message_with_a_hundred_entities_and_no_more(
    telegram: TelegramEmulator,
) -> None:
    entities = [{"type": "bold", "offset": 2 * number, "length": 1} for number in range(150)]

    await ask(telegram, "sendMessage", chat_id=ANN, text="x " * 150, entities=entities)

    assert len(telegram.sent(ANN)[0].entities) == 100


async def test_telegram_hands_bots_no_file_over_twenty_megabytes(telegram: TelegramEmulator) -> None:
    big = telegram.document(b"x", "big.bin", "application/octet-stream", size_bytes=20 * 2**20 + 1)
    await telegram.direct_message(ANN, media=big)

    answer = await ask(telegram, "getFile", file_id="document-1")

    assert answer["description"] == "Bad Request: file is too big"


async def test_telegram_takes_no_upload_over_its_limit(
    telegram: TelegramEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert telegram_methods.UPLOAD_LIMIT_BYTES == 50 * 2**20
    monkeypatch.setattr(telegram_methods, "UPLOAD_LIMIT_BYTES", 1000)
    form = aiohttp.FormData({"chat_id": str(ANN)})
    form.add_field("document", bytes(1001), filename="big.bin")
    url = f"{telegram.url}/bot{telegram.token}/sendDocument"
    async with aiohttp.ClientSession() as session, session.post(url, data=form) as response:
        assert response.status == 413


@pytest.mark.parametrize(
    ("chat", "limits", "taken"),
    [
        (GROUP, FloodLimits(chat_burst=99, group_per_minute=20), 20),
        (ANN, FloodLimits(chat_burst=99, group_per_minute=1), 22),
        (ANN, FloodLimits(chat_burst=99, overall_per_s=5), 5),
    ],
)
async def test_telegram_counts_sends_and_edits_by_chat_by_group_and_over_all(
    telegram: TelegramEmulator, chat: int, limits: FloodLimits, taken: int
) -> None:
    first = await ask(telegram, "sendMessage", chat_id=chat, text="x")
    telegram.flood = limits

    answers = [
        await ask(
            telegram,
            "editMessageText",
            chat_id=chat,
            message_id=first["result"]["message_id"],
            text=f"x {number}",
        )
        for number in range(22)
    ]

    assert sum(answer["ok"] for answer in answers) == taken
    refused = [answer for answer in answers if not answer["ok"]]
    assert all(answer["parameters"]["retry_after"] >= 1 for answer in refused)


async def test_telegram_lets_bots_delete_for_two_days(
    telegram: TelegramEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [(await ask(telegram, "sendMessage", chat_id=ANN, text="x"))["result"] for _ in range(2)]
    said_s = telegram.now()
    monkeypatch.setattr(telegram, "now", lambda: said_s + 47 * 3600)
    soon = await ask(telegram, "deleteMessage", chat_id=ANN, message_id=sent[0]["message_id"])
    monkeypatch.setattr(telegram, "now", lambda: said_s + 49 * 3600)
    late = await ask(telegram, "deleteMessage", chat_id=ANN, message_id=sent[1]["message_id"])

    assert soon["ok"]
    assert late["description"] == "Bad Request: message can't be deleted"


async def test_telegram_says_when_an_edit_changes_nothing(telegram: TelegramEmulator) -> None:
    sent = await ask(telegram, "sendMessage", chat_id=ANN, text="x")

    answer = await ask(
        telegram, "editMessageText", chat_id=ANN, message_id=sent["result"]["message_id"], text="x"
    )

    assert answer["description"].startswith("Bad Request: message is not modified")


# Discord


async def call(
    discord: DiscordEmulator, verb: str, path: str, body: object = None
) -> tuple[int, Any, dict[str, str]]:
    headers = {"Authorization": f"Bot {discord.token}"}
    url = f"{discord.url}/api/v10{path}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(verb, url, json=body) as response,
    ):
        answer = await response.json() if response.content_length else None
        return response.status, answer, dict(response.headers)


def row(*labels: str, custom_id: str = "stop") -> dict[str, Any]:
    buttons = [
        {"type": 2, "style": 2, "label": label, "custom_id": f"{custom_id}{number}"}
        for number, label in enumerate(labels)
    ]
    return {"type": 1, "components": buttons}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": "😀" * 2001}, 50035),
        ({"content": ""}, 50006),
        ({"content": "x", "nonce": "n" * 26}, 50035),
        ({"content": "x", "components": [row("l" * 81)]}, 50035),
        ({"content": "x", "components": [row("a", custom_id="i" * 100)]}, 50035),
        ({"content": "x", "components": [row(*"abcdef")]}, 50035),
        ({"content": "x", "components": [row("a", custom_id=str(n)) for n in range(6)]}, 50035),
        ({"content": "x", "components": [row("a"), row("a")]}, 50035),
    ],
)
async def test_discord_refuses_a_message_beyond_its_limits(
    discord: DiscordEmulator, body: dict[str, Any], code: int
) -> None:
    status, answer, _ = await call(discord, "POST", f"/channels/{discord.general}/messages", body)

    assert (status, answer["code"]) == (400, code)
    assert discord.texts(discord.general) == []


async def test_discord_counts_its_two_thousand_in_code_points(discord: DiscordEmulator) -> None:
    status, _, _ = await call(
        discord, "POST", f"/channels/{discord.general}/messages", {"content": "😀" * 2000}
    )

    assert status == 200


async def test_discord_makes_one_message_of_one_nonce_where_it_is_asked_to(discord: DiscordEmulator) -> None:
    place = f"/channels/{discord.general}/messages"
    first, again, other, careless = [
        (await call(discord, "POST", place, {"content": "x", "nonce": nonce, "enforce_nonce": enforced}))[1]
        for nonce, enforced in (("a", True), ("a", True), ("b", True), ("a", False))
    ]
    await call(discord, "DELETE", f"{place}/{first['id']}")
    await call(discord, "DELETE", f"{place}/{careless['id']}")
    gone = await call(discord, "POST", place, {"content": "x", "nonce": "a", "enforce_nonce": True})

    assert again["id"] == first["id"]
    assert len({first["id"], other["id"], careless["id"]}) == 3
    assert (gone[0], gone[1]["code"]) == (404, 10008)


async def test_discord_limits_a_route_by_its_bucket_and_everything_over_all(
    discord: DiscordEmulator,
) -> None:
    discord.rules.rate_limits["create_message"] = (1, 30.0)
    place = f"/channels/{discord.general}/messages"
    _, _, headers = await call(discord, "POST", place, {"content": "x"})
    status, limited, refused = await call(discord, "POST", place, {"content": "x"})
    discord.rules.calls_per_s = 0
    everywhere = await call(discord, "GET", "/users/@me")

    assert (headers["X-RateLimit-Remaining"], headers["X-RateLimit-Limit"]) == ("0", "1")
    assert (status, limited["global"]) == (429, False)
    assert 29 <= int(refused["Retry-After"]) <= 30
    assert (everywhere[0], everywhere[1]["global"]) == (429, True)


def command(name: str = "stop", text: str = "End", options: int = 0, choices: int = 0) -> dict[str, Any]:
    listed = [
        {
            "type": 3,
            "name": f"o{number}",
            "description": "An option",
            "choices": [{"name": f"c{one}", "value": "x"} for one in range(choices)],
        }
        for number in range(options)
    ]
    return {"name": name, "description": text, "options": listed}


@pytest.mark.parametrize(
    "body",
    [
        command(name="s" * 33),
        command(text=""),
        command(text="x" * 101),
        command(options=26),
        command(options=1, choices=26),
    ],
)
async def test_discord_refuses_a_command_beyond_its_limits(
    discord: DiscordEmulator, body: dict[str, Any]
) -> None:
    place = f"/applications/{discord.world.application_id}/commands"

    status, answer, _ = await call(discord, "POST", place, body)

    assert (status, answer["code"]) == (400, 50035)


async def test_discord_has_a_hundred_commands_and_takes_two_hundred_new_ones_a_day(
    discord: DiscordEmulator,
) -> None:
    place = f"/applications/{discord.world.application_id}/commands"
    full = [command(f"a{number}") for number in range(101)]
    too_many = await call(discord, "PUT", place, full)
    await call(discord, "PUT", place, full[:100])
    one_more = await call(discord, "POST", place, command("more"))
    await call(discord, "PUT", place, [command(f"b{number}") for number in range(100)])
    await call(discord, "PUT", place, [])
    tired = await call(discord, "POST", place, command("more"))

    assert [answer["code"] for _, answer, _ in (too_many, one_more, tired)] == [30032, 30032, 30034]


async def test_discord_gives_a_hundred_messages_of_history_at_once(discord: DiscordEmulator) -> None:
    place = f"/channels/{discord.general}/messages"

    assert (await call(discord, "GET", f"{place}?limit=100"))[0] == 200
    assert (await call(discord, "GET", f"{place}?limit=101"))[1]["code"] == 50035


async def test_discord_forgets_an_interaction_after_a_quarter_of_an_hour(discord: DiscordEmulator) -> None:
    assert (discord.rules.ack_deadline_s, discord.rules.interaction_life_s) == (3.0, 900.0)
    token = await discord.slash("77", "help")
    interaction = discord.world.interactions[token]
    await call(discord, "POST", f"/interactions/{interaction.id}/{token}/callback", {"type": 5})
    interaction.made_at -= 901

    hook = f"/webhooks/{discord.world.application_id}/{token}"
    status, answer, _ = await call(discord, "POST", hook, {"content": "late"})

    assert (status, answer["code"]) == (401, 50027)


# Slack


def web(slack: SlackEmulator) -> AsyncWebClient:
    return AsyncWebClient(BOT_TOKEN, base_url=slack.api_url, retry_handlers=[])


async def test_slack_limits_a_method_by_channel_and_says_how_long_to_wait(slack: SlackEmulator) -> None:
    slack.workspace.add_channel("C2", "channel", ("U1",))
    slack.rates["chat.postMessage"] = (2, 20.0)
    for _ in range(2):
        await web(slack).chat_postMessage(channel="C1", text="x")

    with pytest.raises(SlackApiError) as refused:
        await web(slack).chat_postMessage(channel="C1", text="x")
    await web(slack).chat_postMessage(channel="C2", text="x")

    assert refused.value.response["error"] == "ratelimited"
    assert 15 <= int(refused.value.response.headers["Retry-After"]) <= 20


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ({"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}, "invalid_blocks"),
        (
            {
                "type": "actions",
                "elements": [
                    {"type": "button", "action_id": "a", "value": "v" * 2001, "text": {"text": "x"}}
                ],
            },
            "invalid_blocks",
        ),
    ],
)
async def test_slack_refuses_a_block_beyond_its_limits(
    slack: SlackEmulator, block: dict[str, Any], error: str
) -> None:
    with pytest.raises(SlackApiError) as refused:
        await web(slack).chat_postMessage(channel="C1", text="x", blocks=[block])

    assert refused.value.response["error"] == error


async def test_slack_refuses_more_than_twelve_thousand_characters_of_a_stream_at_once(
    slack: SlackEmulator,
) -> None:
    root = await slack.direct_message("U1", "tell me")
    started = await web(slack).chat_startStream(channel="D1", thread_ts=root)

    with pytest.raises(SlackApiError) as refused:
        await web(slack).chat_appendStream(channel="D1", ts=started["ts"], markdown_text="x" * 12_001)

    assert refused.value.response["error"] == "msg_too_long"


async def test_a_response_url_of_slack_is_good_for_five_answers(slack: SlackEmulator) -> None:
    url = slack.response_url("C1", "U1")
    async with aiohttp.ClientSession() as session:
        statuses = [(await session.post(url, json={"text": str(number)})).status for number in range(6)]

    assert statuses == [200] * 5 + [404]


async def test_slack_repeats_an_event_nobody_acknowledged_and_then_gives_it_up() -> None:
    async with (
        SlackEmulator(ack_timeout_s=0.05).running() as slack,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{slack.url}/socket?ticket={slack.socket.ticket()}") as socket,
    ):
        assert (await socket.receive_json())["type"] == "hello"
        await slack.direct_message("U1", "hello")
        told = [await socket.receive_json() for _ in range(4)]
        await slack.wait_for(lambda: slack.socket.deliveries[0].lost)

    assert [envelope["retry_attempt"] for envelope in told] == [0, 1, 2, 3]
    assert len({envelope["payload"]["event_id"] for envelope in told}) == 1


async def test_slack_keeps_ten_sockets_of_an_app_and_no_more(slack: SlackEmulator) -> None:
    async with aiohttp.ClientSession() as session:
        taken = [
            await session.ws_connect(f"{slack.url}/socket?ticket={slack.socket.ticket()}")
            for _ in range(SOCKETS_MOST)
        ]
        await slack.wait_for(lambda: len(slack.socket.sockets) == len(taken))
        async with session.ws_connect(f"{slack.url}/socket?ticket={slack.socket.ticket()}") as socket:
            told = await asyncio.wait_for(socket.receive_json(), 60)

    assert (told["type"], told["reason"]) == ("disconnect", "too_many_websockets")
