"""Secrets are masked before they are stored, while the turn that needs them still has them."""

from typing import Any

from sqlalchemy import select

from tests.e2e.world import ANA_TELEGRAM, World
from trunkline.gateway.secrets import MASK
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import message

# Made up, in the shape of a real one; put together so that no scanner takes this file for a leak.
FOUND_KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def tool_texts(request: dict[str, Any]) -> list[str]:
    return [str(one["content"]) for one in request["messages"] if one["role"] == "tool"]


async def test_a_tool_gives_the_turn_a_credential_that_the_transcript_never_holds(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await world.ana_on_discord(f"the deploy key of the boiler server is {FOUND_KEY}")
        await world.discord_shows("Kept.")

        world.call("session_search", query="deploy key boiler server", summarize=False)
        world.answer("I have it.")
        await world.ana_on_telegram("look up the deploy key")
        await world.telegram_shows("I have it.")
        assert FOUND_KEY in tool_texts(world.request())[0]

        world.answer("Gone.")
        await world.ana_on_telegram("and again?")
        await world.telegram_shows("Gone.")
        assert FOUND_KEY not in tool_texts(world.request())[0]
        assert "removed]" in tool_texts(world.request())[0]

    with Database.sqlite(world.home / "state.db") as database:
        query = select(message.c.content).where(message.c.role == "tool")
        (stored,) = await database.read(lambda c: c.execute(query).all())
    assert FOUND_KEY not in stored.content


async def test_a_configured_token_is_nowhere_in_the_file(world: World) -> None:
    token = world.telegram.token
    async with world.running():
        world.call("session_search", query=f"who uses {token}", summarize=False)
        world.answer(f"You use {token[:12]}, I think.")
        await world.ana_on_telegram(f"is {token} still good?")
        await world.telegram_shows("I think")
        await world.ana_on_telegram(f"/title token {token}")
        await world.telegram_shows("is called")

        world.answer("Yes.")
        await world.ana_on_telegram("well?")
        await world.telegram_shows("Yes.")
        assert token not in str(world.request()["messages"])
        assert MASK in str(world.request()["messages"])

    for path in world.home.glob("state.db*"):
        assert token.encode() not in path.read_bytes(), path.name
    assert world.telegram.texts(ANA_TELEGRAM)
