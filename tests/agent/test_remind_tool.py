"""The `remind` tool: what it asks of its arguments, and what it hands to the house."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.tools.base import ToolContext, ToolResult
from trunkline.agent.tools.remind import RemindArguments, ReminderRefused, Wish, remind_tool

CONTEXT = ToolContext(
    PersonScope(PersonId("ana")), "s", 1, 1, "call", "telegram", datetime(2026, 1, 1, tzinfo=UTC)
)


class Desk:
    """Keeps wishes; refuses the number 13."""

    def __init__(self) -> None:
        self.wishes: list[Wish] = []

    async def create(self, context: ToolContext, wish: Wish) -> str:
        self.wishes.append(wish)
        return "Set."

    async def listed(self, context: ToolContext) -> str:
        return "\n".join(wish.text for wish in self.wishes)

    async def cancel(self, context: ToolContext, number: int) -> str:
        if number == 13:
            raise ReminderRefused("There is none.")
        return f"Cancelled {number}."


async def ask(desk: Desk, **arguments: object) -> ToolResult:
    tool = remind_tool(desk)
    return await tool.run(tool.arguments.model_validate(arguments), CONTEXT)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": "tea"},
        {"text": "  ", "after": "20m"},
        {"text": "tea", "after": "20m", "at": "2026-01-01T09:00"},
        {"text": "x" * 2001, "after": "20m"},
        {"action": "cancel"},
        {"action": "cancel", "number": 0},
        {"text": "tea", "after": "20m", "whom": "everybody"},
    ],
)
def test_what_is_missing_or_too_much_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RemindArguments.model_validate(arguments)


async def test_a_wish_goes_to_the_desk_as_it_was_meant() -> None:
    desk = Desk()

    said = await ask(desk, text=" tea ", at="2026-01-01T09:00", timezone="Asia/Tokyo")
    await ask(desk, text="sum up", every="0 9 * * 1", do="run")

    assert said == ToolResult("Set.")
    assert desk.wishes == [
        Wish("tea", False, at="2026-01-01T09:00", timezone="Asia/Tokyo"),
        Wish("sum up", True, every="0 9 * * 1"),
    ]


async def test_an_empty_list_says_so() -> None:
    desk = Desk()

    assert (await ask(desk, action="list")).content == "Nothing waits here."
    await ask(desk, text="tea", after="20m")
    assert (await ask(desk, action="list")).content == "tea"


async def test_a_refusal_is_an_error_that_the_model_can_read() -> None:
    assert await ask(Desk(), action="cancel", number=12) == ToolResult("Cancelled 12.")
    assert await ask(Desk(), action="cancel", number=13) == ToolResult("There is none.", is_error=True)
