"""What a model without tool calls is shown: lean schemas, and examples that its grammar lets it follow."""

import json

import pytest
from pydantic import BaseModel

from trunkline.agent.model import ToolSpec
from trunkline.agent.openai_client_schema import decision_format, inlined, lean
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
