"""Threads: what stands in one is known when it is asked there; a room may want one for each question."""

from sqlalchemy import select

from tests.e2e.test_amending import database, settled
from tests.e2e.world import ANA_SLACK, World
from tests.gateway.small_house import eventually
from trunkline.gateway.state.schema import heard, session

SLACK_ROOM = {"rooms": {"slack/T0TEAM/C1": {}}}


def named(world: World) -> None:
    world.discord.world.add_user(world.ana_discord, "Ana")
    world.discord.world.add_user(world.bo_discord, "Bo")
    world.slack.workspace.add_channel("C1", "channel", (ANA_SLACK, "UBO"))


async def sessions(world: World) -> set[tuple[str, str]]:
    query = select(session.c.chat, session.c.thread)
    with database(world) as state:
        return await state.read(lambda c: {(row.chat, row.thread) for row in c.execute(query)})


async def test_the_first_question_in_a_slack_thread_comes_with_what_stands_there(world: World) -> None:
    named(world)
    async with world.running(**SLACK_ROOM):
        root = await world.slack.channel_message("C1", "UBO", "the pump is broken", mention=False)
        for number in range(40):
            await world.slack.channel_message("C1", "UBO", f"note {number}", mention=False, thread=root)
        await world.slack.all_acked()
        world.answer("The pump.", "Still the pump.")
        await world.slack.channel_message("C1", ANA_SLACK, "what is broken?", thread=root)
        await world.slack.wait_for(lambda: "The pump." in world.slack.texts("C1", root))
        await settled(world, 1)
        asked = world.last_user()
        await world.slack.channel_message("C1", ANA_SLACK, "sure?", mention=False, thread=root)
        await world.slack.wait_for(lambda: "Still the pump." in world.slack.texts("C1", root))

    block, _, question = asked.partition("⟦end of what was said to others⟧\n")
    lines = [line for line in block.split("\n") if line.startswith('⟦from "ubo" at')]
    assert lines[0].endswith("the pump is broken")
    assert [line.rpartition("⟧ ")[2] for line in lines[1:]] == [f"note {n}" for n in range(11, 40)]
    assert question.endswith("\nwhat is broken?")
    assert "note" not in world.last_user()


async def test_a_thread_in_a_direct_chat_begins_with_the_words_it_hangs_from(world: World) -> None:
    async with world.running():
        world.answer("Blue & <green>.", "It is short.", "A guess.", "Sure.")
        asked = await world.slack.direct_message(ANA_SLACK, "what colour is the sea?")
        await settled(world, 1)
        answered = world.slack.sent(f"D{ANA_SLACK[1:]}")[0].ts
        await world.slack.direct_message(ANA_SLACK, "why so short?", thread=answered)
        await settled(world, 2)
        assert "> Blue & <green>." in world.last_user()
        assert len(world.request()["messages"]) == 2
        await world.slack.direct_message(ANA_SLACK, "how do you know?", thread=asked)
        await settled(world, 3)
        assert "> what colour is the sea?" in world.last_user()
        await world.slack.direct_message(ANA_SLACK, "sure?", thread=asked)
        await settled(world, 4)
        assert "\n> " not in world.last_user()


async def test_a_thread_on_discord_is_read_with_the_message_it_hangs_from_and_leaves_with_it(
    world: World,
) -> None:
    named(world)
    general = world.discord.general
    async with world.running():
        root = await world.discord.channel_message(general, world.bo_discord, "tea at four?", mention=False)
        thread = await world.discord.create_thread(general, world.bo_discord, "Tea", from_message=root)
        said = await world.discord.channel_message(thread, world.bo_discord, "or at five", mention=False)
        world.answer("At four or five.")
        await world.discord.channel_message(thread, world.ana_discord, "when?")
        await world.discord_shows("At four or five.", thread)
        await settled(world, 1)
        asked = world.last_user()
        await world.discord.delete(thread, said)
        await eventually(lambda: _lines(world, 1))
        world.answer("At four.")
        await world.discord.channel_message(thread, world.ana_discord, "again?")
        await world.discord_shows("At four.", thread)

    told = [line.rpartition("⟧ ")[2] for line in asked.split("\n") if line.startswith('⟦from "Bo" at')]
    assert told == ["tea at four?", "or at five"]
    assert "or at five" not in str(world.request()["messages"])


async def _lines(world: World, count: int) -> bool:
    with database(world) as state:
        return len(await state.read(lambda c: c.execute(select(heard.c.id)).all())) == count


async def test_a_thread_that_cant_be_read_or_may_not_be_is_answered_without_it(world: World) -> None:
    named(world)
    rooms = {"slack/T0TEAM/C1": {}, f"discord/{world.discord.general}": {"read_threads": False}}
    async with world.running(rooms=rooms):
        root = await world.slack.channel_message("C1", "UBO", "the pump is broken", mention=False)
        world.slack.refuse_next("conversations.replies", "missing_scope")
        world.answer("I can't tell.", "Nor here.")
        await world.slack.channel_message("C1", ANA_SLACK, "what?", thread=root)
        await world.slack.wait_for(lambda: "I can't tell." in world.slack.texts("C1", root))
        await settled(world, 1)
        thread = await world.discord.create_thread(world.discord.general, world.bo_discord, "Tea")
        await world.discord.channel_message(thread, world.bo_discord, "at five", mention=False)
        await world.discord.channel_message(thread, world.ana_discord, "when?")
        await world.discord_shows("Nor here.", thread)
    assert "pump" not in world.last_user(0)
    assert "at five" not in world.last_user(1)


async def test_each_post_in_a_free_room_with_auto_thread_is_answered_in_a_thread_of_its_own(
    world: World,
) -> None:
    named(world)
    general = world.discord.general
    rooms = {f"discord/{general}": {"free": True, "auto_thread": True}}
    async with world.running(rooms=rooms):
        world.answer("One.", "Two.", "One again.")
        one = await world.discord.channel_message(general, world.ana_discord, "first idea", mention=False)
        await world.discord_shows("One.", one)
        two = await world.discord.channel_message(general, world.ana_discord, "second idea", mention=False)
        await world.discord_shows("Two.", two)
        await settled(world, 2)
        await world.discord.channel_message(one, world.bo_discord, "go on", mention=False)
        await world.discord_shows("One again.", one)
        assert await sessions(world) == {(general, one), (general, two)}

    assert world.discord.texts(general) == []
    assert [world.discord.world.channels[thread]["name"] for thread in (one, two)] == [
        "first idea",
        "second idea",
    ]
    assert "first idea" in str(world.request()["messages"])
    assert "second idea" not in str(world.request()["messages"])


async def test_where_no_thread_may_be_opened_the_answer_stands_in_the_channel(world: World) -> None:
    named(world)
    general = world.discord.general
    world.discord.rules.threadless_channels.add(general)
    async with world.running(rooms={f"discord/{general}": {"auto_thread": True}}):
        world.answer("Here, then.")
        await world.discord.channel_message(general, world.ana_discord, "first idea")
        await world.discord.wait_for(lambda: world.discord.texts(general))
        await settled(world, 1)
    assert world.discord.texts(general) == ["Here, then."]


async def test_a_thread_is_opened_once_when_the_process_dies_in_between(world: World) -> None:
    named(world)
    general = world.discord.general
    changes = {"rooms": {f"discord/{general}": {"auto_thread": True}}}
    world.answer("Never seen.", "Here.")
    world.model.then()
    async with world.running(**changes):
        first = await world.discord.channel_message(general, world.ana_discord, "first idea")
        await world.discord.wait_for(lambda: first in world.discord.world.channels)
    async with world.running(**changes):
        await eventually(lambda: _answered(world, first))
    assert len(world.discord.calls_of("start_thread")) <= 2
    assert len(world.discord.texts(first)) == 1
    assert world.discord.texts(general) == []


async def _answered(world: World, thread: str) -> bool:
    return bool(world.discord.texts(thread))
