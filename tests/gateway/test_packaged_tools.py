"""Tools of other packages, from real distributions on the path: what is taken and what is left out."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from tests.gateway.small_house import BO as BO_TELEGRAM
from tests.gateway.small_house import SmallHouse
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope
from trunkline.agent.tools.base import ToolContext
from trunkline.gateway.config import parse_config
from trunkline.gateway.logs import log_context
from trunkline.gateway.packaged_tools import load_packaged_tools
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.tool_access import NOT_ALLOWED

ANA, BO = PersonScope(PersonId("ana")), PersonScope(PersonId("bo"))
DEN = RoomScope(RoomId("den"), AccountId(1))
GOOD = """\
    from pydantic import BaseModel

    from trunkline.agent.tools.base import Tool, ToolResult

    class Place(BaseModel):
        place: str

    async def weather(given, context):
        return ToolResult(f"sunny in {given.place}")

    def one():
        return Tool("weather", "Tells the weather.", Place, weather)

    def two():
        return (Tool("rain", "Tells of rain.", Place, weather), Tool("snow", "Of snow.", Place, weather))
"""

Install = Callable[[str, str, dict[str, str]], None]


@pytest.fixture
def install(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Install]:
    """Puts a distribution on the path as an installer does: its module, metadata and entry points."""
    site = tmp_path / "site"
    modules: list[str] = []

    def put(module: str, source: str, points: dict[str, str]) -> None:
        modules.append(module)
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8"
        )
        listed = "\n".join(f"{name} = {module}:{place}" for name, place in points.items())
        (info / "entry_points.txt").write_text(f"[trunkline.tools]\n{listed}\n", encoding="utf-8")

    sys.path.insert(0, str(site))
    try:
        yield put
    finally:
        sys.path.remove(str(site))
        for module in modules:
            sys.modules.pop(module, None)


def settings(tmp_path: Path, **tools: list[str]) -> FileSettings:
    return parse_config(
        tmp_path,
        {
            "people": {"ana": {"role": "owner", "telegram": 1}, "bo": {"telegram": 2}},
            "tools": {name: {"allow": allow} for name, allow in tools.items()},
        },
        {},
    )


def context(scope: Scope) -> ToolContext:
    return ToolContext(scope, "s", 1, 1, "c", "telegram", datetime(2026, 1, 1, tzinfo=UTC))


async def test_an_installed_package_brings_its_tools_to_the_owner(tmp_path: Path, install: Install) -> None:
    install("sky_tools", GOOD, {"weather": "one", "more": "two"})
    said: list[str] = []

    tools = load_packaged_tools(["memory"], settings(tmp_path), said.append)

    assert [tool.name for tool in tools] == ["rain", "snow", "weather"]
    assert said == []
    weather = tools[-1]
    assert weather.needs_person
    arguments = weather.arguments.model_validate({"place": "Rome"})
    assert (await weather.run(arguments, context(ANA))).content == "sunny in Rome"
    for other in (BO, DEN):
        result = await weather.run(arguments, context(other))
        assert (result.content, result.is_error) == (NOT_ALLOWED, True)


BLOCKING = """\
    import asyncio, threading
    from pydantic import BaseModel
    from trunkline.agent.tools.base import Tool, ToolResult

    entered, leave, cancelled = threading.Event(), threading.Event(), threading.Event()

    class Nothing(BaseModel):
        pass

    async def block(given, context):
        entered.set()
        leave.wait(60)
        return ToolResult("over")

    async def wait(given, context):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def give_up(given, context):
        raise asyncio.CancelledError

    def quitter():
        return Tool("give_up", "Gives up.", Nothing, give_up)

    def both():
        return (Tool("block", "Blocks.", Nothing, block), Tool("wait", "Waits.", Nothing, wait))
"""


async def test_one_that_blocks_holds_nobody_else_up(tmp_path: Path, install: Install) -> None:
    install("blocking_tools", BLOCKING, {"both": "both"})
    tool, _ = load_packaged_tools([], settings(tmp_path), lambda _: None)
    module = sys.modules["blocking_tools"]

    async with asyncio.TaskGroup() as group:
        running = group.create_task(tool.run(tool.arguments(), context(ANA)))
        # This loop goes on while the tool blocks: else the event would never be set.
        await asyncio.to_thread(module.entered.wait, 30)
        assert not running.done()
        module.leave.set()
    assert running.result().content == "over"


async def test_another_chat_is_answered_while_one_blocks(sqlite_house: SmallHouse, install: Install) -> None:
    """DC-12.1."""
    install("blocking_tools", BLOCKING, {"both": "both"})
    async with sqlite_house.running() as house:
        house.call("block", {})
        house.answer("Hello Bo.", "It is over.")
        await house.say("go on")
        module = sys.modules["blocking_tools"]
        assert await asyncio.to_thread(module.entered.wait, 50)
        await house.say("hello", user=BO_TELEGRAM)
        await house.shows("Hello Bo.", chat=BO_TELEGRAM)
        module.leave.set()
        await house.shows("It is over.")


PLACES = """\
    import asyncio
    from pydantic import BaseModel
    from trunkline.agent.tools.base import Tool, ToolResult

    class Nothing(BaseModel):
        pass

    async def place(given, context):
        before = context.session
        await asyncio.sleep(0)
        within = await asyncio.to_thread(lambda: context.session)
        return ToolResult(f"{before} {within} {context.session}")

    def make():
        return Tool("place", "Tells the place.", Nothing, place)
"""


async def test_a_hundred_calls_of_two_chats_between_each_other_see_their_own_chat_each(
    tmp_path: Path, install: Install
) -> None:
    install("place_tools", PLACES, {"place": "make"})
    (tool,) = load_packaged_tools([], settings(tmp_path), lambda _: None)
    arguments = tool.arguments()

    async with asyncio.TaskGroup() as group:
        calls = [
            (chat, group.create_task(tool.run(arguments, replace(context(ANA), session=chat))))
            for _ in range(100)
            for chat in ("first", "second")
        ]
    assert [call.result().content for _, call in calls] == [f"{chat} {chat} {chat}" for chat, _ in calls]


EARLY = """\
    import asyncio, contextvars, os, queue, threading
    from pydantic import BaseModel
    from trunkline.agent.tools.base import Tool, ToolResult

    class Nothing(BaseModel):
        pass

    asked = queue.Queue()

    async def work():
        answer = await asyncio.to_thread(asked.get, timeout=60)
        answer.put(f"{[*contextvars.copy_context().values()]} {dict(os.environ)}")

    async def look(given, context):
        answer = queue.Queue()
        asked.put(answer)
        return ToolResult(await asyncio.to_thread(answer.get, timeout=60))

    def make():
        threading.Thread(target=lambda: asyncio.run(work()), daemon=True).start()
        return Tool("look", "Tells what can be seen.", Nothing, look)
"""


async def test_a_task_made_before_any_call_sees_no_chat_and_none_is_called_without_one(
    tmp_path: Path, install: Install
) -> None:
    install("early_tools", EARLY, {"look": "make"})
    (tool,) = load_packaged_tools([], settings(tmp_path), lambda _: None)

    with pytest.raises(TypeError, match="context"):
        await tool.run(tool.arguments())  # type: ignore[call-arg]
    with log_context("zqchatx", "7"):
        seen = await tool.run(tool.arguments(), replace(context(ANA), session="zqchatx"))
    assert seen.content.startswith("[")
    assert "zqchatx" not in seen.content


async def test_one_that_cancels_itself_has_failed_and_cancels_nobody_else(
    tmp_path: Path, install: Install
) -> None:
    install("blocking_tools", BLOCKING, {"quitter": "quitter"})
    (tool,) = load_packaged_tools([], settings(tmp_path), lambda _: None)
    with pytest.raises(RuntimeError, match="cancelled itself"):
        await tool.run(tool.arguments(), context(ANA))


async def test_one_that_is_cancelled_is_told_and_one_that_blocks_does_not_hold_up_its_own_end(
    tmp_path: Path, install: Install
) -> None:
    install("blocking_tools", BLOCKING, {"both": "both"})
    block, wait = load_packaged_tools([], settings(tmp_path), lambda _: None)
    module = sys.modules["blocking_tools"]
    for tool, is_told in ((wait, True), (block, False)):
        module.entered.clear()
        module.cancelled.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await tool.run(tool.arguments(), context(ANA))
        assert module.entered.is_set()
        assert await asyncio.to_thread(module.cancelled.wait, 30 if is_told else 0.1) is is_told
    module.leave.set()


@pytest.mark.parametrize(
    ("allow", "may"),
    [(["bo"], [BO]), (["ana", "bo"], [ANA, BO]), (["everyone"], [ANA, BO, DEN])],
)
async def test_the_settings_say_who_may_use_one(
    tmp_path: Path, install: Install, allow: list[str], may: list[Scope]
) -> None:
    install("sky_tools_allowed", GOOD, {"weather": "one"})
    (weather,) = load_packaged_tools([], settings(tmp_path, weather=allow), lambda _: None)
    arguments = weather.arguments.model_validate({"place": "Rome"})

    for scope in (ANA, BO, DEN):
        result = await weather.run(arguments, context(scope))
        assert result.is_error is (scope not in may)
    assert weather.needs_person is (DEN not in may)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("missing", "AttributeError"),
        ("raises", "ValueError"),
        ("wrong_type", "of the type str, not Tool"),
        ("wrong_item", "of the type int, not Tool"),
        ("bad_name", "letters, digits"),
        ("not_async", "async"),
        ("no_model", "no pydantic model"),
        ("no_words", "no description"),
        ("shadows", "a tool called memory already"),
        ("twice", "a tool called same already"),
        ("half", "a tool called memory already"),
    ],
)
def test_a_broken_one_is_named_in_a_sentence_and_the_others_work(
    tmp_path: Path, install: Install, place: str, reason: str
) -> None:
    install(f"sky_good_{place}", GOOD, {"weather": "one"})
    install(
        f"sky_bad_{place}",
        """\
        from pydantic import BaseModel

        from trunkline.agent.tools.base import Tool, ToolResult

        class Nothing(BaseModel):
            pass

        async def run(given, context):
            return ToolResult("x")

        def blocking(given, context):
            return ToolResult("x")

        def raises():
            raise ValueError("no key")

        def wrong_type():
            return "weather"

        def wrong_item():
            return (Tool("a", "b", Nothing, run), 1)

        def bad_name():
            return Tool("a b", "b", Nothing, run)

        def not_async():
            return Tool("a", "b", Nothing, blocking)

        def no_model():
            return Tool("a", "b", dict, run)

        def no_words():
            return Tool("a", " ", Nothing, run)

        def shadows():
            return Tool("memory", "b", Nothing, run)

        def twice():
            return (Tool("same", "b", Nothing, run), Tool("same", "b", Nothing, run))

        def half():
            return (Tool("weather", "b", Nothing, run), Tool("memory", "b", Nothing, run))
        """,
        {"broken": place},
    )
    said: list[str] = []

    tools = load_packaged_tools(["memory"], settings(tmp_path), said.append)

    assert [tool.name for tool in tools] == ["weather"]
    (sentence,) = said
    assert sentence.startswith(f"The tools “broken” of the package sky_bad_{place} are left out: ")
    assert reason in sentence


def test_a_package_that_can_t_be_imported_is_named(tmp_path: Path, install: Install) -> None:
    install("sky_unimportable", "import a_module_that_nobody_has", {"weather": "one"})
    said: list[str] = []

    assert load_packaged_tools([], settings(tmp_path), said.append) == ()
    assert "ModuleNotFoundError" in said[0]
