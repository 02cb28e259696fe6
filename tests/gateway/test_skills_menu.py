"""Skills in the platforms' menus: the operator's for everybody, a person's and a room's in their own chat."""

import asyncio
from pathlib import Path

from tests.agent.skill_folders import put_skill, skill_text
from tests.emulators.base import Fault
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from tests.gateway.test_leaving_rooms import leave
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.agent.skills.store import FileSkillStore, Shared
from trunkline.gateway.app import command_specs
from trunkline.gateway.skills_menu import shared_commands, skill_commands

REPORT = {"name": "weekly-report", "description": "Writes the report.", "content": "1. Ask which week."}
OURS = [spec.name.replace("-", "_") for spec in command_specs()]
ROOMS = [spec.name.replace("-", "_") for spec in command_specs() if not spec.private]
LANGUAGES = ("", "zh")


def added(house: SmallHouse, chat: int = ANA) -> list[list[str]]:
    """What each of the menus of a chat shows after our own commands; nothing where it has none."""
    menus = [house.telegram.menus[place] for place in ((str(chat), one) for one in LANGUAGES)
             if place in house.telegram.menus]  # fmt: skip
    ours = OURS if chat > 0 else ROOMS
    assert all([entry["command"] for entry in menu][: len(ours)] == ours for menu in menus)
    return [[entry["command"] for entry in menu[len(ours) :]] for menu in menus]


async def ask(house: SmallHouse, text: str, answer: str, user: int = ANA) -> None:
    house.answer(answer)
    await house.say(text, user)
    await house.shows(answer, user)


async def ask_in_room(house: SmallHouse, text: str, answer: str) -> None:
    house.answer(answer)
    await house.telegram.group_message(ROOM, BO, text)
    await house.shows(answer, ROOM)


async def test_a_persons_skills_stand_in_the_menu_of_their_own_chat_alone(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(agent={"burst_window": 0.001}):
        house.call("skill_manage", {"action": "create", **REPORT})
        await ask(house, "keep how we report", "Kept.")
        await house.telegram.wait_for(lambda: added(house) == [["weekly_report"]] * 2)

        await ask(house, "/weekly_report for May", "Which week?")
        assert "the skill “weekly-report” by its name" in house.last_user()
        await ask(house, "hello", "Hello.", BO)
        await ask_in_room(house, "hello", "Hello, all.")
        await ask(house, "and here?", "Here, too.")
        assert added(house) == [["weekly_report"]] * 2
        assert (added(house, BO), added(house, ROOM)) == ([], [])
        assert [menu for menu in house.telegram.menus.values() if "weekly_report" in str(menu)] == [
            house.telegram.menus[(str(ANA), one)] for one in LANGUAGES
        ]

        await house.say("/skills archive weekly-report")
        await house.shows("is in the archive")
        await ask(house, "thanks", "Welcome.")
        await house.telegram.wait_for(lambda: added(house) == [])


async def test_a_rooms_skills_stand_in_the_menu_of_the_room_alone(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(agent={"burst_window": 0.001}):
        house.call("skill_manage", {"action": "create", **REPORT})
        await ask_in_room(house, "keep how we report here", "Kept.")
        await house.telegram.wait_for(lambda: added(house, ROOM) == [["weekly_report"]] * 2)

        await ask_in_room(house, "/weekly_report for May", "Which week?")
        assert "the skill “weekly-report” by its name" in house.last_user()
        await ask(house, "hello", "Hello.", BO)
        await ask(house, "and now?", "Now, too.", BO)
        assert added(house, BO) == []

        house.call("skill_manage", {"action": "delete", "name": REPORT["name"]})
        await ask_in_room(house, "we report no more", "Gone.")
        await house.telegram.wait_for(lambda: added(house, ROOM) == [])


async def test_a_menu_that_was_refused_is_set_after_the_next_turn(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(FileSkillStore(house.home).root_of(PersonScope(PersonId("ana"))), "tea")
    async with house.running(agent={"burst_window": 0.001}):
        await house.telegram.wait_for(lambda: len(house.telegram.menus) == 4)
        house.telegram.fail_next("setMyCommands", Fault(status=500, body={"ok": False, "error_code": 500}))
        await ask(house, "hello", "Hello.")
        await house.telegram.wait_for(lambda: len(house.telegram.calls_of("setMyCommands")) == 5)
        for number in range(60):
            await ask(house, f"again {number}", f"Yes, {number}.")
            if len(added(house)) == 2:
                break
        assert added(house) == [["tea"]] * 2


async def test_whoever_leaves_takes_their_menu_along(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(FileSkillStore(house.home).root_of(PersonScope(PersonId("bo"))), "tea")
    async with house.running(agent={"burst_window": 0.001}):
        await ask(house, "hello", "Hello.", BO)
        await house.telegram.wait_for(lambda: added(house, BO) == [["tea"]] * 2)
        await leave(house, BO)
        await house.telegram.wait_for(lambda: added(house, BO) == [])


def test_what_a_menu_would_take_for_one_of_ours_or_for_another_stands_in_none(tmp_path: Path) -> None:
    for name in ("delete_me", "tea", "a-b", "a_b", "周报"):
        put_skill(tmp_path / "skills", name, skill_text(name, f"Does {name}."))
    store = FileSkillStore(tmp_path)
    put_skill(store.root_of(PersonScope(PersonId("ana"))), "coffee")

    shared = asyncio.run(shared_commands(store))
    shelf = asyncio.run(store.shelf(PersonScope(PersonId("ana"))))

    assert [(spec.name, spec.help, spec.private) for spec in shared] == [
        ("a-b", "Does a-b.", False),
        ("tea", "Does tea.", False),
        ("周报", "Does 周报.", False),
    ]
    assert [spec.name for spec in skill_commands(shelf, "own")] == ["coffee"]
    assert asyncio.run(shared_commands(None)) == ()


async def test_a_skill_that_nobody_uses_stands_in_no_menu(tmp_path: Path) -> None:
    put_skill(tmp_path / "skills", "tea")
    store = FileSkillStore(tmp_path)
    (tmp_path / "skills" / ".skills.json").write_text('{"skills": {"tea": {"stale": true}}}')

    assert skill_commands(await store.shelf(Shared()), "shared") == ()
