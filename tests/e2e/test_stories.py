"""The stories the product exists for, told over real client libraries, real files and a real database."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import select, update

from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.openai import Reply
from trunkline.gateway.clock import now_ms
from trunkline.gateway.identity import approve
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import message, session

PREFERENCE = "User prefers short answers."


def user_file(world: World, person: str) -> Path:
    return world.home / "memories" / person / "USER.md"


async def test_a_preference_told_on_telegram_is_known_on_discord_and_slack_and_to_nobody_else(
    world: World,
) -> None:
    """T10; that a room knows nothing of it is below, the link of two platforms in test_people."""
    async with world.running():
        world.answer("Hello Ana.")
        await world.ana_on_discord("hello")
        await world.discord_shows("Hello Ana.")

        world.call("memory", action="add", target="user", content=PREFERENCE)
        world.answer("Noted.")
        await world.ana_on_telegram("from now on keep answers short")
        await world.telegram_shows("Noted.")
        assert PREFERENCE in user_file(world, "ana").read_text(encoding="utf-8")

        world.answer("Fine.")
        await world.ana_on_discord("how are you?")
        await world.discord_shows("Fine.")
        assert PREFERENCE in world.last_user()
        assert PREFERENCE not in world.system()

        world.answer("On Slack.")
        await world.ana_on_slack("and here?")
        await world.model.wait_for(lambda: len(world.model.requests) == 5)
        assert PREFERENCE in world.system()

        world.answer("Hi Bo.")
        await world.telegram.direct_message(BO_TELEGRAM, "what do you know of Ana?")
        await world.telegram_shows("Hi Bo.", BO_TELEGRAM)
        assert PREFERENCE not in str(world.request())


async def test_what_was_decided_last_week_is_found_from_another_platform_by_its_owner_only(
    world: World,
) -> None:
    async with world.running():
        world.answer("Then the boiler is replaced in spring.")
        await world.ana_on_telegram("We decided: replace the boiler, deploying it in spring")
        await world.telegram_shows("replaced in spring")
        world.answer("下周见。")
        await world.ana_on_telegram("下周去苏州出差开会")
        await world.telegram_shows("下周见。")
    with Database.sqlite(world.home / "state.db") as database:
        week = int(timedelta(days=7).total_seconds() * 1000)
        await database.write(
            lambda c: c.execute(update(message).values(created_ms=message.c.created_ms - week))
        )
        await database.write(
            lambda c: c.execute(
                update(session).values(
                    started_ms=session.c.started_ms - week, last_ms=session.c.last_ms - week
                )
            )
        )

    async with world.running():
        for question, query in (("what about the boilers?", "boilers deployed"), ("苏州的事呢？", "苏州")):
            asked = len(world.model.requests)
            world.call("session_search", query=query)
            world.model.then(Reply("It says so."), Reply("That is what was decided."))
            await world.ana_on_slack(question)
            await world.model.wait_for(lambda n=asked: len(world.model.requests) >= n + 3)  # type: ignore[misc]
            found = str([m for m in world.request()["messages"] if m["role"] == "tool"][-1]["content"])
            assert "telegram" in found.lower()

            asked = len(world.model.requests)
            world.call("session_search", query=query)
            world.answer("I find nothing.")
            await world.telegram.direct_message(BO_TELEGRAM, question)
            await world.model.wait_for(lambda n=asked: len(world.model.requests) == n + 2)  # type: ignore[misc]
            nothing = str([m for m in world.request()["messages"] if m["role"] == "tool"][-1]["content"])
            assert "boiler is replaced" not in nothing
            assert "苏州出差" not in nothing


async def test_a_room_is_silent_until_mentioned_and_holds_nobodys_private_memory(world: World) -> None:
    user_file(world, "ana").parent.mkdir(parents=True)
    user_file(world, "ana").write_text("Ana's birthday is on 3 May.\n§\n", encoding="utf-8")
    room = world.discord.general
    async with world.running():
        await world.discord.channel_message(room, world.ana_discord, "just chatting", mention=False)
        world.answer("Here I am.")
        await world.discord.channel_message(room, world.bo_discord, "when is Ana's birthday?", mention=True)
        await world.discord_shows("Here I am.", room)
        assert len(world.model.requests) == 1
        assert "3 May" not in str(world.request())

        world.call("memory", action="add", target="memory", content="The room meets on Mondays.")
        world.answer("Remembered.")
        thread = await world.discord.create_thread(room, world.ana_discord, "plans")
        await world.discord.channel_message(thread, world.ana_discord, "we meet on Mondays", mention=True)
        await world.discord_shows("Remembered.", thread)
        assert "3 May" not in str(world.model.requests)

        world.answer("On Mondays.")
        await world.discord.channel_message(room, world.bo_discord, "when do we meet?", mention=True)
        await world.discord_shows("On Mondays.", room)
        assert "The room meets on Mondays." in world.last_user()


async def test_a_stranger_gets_a_code_and_is_answered_once_the_owner_approves(world: World) -> None:
    """T15."""
    stranger = "3003"
    async with world.running():
        await world.discord.direct_message(stranger, "hello, who are you?")
        await world.discord_shows("Your code is", world.discord.direct_chat(stranger))
        assert world.model.requests == []
        (sentence,) = world.discord.texts(world.discord.direct_chat(stranger))
        code = re.search(r"\b[A-HJKMNP-Z2-9]{8}\b", sentence)
        assert code is not None

        with Database.sqlite(world.home / "state.db") as other_process:
            await other_process.write(lambda c: approve(c, code[0], now_ms(), typed_by=None))
        world.answer("Welcome!")
        await world.discord.direct_message(stranger, "hello again")
        await world.discord_shows("Welcome!", world.discord.direct_chat(stranger))


LONG_CODE = "\n".join(f"    value_{n} = compute({n}, '<&>')  # line {n}" for n in range(170))
LONG_ANSWER = f"Here it is.\n\n```python\n{LONG_CODE}\n```\n\n" + "And some words after it. " * 80


async def test_a_long_answer_with_code_arrives_whole_on_all_three(world: World) -> None:
    """T8."""
    assert len(LONG_ANSWER) > 9000
    channel = world.slack.workspace.direct_channel(ANA_SLACK).id
    async with world.running():
        world.model.responder = lambda body: Reply(LONG_ANSWER, chunk_chars=500)
        await world.ana_on_telegram("show me")
        await world.ana_on_discord("show me")
        await world.ana_on_slack("show me")
        for emulator, texts, longest in (
            (world.telegram, lambda: world.telegram.texts(ANA_TELEGRAM), 4096),
            (world.discord, world.discord.texts, 2000),
            (world.slack, lambda: world.slack.texts(channel), 3900),
        ):
            await emulator.wait_for(lambda t=texts: visible(t()).count("words after") == 80)  # type: ignore[misc]
            assert LONG_CODE in visible(texts())
            assert all(len(text) <= longest for text in texts())


def visible(texts: list[str]) -> str:
    """The parts joined as a reader sees them: without fences, and Slack's escapes undone."""
    lines = [line for text in texts for line in text.split("\n") if not line.startswith("```")]
    return "\n".join(lines).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


async def test_every_failure_of_the_model_is_one_clear_sentence_and_the_session_goes_on(
    world: World,
) -> None:
    failures = [
        (Reply(status=401, error="bad key", code="invalid_api_key"), "refused my key"),
        (Reply(status=429, code="insufficient_quota", error="no credit"), "no credit left"),
        (Reply(status=404, code="model_not_found", error="unknown model"), "doesn't know the model"),
        (Reply(text="The answer is", cut_after=2), "broke off"),
    ]
    async with world.running():
        for number, (failure, sentence) in enumerate(failures):
            world.model.script.clear()
            world.model.then(*[failure] * 6)
            await world.ana_on_telegram(f"question {number}")
            await world.telegram_shows(sentence)
        world.model.script.clear()
        world.model.then(Reply(status=429, headers={"Retry-After": "1"}), Reply("After a short wait."))
        await world.ana_on_telegram("try again")
        await world.telegram_shows("After a short wait.")

        world.model.then(Reply(status=500), Reply("After an error."))
        await world.ana_on_telegram("and again")
        await world.telegram_shows("After an error.")

        world.call("memory", action="explode", target="user", content="x")
        world.answer("The tool refused that.")
        await world.ana_on_telegram("use the tool wrongly")
        await world.telegram_shows("The tool refused that.")
        assert not user_file(world, "ana").exists()


async def test_stop_ends_a_running_answer_and_new_starts_afresh(world: World) -> None:
    async with world.running():
        world.model.then(Reply("word " * 400, chunk_chars=5, chunk_delay_s=0.05))
        await world.ana_on_telegram("write a long story")
        await world.telegram_shows("word word word")
        await world.ana_on_telegram("/stop")
        await world.telegram_shows("Stopped.")
        await world.telegram_shows("(stopped here)")
        await world.model.wait_for(lambda: world.model.dropped == 1)

        world.answer("Second answer.")
        await world.ana_on_telegram("go on")
        await world.telegram_shows("Second answer.")
        assert "write a long story" in str(world.request())

        await world.ana_on_telegram("/new")
        await world.telegram_shows("A fresh conversation.")
        world.answer("Third answer.")
        await world.ana_on_telegram("hello")
        await world.telegram_shows("Third answer.")
        assert "write a long story" not in str(world.request())

        await world.ana_on_telegram("/help")
        await world.telegram_shows("/new")


async def test_the_second_request_begins_with_the_bytes_of_the_first(world: World) -> None:
    async with world.running():
        world.answer("One.", "Two.")
        await world.ana_on_telegram("first")
        await world.telegram_shows("One.")
        await world.ana_on_telegram("second")
        await world.telegram_shows("Two.")

    first, second = world.model.requests
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["tools"] == first["tools"]


async def test_messages_sent_before_there_is_a_model_are_answered_with_what_to_do_and_kept(
    world: World,
) -> None:
    async with world.running(model={}):
        await world.ana_on_telegram("the attic window is broken")
        await world.telegram_shows("trunkline setup")
    async with world.running():
        world.answer("The attic window.")
        await world.ana_on_telegram("what was broken?")
        await world.telegram_shows("The attic window.")

    assert "the attic window is broken" in str(world.request())


async def test_an_answer_that_a_dead_process_had_begun_is_finished_by_the_next(world: World) -> None:
    async with world.running():
        world.model.then(Reply("Half of it", delay_s=30))
        await world.ana_on_telegram("a question")
        await world.model.wait_for(lambda: len(world.model.requests) == 1)

    async with world.running():
        world.model.script.clear()
        world.answer("The whole answer.")
        await world.telegram_shows("The whole answer.")

    assert world.telegram.texts(ANA_TELEGRAM) == ["The whole answer."]


async def test_times_are_stored_in_utc_and_shown_in_the_persons_zone(world: World) -> None:
    async with world.running():
        world.answer("Good.")
        await world.ana_on_telegram("hello")
        await world.telegram_shows("Good.")

    assert re.search(r"20\d\d-\d\d-\d\d.*\b(CET|CEST|Europe/Berlin|\+0[12]:?00)\b", world.last_user())
    with Database.sqlite(world.home / "state.db") as database:
        stored = await database.read(lambda c: c.execute(select(message.c.created_ms)).scalars().all())
    assert all(
        abs(datetime.fromtimestamp(ms / 1000, UTC) - datetime.now(UTC)) < timedelta(hours=1) for ms in stored
    )
