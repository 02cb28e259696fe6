"""Chat commands: who may use which, what is private in rooms, and both languages."""

import re
from types import SimpleNamespace
from typing import cast

import pytest

from tests.emulators.openai import Reply
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.agent.scope import AccountId, PersonId
from trunkline.gateway.commands import skills
from trunkline.gateway.commands.catalogue import BY_NAME, COMMANDS
from trunkline.gateway.commands.registry import Command, CommandContext, House, Run
from trunkline.gateway.commands.reminders import list_reminders
from trunkline.gateway.sentences import describe_command, describe_role, is_chinese, say
from trunkline.gateway.state.records import Account, Person, SessionKey

ROLES = ("guest", "member", "admin", "owner")
PRIVATE = [command.name for command in COMMANDS if command.private]
FOR_OWNERS = tuple(command.name for command in COMMANDS if command.role in ("admin", "owner"))


def account(role: str | None) -> Account:
    person = None if role is None else Person(1, PersonId("x"), "X", role, "", "", "config", suspended=False)
    return Account(AccountId(1), "telegram", "", "1", "X", blocked=False, person=person)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_for_its_role_and_every_higher_one(command: Command) -> None:
    least = ROLES.index(command.role)

    assert [command.allows(account(role)) for role in ROLES] == [place >= least for place in range(4)]
    assert command.allows(account(None)) is (command.role == "guest")


def test_nobody_but_the_owner_lets_people_or_rooms_in() -> None:
    assert {"approve", "allow"} <= set(FOR_OWNERS)


def test_what_shows_somebodys_data_is_private() -> None:
    assert {"whoami", "usage", "memory", "sessions", "search"} <= set(PRIVATE)


def test_what_must_never_wait_is_a_control_command() -> None:
    control = {command.name for command in COMMANDS if command.control}

    assert control == {"stop", "status", "help", "usage", "whoami"}


@pytest.mark.parametrize(
    ("run", "argument", "told"),
    [
        (list_reminders, "cancel {}", "There is no reminder 9999999999999999 here."),
        (skills.run, "undo {}", "at most 20"),
    ],
)
async def test_a_number_beyond_all_there_are_is_a_wrong_number(run: Run, argument: str, told: str) -> None:
    house = cast(House, SimpleNamespace(skills=object()))
    key = SessionKey("web", "", "1")
    context = CommandContext(house, account("owner"), None, key, argument.format("9" * 5000), "", 1)

    assert told in await run(context)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_described_in_both_languages(command: Command) -> None:
    assert re.search(r"[一-鿿]", describe_command(command.name, "zh-CN"))
    assert describe_command(command.name, "en").isascii()
    assert command.spec().name == command.name


@pytest.mark.parametrize(
    ("language", "chinese"), [("zh", True), ("zh-Hans-CN", True), ("en", False), ("", False)]
)
def test_every_other_language_gets_english(language: str, chinese: bool) -> None:
    assert is_chinese(language) is chinese
    assert ("主人" in describe_role("owner", language)) is chinese


@pytest.mark.parametrize("name", PRIVATE)
async def test_in_a_room_a_private_command_shows_nothing(sqlite_house: SmallHouse, name: str) -> None:
    house = sqlite_house
    async with house.running():
        await house.telegram.group_message(ROOM, ANA, f"/{name}", mention=False)
        await house.telegram.wait_for(lambda: house.telegram.texts(ROOM))

    where = "https://t.me/TrunklineBot"
    expected = {"That is private: ask me in a direct message.", say("private_link", link=where)}
    assert set(house.telegram.texts(ROOM)) <= expected


@pytest.mark.parametrize("name", FOR_OWNERS)
async def test_a_member_is_told_who_may(sqlite_house: SmallHouse, name: str) -> None:
    house = sqlite_house
    role = describe_role(BY_NAME[name].role, "zh-CN")
    async with house.running():
        await house.say(f"/{name} ABCDEFGH", BO)
        await house.shows(f"只有{role}可以这样做。", BO)


async def test_each_speaks_the_language_of_the_person(house: SmallHouse) -> None:
    async with house.running():
        for name, english, chinese in (
            ("start", "Hello Ana", "你好 Bo"),
            ("help", "What you can type", "可以输入"),
            ("new", "A fresh conversation", "已开始新的对话"),
            ("stop", "Nothing is running.", "现在没有在运行的回答。"),
            ("status", "Nothing is waiting here.", "这里没有等待处理的消息。"),
            ("whoami", "You are Ana (the owner)", "你是 Bo（成员）"),
            ("usage", "You used nothing", "最近 30 天没有用量"),
            ("sessions", "No conversations yet.", "还没有对话。"),
            ("search nothing", "Nothing found for “nothing”.", "没有找到“nothing”。"),
            ("search", "Write what to look for", "请写上要找的内容"),
            ("frobnicate", "I don't know /frobnicate", "我不认识 /frobnicate"),
        ):
            await house.say(f"/{name}")
            await house.shows(english)
            await house.say(f"/{name}", BO)
            await house.shows(chinese, BO)
    assert house.model.requests == []


async def test_help_of_one_command_says_what_it_does_and_how_it_is_written(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        await house.say("/help title")
        await house.shows("/title <words>")
        await house.say("/help /Memory")
        await house.shows("In direct chats only.")
        await house.say("/help nonsense")
        await house.shows("There is no command /nonsense")
        await house.say("/help approve", BO)
        await house.shows("这里没有可供你使用的命令 /approve", BO)


async def test_usage_counts_one_call_as_one(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.answer("Fine.")
        await house.say("how are you?")
        await house.shows("Fine.")
        await house.say("/usage")
        await house.shows(": 1 call, ")


async def test_a_search_that_found_only_some_of_the_words_says_so(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.answer("It needs a new valve.", "换一个阀门。")
        await house.say("the boiler drips")
        await house.shows("It needs a new valve.")
        await house.say("锅炉漏水了", BO)
        await house.shows("换一个阀门。", BO)
        await house.ended(2)
        await house.say("/search boiler drips")
        await house.shows(": the boiler drips")
        await house.say("/search boiler zeppelin")
        await house.shows(say("search_relaxed"))
        await house.say("/search 锅炉 飞艇", BO)
        await house.shows(say("search_relaxed", "zh"), BO)

    assert [say("search_relaxed") in text for text in house.telegram.texts(ANA)] == [False, False, True]


async def test_help_lists_what_the_asker_may_use_where_they_are(house: SmallHouse) -> None:
    async with house.running():
        await house.say("/help")
        await house.say("/help", BO)
        await house.telegram.group_message(ROOM, BO, "/help", mention=False)
        for chat in (ANA, BO, ROOM):
            await house.telegram.wait_for(lambda c=chat: house.telegram.texts(c))  # type: ignore[misc]

    listed = {
        chat: set(re.findall(r"^\W*/([\w-]+)", house.telegram.texts(chat)[0], re.MULTILINE))
        for chat in (ANA, BO, ROOM)
    }
    assert listed[ANA] == set(BY_NAME)
    assert listed[BO] == set(BY_NAME) - set(FOR_OWNERS)
    assert listed[ROOM] == set(BY_NAME) - set(FOR_OWNERS) - set(PRIVATE)


async def test_a_stranger_gets_no_command_but_a_code(house: SmallHouse) -> None:
    async with house.running():
        await house.say("/status", 666)
        await house.shows("Your code is", 666)

    assert "Running version" not in str(house.telegram.texts(666))


async def test_only_the_author_and_who_runs_the_place_may_stop_a_turn_in_a_room(house: SmallHouse) -> None:
    async with house.running():
        house.model.then(Reply("word " * 500, chunk_chars=5, chunk_delay_s=0.05))
        await house.telegram.group_message(ROOM, BO, "tell a story")
        await house.shows("word word", ROOM)
        await house.telegram.group_message(ROOM, 1003, "/stop", mention=False)
        await house.shows(say("stop_not_yours"), ROOM)
        await house.telegram.group_message(ROOM, ANA, "/stop", mention=False)
        await house.shows("Stopped.", ROOM)
        await house.shows(say("interrupted_note", "zh"), ROOM)


async def test_another_bots_command_in_a_room_is_none_of_ours(house: SmallHouse) -> None:
    async with house.running():
        await house.telegram.group_message(ROOM, ANA, "/weather Berlin", mention=False)
        await house.telegram.group_message(ROOM, ANA, "/status", mention=False)
        await house.shows("Running version", ROOM)

    assert len(house.telegram.texts(ROOM)) == 1


async def test_the_owner_opens_a_room_and_members_may_talk_there(house: SmallHouse) -> None:
    async with house.running():
        await house.telegram.group_message(-100901, ANA, "/allow here", mention=False)
        await house.shows("From now on I answer here", -100901)
        house.answer("Hello all.")
        await house.telegram.group_message(-100901, 1003, "hello")
        await house.shows("Hello all.", -100901)
        await house.say("/allow here")
        await house.shows("Write /allow here in the group you mean.")
