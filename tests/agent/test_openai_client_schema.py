"""What a model without tool calls is shown: lean schemas, and examples that its grammar lets it follow."""

import json

import pytest
from pydantic import BaseModel

from trunkline.agent.messages import AssistantMessage, ToolCall, UserMessage
from trunkline.agent.model import ModelRequest, ToolSpec
from trunkline.agent.openai_client_schema import decision_format, inlined, lean, repeats_an_example, spoken
from trunkline.agent.tools.memory import EXAMPLES, MemoryArguments


class Tag(BaseModel):
    title: str | None = None
    weight: int = 1


class Arguments(BaseModel):
    name: str
    owner: str | None
    note: str | None = None
    tags: list[Tag] | None = None
    size: int | str | None = None


LEAN = lean(inlined(Arguments.model_json_schema()))


def test_a_call_nested_too_deep_to_be_read_is_told_as_it_was() -> None:
    deep = ToolCall("c1", "note", "[" * 100_000)

    assert "[[[" in str(spoken((AssistantMessage("", (deep,)),))[0])


def test_titles_and_defaults_are_left_out_but_an_argument_may_be_called_title() -> None:
    tag = LEAN["properties"]["tags"]["items"]

    assert tag["properties"] == {"title": {"type": "string"}, "weight": {"type": "integer"}}
    assert '"default"' not in json.dumps(LEAN)


def test_an_argument_that_may_be_left_out_is_not_offered_as_null() -> None:
    assert LEAN["properties"]["note"] == {"type": "string"}


def test_null_stays_where_it_says_something() -> None:
    assert {"type": "null"} in LEAN["properties"]["owner"]["anyOf"]
    assert {"type": "null"} in LEAN["properties"]["size"]["anyOf"]


def test_a_tool_without_arguments_is_a_schema_still() -> None:
    assert lean({"type": "object", "properties": {}}) == {"type": "object", "properties": {}}


def test_the_decision_holds_a_tool_to_its_lean_schema() -> None:
    spec = ToolSpec("keep", "Keeps.", Arguments.model_json_schema())

    choices = decision_format([spec])["json_schema"]["schema"]["anyOf"]

    assert choices[1]["properties"]["arguments"] == LEAN


@pytest.mark.parametrize(("said", "arguments"), EXAMPLES)
def test_examples_of_memory_keep_the_order_of_the_schema(said: str, arguments: str) -> None:
    order = list(MemoryArguments.model_fields)

    places = [order.index(name) for name in json.loads(arguments)]

    assert places == sorted(places)


MEMORY = ToolSpec("memory", "Keeps.", MemoryArguments.model_json_schema(), EXAMPLES)


def repeats(said: str, content: str) -> bool:
    arguments = {"target": "user", "action": "add", "content": content}
    call = ToolCall("call_1", "memory", json.dumps(arguments, ensure_ascii=False))
    request = ModelRequest("Rules.", (UserMessage(said, said),), (MEMORY,), "turn")
    return repeats_an_example(call, request)


@pytest.mark.parametrize(
    "content",
    [
        "The bicycle is at the workshop.",
        "The person showed that they always read: 'I always read for half an hour before I sleep.'",
        "从来不喝牛奶",
        "Notes: the wiki at work answers on port 8090",
    ],
)
def test_what_only_an_example_says_is_not_taken_for_the_persons(content: str) -> None:
    assert repeats("What is the capital of Peru?", content)


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ("My bicycle is at the workshop until Friday.", "The bicycle is at the workshop."),
        ("short answers, please", "User prefers short answers."),
        ("我不喝牛奶，从来不喝。", "从来不喝牛奶。"),
        ("I've moved to Lisbon", "Lives in Lisbon."),
        ("What is the capital of Peru?", "Asks about capitals."),
    ],
)
def test_what_the_person_said_counts_though_an_example_says_it_too(said: str, content: str) -> None:
    assert not repeats(said, content)


@pytest.mark.parametrize("arguments", ["", "no JSON", "[" * 5000, "[]", "null", '{"content": 5}'])
def test_a_call_of_odd_arguments_repeats_nothing(arguments: str) -> None:
    request = ModelRequest("Rules.", (UserMessage("hi", "hi"),), (MEMORY,), "turn")

    assert not repeats_an_example(ToolCall("call_1", "memory", arguments), request)
