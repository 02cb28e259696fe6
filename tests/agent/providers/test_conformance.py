"""What every memory provider must do, whoever made it. The benches are in conformance.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from tests.agent.providers.benches import each_bench
from tests.agent.providers.conformance import ANA, BO, DEN, HERE, Bench, Opened, ServerBench
from trunkline.agent.providers.base import (
    ForgetAll,
    ForgetFact,
    ProviderDown,
    ProviderError,
    ProviderLocked,
    bank_of,
)
from trunkline.agent.providers.table import install_hint, missing_modules
from trunkline.agent.providers.texts import states
from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope

TEA = "User drinks jasmine tea at breakfast."
COFFEE = "User drinks black coffee at breakfast."
BREAKFAST = "What does the user drink at breakfast?"
BOAT = "User restores a wooden boat called Marigold."
LATE = "User is up until midnight on Thursdays."
NAMES_OF_BANKS = ("user", "person", "bank", "scope", "room", "container", "namespace", "peer", "owner")


@pytest.fixture(params=each_bench())
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    bench: Bench = request.param(tmp_path)
    async with bench.running():
        provider = bench.make()
        await provider.start(HERE, ANA)
        yield Opened(bench, provider)
        if bench.outages:
            bench.fail(None)
        async with asyncio.timeout(5):
            await provider.stop()


async def stating(opened: Opened, fact: str, scope: Scope) -> int:
    """How many of the texts kept for a scope state the fact."""
    return sum(states(text, (fact,)) for text in await opened.bench.stored(scope))


# Set-up.


async def test_nothing_is_missing_when_it_is_set_up(opened: Opened) -> None:
    assert opened.provider.available() == ()
    assert missing_modules(opened.bench.kind) == ()
    await opened.provider.check()


async def test_what_is_missing_is_named(opened: Opened) -> None:
    kind = opened.bench.kind
    bare = opened.bench.make(secrets={})
    told = " ".join(bare.available())

    assert all(secret.name in told for secret in kind.secrets if secret.required)
    assert bool(kind.extra) == bool(kind.imports)
    assert kind.extra in install_hint(kind)
    await bare.stop()


async def test_it_bears_the_name_of_its_kind(opened: Opened) -> None:
    assert opened.provider.name == opened.bench.name == opened.bench.kind.name


# Recall.


async def test_an_empty_store_recalls_nothing(opened: Opened) -> None:
    assert await opened.recall(BREAKFAST, ANA) == []
    assert await opened.provider.count(ANA) in (0, None)


async def test_a_mirrored_entry_comes_back_for_a_question_about_it(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    assert any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, ANA))
    assert await opened.provider.count(ANA) in (1, None)


async def test_what_was_kept_is_there_after_a_restart(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.provider.stop()
    later = Opened(opened.bench, opened.bench.make())

    assert any(states(text, (TEA,)) for text in await later.recall(BREAKFAST, ANA))
    await later.provider.stop()


async def test_a_query_of_any_length_is_answered(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    await opened.recall("breakfast and tea, " * 600, ANA)
    await opened.recall("?", ANA)
    await opened.recall("早餐喝什么" * 2000, ANA)


async def test_hooks_around_a_session_leave_it_working(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    await opened.provider.queue_prefetch(BREAKFAST, HERE, ANA)
    await opened.provider.on_compaction("They spoke of breakfast.", HERE, ANA)
    await opened.provider.on_session_end(HERE, ANA)

    assert any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, ANA))


async def test_the_block_for_the_prompt_is_the_same_each_time(opened: Opened) -> None:
    block = opened.provider.system_block(ANA)

    assert block == opened.provider.system_block(ANA)
    assert len(block) <= 1000


# Turns.


async def test_a_turn_is_kept_once_however_often_it_is_sent(opened: Opened) -> None:
    for _ in range(3):
        await opened.sync(ANA, "s-1-41", BOAT)

    assert await stating(opened, BOAT, ANA) == 1


async def test_turns_of_one_session_are_kept_each(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-41", BOAT)
    await opened.sync(ANA, "s-1-42", TEA)

    assert (await stating(opened, BOAT, ANA), await stating(opened, TEA, ANA)) == (1, 1)


async def test_a_turn_of_ten_thousand_characters_is_kept(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-41", f"{BOAT} {'It needs planks. ' * 600}", "Planks, then. " * 700)

    assert await stating(opened, BOAT, ANA) == 1


async def test_turns_that_are_sent_beside_each_other_are_all_kept(opened: Opened) -> None:
    facts = {number: f"User owns a kite of colour number {number}{number}{number}." for number in range(1, 7)}
    async with asyncio.TaskGroup() as group:
        for number, fact in facts.items():
            group.create_task(opened.sync(ANA if number % 2 else BO, f"s-{number}", fact))

    assert [await stating(opened, fact, ANA) for fact in facts.values()] == [1, 0, 1, 0, 1, 0]


# The mirror of the built-in memory.


async def test_an_entry_that_is_mirrored_twice_is_kept_once(opened: Opened) -> None:
    first = await opened.write(ANA, "w-1", after=TEA)
    second = await opened.write(ANA, "w-1", after=TEA)

    assert (await stating(opened, TEA, ANA), first) == (1, second)


async def test_a_replaced_entry_is_recalled_in_its_new_wording_only(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-2", before=TEA, after=COFFEE, remote_id=remote)
    await opened.write(ANA, "w-2", before=TEA, after=COFFEE, remote_id=remote)

    recalled = await opened.recall(BREAKFAST, ANA)
    assert any(states(text, (COFFEE,)) for text in recalled)
    assert not any(states(text, (TEA,)) for text in recalled)
    assert (await stating(opened, TEA, ANA), await stating(opened, COFFEE, ANA)) == (0, 1)


async def test_a_removed_entry_is_not_recalled(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-2", after=BOAT)

    assert await opened.write(ANA, "w-3", before=TEA, remote_id=remote) == ""
    assert not any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, ANA))
    assert (await stating(opened, TEA, ANA), await stating(opened, BOAT, ANA)) == (0, 1)


async def test_an_entry_whose_text_nobody_knows_is_removed_by_its_id(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.write(ANA, "w-2", remote_id=remote)

    assert await stating(opened, TEA, ANA) == 0


async def test_an_entry_that_it_never_had_can_be_replaced_and_removed(opened: Opened) -> None:
    await opened.write(ANA, "w-1", before=TEA, after=COFFEE)
    await opened.write(ANA, "w-2", before=BOAT)

    assert any(states(text, (COFFEE,)) for text in await opened.recall(BREAKFAST, ANA))


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("用户早餐喜欢喝茉莉花茶。", "早餐喝什么茶？"),
        ("User calls her cat Zoë 🐈‍⬛ — «la petite».", "What is the cat Zoë called?"),
        ("المستخدم يشرب الشاي صباحا", "ماذا يشرب المستخدم صباحا؟"),
        (
            'User\'s quote: "a \\ backslash", a tab\tand\na second line.',
            "What is the quote with a backslash?",
        ),
        ("User pays with <b>card</b> & {braces} %s ${x} '; DROP TABLE--", "card braces DROP TABLE"),
    ],
)
async def test_texts_of_every_script_come_back_whole(opened: Opened, fact: str, question: str) -> None:
    await opened.write(ANA, "w-1", after=fact)

    assert any(fact in text for text in await opened.recall(question, ANA))


# Whose it is.


async def test_people_and_rooms_are_never_mixed(opened: Opened) -> None:
    slugs = ("ana", "bo", "a-b", "a_b", "ab", "a--b", "person", "x" * 32, "x" * 31)
    scopes: list[Scope] = [PersonScope(PersonId(slug)) for slug in slugs]
    scopes += [RoomScope(RoomId(slug), AccountId(7)) for slug in slugs]
    facts = {scope: f"User drinks mixture number {number}0{number} at breakfast." for number, scope in
             enumerate(scopes, 11)}  # fmt: skip
    for scope, fact in facts.items():
        await opened.write(scope, "w-1", after=fact)
        await opened.sync(scope, "s-1-1", f"Remember: {fact}")

    for scope, fact in facts.items():
        others = [other for other in facts.values() if other != fact]
        seen = [*await opened.recall(BREAKFAST, scope), await opened.look_up(BREAKFAST, scope)]
        seen += await opened.bench.stored(scope)
        assert any(states(text, (fact,)) for text in seen)
        assert not any(states(text, others) for text in seen)


async def test_no_tool_reaches_what_is_another_persons(opened: Opened) -> None:
    """Every tool is asked for everything, by words and by the ids of what is not the asker's."""
    secret = "User hides the sapphire under the third stair."
    ids = [await opened.write(scope, "w-1", after=secret) for scope in (BO, DEN)]
    await opened.sync(BO, "s-1-1", f"Between us: {secret}")
    before = [sorted(await opened.bench.stored(scope)) for scope in (BO, DEN)]

    for tool in opened.provider.tools():
        for words in ("Where is the sapphire hidden?", *ids, "*", "%"):
            for arguments in every_call(tool.arguments.model_json_schema(), words):
                try:
                    told = (await opened.call(tool.name, ANA, **arguments)).content
                except (ProviderError, ValidationError):
                    continue
                assert "third stair" not in told, (tool.name, arguments)
    assert [sorted(await opened.bench.stored(scope)) for scope in (BO, DEN)] == before


def every_call(schema: dict[str, Any], words: str) -> list[dict[str, Any]]:
    """Arguments that a schema allows, with `words` wherever a text fits: a call for each choice there is."""
    choices = max((len(_choices(one)) for one in schema.get("properties", {}).values()), default=0)
    return [
        {
            name: value
            for name, one in schema.get("properties", {}).items()
            if (value := _value(one, words, number)) is not None
        }
        for number in range(max(1, choices))
    ]


def _choices(one: dict[str, Any]) -> list[Any]:
    return next((part["enum"] for part in (one, *one.get("anyOf", ())) if "enum" in part), [])


def _value(one: dict[str, Any], words: str, number: int) -> Any:
    parts = (one, *one.get("anyOf", ()))
    kinds = {part.get("type"): part for part in parts}
    if choices := _choices(one):
        return choices[number % len(choices)]
    if "string" in kinds:
        return words[: kinds["string"].get("maxLength", 1000)]
    if "integer" in kinds:
        return int(words) if words.isdecimal() else kinds["integer"].get("minimum", 1)
    return [words] if "array" in kinds else None


async def test_a_room_has_one_bank_whoever_asks(opened: Opened) -> None:
    await opened.write(DEN, "w-1", after=TEA)
    somebody_else = RoomScope(DEN.room, AccountId(8))

    assert any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, somebody_else))
    assert await opened.recall(BREAKFAST, ANA) == []


def test_banks_are_distinct_and_safe_names() -> None:
    slugs = ["ana", "Ana", "a-n-a", "a.n.a", "安娜", "安", "../ana", "", "x" * 300, "x" * 301]
    banks = [bank_of(PersonScope(PersonId(slug)), "trunkline") for slug in slugs]
    banks += [bank_of(RoomScope(RoomId(slug), AccountId(1)), "trunkline") for slug in slugs]
    banks += [bank_of(PersonScope(PersonId("ana")), "other")]

    assert len(set(banks)) == len(banks)
    assert all(len(bank) <= 80 and bank.replace("-", "").isalnum() and bank.isascii() for bank in banks)
    assert bank_of(PersonScope(PersonId("ana")), "trunkline") == "trunkline-person-ana-201ab57a53f116bc"


# Tools.


async def test_tools_bear_its_name_and_take_no_bank(opened: Opened) -> None:
    tools = opened.provider.tools()

    assert tools
    for tool in tools:
        schema = tool.arguments.model_json_schema()
        Draft202012Validator.check_schema(schema)
        assert tool.name.startswith(f"{opened.bench.name}_")
        assert len(tool.name) <= 64
        assert 20 <= len(tool.description) <= 1000
        assert schema.get("additionalProperties") is False
        assert not set(schema.get("properties", {})) & set(NAMES_OF_BANKS)


async def test_the_reading_tool_finds_what_was_mirrored(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after=TEA)

    assert opened.tool(opened.bench.lookup[0]).read_only
    assert states(await opened.look_up(BREAKFAST, ANA), (TEA,))
    assert not states(await opened.look_up(BREAKFAST, BO), (TEA,))


async def test_the_writing_tool_keeps_for_the_asker_alone(opened: Opened) -> None:
    if opened.bench.keep is None:
        pytest.skip("it has no writing tool")
    name, argument = opened.bench.keep
    kept = await opened.call(name, ANA, **{argument: TEA})

    assert not opened.tool(name).read_only
    assert not kept.is_error
    assert states(await opened.look_up(BREAKFAST, ANA), (TEA,))
    assert (await stating(opened, TEA, ANA), await stating(opened, TEA, BO)) == (1, 0)


async def test_a_tool_fails_when_the_provider_does_not_answer(opened: Opened) -> None:
    opened.bench.fail("down")

    with pytest.raises(ProviderDown):
        await opened.look_up(BREAKFAST, ANA)


# Forgetting.


async def test_a_forgotten_fact_is_gone_with_its_mirror_and_its_turns(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)
    await opened.sync(ANA, "s-1-41", f"By the way: {TEA}")
    await opened.sync(ANA, "s-1-42", "I said so over breakfast, remember?", f"Yes. {TEA}")
    await opened.write(ANA, "w-2", after=BOAT)

    done = await opened.provider.forget(ForgetFact((TEA,), (remote,), ("s-1-41", "s-1-42")), ANA)
    await opened.bench.settled()

    assert done.left == ""
    assert done.removed >= 1
    assert not any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, ANA))
    assert (await stating(opened, TEA, ANA), await stating(opened, BOAT, ANA)) == (0, 1)


async def test_forgetting_twice_or_what_was_never_known_is_no_failure(opened: Opened) -> None:
    what = ForgetFact((TEA,), ("no-such-id",), ("s-9-9",))
    await opened.write(ANA, "w-1", after=BOAT)

    for _ in range(2):
        assert (await opened.provider.forget(what, ANA)).left == ""
    assert await stating(opened, BOAT, ANA) == 1


async def test_forgetting_everything_leaves_others_alone(opened: Opened) -> None:
    for scope in (ANA, BO, DEN):
        await opened.write(scope, "w-1", after=TEA)
        await opened.sync(scope, "s-1-1", BOAT)

    done = await opened.provider.forget(ForgetAll(), ANA)
    await opened.bench.settled()

    assert done.left == ""
    assert await opened.bench.stored(ANA) == []
    assert await opened.recall(BREAKFAST, ANA) == []
    assert [await stating(opened, TEA, scope) for scope in (BO, DEN)] == [1, 1]
    await opened.write(ANA, "w-2", after=COFFEE)
    assert any(states(text, (COFFEE,)) for text in await opened.recall(BREAKFAST, ANA))


# Failure.


async def failing_calls(opened: Opened) -> dict[str, Any]:
    return {
        "prefetch": lambda: opened.provider.prefetch(BREAKFAST, HERE, ANA),
        "sync": lambda: opened.sync(ANA, "s-1-41", BOAT),
        "mirror": lambda: opened.write(ANA, "w-9", after=COFFEE),
        "forget": lambda: opened.provider.forget(ForgetFact((TEA,), (), ()), ANA),
    }


@pytest.mark.parametrize("hook", ["prefetch", "sync", "mirror", "forget"])
async def test_an_outage_is_reported_and_passes(opened: Opened, hook: str) -> None:
    await opened.write(ANA, "w-1", after=TEA)
    call = (await failing_calls(opened))[hook]
    for outage in opened.bench.outages:
        if outage != "slow":
            opened.bench.fail(outage)
            with pytest.raises(ProviderLocked if outage == "locked" else ProviderDown) as raised:
                await call()
            assert not any(secret in str(raised.value) for secret in opened.bench.secrets.values())

    opened.bench.fail(None)
    await call()


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_an_answer_that_is_lost_doubles_nothing(opened: Opened, number: int) -> None:
    """The vendor has carried out what was asked; that we don't know, and ask again."""
    if not isinstance(opened.bench, ServerBench):
        pytest.skip("it asks over no network")
    await opened.write(ANA, "w-1", after=TEA)
    await opened.sync(ANA, "s-1-42", LATE)
    for call in (
        lambda: opened.sync(ANA, "s-1-41", BOAT),
        lambda: opened.write(ANA, "w-2", before=TEA, after=COFFEE),
        lambda: opened.provider.forget(ForgetFact((LATE,), (), ("s-1-42",)), ANA),
    ):
        opened.bench.lose(number)
        with suppress(ProviderDown):
            await call()
        opened.bench.lose(0)
        await call()

    kept = [await stating(opened, text, ANA) for text in (BOAT, TEA, COFFEE, LATE)]
    assert kept == [1, 0, 1, 0]


async def test_a_slow_answer_can_be_left_and_the_next_one_taken(opened: Opened) -> None:
    if "slow" not in opened.bench.outages:
        pytest.skip("it waits for nobody")
    await opened.write(ANA, "w-1", after=TEA)
    opened.bench.fail("slow")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await opened.provider.prefetch(BREAKFAST, HERE, ANA)

    opened.bench.fail(None)
    assert any(states(text, (TEA,)) for text in await opened.recall(BREAKFAST, ANA))


async def test_stopping_waits_for_nobody(opened: Opened) -> None:
    opened.bench.fail("slow")
    async with asyncio.timeout(5):
        await opened.provider.stop()
        await opened.provider.stop()
