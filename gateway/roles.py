"""The role table: what each role may do, besides the commands, whose least role stands in their catalogue.

docs/people.md shows this table and the commands'; a test holds the page to both.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from trunkline.agent.tools.base import Tool
from trunkline.gateway.state.records import Account

ROLE_ORDER = ("guest", "member", "admin", "owner")
"""From the least to the most. Somebody without a person, in a room, is a guest."""

ACTS = MappingProxyType(
    {
        "stop_others": "admin",
        "undo_others": "admin",
        "new_in_room": "member",
        "choose_model": "member",
        "schedule_runs": "member",
        "cancel_others": "admin",
    }
)
"""Stop or repeat an answer to somebody else; take back what others said in a room; end the conversation of a
whole room; choose the model; have turns begun by a schedule; cancel reminders of others in a room."""

TOOLS = MappingProxyType(
    dict.fromkeys(
        ("memory", "session_search", "skills_list", "skill_view", "react", "send_file", "remind"), "guest"
    )
)
"""The tools that more than members have; each is within its asker's scope."""

TOOLS_ELSE = "member"
"""The least role for a tool that the table doesn't name."""


def role_of(account: Account) -> str:
    return "guest" if account.person is None else account.person.role


def has_role(account: Account, least: str) -> bool:
    return ROLE_ORDER.index(role_of(account)) >= ROLE_ORDER.index(least)


def may(account: Account, act: str) -> bool:
    return has_role(account, ACTS[act])


def tools_for(account: Account, tools: Iterable[Tool[Any]]) -> tuple[Tool[Any], ...]:
    """The tools a turn of this account's is given."""
    return tuple(tool for tool in tools if has_role(account, TOOLS.get(tool.name, TOOLS_ELSE)))
