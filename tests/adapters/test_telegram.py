"""The Telegram adapter as the house uses it: the real library against the emulated Bot API over HTTP."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.adapters.telegram_house import ANN, FAST, Inbox, adapter_for, running
from tests.emulators.base import Fault
from tests.emulators.telegram import TelegramEmulator
from tests.emulators.telegram_methods import FloodLimits
from trunkline.adapters.base import (
    AdapterError,
    Attachment,
    AttachmentKind,
    Button,
    ChatRef,
    Chunk,
    CommandSpec,
    Entity,
    OutboundFile,
    OutboundMessage,
    RateLimited,
    Rejected,
    Unauthorized,
    Unavailable,
    Uncertain,
    Unreachable,
)
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.adapters.telegram_menu import MENU_BYTES, command_menu

GROUP = -1002000000001
FORUM = -1002000000002


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
async def adapter(telegram: TelegramEmulator, inbox: Inbox) -> AsyncIterator[TelegramAdapter]:
    async with running(adapter_for(telegram), inbox, telegram) as adapter:
        yield adapter


def to(chat: int, text: str = "hello", **options: object) -> OutboundMessage:
    thread = options.pop("thread", None)
    chunk = Chunk(text, options.pop("entities", ()))  # type: ignore[arg-type]
    where = ChatRef(str(chat), None if thread is None else str(thread))
    return replace(OutboundMessage(where, chunk), **options)  # type: ignore[arg-type]


# connecting


async def test_the_house_learns_the_bots_own_id(adapter: TelegramAdapter, inbox: Inbox) -> None:
    assert inbox.tenants == ["123456789"]


async def test_a_refused_token_is_told_in_one_sentence_that_does_not_quote_it(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    adapter = TelegramAdapter("42:wrong", base_url=telegram.url)

    with pytest.raises(Unauthorized, match="BotFather") as caught:
        await adapter.run(inbox.deliver, inbox.tenants.append)

    assert "42:wrong" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert inbox.tenants == []


def test_an_empty_token_is_refused_before_connecting() -> None:
    with pytest.raises(Unauthorized, match="TELEGRAM_BOT_TOKEN"):
        TelegramAdapter("")


async def test_a_server_that_cannot_be_reached_is_unavailable(inbox: Inbox) -> None:
    adapter = TelegramAdapter("42:token", base_url="http://127.0.0.1:1", pacing=FAST)

    with pytest.raises(Unavailable):
        await adapter.run(inbox.deliver, inbox.tenants.append)


async def test_a_webhook_left_behind_is_removed_and_its_backlog_kept(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.webhook_url = "https://example.org/hook"
    await telegram.direct_message(ANN, "while you were away")

    async with running(adapter_for(telegram), inbox, telegram):
        assert (await inbox.next()).text == "while you were away"


async def test_the_same_adapter_runs_again_after_it_ended(telegram: TelegramEmulator, inbox: Inbox) -> None:
    adapter = adapter_for(telegram)
    async with running(adapter, inbox, telegram):
        pass

    async with running(adapter, inbox, telegram):
        await telegram.direct_message(ANN, "second life")
        assert (await inbox.next()).text == "second life"


async def test_the_token_stays_out_of_the_logs(
    telegram: TelegramEmulator, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    telegram.fail_next("getUpdates", Fault(status=502))
    async with running(adapter_for(telegram), inbox, telegram) as adapter:
        await telegram.direct_message(ANN, "hi")
        await inbox.count(1)
        await adapter.send(to(ANN))

    assert "poll failed" in caplog.text
    assert telegram.token not in caplog.text


# the menu


async def test_the_menu_is_set_once_and_left_alone_when_it_has_not_changed(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    for run in (1, 2):
        async with running(adapter_for(telegram), inbox, telegram):
            await telegram.wait_for(lambda: len(telegram.calls_of("getMyCommands")) == 2 * run)  # noqa: B023
            await telegram.wait_for(lambda: len(telegram.menus) == 2)

    assert [command["command"] for command in telegram.commands] == ["stop", "delete_me"]
    assert len(telegram.calls_of("setMyCommands")) == 2


async def test_there_is_a_menu_for_groups_and_one_in_each_language(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    specs = (
        CommandSpec("stop", "End what is running", translations=(("zh", "停止"),)),
        CommandSpec("memory", "What I know", translations=(("zh", "记忆"),), private=True),
    )

    async with running(adapter_for(telegram, commands=specs), inbox, telegram):
        await telegram.wait_for(lambda: len(telegram.menus) == 4)

    shown = {
        place: [(command["command"], command["description"]) for command in menu]
        for place, menu in telegram.menus.items()
    }
    assert shown == {
        ("default", ""): [("stop", "End what is running"), ("memory", "What I know")],
        ("default", "zh"): [("stop", "停止"), ("memory", "记忆")],
        ("all_group_chats", ""): [("stop", "End what is running")],
        ("all_group_chats", "zh"): [("stop", "停止")],
    }


async def test_a_menu_that_is_refused_does_not_stop_the_adapter(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.fail_next("setMyCommands", Fault(status=500))

    async with running(adapter_for(telegram), inbox, telegram):
        await telegram.wait_for(lambda: telegram.calls_of("setMyCommands"))
        await telegram.direct_message(ANN, "still there?")
        await inbox.next()

    assert telegram.commands == []


async def test_a_long_menu_is_cut_to_what_telegram_takes(telegram: TelegramEmulator, inbox: Inbox) -> None:
    """T17."""
    many = tuple(CommandSpec(f"command_{n}", "ä" * 300) for n in range(100))

    async with running(adapter_for(telegram, commands=many), inbox, telegram):
        await telegram.wait_for(lambda: telegram.commands)

    menu = command_menu(many)
    assert 10 < len(menu) < 100
    assert max(len(entry.description) for entry in menu) == 40
    assert len(telegram.commands) == len(menu)
    assert sum(len(str(command).encode()) for command in telegram.commands) < MENU_BYTES


async def test_a_chat_has_a_menu_of_its_own_while_there_is_more_to_show(
    telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.private_chat(ANN)
    more = (CommandSpec("weekly-report", "Writes it", "<words>"), CommandSpec("周报", "写周报", "<words>"))
    specs = (CommandSpec("stop", "End it", translations=(("zh", "停止"),)),)
    async with running(adapter_for(telegram, commands=specs), inbox, telegram) as adapter:
        await adapter.show_commands(str(ANN), more)
        shown = {place: menu for place, menu in telegram.menus.items() if place[0] == str(ANN)}
        await adapter.show_commands(str(ANN), more[1:])
        left = [place for place in telegram.menus if place[0] == str(ANN)]
        telegram.fail_next("getMyCommands", Fault(status=500))
        with pytest.raises(AdapterError):
            await adapter.show_commands(str(ANN), more)

    assert {place: [entry["command"] for entry in menu] for place, menu in shown.items()} == {
        (str(ANN), ""): ["stop", "weekly_report"],
        (str(ANN), "zh"): ["stop", "weekly_report"],
    }
    assert left == []


# buttons and reactions


async def test_buttons_stand_under_a_message_until_an_edit_takes_them_away(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)
    stop = Button("stop", "■ Stop", "7")

    sent = await adapter.send(to(ANN, "Working", buttons=(stop,)))
    shown = telegram.sent(ANN)[-1].buttons
    await adapter.edit(sent.message_id, to(ANN, "Working"))

    assert shown == (("■ Stop", "stop:7"),)
    assert telegram.sent(ANN)[-1].buttons == ()


async def test_a_press_in_a_group_is_answered_for_its_presser_alone(
    adapter: TelegramAdapter, telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.group(GROUP)
    own = telegram.store(telegram.chats[GROUP], {"from": telegram.bot_user, "text": "Working"})
    query = await telegram.press_button(ANN, GROUP, own["message_id"], "stop:7")
    press = await inbox.next()

    told = to(GROUP, "Not yours.", ephemeral=True, private=True)
    told = replace(told, to=ChatRef(press.chat, None, press.interaction))
    await adapter.send(told)

    assert telegram.answered_queries[query] == "Not yours."
    with pytest.raises(Rejected):
        await adapter.send(told)
    assert telegram.texts(GROUP) == ["Working"]


async def test_a_press_in_a_group_that_nobody_answers_stops_spinning(
    adapter: TelegramAdapter, telegram: TelegramEmulator, inbox: Inbox
) -> None:
    telegram.group(GROUP)
    own = telegram.store(telegram.chats[GROUP], {"from": telegram.bot_user, "text": "Working"})

    query = await telegram.press_button(ANN, GROUP, own["message_id"], "stop:7")

    await telegram.wait_for(lambda: query in telegram.answered_queries)


async def test_a_reaction_is_put_on_a_message_and_a_wrong_one_is_refused(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    said = await telegram.direct_message(ANN, "hi")

    await adapter.react(ChatRef(str(ANN)), str(said.message_id), "👍")

    assert telegram.reactions[ANN, said.message_id] == ("👍",)
    with pytest.raises(Rejected):
        await adapter.react(ChatRef(str(ANN)), str(said.message_id), "✅")


# sending


async def test_styled_text_arrives_with_its_entities_and_without_a_preview(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    said = await telegram.direct_message(ANN, "hi")
    bold = Entity("bold", 3, 4)
    code = Entity("pre", 8, 5, language="python")
    message = to(ANN, "😀 bold\nx = 1", entities=(bold, code), reply_to=str(said.message_id), quiet=True)

    receipt = await adapter.send(message)

    [shown] = telegram.sent(ANN)
    assert receipt.message_id == str(shown.message_id)
    assert shown.text == "😀 bold\nx = 1"
    assert shown.entities == (
        {"type": "bold", "offset": 3, "length": 4},
        {"type": "pre", "offset": 8, "length": 5, "language": "python"},
    )
    assert shown.reply_to == said.message_id
    assert shown.quiet
    [call] = telegram.calls_of("sendMessage")
    assert call.arguments["link_preview_options"] == {"is_disabled": True}
    assert "parse_mode" not in call.arguments


@pytest.mark.parametrize(
    "text", ["Use snake_case, 5 > 3 (see [docs]) - done!", "restart <unit> in <zone>", "a & b"]
)
async def test_plain_text_with_markup_characters_arrives_letter_for_letter(
    adapter: TelegramAdapter, telegram: TelegramEmulator, text: str
) -> None:
    telegram.private_chat(ANN)
    for chunk in adapter.render(text):
        await adapter.send(OutboundMessage(ChatRef(str(ANN)), chunk))

    assert telegram.texts(ANN) == [text]


async def test_an_answer_of_nine_thousand_characters_with_code_is_delivered_whole(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)
    code = "\n".join(f"    value_{n} = {n} * '🚢'" for n in range(330))
    chunks = adapter.render(f"Before.\n\n```python\n{code}\n```\n\nAfter.")

    for chunk in chunks:
        await adapter.send(OutboundMessage(ChatRef(str(ANN)), chunk))

    assert len(code) > 8000
    shown = telegram.sent(ANN)
    assert 3 <= len(shown) == len(chunks)
    assert "Before." in shown[0].text
    assert "After." in shown[-1].text
    blocks = [
        one.text.encode("utf-16-le")[e["offset"] * 2 : (e["offset"] + e["length"]) * 2].decode("utf-16-le")
        for one in shown
        for e in one.entities
        if e["type"] == "pre"
    ]
    assert "\n".join(block.strip("\n") for block in blocks) == code
    assert {e["language"] for one in shown for e in one.entities if e["type"] == "pre"} == {"python"}


async def test_an_edit_replaces_the_text_and_an_identical_one_is_success(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)
    first = await adapter.send(to(ANN, "Thinking"))

    for _ in range(2):
        receipt = await adapter.edit(first.message_id, to(ANN, "Thinking done"))
        assert receipt == first

    [shown] = telegram.sent(ANN)
    assert shown.text == "Thinking done"
    assert shown.edited


async def test_an_edit_of_a_message_that_is_gone_is_rejected(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)

    with pytest.raises(Rejected, match="to edit not found"):
        await adapter.edit("99", to(ANN))


async def test_a_reply_to_a_deleted_message_is_sent_without_the_link(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    said = await telegram.direct_message(ANN, "never mind")
    del telegram.chats[ANN].messages[said.message_id]

    await adapter.send(to(ANN, reply_to=str(said.message_id)))

    assert telegram.sent(ANN)[0].reply_to is None


async def test_each_topic_gets_its_own_messages_and_typing(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.group(FORUM, topics=(11, 12))
    for thread in (11, 12):
        await adapter.typing(ChatRef(str(FORUM), str(thread)), on=True)
        await adapter.send(to(FORUM, f"in {thread}", thread=thread))

    assert [(shown.text, shown.thread) for shown in telegram.sent(FORUM)] == [("in 11", 11), ("in 12", 12)]
    actions = telegram.calls_of("sendChatAction")
    assert [call.arguments["message_thread_id"] for call in actions] == [11, 12]


async def test_files_and_albums_stay_in_their_topic(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    """TG-10.1."""
    telegram.group(FORUM, topics=(11, 12))
    list_file = OutboundFile(AttachmentKind.DOCUMENT, "list.txt", "text/plain", "0" * 64, b"x")
    picture = OutboundFile(AttachmentKind.IMAGE, "a.png", "image/png", "0" * 64, b"\x89PNG\r\n\x1a\n")

    await adapter.send(to(FORUM, "", thread=11, file=list_file))
    await adapter.send(to(FORUM, "", thread=12, file=picture, album=(picture,)))

    assert [shown.thread for shown in telegram.sent(FORUM)] == [11, 12, 12]


async def test_the_general_topic_is_the_chat_itself(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.group(FORUM, topics=(11,))

    await adapter.send(to(FORUM, "to all", thread=1))

    assert [(shown.text, shown.thread) for shown in telegram.sent(FORUM)] == [("to all", None)]


async def test_a_message_for_a_topic_deleted_or_closed_goes_to_the_chat_after_one_more_try(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.group(FORUM, topics=(11,))

    await adapter.send(to(FORUM, "where to?", thread=12))

    telegram.fail_next(
        "sendMessage",
        Fault(400, {"ok": False, "error_code": 400, "description": "Bad Request: TOPIC_CLOSED"}),
    )
    await adapter.send(to(FORUM, "and now?", thread=11))

    shown = [(one.text, one.thread) for one in telegram.sent(FORUM)]
    assert shown == [("where to?", None), ("and now?", None)]
    assert len(telegram.calls_of("sendMessage")) == 4


async def test_a_group_that_became_a_supergroup_is_written_to_under_its_new_id(
    adapter: TelegramAdapter, telegram: TelegramEmulator, inbox: Inbox
) -> None:
    """TG-15: the house hears of it from the refusal alone, should the service messages be lost."""
    telegram.group(-500, kind="group")
    telegram.group(-1_000_000_000_500)
    telegram.chats[-500].moved_to = -1_000_000_000_500

    await adapter.send(to(-500, "first"))
    await adapter.send(to(-500, "second"))

    assert telegram.texts(-1_000_000_000_500) == ["first", "second"]
    assert len(telegram.calls_of("sendMessage")) == 3
    news = await inbox.next()
    assert (news.text, news.chat, news.moved_from) == ("moved", "-1000000000500", "-500")


async def test_typing_is_shown_and_switching_it_off_asks_nothing_of_telegram(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)

    await adapter.typing(ChatRef(str(ANN)), on=True)
    await adapter.typing(ChatRef(str(ANN)), on=False)

    [call] = telegram.calls_of("sendChatAction")
    assert call.arguments["action"] == "typing"


async def test_sending_goes_on_while_a_long_poll_waits(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)

    async with asyncio.TaskGroup() as tasks:
        for number in range(40):
            tasks.create_task(adapter.send(to(ANN, f"part {number}")))

    assert len(telegram.texts(ANN)) == 40
    assert telegram.is_polled


# refusals


async def test_a_flood_wait_names_its_seconds(telegram: TelegramEmulator, inbox: Inbox) -> None:
    telegram.flood = FloodLimits(chat_burst=1)
    telegram.private_chat(ANN)
    async with running(adapter_for(telegram), inbox, telegram) as adapter:
        await adapter.send(to(ANN, "one"))
        with pytest.raises(RateLimited) as caught:
            await adapter.send(to(ANN, "two"))

    assert caught.value.retry_after_s == 1.0
    assert telegram.texts(ANN) == ["one"]


async def test_a_person_who_blocked_the_bot_cannot_be_reached_and_others_can(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    await telegram.block(ANN)
    telegram.private_chat(1002)

    with pytest.raises(Unreachable, match="blocked"):
        await adapter.send(to(ANN))
    await adapter.send(to(1002))

    assert len(telegram.calls_of("sendMessage")) == 2


async def test_an_unknown_chat_cannot_be_reached(adapter: TelegramAdapter) -> None:
    with pytest.raises(Unreachable, match="Chat not found"):
        await adapter.send(to(4242))


async def test_styles_telegram_can_not_read_cost_the_styles_and_not_the_text(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)

    await adapter.send(to(ANN, "abc", entities=(Entity("bold", 0, 9),)))

    assert [(shown.text, shown.entities) for shown in telegram.sent(ANN)] == [("abc", ())]
    assert len(telegram.calls_of("sendMessage")) == 2


async def test_no_sentence_of_the_house_and_no_text_without_its_styles_calls_anybody(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.private_chat(ANN)

    sent = await adapter.send(to(ANN, "The file @harbour_master.txt could not be sent."))
    await adapter.edit(sent.message_id, to(ANN, "The file @harbour_master.md could not be sent."))
    await adapter.send(to(ANN, "ask @harbour", entities=(Entity("code", 4, 8), Entity("bold", 0, 99))))

    assert [text.replace("\u200b", "") for text in telegram.texts(ANN)] == [
        "The file @harbour_master.md could not be sent.",
        "ask @harbour",
    ]
    said = [*telegram.calls_of("sendMessage"), *telegram.calls_of("editMessageText")]
    called = [call.arguments["text"] for call in said if "@h" in call.arguments["text"]]
    assert called == ["ask @harbour"]  # as code, and refused


@pytest.mark.parametrize(
    "text", ["x" * 4097, " ", "😀" * 2049], ids=["too long", "empty", "too long in UTF-16"]
)
async def test_a_message_telegram_refuses_is_rejected_without_a_second_try(
    adapter: TelegramAdapter, telegram: TelegramEmulator, text: str
) -> None:
    telegram.private_chat(ANN)

    with pytest.raises(Rejected) as caught:
        await adapter.send(to(ANN, text))

    assert type(caught.value) is Rejected
    assert len(telegram.calls_of("sendMessage")) == 1


@pytest.mark.parametrize(
    "fault", [Fault(accept_then_drop=True), Fault(drop=True), Fault(status=502), Fault(status=200)]
)
async def test_a_send_that_may_have_arrived_is_uncertain_and_made_once(
    adapter: TelegramAdapter, telegram: TelegramEmulator, fault: Fault
) -> None:
    telegram.private_chat(ANN)
    telegram.fail_next("sendMessage", fault)

    with pytest.raises(Uncertain):
        await adapter.send(to(ANN))

    assert len(telegram.calls_of("sendMessage")) == 1
    assert len(telegram.texts(ANN)) == int(fault.accept_then_drop)


async def test_a_send_that_never_left_is_unavailable_and_may_be_repeated(inbox: Inbox) -> None:
    async with TelegramEmulator().running() as before:
        adapter = adapter_for(before)
    with pytest.raises(Unavailable):
        await adapter.send(to(ANN, "nobody listens"))

    async with TelegramEmulator().running(before.port) as telegram:
        telegram.private_chat(ANN)
        async with running(adapter, inbox, telegram):
            await adapter.send(to(ANN, "now"))

        assert telegram.texts(ANN) == ["now"]
        with pytest.raises(Unavailable):
            await adapter.send(to(ANN, "after the end"))
        assert telegram.texts(ANN) == ["now"]


# downloading


async def test_a_voice_message_is_fetched_whole(
    adapter: TelegramAdapter, telegram: TelegramEmulator, inbox: Inbox
) -> None:
    await telegram.direct_message(ANN, media=telegram.voice(b"opus" * 1000))
    [voice] = (await inbox.next()).attachments

    assert voice == Attachment(AttachmentKind.VOICE, "voice-1:u-voice-1", "", "audio/ogg", 4000)
    assert await adapter.download(voice, 10_000) == b"opus" * 1000


async def test_a_file_over_the_callers_limit_is_rejected_before_it_is_fetched(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    telegram.document(b"x" * 5000, "a.txt", "text/plain")
    for size_bytes in (5000, None):
        with pytest.raises(Rejected, match="larger than"):
            await adapter.download(
                Attachment(AttachmentKind.DOCUMENT, "document-1:u", size_bytes=size_bytes), 4999
            )

    assert telegram.calls_of("file") == []


async def test_a_file_that_is_larger_than_telegram_said_is_rejected(
    adapter: TelegramAdapter, telegram: TelegramEmulator
) -> None:
    await telegram.direct_message(
        ANN, media=telegram.document(b"x" * 5000, "a.txt", "text/plain", size_bytes=10)
    )

    with pytest.raises(Rejected, match="larger than"):
        await adapter.download(Attachment(AttachmentKind.DOCUMENT, "document-1:u", size_bytes=10), 4999)


async def test_a_file_over_twenty_megabytes_gets_a_sentence(
    adapter: TelegramAdapter, telegram: TelegramEmulator, inbox: Inbox
) -> None:
    film = telegram.document(b"x", "film.mkv", "video/x-matroska", size_bytes=21 * 2**20)
    await telegram.direct_message(ANN, media=film)
    [attachment] = (await inbox.next()).attachments

    with pytest.raises(Rejected, match="20 MB that Telegram lets bots fetch"):
        await adapter.download(attachment, 50 * 2**20)


@pytest.mark.parametrize(
    ("method", "fault", "error"),
    [
        ("getFile", Fault(drop=True), Unavailable),
        ("file", Fault(drop=True), Unavailable),
        ("file", Fault(status=502), Unavailable),
        ("file", Fault(status=404), Rejected),
    ],
)
async def test_a_failed_download_says_whether_to_try_again_and_never_the_address(
    adapter: TelegramAdapter,
    telegram: TelegramEmulator,
    method: str,
    fault: Fault,
    error: type[AdapterError],
) -> None:
    telegram.voice(b"opus")
    telegram.fail_next(method, fault)

    with pytest.raises(error) as caught:
        await adapter.download(Attachment(AttachmentKind.VOICE, "voice-1:u"), 1000)

    assert telegram.token not in str(caught.value)
