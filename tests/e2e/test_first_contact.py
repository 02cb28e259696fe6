"""The first words of people and of strangers, private answers without a way, and what may pass for a yes."""

from datetime import UTC, datetime, timedelta

from tests.e2e.test_amending import settled
from tests.e2e.world import ANA_TELEGRAM, BO_TELEGRAM, World
from trunkline.adapters.base import ChatRef, Chunk
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Destination, payloads
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import inbox

GROUP = -100777
WELCOME = {"access": {"messages_per_minute": 0}}


async def test_a_first_direct_message_is_welcomed_once_in_the_life_of_the_person(world: World) -> None:
    async with world.running(**WELCOME):
        world.answer("Hello.", "Hello again.")
        await world.ana_on_telegram("hi")
        await world.telegram_shows("Hello.")
        await world.ana_on_discord("hi")
        await world.discord_shows("Hello again.")
        await settled(world, 2)
    async with world.running(**WELCOME):
        world.answer("Still here.")
        await world.ana_on_telegram("there?")
        await world.telegram_shows("Still here.")

    welcome, *answers = world.telegram.texts(ANA_TELEGRAM)
    assert welcome.startswith("Hello Ana, I'm your assistant")
    assert welcome.count(". ") == 1
    assert answers == ["Hello.", "Still here."]
    assert world.discord.texts() == ["Hello again."]
    assert world.request(0)["messages"][-1]["role"] == "user"


async def test_who_begins_with_start_is_welcomed_by_that_alone(world: World) -> None:
    async with world.running(**WELCOME):
        world.answer("Noted.")
        await world.ana_on_telegram("/start")
        await world.telegram_shows("Hello Ana")
        await world.ana_on_telegram("hi")
        await world.telegram_shows("Noted.")

    assert len(world.telegram.texts(ANA_TELEGRAM)) == 2


async def test_a_bare_yes_of_somebody_else_approves_nothing(world: World) -> None:
    """T13: what waits for its owner's word is nobody else's to settle, and in a room nothing can be."""
    world.telegram.group(GROUP)
    people = {"rooms": {f"telegram/{GROUP}": {"free": True}}, "memory": {"write_approval": True}}
    async with world.running(**people):
        world.call("memory", action="add", target="user", content="Ana likes tea.")
        world.answer("I'd like to note that.")
        await world.ana_on_telegram("remember that I like tea")
        await world.telegram_shows("I'd like to note that.")
        world.model.responder = None
        world.answer("Yes what?", "What do you mean?", "Hm?")
        await world.telegram.group_message(GROUP, BO_TELEGRAM, "yes", mention=True)
        await world.telegram_shows("Yes what?", GROUP)
        await world.telegram.direct_message(BO_TELEGRAM, "yes")
        await world.telegram_shows("What do you mean?", BO_TELEGRAM)
        await world.telegram.direct_message(BO_TELEGRAM, "/memory approve 1")
        await world.telegram.wait_for(lambda: len(world.telegram.texts(BO_TELEGRAM)) == 2)

    kept = world.home / "memories" / "ana" / "USER.md"
    assert not kept.exists() or "tea" not in kept.read_text(encoding="utf-8")


async def plan_late_answer(world: World, asked_in: str) -> None:
    """A private answer to Ana's last command, of which the interaction ran out before it was sent."""
    with Database.sqlite(world.home / "state.db") as database:
        query = inbox.select().where(inbox.c.chat == asked_in).order_by(inbox.c.id.desc()).limit(1)
        row = await database.read(lambda c: c.execute(query).one())
        to = ChatRef(asked_in, None, "token", datetime.now(UTC) - timedelta(seconds=1))
        where = Destination("discord", row.tenant, to, ephemeral=True, group=True, private=True)
        secret = payloads(where, [Chunk("You are Ana.")])
        source = f"i:{row.id}{outbox.PRIVATE}"
        await database.write(lambda c: outbox.plan(c, where.plan(source), secret, now_ms()))


async def test_a_private_answer_that_comes_too_late_goes_to_the_direct_chat_if_there_is_one(
    world: World,
) -> None:
    room = world.discord.general
    async with world.running():
        world.answer("Hi.", "Hello, room.")
        await world.ana_on_discord("hi")
        chat = world.discord.direct_chat(world.ana_discord)
        await world.discord_shows("Hi.", chat)
        await world.discord.channel_message(room, world.ana_discord, "hello", mention=True)
        await world.discord_shows("Hello, room.", room)
        await plan_late_answer(world, room)
        await world.discord_shows("You are Ana.", chat)
        await world.discord_shows("I answered you in a direct message.", room)

    assert not any("You are Ana" in text for text in world.discord.texts(room))


async def test_a_private_answer_that_comes_too_late_for_any_way_is_told_and_not_shown(world: World) -> None:
    room = world.discord.general
    async with world.running():
        world.answer("Hello, room.")
        await world.discord.channel_message(room, world.ana_discord, "hello", mention=True)
        await world.discord_shows("Hello, room.", room)
        await plan_late_answer(world, room)
        await world.discord_shows("came too late to be shown to you alone", room)

    assert not any("You are Ana" in text for text in world.discord.texts())
