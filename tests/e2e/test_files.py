"""Files on every platform: a picture in, a file out, and none of a stranger's."""

import aiohttp
import pytest

from tests.e2e.page import opened_page
from tests.e2e.world import ANA_SLACK, ANA_TELEGRAM, WEB_TOKEN, World
from tests.emulators.base import Fault
from tests.emulators.discord_world import VOICE_MESSAGE
from tests.emulators.openai import pictures_of

PNG = b"\x89PNG\r\n\x1a\n" + b"a harbour"


async def test_a_picture_from_each_platform_reaches_the_model_byte_for_byte(world: World) -> None:
    async with world.running():
        world.answer("From Telegram.", "From Discord.", "From Slack.")
        await world.telegram.direct_message(ANA_TELEGRAM, "what is it?", media=world.telegram.photo(PNG))
        await world.telegram_shows("From Telegram.")
        file = world.discord.attachment("view.png", PNG, "image/png")
        await world.discord.direct_message(world.ana_discord, "and this?", attachments=[file])
        await world.discord_shows("From Discord.")
        stored = world.slack.store_file("view.png", "image/png", PNG)
        await world.slack.direct_message(ANA_SLACK, "and here?", files=[stored])
        await world.slack.wait_for(lambda: "From Slack." in world.slack.texts(f"D{ANA_SLACK[1:]}"))
    assert [pictures_of(request) for request in world.model.requests] == [[("image/png", PNG)]] * 3


async def test_a_strangers_files_are_fetched_from_no_platform(world: World) -> None:
    """T11."""
    file = world.discord.attachment("view.png", PNG, "image/png")
    stored = world.slack.store_file("view.png", "image/png", PNG)
    async with world.running():
        await world.telegram.direct_message(9009, "look", media=world.telegram.photo(PNG))
        await world.discord.direct_message("9009", "look", attachments=[file])
        await world.slack.direct_message("U0STRANGER", "look", files=[stored])
        await world.telegram_shows("Your code is", chat=9009)
        await world.discord_shows("Your code is", world.discord.direct_chat("9009"))
        await world.slack.wait_for(lambda: world.slack.texts("D0STRANGER"))
    fetched = [*world.telegram.calls_of("getFile"), *world.telegram.calls_of("file")]
    fetched += [*world.discord.calls_of("download"), *world.slack.calls_of("download")]
    fetched += [*world.slack.calls_of("files.info"), *world.slack.calls_of("users.info")]
    assert fetched == []
    assert world.model.requests == []


async def test_a_voice_message_on_discord_and_a_clip_on_slack_are_put_into_words(world: World) -> None:
    auxiliary = {"title": {"name": "namer", "base_url": world.namer.base_url}, "transcription": "listener"}
    file = world.discord.attachment("voice-message.ogg", b"OggS d", "audio/ogg", voice=True)
    clip = world.slack.store_file("audio_message.m4a", "audio/mp4", b"m4a s")
    world.model.sounds.heard.extend(["from Discord", "from Slack"])
    async with world.running(auxiliary=auxiliary):
        world.answer("One.", "Two.")
        await world.discord.direct_message(world.ana_discord, "", attachments=[file], flags=VOICE_MESSAGE)
        await world.discord_shows("One.")
        await world.slack.direct_message(ANA_SLACK, "", files=[clip])
        await world.slack.wait_for(lambda: "Two." in world.slack.texts(f"D{ANA_SLACK[1:]}"))
    assert "[spoken in a recording] from Discord" in world.last_user(0)
    assert "[spoken in a recording] from Slack" in world.last_user(1)
    assert world.model.sounds.recordings == [("recording.ogg", b"OggS d"), ("recording.m4a", b"m4a s")]


def discord_files(world: World) -> dict[str, bytes]:
    held = [m for messages in world.discord.world.messages.values() for m in messages.values()]
    sent = [one for m in held if m["author"]["id"] == world.discord.bot_id for one in m["attachments"]]
    paths = {one["filename"]: one["url"].removeprefix("https://cdn.discordapp.com") for one in sent}
    return {name: world.discord.world.files[path.partition("?")[0]] for name, path in paths.items()}


def slack_files(world: World) -> list[tuple[str, bytes]]:
    posts = world.slack.sent(f"D{ANA_SLACK[1:]}")
    ids = [one["id"] for post in posts for one in post.files]
    return [(world.slack.workspace.files[id].name, world.slack.workspace.files[id].content) for id in ids]


async def asked_for_a_file(world: World) -> None:
    world.call("send_file", name="list.md", text="- tent")
    world.answer("Here it is.")


async def test_a_file_goes_out_on_discord_after_its_answer(world: World) -> None:
    async with world.running():
        await asked_for_a_file(world)
        await world.ana_on_discord("our list as a file")
        await world.discord.wait_for(lambda: discord_files(world))
    assert discord_files(world) == {"list.md": b"- tent"}
    assert world.discord.texts()[0] == "Here it is."


async def test_a_file_goes_out_on_slack_in_three_calls(world: World) -> None:
    async with world.running():
        await asked_for_a_file(world)
        await world.ana_on_slack("our list as a file")
        await world.slack.wait_for(lambda: slack_files(world))
    assert slack_files(world) == [("list.md", b"- tent")]


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("files.getUploadURLExternal", Fault(drop=True)),
        ("files.completeUploadExternal", Fault(accept_then_drop=True)),
    ],
)
async def test_a_file_whose_way_to_slack_broke_arrives_once(world: World, method: str, fault: Fault) -> None:
    world.slack.fail_next(method, fault)
    async with world.running():
        await asked_for_a_file(world)
        await world.ana_on_slack("our list as a file")
        await world.slack.wait_for(lambda: slack_files(world))
        world.answer("Yes.")
        await world.ana_on_slack("did it arrive?")
        await world.slack.wait_for(lambda: "Yes." in world.slack.texts(f"D{ANA_SLACK[1:]}"))
    assert slack_files(world) == [("list.md", b"- tent")]


async def test_a_file_whose_way_to_discord_broke_arrives_once(world: World) -> None:
    world.discord.fail_next("create_message", Fault(accept_then_drop=True), times=2)
    async with world.running():
        await asked_for_a_file(world)
        await world.ana_on_discord("our list as a file")
        await world.discord.wait_for(lambda: discord_files(world))
        world.answer("Yes.")
        await world.ana_on_discord("did it arrive?")
        await world.discord_shows("Yes.")
    assert list(discord_files(world)) == ["list.md"]
    assert world.discord.texts().count("Here it is.") == 1


async def uploaded(world: World, http: aiohttp.ClientSession, name: str, content: bytes, mime: str) -> str:
    base = f"http://127.0.0.1:{world.web_port}"
    headers = {"Origin": base, "Content-Type": mime}
    async with http.post(f"{base}/c/talk/files?name={name}", data=content, headers=headers) as answer:
        assert answer.status == 201
        return str((await answer.json())["id"])


async def test_a_picture_and_a_file_go_both_ways_on_the_web_page(world: World) -> None:
    base = f"http://127.0.0.1:{world.web_port}"
    async with world.running(), opened_page(world.web_port) as page, aiohttp.ClientSession() as stranger:
        await page.open_link(WEB_TOKEN)
        world.call("send_file", name="list.md", text="- tent")
        world.answer("A harbour.")
        id = await uploaded(world, page.http, "view.png", PNG, "image/png")
        async with page.follow("talk", await page.place("talk")) as events:
            message = {"id": "message-1", "text": "what is it?", "files": [id]}
            url = f"{base}/c/talk/messages"
            async with page.http.post(url, json=message, headers={"Origin": base}) as answer:
                assert answer.status == 202
            link = (await events.until("/files/")).split('href="')[1].split('"')[0]
        async with page.http.get(base + link) as answer:
            assert await answer.read() == b"- tent"
            assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''list.md"
        async with page.http.get(base + link.replace("/c/talk/", "/c/other/")) as answer:
            assert answer.status == 404
        async with stranger.get(base + link) as answer:
            assert answer.status == 401
        unknown = {"id": "message-2", "text": "", "files": ["0" * 24]}
        async with page.http.post(
            f"{base}/c/talk/messages", json=unknown, headers={"Origin": base}
        ) as answer:
            assert answer.status == 409
    assert pictures_of(world.model.requests[0]) == [("image/png", PNG)]
    async with world.running(), opened_page(world.web_port) as page:
        await page.open_link(WEB_TOKEN)
        _, shown = await page.get("/c/talk")
    assert link in shown
