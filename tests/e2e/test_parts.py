"""A question that came as several messages: a change of one of them changes that one, and no other."""

from tests.e2e.test_amending import Chat, database, settled
from tests.e2e.world import World
from tests.emulators.openai import Reply
from tests.gateway.small_house import eventually

BURST = {"agent": {"burst_window": 20}}


async def asked_in_two(world: World, chat: Chat) -> tuple[str, str]:
    """Two messages that are one question, answered."""
    world.model.then(Reply("too early", delay_s=30), Reply("Bread and milk."))
    first = await chat.ask("we need bread")
    await world.model.wait_for(lambda: world.model.requests)
    second = await chat.ask("and milk")
    await chat.shows("Bread and milk.")
    await settled(world, 1)
    return first, second


async def test_an_edit_of_one_message_of_a_question_changes_the_answer_in_its_place(world: World) -> None:
    chat = Chat(world, "telegram")
    async with world.running(**BURST):
        first, second = await asked_in_two(world, chat)
        world.answer("Bread and tea.", "Rolls and tea.")
        await chat.edit(second, "and tea")
        await chat.reads("Bread and tea.")
        assert world.last_user().endswith("we need bread\n\nand tea")
        await settled(world, 2)
        await chat.edit(first, "we need rolls")
        await chat.reads("Rolls and tea.")
    assert world.last_user().endswith("we need rolls\n\nand tea")


async def test_a_deleted_message_of_a_question_leaves_the_other(world: World) -> None:
    chat = Chat(world, "discord")
    async with world.running(**BURST):
        first, _ = await asked_in_two(world, chat)
        await chat.delete(first)
        await eventually(lambda: _left(world, "and milk"))
        world.answer("Milk.")
        await chat.ask("what did I ask for?")
        await chat.shows("Milk.")
    assert "bread" not in str([m for m in world.request()["messages"] if m["role"] == "user"])
    assert "and milk" in str(world.request()["messages"])


async def _left(world: World, text: str) -> bool:
    query = "SELECT content FROM message WHERE role = 'user'"
    with database(world) as state:
        rows = await state.read(lambda c: c.exec_driver_sql(query).all())
    return [row.content for row in rows] == [text]


async def test_a_message_deleted_before_anything_was_shown_is_not_answered_with_the_rest(
    world: World,
) -> None:
    chat = Chat(world, "slack")
    async with world.running(**BURST):
        world.model.then(Reply("", delay_s=30), Reply("", delay_s=30), Reply("Milk."))
        first = await chat.ask("we need bread")
        await world.model.wait_for(lambda: world.model.requests)
        await chat.ask("and milk")
        await world.model.wait_for(lambda: len(world.model.requests) == 2)
        await chat.delete(first)
        await chat.shows("Milk.")
        await settled(world, 1)
    assert world.last_user().endswith("\nand milk")
