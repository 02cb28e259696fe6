"""What other gateways fall into (T1 to T18 of research/gateway-features.md), over the whole house.

T3 is in test_restart, T8, T10, T15 in test_stories, T11 in test_files, T13 in test_first_contact, T17 in
test_telegram.
"""

import asyncio
import re
import time

import pytest
from sqlalchemy import select

from tests.e2e.test_amending import Chat, database, settled
from tests.e2e.test_steering import arrived, mouth
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.base import Emulator, Fault
from tests.emulators.openai import Reply
from tests.gateway.lanes import flood
from tests.gateway.small_house import eventually
from tests.gateway.test_attachments import PNG
from trunkline.gateway.state.schema import inbox

FORUM = -1_002_000_000_002
WORDS = " ".join(f"word{number}" for number in range(1500))
"""About 12,000 characters."""
EDITS = {"telegram": "editMessageText", "discord": "edit_message", "slack": "chat.update"}


def emulator_of(world: World, platform: str) -> Emulator:
    return {"telegram": world.telegram, "discord": world.discord, "slack": world.slack}[platform]


async def test_a_fast_stream_is_shown_at_the_pace_of_each_platform(world: World) -> None:
    """T1: fifty pieces of text in a second, for three seconds, on all three at once."""
    words = " ".join(f"word{number}" for number in range(150))
    slack_chat = world.slack.workspace.direct_channel(ANA_SLACK).id
    world.model.responder = lambda _: Reply(words, chunk_chars=7, chunk_delay_s=0.02)
    async with world.running():
        began_s = time.monotonic()
        await world.ana_on_telegram("go on")
        await world.ana_on_discord("go on")
        await world.ana_on_slack("go on")
        await world.telegram_shows("word149")
        await world.discord_shows("word149")
        await world.slack.wait_for(lambda: any("word149" in text for text in world.slack.texts(slack_chat)))
        took_s = time.monotonic() - began_s

    edits = {
        1.0: len(world.telegram.calls_of("editMessageText")),
        1.2: len(world.discord.calls_of("edit_message")),
        1.5: len(world.slack.calls_of("chat.update")),
    }
    for interval_s, count in edits.items():
        assert 1 <= count <= took_s / interval_s + 1  # the last one, with the whole text, doesn't wait


@pytest.mark.parametrize("platform", EDITS)
async def test_a_stream_that_is_told_to_wait_ends_whole_and_asks_for_nothing_meanwhile(
    world: World, platform: str
) -> None:
    """T2: the platform asks for a pause in the middle of a stream."""
    words = " ".join(f"word{number}" for number in range(200))
    chat, emulator = Chat(world, platform), emulator_of(world, platform)
    limited = {"message": "You are being rate limited.", "retry_after": 2.0, "global": False}
    refusals = {
        "telegram": flood(2),
        "discord": Fault(429, limited, {"Retry-After": "2", "Via": "1.1 emulator"}),
        "slack": Fault(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "2"}),
    }
    emulator.fail_next(EDITS[platform], refusals[platform])
    async with world.running():
        world.model.then(Reply(words, chunk_chars=20, chunk_delay_s=0.04))
        await chat.ask("go on")
        await emulator.wait_for(lambda: emulator.calls_of(EDITS[platform]))
        await emulator.wait_for(lambda: chat.texts == [words])
        await settled(world, 1)

    refused, *later = emulator.calls_of(EDITS[platform])
    assert later
    assert later[0].at - refused.at >= 2
    assert chat.texts == [words]


async def test_fifty_messages_that_waited_while_it_was_down_are_all_answered_in_order(world: World) -> None:
    """T4: nothing that was said to a program that was down is dropped."""
    for number in range(25):
        await world.ana_on_telegram(f"thought {number}")
        await world.telegram.direct_message(BO_TELEGRAM, f"idea {number}")
    world.model.responder = lambda _: Reply("Taken.")
    async with world.running():
        for last in ("thought 24", "idea 24"):
            await world.model.wait_for(lambda last=last: last in str(world.model.requests))  # type: ignore[misc]
        await settled(world, 2)

    for word in ("thought", "idea"):
        told = [body for body in world.model.requests if f"{word} 24" in str(body)]
        asked = "\n".join(str(m["content"]) for m in told[-1]["messages"] if m["role"] == "user")
        assert re.findall(rf"{word} \d+", asked) == [f"{word} {number}" for number in range(25)]


async def test_the_same_update_told_three_times_over_a_restart_is_one_turn(world: World) -> None:
    """T5."""
    telegram = world.telegram
    async with world.running():
        world.answer("Once.")
        said = await telegram.direct_message(ANA_TELEGRAM, "hello")
        update = telegram.chats[ANA_TELEGRAM].messages[said.message_id]
        await world.telegram_shows("Once.")
        await telegram.push_raw("message", update)
    async with world.running():
        await telegram.push_raw("message", update)
        world.answer("Twice.")
        await world.ana_on_telegram("and now?")
        await world.telegram_shows("Twice.")

    answers = [text for text in telegram.texts(ANA_TELEGRAM) if text in ("Once.", "Twice.")]
    assert answers == ["Once.", "Twice."]
    assert len(world.model.requests) == 2


async def test_two_people_who_type_at_once_in_a_topic_are_two_turns_with_their_names(world: World) -> None:
    """T6."""
    telegram = world.telegram
    telegram.group(FORUM, topics=(11, 12))
    telegram.person(ANA_TELEGRAM, "Ana")
    telegram.person(BO_TELEGRAM, "Bo")
    async with world.running(rooms={f"telegram/{FORUM}": {}}):
        world.answer("Tea for Ana.", "Coffee for Bo.")
        await telegram.group_message(FORUM, ANA_TELEGRAM, "I'd like tea", thread=11)
        await telegram.group_message(FORUM, BO_TELEGRAM, "I'd like coffee", thread=11)
        await world.telegram_shows("Coffee for Bo.", FORUM)
        world.answer("Nothing yet.")
        await telegram.group_message(FORUM, ANA_TELEGRAM, "what did we say?", thread=12)
        await world.telegram_shows("Nothing yet.", FORUM)

    assert [(shown.text, shown.thread) for shown in telegram.sent(FORUM)] == [
        ("Tea for Ana.", 11),
        ("Coffee for Bo.", 11),
        ("Nothing yet.", 12),
    ]
    assert {call.arguments.get("message_thread_id") for call in telegram.calls_of("sendChatAction")} <= {
        11,
        12,
    }
    assert '⟦from "Ana"⟧' in world.last_user(0)
    assert "coffee" not in world.last_user(0)
    assert '⟦from "Bo"⟧' in world.last_user(1)
    assert "tea" not in world.last_user(1)
    assert "tea" not in str(world.request()["messages"][1:])


@pytest.mark.parametrize("platform", EDITS)
async def test_a_message_while_the_one_before_is_being_taken_is_not_lost(world: World, platform: str) -> None:
    """T7: the second comes at the very moment the first is handed on; so do the next eight."""
    say = mouth(world, platform)
    async with world.running():
        world.model.responder = lambda _: Reply("Taken.", delay_s=0.05)
        for number in range(10):
            await say(f"thought {number}")
        await world.model.wait_for(lambda: "thought 9" in str(world.model.requests))

    said = [m["content"] for m in world.request()["messages"] if m["role"] == "user"]
    assert re.findall(r"thought \d", "\n".join(said)) == [f"thought {number}" for number in range(10)]


@pytest.mark.parametrize("platform", EDITS)
async def test_an_edit_of_what_waits_runs_or_was_answered_is_never_a_second_question(
    world: World, platform: str
) -> None:
    """T9."""
    chat = Chat(world, platform)
    async with world.running(agent={"busy": "queue", "burst_window": 0.001}):
        go_on = asyncio.Event()
        world.model.then(Reply("One.", held=go_on), Reply("Two."), Reply("Three."))
        running = await chat.ask("frist")
        await world.model.wait_for(lambda: world.model.requests)
        waiting = await chat.ask("secnod")
        await arrived(world, 2)
        await chat.edit(waiting, "second")
        await eventually(lambda: _waits(world, "second"))
        go_on.set()
        await chat.shows("Two.")
        await settled(world, 2)
        await chat.edit(running, "first")
        await chat.edit(waiting, "third")
        await chat.shows("Three.")
        await settled(world, 3)

    assert [text for text in chat.texts if text in ("One.", "Two.", "Three.")] == ["One.", "Three."]
    assert "secnod" not in str(world.request(1)["messages"])
    assert [m["content"].splitlines()[-1] for m in world.request()["messages"] if m["role"] == "user"] == [
        "first",
        "third",
    ]
    assert len(world.model.requests) == 3


async def _waits(world: World, text: str) -> bool:
    query = select(inbox.c.id).where(inbox.c.state == "received", inbox.c.payload.contains(text))
    with database(world) as state:
        return bool(await state.read(lambda c: c.execute(query).all()))


async def test_a_friend_gets_a_code_however_many_strangers_asked_before(world: World) -> None:
    """T12."""
    friend, strangers = 7_001, range(6_001, 6_013)
    async with world.running():
        for stranger in strangers:
            await world.telegram.direct_message(stranger, "let me in")
            await world.telegram.direct_message(stranger, "now")
        await world.telegram.direct_message(friend, "hello, it's me")
        await world.telegram_shows("Your code is", friend)
        code = re.search(r"approve ([A-Z0-9]{8})", world.telegram.texts(friend)[0])
        assert code is not None
        await world.ana_on_telegram(f"/approve {code[1]}")
        world.answer("Hello, friend.")
        await world.telegram.wait_for(lambda: len(world.telegram.texts(friend)) == 2)
        await world.telegram.direct_message(friend, "and now?")
        await world.telegram_shows("Hello, friend.", friend)

    assert len(world.model.requests) == 1


async def test_stop_waits_for_no_turn_that_is_taken_up_again_and_for_no_download(world: World) -> None:
    """T14: the program has just come up and goes on with a turn; then a file takes its time."""
    world.model.responder = lambda _: Reply("At last.", delay_s=60)
    async with world.running():
        await world.ana_on_telegram("take your time")
        await world.model.wait_for(lambda: world.model.requests)
    async with world.running():
        await world.model.wait_for(lambda: len(world.model.requests) == 2)
        await world.ana_on_telegram("/stop")
        await world.telegram_shows("Stopped.")
        world.telegram.fail_next("file", Fault(delay_s=60, serve=True))
        await world.telegram.direct_message(ANA_TELEGRAM, "look", media=world.telegram.photo(PNG))
        await world.telegram.wait_for(lambda: world.telegram.calls_of("file"))
        await world.ana_on_telegram("/stop")
        await world.telegram.wait_for(lambda: world.telegram.texts(ANA_TELEGRAM).count("Stopped.") == 2)

    assert len(world.model.requests) == 2


async def test_a_long_answer_streamed_on_slack_arrives_whole(world: World) -> None:
    """T16."""
    slack = world.slack
    channel = slack.workspace.direct_channel(ANA_SLACK).id
    async with world.running():
        world.model.then(Reply(WORDS, chunk_chars=400, chunk_delay_s=0.05))
        await world.ana_on_slack("tell me everything")
        await slack.wait_for(lambda: "word1499" in " ".join(slack.texts(channel)))

    shown = re.findall(r"word\d+", " ".join(slack.texts(channel)))
    assert shown == WORDS.split()


@pytest.mark.parametrize(
    "words", ["@everyone @here look", "<!channel> <!here> look <@&1>", "@bo_builder **@bo_builder** look"]
)
async def test_what_a_model_writes_calls_nobody_anywhere(world: World, words: str) -> None:
    """T18: on Telegram a name of the group's people is what calls."""
    room = world.discord.general
    slack_chat = world.slack.workspace.direct_channel(ANA_SLACK).id
    world.telegram.group(FORUM, topics=(11,))
    world.telegram.person(BO_TELEGRAM, "Bo", username="bo_builder")
    async with world.running(rooms={f"telegram/{FORUM}": {}, f"discord/{room}": {}}):
        world.model.responder = lambda _: Reply(words, chunk_chars=6)
        await world.telegram.group_message(FORUM, ANA_TELEGRAM, "hello", thread=11)
        await world.telegram_shows("look", FORUM)
        await world.discord.channel_message(room, world.ana_discord, "hello", mention=True)
        await world.discord_shows("look", room)
        await world.ana_on_slack("hello")
        await world.slack.wait_for(lambda: any("look" in text for text in world.slack.texts(slack_chat)))

    assert not any("everyone" in message.pings for message in world.discord.sent(room))
    assert not any(re.search(r"<!(?:channel|here|everyone)", text) for text in world.slack.texts(slack_chat))
    said = [*world.telegram.calls_of("sendMessage"), *world.telegram.calls_of("editMessageText")]
    assert said
    assert not any(re.search(r"(?<!\w)@\w{2}", call.arguments["text"]) for call in said)
