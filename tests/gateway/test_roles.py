"""The role table: what the page says is what the code reads."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from trunkline.agent.scope import AccountId, PersonId
from trunkline.gateway.app import built_in_tools, open_house
from trunkline.gateway.commands.catalogue import COMMANDS
from trunkline.gateway.config import parse_config
from trunkline.gateway.model_clients import Models
from trunkline.gateway.roles import ACTS, ROLE_ORDER, TOOLS, TOOLS_ELSE, may, tools_for
from trunkline.gateway.state.records import Account, Person

PAGE = Path(__file__).parent.parent.parent / "docs" / "people.md"
WORDS = {
    "stop_others": "stop or repeat answers to others",
    "undo_others": "take back what others said in a room",
    "new_in_room": "end a room's conversation",
    "choose_model": "choose the model",
    "schedule_runs": "have something done at a later time",
    "cancel_others": "cancel others' reminders in a room",
}


def row_of(role: str, tools: list[str]) -> str:
    """The line of a role in the page's table."""
    commands = ", ".join(f"`/{command.name}`" for command in COMMANDS if command.role == role)
    given = ", ".join(f"`{name}`" for name in tools if TOOLS.get(name, TOOLS_ELSE) == role)
    acts = "; ".join(WORDS[act] for act, least in ACTS.items() if least == role)
    return f"| {role} | {commands} | {given} | {acts} |"


async def test_the_page_shows_for_each_role_what_the_code_gives_it(tmp_path: Path) -> None:
    config = parse_config(tmp_path, {}, {})
    async with open_house(config) as house, Models(config, house.database) as models:
        tools = [tool.name for tool in built_in_tools(house, models)]
    shown = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.match(rf"\| ({'|'.join(ROLE_ORDER)}) \|", line)
    ]

    assert shown == [row_of(role, tools) for role in ROLE_ORDER]


@dataclass(frozen=True, slots=True)
class SomeTool:
    """A tool by its name alone."""

    name: str
    description: str = ""
    guidance: str = ""
    arguments: type[BaseModel] = BaseModel


def somebody(role: str) -> Account:
    person = Person(1, PersonId("bo"), "Bo", role, "", "", "pairing", False)
    return Account(AccountId(1), "telegram", "", "1", "Bo", False, person)


@pytest.mark.parametrize("role", ROLE_ORDER)
def test_a_tool_the_table_does_not_name_is_for_members(role: str) -> None:
    tools = [SomeTool("memory"), SomeTool("of_a_third_party")]

    given = [tool.name for tool in tools_for(somebody(role), tools)]  # type: ignore[arg-type]

    assert given == (["memory"] if role == "guest" else ["memory", "of_a_third_party"])


def test_somebody_without_a_person_has_the_rights_of_a_guest() -> None:
    nobody = Account(AccountId(1), "telegram", "", "1", "Bo", False, None)

    assert not any(may(nobody, act) for act in ACTS)
    assert all(may(somebody("owner"), act) for act in ACTS)
