"""Pictures on the wire: as parts for models that see, as a line for those that don't."""

import pytest

from trunkline.agent.history import mend
from trunkline.agent.messages import AssistantMessage, Picture, UserMessage
from trunkline.agent.model import ModelRequest
from trunkline.agent.openai_client_schema import answer_request
from trunkline.agent.openai_client_wire import Dialect, wire_messages
from trunkline.agent.sight import data_urls, says_no_pictures

ONE, TWO = Picture("1" * 64, "image/png"), Picture("2" * 64, "image/jpeg")
ASKED = UserMessage("look", "look", (ONE, TWO))
SHOWN = {ONE.sha256: "data:image/png;base64,MQ==", TWO.sha256: "data:image/jpeg;base64,Mg=="}


def test_the_text_comes_first_and_the_pictures_in_their_order() -> None:
    [_, said] = wire_messages(ModelRequest("Be kind.", (ASKED,)), Dialect(), SHOWN)
    assert [part["type"] for part in said["content"]] == ["text", "image_url", "image_url"]
    assert [part["image_url"]["url"] for part in said["content"][1:]] == list(SHOWN.values())


def test_a_model_that_does_not_see_gets_a_line_of_text() -> None:
    [said] = wire_messages(ModelRequest("", (ASKED,)), Dialect(sees=False), SHOWN)
    assert said["content"].startswith("look\n\n[The 2 pictures that came with this message can't be shown")


def test_a_picture_that_is_kept_no_longer_is_named_and_the_other_is_shown() -> None:
    [said] = wire_messages(ModelRequest("", (ASKED,)), Dialect(), {TWO.sha256: SHOWN[TWO.sha256]})
    assert "[The picture that came with this message" in said["content"][0]["text"]
    assert len(said["content"]) == 2


def test_a_system_prompt_without_a_role_of_its_own_opens_the_message_with_the_pictures() -> None:
    request = ModelRequest("Be kind.", (ASKED,))
    [said] = wire_messages(request, Dialect(system_role=False), SHOWN)
    assert [part.get("text") for part in said["content"][:2]] == ["Be kind.", "look"]


def test_questions_that_are_joined_keep_their_pictures() -> None:
    second = UserMessage("and this", "and this", (TWO,))
    [joined] = mend([UserMessage("look", "look", (ONE,)), second]).messages
    assert isinstance(joined, UserMessage)
    assert joined.pictures == (ONE, TWO)
    history = (ASKED, AssistantMessage("A harbour."), second)
    spoken = answer_request(ModelRequest("", history)).messages
    assert [one.pictures for one in spoken if isinstance(one, UserMessage)] == [(ONE, TWO), (TWO,)]


async def test_each_picture_is_looked_up_once() -> None:
    asked: list[Picture] = []

    async def source(picture: Picture) -> bytes | None:
        asked.append(picture)
        return b"1" if picture is ONE else None

    assert await data_urls((ASKED, ASKED), source) == {ONE.sha256: SHOWN[ONE.sha256]}
    assert asked == [ONE, TWO]


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "No endpoints found that support image input",
        "llama-3.1-8b is not a multimodal model",
        "Model does not support images. Please use a model that does.",
        "Failed to deserialize the JSON body: unknown variant `image_url`, expected `text`",
        "messages[1].content must be a string",
    ],
)
def test_the_ways_in_which_endpoints_say_that_a_model_takes_no_pictures(refusal: str) -> None:
    assert says_no_pictures(refusal)


@pytest.mark.parametrize("refusal", ["Invalid image data", "the context length is exceeded", "no tools"])
def test_a_refusal_of_something_else_is_not_taken_for_blindness(refusal: str) -> None:
    assert not says_no_pictures(refusal)
