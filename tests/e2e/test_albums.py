"""Several pictures: of one answer they go out as one, of one question they are one, come what may."""

from sqlalchemy import select

from tests.e2e.test_amending import database, settled
from tests.e2e.test_steering import STEERING, during_a_tool
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, World
from tests.emulators.base import Fault
from tests.emulators.openai import Reply, ToolUse, pictures_of
from tests.gateway.small_house import eventually
from trunkline.gateway.state.schema import outbox

PNG = b"\x89PNG\r\n\x1a\n"


async def asked_for(world: World, count: int) -> None:
    """Ana sends a picture on Telegram, and the model is about to send that many back."""
    await world.telegram.direct_message(ANA_TELEGRAM, "keep it", media=world.telegram.photo(PNG + b"1"))
    await world.telegram_shows("Kept.")
    await settled(world, 1)
    world.model.then(Reply(tools=sending(count)), Reply("Here they are."))


def sending(count: int) -> list[ToolUse]:
    again = {"file": 1, "elsewhere": True}
    return [ToolUse("send_file", {**again, "name": f"view-{n}.png"}) for n in range(count)]


async def outbox_rows(world: World) -> list[tuple[str, str]]:
    query = select(outbox.c.kind, outbox.c.state).where(outbox.c.kind == "file").order_by(outbox.c.id)
    with database(world) as state:
        return await state.read(lambda c: [(row.kind, row.state) for row in c.execute(query)])


async def test_eleven_pictures_go_out_on_telegram_as_ten_and_one_in_their_order(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 11)
        await world.ana_on_telegram("give me eleven")
        await world.telegram.wait_for(lambda: len(world.telegram.sent(ANA_TELEGRAM)) == 13)
        await settled(world, 2)
        assert await outbox_rows(world) == [("file", "sent")] * 2
        albums = [one.album for one in world.telegram.sent(ANA_TELEGRAM)]
        await world.ana_on_telegram("/undo")
        await world.telegram.wait_for(lambda: len(world.telegram.sent(ANA_TELEGRAM)) == 2)
    assert len(world.telegram.calls_of("sendMediaGroup")) == 1
    assert len(world.telegram.calls_of("sendPhoto")) == 1
    assert [one is not None for one in albums] == [False, False, *[True] * 10, False]


async def test_pictures_are_one_message_on_discord_and_on_slack(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 3)
        await world.ana_on_discord("give me three")
        chat = world.discord.direct_chat(world.ana_discord)
        held = world.discord.world.messages[chat]
        await world.discord.wait_for(lambda: any(len(one["attachments"]) == 3 for one in held.values()))
        world.model.then(Reply(tools=sending(3)), Reply("Here, too."))
        await world.ana_on_slack("and three here")
        await world.slack.wait_for(lambda: [p for p in world.slack.sent(f"D{ANA_SLACK[1:]}") if p.files])
    [post] = [post for post in world.slack.sent(f"D{ANA_SLACK[1:]}") if post.files]
    assert len(post.files) == 3


async def test_a_refused_album_goes_one_by_one_so_that_only_the_bad_one_is_missing(world: World) -> None:
    refused = Fault(status=400, body={"ok": False, "error_code": 400, "description": "Bad Request: no"})
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 3)
        world.telegram.fail_next("sendMediaGroup", refused)
        world.telegram.fail_next("sendPhoto", refused)
        await world.ana_on_telegram("give me three")
        await world.telegram_shows("view-0.png")
        await settled(world, 2)
    rows = await outbox_rows(world)
    assert rows == [("file", "refused"), ("file", "sent"), ("file", "sent")]
    assert len(world.telegram.calls_of("sendMediaGroup")) == 1
    assert len(world.telegram.sent(ANA_TELEGRAM)) == 5


async def test_an_album_that_may_have_arrived_is_not_sent_again_and_the_person_hears_so(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 2)
        world.telegram.fail_next("sendMediaGroup", Fault(accept_then_drop=True))
        await world.ana_on_telegram("give me two")
        await eventually(lambda: _doubted(world))
        await settled(world, 2)
    assert len(world.telegram.calls_of("sendMediaGroup")) == 1
    assert len([one for one in world.telegram.sent(ANA_TELEGRAM) if one.album]) == 2
    assert await outbox_rows(world) == [("file", "unknown")]


async def _doubted(world: World) -> bool:
    return await outbox_rows(world) == [("file", "unknown")]


async def test_an_album_cut_by_a_kill_is_one_question(world: World) -> None:
    items = [(world.telegram.photo(PNG + b"%d" % n, f"photo-{n}"), "which?" * (n == 0)) for n in range(3)]
    world.answer("Three of them.")
    async with world.running():
        await world.telegram.album(ANA_TELEGRAM, ANA_TELEGRAM, items[:1])
        await eventually(lambda: _arrived(world))
    # The rest comes when the next process polls, as it does after a kill between two commits.
    chat = world.telegram.chats[ANA_TELEGRAM]
    first = next(iter(chat.messages.values()))
    for media, _ in items[1:]:
        fields = {"from": first["from"], "media_group_id": first["media_group_id"], **media}
        await world.telegram.service_message(ANA_TELEGRAM, ANA_TELEGRAM, **fields)
    async with world.running():
        await world.telegram_shows("Three of them.")
    assert [len(pictures_of(request)) for request in world.model.requests] == [3]


async def _arrived(world: World) -> bool:
    with database(world) as state:
        return bool(await state.read(lambda c: c.exec_driver_sql("SELECT 1 FROM inbox").first()))


async def test_a_picture_just_after_its_question_is_a_part_of_it(world: World) -> None:
    world.model.then(Reply("I see no picture.", delay_s=30), Reply("A harbour."))
    async with world.running(agent={"burst_window": 20}):
        await world.ana_on_telegram("what is this?")
        await world.model.wait_for(lambda: world.model.requests)
        await world.telegram.direct_message(ANA_TELEGRAM, media=world.telegram.photo(PNG + b"1"))
        await world.telegram_shows("A harbour.")
        await settled(world, 1)
    assert "I see no picture." not in world.telegram.texts(ANA_TELEGRAM)
    assert len(pictures_of(world.request())) == 1
    assert "what is this?" in world.last_user()


async def test_a_picture_sent_while_a_tool_runs_is_what_the_model_sees_next(world: World) -> None:
    async with world.running(**STEERING):
        async with during_a_tool(world, world.ana_on_telegram):
            await world.telegram.direct_message(
                ANA_TELEGRAM, "and this?", media=world.telegram.photo(PNG + b"2")
            )
            await world.telegram.wait_for(lambda: world.telegram.calls_of("file"))
            await eventually(lambda: _noted(world))
        world.answer("Tea, and a harbour.")
        await world.telegram_shows("Tea, and a harbour.")
        await settled(world, 1)
        world.answer("A harbour.")
        await world.ana_on_telegram("what was it?")
        await world.telegram_shows("A harbour.")
    assert "and this?" in world.last_user(1)
    assert [len(pictures_of(request)) for request in world.model.requests] == [0, 1, 1]


async def test_a_picture_that_joins_the_answer_of_a_model_that_sees_none_is_told_about(world: World) -> None:
    world.model.sees = False
    async with world.running(**STEERING):
        async with during_a_tool(world, world.ana_on_telegram):
            await world.telegram.direct_message(
                ANA_TELEGRAM, "and this?", media=world.telegram.photo(PNG + b"2")
            )
            await eventually(lambda: _noted(world))
        world.answer("Tea, and something.")
        await world.telegram_shows("can't see pictures")
    assert "and this?" in world.last_user(1)


async def _noted(world: World) -> bool:
    with database(world) as state:
        return bool(await state.read(lambda c: c.exec_driver_sql("SELECT 1 FROM attachment").first()))


async def test_an_album_that_has_to_wait_goes_once_when_the_time_is_over(world: World) -> None:
    body = {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests",
        "parameters": {"retry_after": 1},
    }
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 2)
        world.telegram.fail_next("sendMediaGroup", Fault(status=429, body=body))
        await world.ana_on_telegram("give me two")
        await world.telegram.wait_for(lambda: any(one.album for one in world.telegram.sent(ANA_TELEGRAM)))
        await settled(world, 2)
    assert len([one for one in world.telegram.sent(ANA_TELEGRAM) if one.album]) == 2
    assert await outbox_rows(world) == [("file", "sent")]


async def test_a_reaction_to_one_picture_of_an_album_reaches_the_model(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 3)
        await world.ana_on_telegram("give me three")
        await world.telegram.wait_for(lambda: len(world.telegram.sent(ANA_TELEGRAM)) == 5)
        await settled(world, 2)
        liked = world.telegram.sent(ANA_TELEGRAM)[3]
        await world.telegram.react(ANA_TELEGRAM, ANA_TELEGRAM, liked.message_id, "👍")
        world.answer("Glad you like it.")
        await world.ana_on_telegram("that one")
        await world.telegram_shows("Glad you like it.")
    assert 'reacted with 👍 to the file "view-1.png" that you sent.' in world.last_user()


async def test_an_album_on_its_way_when_the_program_dies_is_not_sent_again_and_the_person_hears_so(
    world: World,
) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 2)
        world.telegram.fail_next("sendMediaGroup", Fault(delay_s=60, serve=True))
        await world.ana_on_telegram("give me two")
        await world.telegram.wait_for(lambda: world.telegram.calls_of("sendMediaGroup"))
    async with world.running():
        await world.telegram_shows("may not have arrived")
        await settled(world, 2)
    assert await outbox_rows(world) == [("file", "unknown")]
    assert len(world.telegram.calls_of("sendMediaGroup")) == 1


async def test_an_album_on_its_way_to_discord_when_the_program_dies_is_there_once(world: World) -> None:
    async with world.running():
        world.answer("Kept.")
        await asked_for(world, 2)
        world.discord.fail_next("create_message", Fault(serve=True))
        world.discord.fail_next("create_message", Fault(delay_s=60, serve=True))
        await world.ana_on_discord("give me two")
        await world.discord.wait_for(lambda: len(world.discord.calls_of("create_message")) == 2)
    async with world.running():
        await eventually(lambda: _sent(world))
        await settled(world, 2)
    held = world.discord.world.messages[world.discord.direct_chat(world.ana_discord)]
    assert [len(one["attachments"]) for one in held.values() if one["attachments"]] == [2]


async def _sent(world: World) -> bool:
    return await outbox_rows(world) == [("file", "sent")]
