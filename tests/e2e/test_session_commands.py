"""/sessions, /resume, /title and /search, as people use them on their platforms."""

from typing import Any

from sqlalchemy import select

from tests.e2e.world import ANA_TELEGRAM, BO_TELEGRAM, World
from tests.emulators.openai import Reply
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import session


def said(request: dict[str, Any]) -> list[str]:
    return [str(message["content"]) for message in request["messages"] if message["role"] != "system"]


async def test_a_conversation_goes_on_on_another_platform(world: World) -> None:
    async with world.running():
        world.namer.responder = lambda _: Reply("The boiler")
        world.answer("It needs a new valve, part V-77.")
        await world.ana_on_telegram("the boiler drips")
        await world.telegram_shows("V-77")
        await world.ana_on_telegram("/title The boiler")
        await world.telegram_shows("called “The boiler")

        await world.ana_on_discord("/sessions")
        await world.discord_shows("1. The boiler")
        await world.ana_on_discord("/resume 1")
        await world.discord_shows("We go on with The boiler")
        world.answer("V-77, as I said.")
        await world.ana_on_discord("which part was it?")
        await world.discord_shows("as I said")

        shown = said(world.request())
        assert len(shown) == 3
        assert "the boiler drips" in shown[0]
        assert "goes on from one that was held on telegram" in shown[0]
        assert shown[1] == "It needs a new valve, part V-77."
        assert "which part was it?" in shown[2]
        assert "Discord" in world.system()

        first = world.request()["messages"]
        world.answer("Order it.", "Done here.")
        await world.ana_on_telegram("what now?")
        await world.telegram_shows("Order it.")
        assert "which part was it?" not in str(world.request())
        await world.ana_on_discord("and now?")
        await world.discord_shows("Done here.")
        assert world.request()["messages"][: len(first)] == first

    with Database.sqlite(world.home / "state.db") as database:
        query = select(session.c.platform, session.c.title, session.c.parent_id).order_by(session.c.id)
        rows = await database.read(lambda c: c.execute(query).all())
    assert [tuple(row) for row in rows] == [
        ("telegram", "The boiler", None),
        ("discord", "The boiler (2)", 1),
    ]


async def test_nobody_takes_up_what_is_not_their_own(world: World) -> None:
    room = world.discord.general
    async with world.running():
        world.namer.responder = lambda _: Reply("Secret plan")
        world.answer("Hush.")
        await world.ana_on_telegram("the secret plan")
        await world.telegram_shows("Hush.")
        await world.ana_on_telegram("/title Secret plan")
        await world.telegram_shows("called “Secret plan")
        await world.telegram.direct_message(BO_TELEGRAM, "/resume Secret plan")
        await world.telegram_shows("I find no conversation “Secret plan” of yours", BO_TELEGRAM)

        world.namer.responder = lambda _: Reply("Room talk")
        world.answer("Hello all.")
        await world.discord.channel_message(room, world.bo_discord, "hello in the room", mention=True)
        await world.discord_shows("Hello all.", room)
        await world.discord.slash(world.bo_discord, "title", "Room talk", channel=room)
        await world.discord_shows("called “Room talk", room)
        await world.telegram.direct_message(BO_TELEGRAM, "/resume room TALK")
        await world.telegram_shows("That was said in a group", BO_TELEGRAM)
        await world.discord.slash(world.bo_discord, "resume", "1", channel=room)
        await world.discord_shows("private", room)
        assert len(world.model.requests) == 2


async def test_resume_says_what_is_missing(world: World) -> None:
    async with world.running():
        for words, sentence in (
            ("/sessions", "No conversations yet."),
            ("/title", "no conversation here that could have a title"),
            ("/resume", "Write which one"),
            ("/resume 7", "I find no conversation “7”"),
        ):
            await world.ana_on_telegram(words)
            await world.telegram_shows(sentence)
        world.namer.responder = lambda _: Reply(status=500)
        world.answer("One.", "Two.")
        await world.ana_on_telegram("first talk")
        await world.telegram_shows("One.")
        await world.ana_on_telegram("/resume 1")
        await world.telegram_shows("in that conversation already")
        await world.ana_on_telegram("/title Trip north")
        await world.telegram_shows("called “Trip north” now")
        await world.ana_on_telegram("/new")
        await world.telegram_shows("A fresh conversation")
        await world.ana_on_telegram("second talk")
        await world.telegram_shows("Two.")
        await world.ana_on_telegram("/title Trip south")
        await world.telegram_shows("called “Trip south” now")
        await world.ana_on_telegram("/resume trip")
        await world.telegram_shows("Several fit")
        await world.ana_on_telegram("/resume TRIP  north")
        await world.telegram_shows("We go on with Trip north")
    assert len(world.model.requests) == 2
    assert "Trip south" in "".join(world.telegram.texts(ANA_TELEGRAM))
