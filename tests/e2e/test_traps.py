"""What other gateways fell into, over the whole house: strangers' files, long streams, mass mentions."""

import re
import time

import pytest

from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.openai import Reply

WORDS = " ".join(f"word{number}" for number in range(1500))
"""About 12,000 characters."""


async def test_a_strangers_file_is_never_fetched(world: World) -> None:
    slack = world.slack
    async with world.running():
        file = slack.store_file("big.bin", "application/octet-stream", b"x" * 2_000_000)
        await slack.direct_message("U0EVE", "look at this", files=[file])
        channel = slack.workspace.direct_channel("U0EVE").id
        await slack.wait_for(lambda: any("code is" in text for text in slack.texts(channel)))

    fetched = {call.method for call in slack.calls} & {"download", "files.info", "users.info"}
    assert fetched == set()
    assert slack.texts(channel) == [text for text in slack.texts(channel) if "code is" in text]


async def test_a_long_answer_streamed_on_slack_arrives_whole(world: World) -> None:
    slack = world.slack
    channel = slack.workspace.direct_channel(ANA_SLACK).id
    async with world.running():
        world.model.then(Reply(WORDS, chunk_chars=400, chunk_delay_s=0.05))
        await world.ana_on_slack("tell me everything")
        await slack.wait_for(lambda: "word1499" in " ".join(slack.texts(channel)))

    shown = re.findall(r"word\d+", " ".join(slack.texts(channel)))
    assert shown == WORDS.split()


@pytest.mark.parametrize("words", ["@everyone @here look", "<!channel> <!here> look <@&1>"])
async def test_what_a_model_writes_calls_nobody_anywhere(world: World, words: str) -> None:
    room = world.discord.general
    slack_chat = world.slack.workspace.direct_channel(ANA_SLACK).id
    async with world.running():
        world.model.responder = lambda _: Reply(words)
        await world.discord.channel_message(room, world.ana_discord, "hello", mention=True)
        await world.discord_shows("look", room)
        await world.ana_on_slack("hello")
        await world.slack.wait_for(lambda: any("look" in text for text in world.slack.texts(slack_chat)))

    assert not any("everyone" in message.pings for message in world.discord.sent(room))
    assert not any(re.search(r"<!(?:channel|here|everyone)", text) for text in world.slack.texts(slack_chat))


async def test_the_same_update_told_three_times_over_a_restart_is_one_turn(world: World) -> None:
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


async def test_a_fast_stream_is_shown_at_the_pace_of_each_platform(world: World) -> None:
    """Fifty pieces of text in a second, for three seconds, on all three at once."""
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
