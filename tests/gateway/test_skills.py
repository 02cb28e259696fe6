"""Skills in the running program: in prompts, by name, in reviews; what no conversation may do to them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from sqlalchemy import insert, select, update

from tests.agent.skill_folders import put_skill, skill_text
from tests.emulators.openai import Reply
from tests.gateway.rows import add_person, add_session, direct_stream
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope
from trunkline.agent.skills.curator import DAY_MS
from trunkline.agent.skills.edits import Change, Origin
from trunkline.agent.skills.store import FileSkillStore
from trunkline.gateway.memory_approval import as_it_is
from trunkline.gateway.skills import called_skill, spoken
from trunkline.gateway.skills_curator import EVERY_MS, QUIET_MS, Curator
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import inbox, message, outbox, turn

ANA_SCOPE, BO_SCOPE = PersonScope(PersonId("ana")), PersonScope(PersonId("bo"))
QUICK: dict[str, Any] = {"agent": {"burst_window": 0.001}}
TEA: dict[str, Any] = {
    "name": "tea",
    "description": "Brews tea. Use for tea.",
    "content": "1. Boil.\n2. Steep.",
}


def skills_of(house: SmallHouse) -> FileSkillStore:
    return FileSkillStore(house.home)


def manage(house: SmallHouse, action: str, **arguments: Any) -> None:
    house.call("skill_manage", {"action": action, **arguments})


async def ask(house: SmallHouse, text: str, answer: str, user: int = ANA) -> None:
    house.answer(answer)
    await house.say(text, user)
    await house.shows(answer, user)


def system(house: SmallHouse, number: int = -1) -> str:
    return str(house.model.requests[number]["messages"][0]["content"])


async def test_a_skill_made_in_one_chat_is_known_in_the_next_and_to_nobody_else(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    put_skill(house.home / "skills", "house-rules", skill_text("house-rules", "Rules of the house."))
    async with house.running(**QUICK):
        await ask(house, "hi", "Hello.", BO)
        assert "- house-rules: Rules of the house." in system(house)
        manage(house, "create", **TEA)
        await ask(house, "keep how we make tea", "Kept.")
        assert "tea:" not in system(house)
        await ask(house, "thanks", "Welcome.")
        assert "- new skill, tea: Brews tea. Use for tea." in house.last_user()
        await ask(house, "bye", "Bye.")
        assert "new skill" not in house.last_user()
        await house.say("/new")
        await house.shows("fresh conversation")
        await ask(house, "tea?", "Yes, tea.")
        assert "- tea: Brews tea. Use for tea.\n- house-rules: Rules of the house." in system(house)
        await ask(house, "tea?", "What tea?", BO)
        assert "Brews tea" not in str(house.model.requests[-1]["messages"])


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("tea", "/tea green, please"),
        ("weekly-report", "/weekly-report for May"),
        ("周报", "/周报 五月"),
        ("a-b-c", "/A-b_c x"),
    ],
)
async def test_a_skill_is_worked_by_when_it_is_called_by_name(
    sqlite_house: SmallHouse, name: str, typed: str
) -> None:
    house = sqlite_house
    put_skill(skills_of(house).root_of(ANA_SCOPE), name, skill_text(name, body="Ask which kind."))
    async with house.running(**QUICK):
        await ask(house, typed, "Which kind?")

        sent = house.last_user()
        assert typed.lower() in sent.lower()
        assert f"the skill “{name}” by its name" in sent
        assert "Ask which kind." in sent
        stored = await house.rows(message, message.c.role == "user")
        assert [row.content.lower() for row in stored] == [typed.lower()]
        await ask(house, "green", "Fine.")
        assert house.model.requests[-1]["messages"][:3] == [
            *house.model.requests[-2]["messages"],
            {"role": "assistant", "content": "Which kind?"},
        ]


async def test_an_answer_that_a_called_skill_began_is_stopped_and_follows_an_edit_like_any_other(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    put_skill(skills_of(house).root_of(ANA_SCOPE), "tea")
    async with house.running(**QUICK):
        house.model.then(Reply("word " * 500, chunk_chars=5, chunk_delay_s=0.05))
        await house.say("/tea green")
        await house.shows("word word")
        await house.say("/stop")
        await house.shows("Stopped.")
        await house.ended(1)
        house.answer("Three minutes.")
        asked = await house.telegram.direct_message(ANA, "/tea black")
        await house.shows("Three minutes.")
        await house.ended(2)
        house.answer("Two minutes.")
        await house.telegram.edit_message(ANA, asked.message_id, "/tea white")
        await house.shows("Two minutes.")

    assert "/tea white\n" in house.last_user()
    assert "by its name" in house.last_user()


async def test_a_command_that_names_nothing_keeps_its_sentence(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(skills_of(house).root_of(ANA_SCOPE), "tea")
    async with house.running(**QUICK):
        await house.say("/coffee black")
        await house.shows("I don't know /coffee")
        await house.say("/tea", BO)
        await house.shows("/tea", BO)
        assert house.model.requests == []


async def test_a_skill_of_a_room_is_the_rooms_alone(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**QUICK):
        manage(house, "create", **TEA)
        house.answer("Kept for us.")
        await house.telegram.group_message(ROOM, ANA, "keep how we make tea")
        await house.shows("Kept for us.", ROOM)
        await ask(house, "tea?", "What tea?")
        assert "Brews tea" not in str(house.model.requests[-1]["messages"])
    (folder,) = (house.home / "memories" / "rooms").glob("*/skills/tea")
    assert folder.is_dir()
    assert not (house.home / "memories" / "ana" / "skills" / "tea").exists()


async def test_a_private_conversation_changes_no_skill_and_counts_no_use(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(skills_of(house).root_of(ANA_SCOPE), "coffee")
    async with house.running(**QUICK, skills={"review_rounds": 1}):
        await house.say("/private")
        await house.shows("private")
        manage(house, "create", **TEA)
        house.call("skill_view", {"name": "coffee"})
        await ask(house, "keep it", "I can't here.")
        results = [m["content"] for m in house.model.requests[-1]["messages"] if m["role"] == "tool"]
        assert "private" in results[0]
        assert "1. Do it." in results[1]
        await ask(house, "ok", "Fine.")
        assert len(house.model.requests) == 4
    shelf = await skills_of(house).shelf(ANA_SCOPE)
    assert [(skill.name, skill.record.uses) for skill in shelf.skills] == [("coffee", 0)]


async def test_while_memory_is_paused_no_skill_is_changed(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**QUICK, skills={"review_rounds": 1}):
        await house.say("/memory pause")
        await house.shows("Paused")
        manage(house, "create", **TEA)
        await ask(house, "keep it", "I can't now.")
        assert "paused" in str(house.model.requests[-1]["messages"][-1])
    assert (await skills_of(house).shelf(ANA_SCOPE)).skills == ()


async def test_where_each_write_needs_a_yes_no_skill_is_changed_by_the_model(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(**QUICK, memory={"write_approval": True, "review_every": 0}):
        manage(house, "create", **TEA)
        await ask(house, "keep it", "Here it is for you to keep.")
        assert "nothing is kept without" in str(house.model.requests[-1]["messages"][-1])
    assert (await skills_of(house).shelf(ANA_SCOPE)).skills == ()


async def test_much_work_is_reviewed_for_skills_and_the_change_is_told_and_taken_back(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    async with house.running(**QUICK, skills={"review_rounds": 2}):
        house.call("session_search", {"query": "tea"})
        house.call("session_search", {"query": "kettle"})
        house.answer("Tea it is.")
        manage(house, "create", **TEA)
        house.answer("Nothing to save.")
        await house.say("find out how to make tea")
        await house.shows("New skill: tea — `/skills undo` takes it back.".replace("`", ""))

        turned, review = house.model.requests[2], house.model.requests[3]
        assert review["messages"][: len(turned["messages"])] == turned["messages"]
        asked = str(review["messages"][-1]["content"])
        assert "the way the work was done" in asked
        assert "reveal anything lasting" not in asked
        await house.say("/skills")
        await house.shows("Brews tea. Use for tea.")
        await house.say("/skills undo")
        await house.shows("Taken back")
        assert (await skills_of(house).shelf(ANA_SCOPE)).skills == ()
        await house.say("/skills restore tea")
        await house.shows("tea is back.")
        assert len((await skills_of(house).shelf(ANA_SCOPE)).skills) == 1
        await ask(house, "thanks", "Welcome.")
        assert "the way the work was done" not in str(house.model.requests[-1])


async def test_one_review_does_for_memory_and_skills_when_both_are_due(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running(**QUICK, memory={"review_every": 1}, skills={"review_rounds": 1}):
        house.call("session_search", {"query": "tea"})
        house.answer("Tea it is.")
        house.call("memory", {"action": "add", "target": "user", "content": "Likes tea."})
        manage(house, "create", **TEA)
        house.answer("Nothing to save.\nOverlap: tea, coffee")
        await house.say("find out how to make tea")
        await house.shows("Noted: Likes tea.")
        await house.shows("New skill: tea")
        spent = [body for body in house.model.requests if "review of this conversation" in str(body)]
        assert len(spent) == 3
        turned, review = house.model.requests[1:3]
        *before, asked = review["messages"]
        assert before[: len(turned["messages"])] == turned["messages"]
        assert len(before) == len(turned["messages"]) + 1  # the answer
        for question in ("reveal anything lasting", "the way the work was done"):
            assert question in str(asked["content"])


async def test_what_a_person_does_to_their_skills_by_command(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(house.home / "skills", "house-rules")
    put_skill(skills_of(house).root_of(ANA_SCOPE), "tea", skill_text("tea", body="Boil `water`."))
    put_skill(skills_of(house).root_of(ANA_SCOPE), "bad", "nothing")
    async with house.running(**QUICK):
        for typed, shown in (
            ("/skills", "bad can't be used"),
            ("/skills show tea", "Boil `water`."),
            ("/skills show nothing", "no skill called"),
            ("/skills pin tea", "tea is pinned"),
            ("/skills unpin tea", "no longer pinned"),
            ("/skills archive house-rules", "no skill called “house-rules” of yours"),
            ("/skills archive tea", "tea is in the archive"),
            ("/skills restore tea", "tea is back"),
            ("/skills undo", "nothing of mine to take back"),
            ("/skills undo 99", "at most 20"),
            ("/skills dance", "I understand"),
        ):
            await house.say(typed)
            await house.shows(shown)


async def test_skills_can_be_switched_off(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    put_skill(house.home / "skills", "house-rules")
    async with house.running(**QUICK, skills={"enabled": False}):
        await ask(house, "hi", "Hello.")
        assert "house-rules" not in system(house)
        assert not any("skill" in tool["function"]["name"] for tool in house.model.requests[-1]["tools"])
        await house.say("/skills")
        await house.shows("switched off")


def test_names_are_found_in_what_people_type(tmp_path: Path) -> None:
    for name in ("weekly-report", "a_b", "周报"):
        put_skill(tmp_path / "skills", name)
    shelf = asyncio.run(FileSkillStore(tmp_path).shelf(ANA_SCOPE))

    assert called_skill(spoken("weekly", "-report for May"), shelf) == "weekly-report"
    assert called_skill(spoken("weekly_report", ""), shelf) == "weekly-report"
    assert called_skill("!Weekly-Report\nfor May", shelf) == "weekly-report"
    assert called_skill("/a-b x", shelf) == "a_b"
    assert called_skill("/周报", shelf) == "周报"
    for other in ("weekly-report", "/weekly", "/weekly-reports", "see /周报", "//周报", "/../周报", ""):
        assert called_skill(other, shelf) is None


# The curator


async def curated(database: Database, home: Path, at_ms: int) -> bool:
    return await Curator(database, FileSkillStore(home), as_it_is, lambda *_: None).look(at_ms)


async def test_the_weekly_round_waits_for_a_week_and_for_quiet_and_tells_the_person(
    database: Database, tmp_path: Path
) -> None:
    start = 2_000 * DAY_MS
    store = FileSkillStore(tmp_path)
    account = database.write_now(lambda c: add_person(c, "ana"))
    session_id = database.write_now(lambda c: add_session(c, direct_stream(c, account), "s1"))
    for scope in (ANA_SCOPE, RoomScope(RoomId("den"), AccountId(1))):
        await store.change(scope, Change("create", **TEA), Origin("tool", start - 100 * DAY_MS))

    assert not await curated(database, tmp_path, start)
    assert not await curated(database, tmp_path, start + EVERY_MS - 1)
    later = start + EVERY_MS
    began = insert(turn).values(session_id=session_id, account_id=account, state="running", started_ms=later)
    await database.write(lambda c: c.execute(began))
    assert not await curated(database, tmp_path, later)
    await database.write(lambda c: c.execute(update(turn).values(state="done")))
    assert not await curated(database, tmp_path, later + QUIET_MS - 1)
    assert await curated(database, tmp_path, later + QUIET_MS)
    assert not await curated(database, tmp_path, later + QUIET_MS + 1)

    assert await store.archived(ANA_SCOPE) == ("tea",)
    told = await database.read(lambda c: [row.payload for row in c.execute(select(outbox))])
    assert len(told) == 1
    assert "tea" in told[0]
    assert await database.read(lambda c: c.execute(select(inbox)).all()) == []


async def test_a_skill_called_by_name_while_an_answer_runs_is_called_afterwards(
    sqlite_house: SmallHouse,
) -> None:
    """A name in Chinese is no command to Telegram, so the call comes as a message like any other."""
    house = sqlite_house
    put_skill(skills_of(house).root_of(ANA_SCOPE), "周报", skill_text("周报", body="Ask which week."))
    async with house.running(**QUICK):
        lock = house.home / "memories/ana/USER.md.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            house.call("memory", {"action": "add", "target": "user", "content": "Ana likes tea."})
            house.answer("Noted.", "Which week?")
            await house.say("remember that I like tea")
            await house.asked(1)
            await house.say("/周报 please")
            await house.comes_true(
                lambda c: c.execute(select(inbox).where(inbox.c.state == "received")).all()
            )
        await house.shows("Which week?")

    assert "the skill “周报” by its name" in house.last_user()


async def test_a_forgotten_fact_that_stands_in_a_skill_is_named_and_only_ones_own(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    fact = "Ana is allergic to peanuts."
    for scope, name, body in (
        (ANA_SCOPE, "snacks", f"Mind that **Ana** is allergic to peanuts.\n\n{fact}"),
        (ANA_SCOPE, "tea", "Boil."),
        (BO_SCOPE, "party", fact),
    ):
        put_skill(skills_of(house).root_of(scope), name, skill_text(name, body=body))
    async with house.running(**QUICK):
        await house.say(f"/memory add {fact}")
        await house.shows("peanuts")
        await house.say("/memory forget peanuts")
        await house.shows("It still stands in ways of working that I keep for you (snacks)")
