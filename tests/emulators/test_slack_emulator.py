"""The emulator refuses what Slack refuses, shown with the real slack_sdk; and its checks see a breach."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.emulators import slack_spec
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, BOT_USER, TEAM, SlackEmulator

Call = Callable[[AsyncWebClient], Awaitable[object]]
needs_schemas = pytest.mark.skipif(
    slack_spec.schema_folder() is None, reason="TRUNKLINE_API_SPECS names no folder with Slack's schemas"
)


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with SlackEmulator().running() as emulator:
        emulator.workspace.add_channel("C1", "channel", ("U1",))
        yield emulator


@pytest.fixture
def web(slack: SlackEmulator) -> AsyncWebClient:
    return AsyncWebClient(BOT_TOKEN, base_url=slack.api_url, retry_handlers=[])


async def error_of(call: Awaitable[object]) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


@pytest.mark.parametrize(
    ("error", "call"),
    [
        ("channel_not_found", lambda web: web.chat_postMessage(channel="C9", text="x")),
        ("no_text", lambda web: web.api_call("chat.postMessage", json={"channel": "C1"})),
        ("msg_too_long", lambda web: web.chat_postMessage(channel="C1", text="x" * 40_001)),
        ("thread_not_found", lambda web: web.chat_postMessage(channel="C1", text="x", thread_ts="1.1")),
        ("message_not_found", lambda web: web.chat_update(channel="C1", ts="1.1", text="x")),
        ("message_not_found", lambda web: web.chat_delete(channel="C1", ts="1.1")),
        ("user_not_in_channel", lambda web: web.chat_postEphemeral(channel="C1", user="U9", text="x")),
        ("user_not_found", lambda web: web.users_info(user="U9")),
        ("message_not_found", lambda web: web.reactions_add(channel="C1", timestamp="1.1", name="eyes")),
        ("file_not_found", lambda web: web.files_info(file="F9")),
        ("invalid_thread_ts", lambda web: web.chat_startStream(channel="C1", thread_ts="1.1")),
        (
            "invalid_thread_ts",
            lambda web: web.assistant_threads_setStatus(channel_id="C1", thread_ts="1.1", status="x"),
        ),
        ("not_allowed_token_type", lambda web: web.apps_connections_open(app_token=BOT_TOKEN)),
    ],
)
async def test_what_slack_refuses_is_refused_by_its_name(web: AsyncWebClient, error: str, call: Call) -> None:
    assert await error_of(call(web)) == error


async def test_an_edit_may_have_4000_bytes_and_not_one_more(
    web: AsyncWebClient, slack: SlackEmulator
) -> None:
    ts = (await web.chat_postMessage(channel="C1", text="x"))["ts"]

    await web.chat_update(channel="C1", ts=ts, text="ü" * 2000)
    assert await error_of(web.chat_update(channel="C1", ts=ts, text="ü" * 2000 + "x")) == "msg_too_long"
    assert slack.texts("C1") == ["ü" * 2000]


@pytest.mark.parametrize(
    ("error", "blocks"),
    [
        ("invalid_blocks", [{"type": "divider"}] * 51),
        ("invalid_blocks", [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]),
        ("msg_blocks_too_long", [{"type": "markdown", "text": "x" * 12_001}]),
    ],
)
async def test_blocks_have_limits(web: AsyncWebClient, error: str, blocks: list[dict[str, object]]) -> None:
    assert await error_of(web.chat_postMessage(channel="C1", text="x", blocks=blocks)) == error


async def test_only_own_messages_can_be_edited(web: AsyncWebClient, slack: SlackEmulator) -> None:
    ts = await slack.channel_message("C1", "U1", "mine")

    assert await error_of(web.chat_update(channel="C1", ts=ts, text="yours")) == "cant_update_message"


async def test_where_the_bot_is_no_member_or_the_channel_is_archived(
    web: AsyncWebClient, slack: SlackEmulator
) -> None:
    slack.workspace.channels["C1"].members.discard(BOT_USER)
    assert await error_of(web.chat_postMessage(channel="C1", text="x")) == "not_in_channel"

    slack.workspace.channels["C1"].archived = True
    assert await error_of(web.chat_postMessage(channel="C1", text="x")) == "is_archived"


async def test_tokens_and_scopes_are_checked(slack: SlackEmulator, web: AsyncWebClient) -> None:
    slack.scopes.discard("chat:write")
    assert await error_of(web.chat_postMessage(channel="C1", text="x")) == "missing_scope"
    for token, error in (
        ("", "not_authed"),
        ("xoxb-wrong", "invalid_auth"),
        (APP_TOKEN, "not_allowed_token_type"),
    ):
        other = AsyncWebClient(token, base_url=slack.api_url, retry_handlers=[])
        assert await error_of(other.auth_test()) == error


async def test_a_reaction_is_added_once(slack: SlackEmulator, web: AsyncWebClient) -> None:
    ts = await slack.channel_message("C1", "U1", "hi")
    await web.reactions_add(channel="C1", timestamp=ts, name="eyes")

    assert await error_of(web.reactions_add(channel="C1", timestamp=ts, name="eyes")) == "already_reacted"
    await web.reactions_remove(channel="C1", timestamp=ts, name="eyes")
    assert await error_of(web.reactions_remove(channel="C1", timestamp=ts, name="eyes")) == "no_reaction"


async def test_a_stream_grows_and_ends(slack: SlackEmulator, web: AsyncWebClient) -> None:
    root = await slack.direct_message("U1", "tell me")
    stream = await web.chat_stream(channel="D1", thread_ts=root, buffer_size=1)
    await stream.append(markdown_text="one ")
    await stream.append(markdown_text="two")
    (post,) = slack.sent("D1", root)
    edit = web.chat_update(channel="D1", ts=post.ts, text="other")
    assert await error_of(edit) == "streaming_state_conflict"
    assert await error_of(web.chat_delete(channel="D1", ts=post.ts)) == "cant_delete_message"
    await stream.stop()

    assert post.text == "one two"
    over = web.chat_appendStream(channel="D1", ts=post.ts, markdown_text="more")
    assert await error_of(over) == "message_not_in_streaming_state"


async def test_a_stream_in_a_channel_needs_to_know_for_whom(
    slack: SlackEmulator, web: AsyncWebClient
) -> None:
    root = await slack.channel_message("C1", "U1", "tell us")

    assert await error_of(web.chat_startStream(channel="C1", thread_ts=root)) == "missing_recipient_user_id"
    await web.chat_startStream(
        channel="C1", thread_ts=root, markdown_text="x", recipient_user_id="U1", recipient_team_id=TEAM
    )


async def test_a_file_goes_up_in_three_steps(slack: SlackEmulator, web: AsyncWebClient) -> None:
    await web.files_upload_v2(channel="C1", content=b"a,b", filename="table.csv", title="table.csv")

    (post,) = slack.sent("C1")
    assert slack.workspace.files[post.files[0]["id"]].content == b"a,b"


async def test_a_deleted_message_is_gone_from_history_and_replies(
    slack: SlackEmulator, web: AsyncWebClient
) -> None:
    root = await slack.channel_message("C1", "U1", "hi")
    ts = (await web.chat_postMessage(channel="C1", text="x", thread_ts=root))["ts"]
    assert len((await web.conversations_replies(channel="C1", ts=root))["messages"]) == 2

    await web.chat_delete(channel="C1", ts=ts)
    assert len((await web.conversations_replies(channel="C1", ts=root))["messages"]) == 1
    assert len((await web.conversations_history(channel="C1"))["messages"]) == 1


async def test_a_direct_chat_is_opened_by_its_person(slack: SlackEmulator, web: AsyncWebClient) -> None:
    channel = (await web.conversations_open(users="U1"))["channel"]["id"]

    await web.chat_postMessage(channel=channel, text="hello")
    assert slack.texts("D1") == ["hello"]
    assert (await web.conversations_info(channel=channel))["channel"]["is_im"]


@needs_schemas
async def test_requests_that_the_published_types_know_are_no_breach(
    slack: SlackEmulator, web: AsyncWebClient
) -> None:
    root = await slack.channel_message("C1", "U1", "hi")
    await web.chat_postMessage(channel="C1", text="x", unfurl_links=False, thread_ts=root, team_id=TEAM)
    await web.conversations_replies(channel="C1", ts=root, limit=10, include_all_metadata=True)

    assert slack.violations == []


@needs_schemas
async def test_an_unknown_argument_and_an_incomplete_event_are_breaches(
    slack: SlackEmulator, web: AsyncWebClient
) -> None:
    await web.chat_postMessage(channel="C1", text="x", colour="red")
    assert [breach for breach in slack.violations if breach.startswith("request chat.postMessage")]

    slack.violations.clear()
    await slack.emit({"type": "app_mention", "channel": "C1", "text": "x"})
    assert [breach for breach in slack.violations if breach.startswith("event app_mention")]


async def test_an_upload_is_refused_out_of_its_order_and_a_second_time(
    slack: SlackEmulator, web: AsyncWebClient
) -> None:
    place = await web.files_getUploadURLExternal(filename="a.txt", length=3)
    file: dict[str, str] = {"id": str(place["file_id"]), "title": "a.txt"}
    too_early = await error_of(web.files_completeUploadExternal(files=[file], channel_id="C1"))
    slack.workspace.files[file["id"]].content = b"abc"
    slack.workspace.files[file["id"]].uploaded = True
    await web.files_completeUploadExternal(files=[file], channel_id="C1")
    again = await error_of(web.files_completeUploadExternal(files=[file], channel_id="C1"))
    assert (too_early, again) == ("file_not_found", "file_already_completed")
    assert [[one["name"] for one in post.files] for post in slack.sent("C1")] == [["a.txt"]]
