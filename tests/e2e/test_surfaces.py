"""Buttons, reactions and private answers, from a finger on a screen to what people then see."""

import asyncio

import pytest

from tests.agent.skill_folders import put_skill, skill_text
from tests.e2e.test_amending import settled
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.openai import Reply
from tests.emulators.telegram import Shown

GROUP = -1002000000001
STRANGER = 4711


def last(world: World, chat: int = ANA_TELEGRAM) -> Shown:
    return world.telegram.sent(chat)[-1]


async def telegram_press(
    world: World, label: str, *, user: int = ANA_TELEGRAM, chat: int = ANA_TELEGRAM
) -> str:
    """Presses the newest button with that label."""
    message, payload = next(
        (shown.message_id, payload)
        for shown in reversed(world.telegram.sent(chat))
        for text, payload in shown.buttons
        if text == label
    )
    return await world.telegram.press_button(user, chat, message, payload)


async def test_the_stop_button_stops_an_answer_and_goes_with_it(world: World) -> None:
    async with world.running():
        world.model.then(Reply("A long story begins here. " * 4, stall_after=8))
        await world.ana_on_telegram("tell me a story")
        await world.telegram.wait_for(lambda: world.telegram.texts(ANA_TELEGRAM) and last(world).buttons)
        assert [label for label, _ in last(world).buttons] == ["■ Stop"]

        await telegram_press(world, "■ Stop")
        await world.telegram_shows("(stopped here)")
        await world.telegram_shows("Stopped.")

    labels = [label for shown in world.telegram.sent(ANA_TELEGRAM) for label, _ in shown.buttons]
    assert "■ Stop" not in labels


async def test_a_stop_button_kept_from_before_stops_nothing(world: World) -> None:
    async with world.running():
        world.answer("Done.")
        await world.ana_on_telegram("hello")
        await world.telegram_shows("Done.")

        await world.telegram.press_button(ANA_TELEGRAM, ANA_TELEGRAM, last(world).message_id, "stop:1")
        await world.telegram_shows("served its time")
        await world.telegram.press_button(ANA_TELEGRAM, ANA_TELEGRAM, last(world).message_id, "stop:x" * 9)
        await world.telegram.wait_for(
            lambda: len([text for text in world.telegram.texts(ANA_TELEGRAM) if "served" in text]) == 2
        )


async def test_the_stop_button_of_one_chat_is_nothing_to_somebody_in_another(world: World) -> None:
    async with world.running():
        world.model.then(Reply("A long story begins here. " * 4, stall_after=8))
        await world.ana_on_telegram("tell me a story")
        await world.telegram.wait_for(lambda: world.telegram.texts(ANA_TELEGRAM) and last(world).buttons)
        forged = last(world).buttons[0][1]

        await world.telegram.direct_message(BO_TELEGRAM, "/help")
        await world.telegram_shows("What you can type", BO_TELEGRAM)
        await world.telegram.press_button(
            BO_TELEGRAM, BO_TELEGRAM, last(world, BO_TELEGRAM).message_id, forged
        )
        await world.telegram_shows("served its time", BO_TELEGRAM)

        assert world.model.dropped == 0


async def test_the_owner_lets_a_stranger_in_by_a_button(world: World) -> None:
    async with world.running():
        world.answer("Hello Ana.")
        await world.ana_on_telegram("hello")
        await world.telegram_shows("Hello Ana.")

        world.discord.world.add_user("3003", "[Eve](http://evil.example)")
        await world.discord.direct_message("3003", "let me in")
        await world.telegram_shows("would like to talk to me")
        notice = last(world)
        assert [label for label, _ in notice.buttons] == ["Approve", "Deny"]
        assert "http://" not in notice.text

        payload = notice.buttons[0][1]
        await world.telegram.direct_message(BO_TELEGRAM, "/help")
        await world.telegram_shows("What you can type", BO_TELEGRAM)
        await world.telegram.press_button(
            BO_TELEGRAM, BO_TELEGRAM, last(world, BO_TELEGRAM).message_id, payload
        )
        await world.telegram_shows("served its time", BO_TELEGRAM)
        assert not any("You're in" in text for text in world.discord.texts())

        await telegram_press(world, "Approve")
        await world.telegram_shows("may talk to me now")
        await world.discord_shows("You're in.")
        await telegram_press(world, "Approve")
        await world.telegram_shows("decided already")

        world.answer("Hello Eve.")
        await world.discord.direct_message("3003", "hi")
        await world.discord_shows("Hello Eve.")


async def test_somebody_the_owner_denies_is_not_answered_any_more(world: World) -> None:
    async with world.running():
        world.answer("Hello Ana.")
        await world.ana_on_slack("hello")
        channel = world.slack.workspace.direct_channel(ANA_SLACK).id
        await world.slack.wait_for(lambda: "Hello Ana." in world.slack.texts(channel))

        await world.telegram.direct_message(STRANGER, "let me in")
        await world.telegram_shows("Your code is", STRANGER)
        await world.slack.wait_for(lambda: any("would like" in text for text in world.slack.texts(channel)))
        notice = world.slack.sent(channel)[-1]
        deny = notice.buttons[1]["value"]
        await world.slack.press(ANA_SLACK, channel, notice.ts, deny, deny)
        await world.slack.wait_for(lambda: any("stays out" in text for text in world.slack.texts(channel)))

        codes = len(world.telegram.texts(STRANGER))
        await world.telegram.direct_message(STRANGER, "please")
        world.answer("Still here.")
        await world.ana_on_telegram("hello")
        await world.telegram_shows("Still here.")

    assert len(world.telegram.texts(STRANGER)) == codes == 1


async def test_a_memory_that_waits_for_a_yes_is_saved_by_a_button(world: World) -> None:
    async with world.running(memory={"write_approval": True}):
        world.call("memory", action="add", target="user", content="Ana likes tea.")
        world.answer("I'd like to keep that.")
        await world.ana_on_telegram("I like tea")
        await world.telegram_shows("I'd like to keep that.")
        await world.telegram.wait_for(
            lambda: any(
                shown.buttons and shown.buttons[0][0] == "Save" for shown in world.telegram.sent(ANA_TELEGRAM)
            )
        )

        await telegram_press(world, "Save")
        await world.telegram_shows("Ana likes tea.")
        await world.telegram.wait_for(lambda: (world.home / "memories/ana/USER.md").exists())
        await telegram_press(world, "Save")
        await world.telegram_shows("served its time")

    assert "Ana likes tea." in (world.home / "memories/ana/USER.md").read_text(encoding="utf-8")


async def test_a_reaction_reaches_the_model_with_the_next_message(world: World) -> None:
    async with world.running():
        world.answer("It is Tuesday.", "Then it is Wednesday.", "Right.")
        await world.ana_on_telegram("which day is it?")
        await world.telegram_shows("It is Tuesday.")
        await settled(world, 1)
        answer = last(world)
        await world.telegram.react(ANA_TELEGRAM, ANA_TELEGRAM, answer.message_id, "👍")
        await world.telegram.react(ANA_TELEGRAM, ANA_TELEGRAM, answer.message_id, "👎")
        await world.ana_on_telegram("sure?")
        await world.telegram_shows("Then it is Wednesday.")
        await world.ana_on_telegram("thanks")
        await world.telegram_shows("Right.")

    assert 'reacted with 👎 to your answer "It is Tuesday."' in world.last_user(1)
    assert "👍" not in world.last_user(1)
    assert "👎" not in world.last_user(2)


async def test_a_shared_skill_is_called_from_the_menus_and_answers_for_all_to_see(world: World) -> None:
    """On Discord, too, where commands of ours are answered for the asker alone."""
    put_skill(world.home / "skills", "house-rules", skill_text("house-rules", body="Name them all."))
    room = world.discord.general
    async with world.running():
        await world.discord.wait_for(
            lambda: "house-rules" in {one["name"] for one in world.discord.world.commands.values()}
        )
        await world.telegram.wait_for(
            lambda: world.telegram.commands and world.telegram.commands[-1]["command"] == "house_rules"
        )
        world.answer("No shoes.", "No shoes, no dogs.")
        await world.discord.slash(world.ana_discord, "house-rules", "for guests", channel=room)
        await world.discord_shows("No shoes.", room)
        assert "/house-rules for guests" in world.last_user()
        assert "Name them all." in world.last_user()
        await world.ana_on_telegram("/house_rules for dogs")
        await world.telegram_shows("no dogs")
        assert "Name them all." in world.last_user()

    assert [shown.ephemeral for shown in world.discord.sent(room)] == [False]


async def test_a_private_command_in_a_room_is_answered_for_the_asker_alone(world: World) -> None:
    room = world.discord.general
    async with world.running():
        await world.discord.wait_for(lambda: world.discord.world.commands)
        await world.discord.slash(world.ana_discord, "whoami", channel=room)
        await world.discord_shows("You are Ana", room)

    [answer] = world.discord.sent(room)
    assert answer.ephemeral


@pytest.mark.parametrize("knows_her", [True, False])
async def test_a_private_command_typed_in_a_group_is_answered_in_the_direct_chat(
    world: World, knows_her: bool
) -> None:
    world.telegram.group(GROUP)
    async with world.running(rooms={f"telegram/{GROUP}": {}}):
        if knows_her:
            world.answer("Hello Ana.")
            await world.ana_on_telegram("hello")
            await world.telegram_shows("Hello Ana.")
        await world.telegram.group_message(GROUP, ANA_TELEGRAM, "/whoami", mention=False)
        if knows_her:
            await world.telegram_shows("You are Ana")
            await world.telegram_shows("I answered you in a direct message.", GROUP)
        else:
            await world.telegram_shows("ask me in a direct message", GROUP)
            assert "https://t.me/TrunklineBot" in world.telegram.texts(GROUP)[0]

    assert not any("Ana" in text for text in world.telegram.texts(GROUP))


async def test_the_model_reacts_to_what_it_answers_where_that_is_possible(world: World) -> None:
    async with world.running():
        world.call("react", emoji="👍")
        world.answer("Done.")
        await world.ana_on_telegram("thanks!")
        await world.telegram_shows("Done.")
        world.call("react", emoji="✅")
        world.answer("In words then.")
        await world.ana_on_telegram("and now?")
        await world.telegram_shows("In words then.")

    assert list(world.telegram.reactions.values()) == [("👍",)]
    refusals = [m["content"] for m in world.request()["messages"] if m["role"] == "tool"]
    assert "isn't possible here" in refusals[-1]


async def test_a_message_is_acknowledged_by_a_reaction_where_that_is_set(world: World) -> None:
    platforms = {
        "telegram": {"base_url": world.telegram.url, "ack_reaction": "👀"},
        "slack": {"base_url": world.slack.api_url},
        "web": {"port": world.web_port},
    }
    async with world.running(platforms=platforms):
        go_on = asyncio.Event()
        world.model.then(Reply("Here.", held=go_on), Reply("There."))
        await world.ana_on_telegram("hello")
        await world.telegram.wait_for(lambda: ("👀",) in world.telegram.reactions.values())
        go_on.set()
        await world.telegram_shows("Here.")
        await world.ana_on_discord("hello")
        await world.discord_shows("There.")

    assert world.discord.world.reactions == []


async def test_people_of_a_slack_channel_have_their_names_before_the_model(world: World) -> None:
    team = world.slack.workspace.team
    world.slack.workspace.add_channel("C0ROOM", "channel", (ANA_SLACK, "U0CLEO"))
    world.slack.workspace.users |= {"U0CLEO": "Cleo", "U0BORIS": "Boris"}
    async with world.running(rooms={f"slack/{team}/C0ROOM": {}}):
        world.answer("Ask Ana.")
        await world.slack.channel_message("C0ROOM", "U0CLEO", "who is <@U0BORIS>?")
        await world.slack.wait_for(
            lambda: any(
                post.text == "Ask Ana." for post in world.slack.workspace.channels["C0ROOM"].posts.values()
            )
        )

    assert '⟦from "Cleo"⟧' in world.last_user()
    assert "who is @Boris (U0BORIS)?" in world.last_user()


async def test_a_talk_in_slacks_pane_gets_suggestions_and_its_title(world: World) -> None:
    async with world.running():
        world.answer("Monday first.")
        thread = await world.slack.open_pane(ANA_SLACK)
        await world.slack.wait_for(lambda: world.slack.web.prompts)
        await world.slack.direct_message(ANA_SLACK, "plan my week", thread=thread)
        await world.slack.wait_for(lambda: world.slack.web.titles)

    assert list(world.slack.web.titles.values()) == ["A talk"]
