"""The whole house with a provider: what reaches it, what never does, and what an outage costs.

The main ways are gone with each provider, the rest with one of them.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.agent.providers.bench_holographic import HolographicBench
from tests.agent.providers.bench_supermemory import SupermemoryBench
from tests.agent.providers.benches import BENCHES
from tests.agent.providers.conformance import ANA, BO, Bench
from tests.emulators.openai import Reply
from tests.emulators.provider import Outage
from tests.gateway.small_house import ANA as ANA_ID
from tests.gateway.small_house import BO as BO_ID
from tests.gateway.small_house import GUEST, ROOM, SmallHouse, eventually
from trunkline.agent.providers.breaker import FAILURES_TO_OPEN
from trunkline.agent.providers.texts import states
from trunkline.agent.scope import AccountId, RoomId, RoomScope
from trunkline.gateway.config import write_secrets
from trunkline.gateway.memory_providers import HEALTH
from trunkline.gateway.state import codes, kv
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts
from trunkline.gateway.state.schema import person_alias, provider_mirror, provider_outbox, room, turn

TEA = "User drinks jasmine tea at breakfast."
COFFEE = "User drinks black coffee at breakfast."
BOAT = "I restore a wooden boat called Marigold."


class HouseFactsBench(HolographicBench):
    """Holographic on the house's own database. In an outage the table of facts is away."""

    def live_in(self, database: Database) -> None:
        self._database = database
        self._behind = StoreFacts(database)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    def fail(self, outage: Outage | None) -> None:
        away, back = ("fact", "fact_away") if outage else ("fact_away", "fact")
        self._database.write_now(lambda c: c.exec_driver_sql(f"ALTER TABLE {away} RENAME TO {back}"))


EACH = [
    pytest.param(
        HouseFactsBench if bench is HolographicBench else bench,
        id=bench.label or bench.name,
        marks=bench.marks,
    )
    for bench in BENCHES
]


class ProviderHouse:
    """A small house with one provider, and what that provider holds."""

    def __init__(self, house: SmallHouse, bench: Bench) -> None:
        self.house = house
        self.bench = bench

    @asynccontextmanager
    async def running(self, **memory: Any) -> AsyncIterator[SmallHouse]:
        write_secrets(self.house.home, self.bench.secrets)
        settings = {"review_every": 0, "provider": self.bench.name, **memory}
        blocks = {self.bench.name: dict(self.bench.options)}
        async with self.house.running(memory=settings, providers=blocks) as house:
            yield house

    async def talk(self, text: str, answer: str, user: int = ANA_ID) -> None:
        self.house.answer(answer)
        await self.house.say(text, user)
        await self.house.shows(answer, user)

    async def save(self, **arguments: str) -> None:
        """The model changes the memory, and answers."""
        self.house.call("memory", {"target": "user", **arguments})
        await self.talk("remember that", f"Noted {len(self.house.model.requests)}.")

    async def delivered(self) -> None:
        """Returns when no turn runs and nothing waits for the provider any more."""
        running = select(turn.c.id).where(turn.c.state == "running")
        await self.house.comes_true(lambda c: not c.execute(running).all())
        await self.house.comes_true(lambda c: not c.execute(select(provider_outbox.c.id)).all())
        await self.bench.settled()

    async def stating(self, fact: str, scope: Any = ANA) -> int:
        return sum(states(text, (fact,)) for text in await self.bench.stored(scope))


@pytest.fixture
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_house: SmallHouse
) -> AsyncIterator[ProviderHouse]:
    folder = tmp_path / "bench"
    folder.mkdir()
    bench: Bench = getattr(request, "param", SupermemoryBench)(folder)
    if isinstance(bench, HouseFactsBench):
        bench.live_in(sqlite_house.database)
    async with bench.running():
        yield ProviderHouse(sqlite_house, bench)


# What reaches it.


@pytest.mark.parametrize("kept", EACH, indirect=True)
async def test_turns_and_memory_reach_it_once_and_come_back(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await kept.talk(BOAT, "A fine boat.")
        await kept.save(action="add", content=TEA)
        await kept.delivered()
        assert (await kept.stating(BOAT), await kept.stating(TEA)) == (1, 1)
        assert all(row.remote_id for row in await house.rows(provider_mirror))

        await house.say("/new")
        await kept.talk("What is the wooden boat called that I restore?", "Marigold.")
        assert "Marigold" in house.last_user().partition("<memory-context>")[2]
        assert TEA not in house.last_user()  # the prompt has it
        assert [state for state in (await house.rows(provider_outbox)) if state.state == "dead"] == []


@pytest.mark.parametrize("kept", EACH, indirect=True)
async def test_a_changed_entry_is_changed_there_too(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await kept.save(action="add", content=TEA)
        await kept.save(action="replace", content=COFFEE, old_text="jasmine tea")
        await kept.delivered()
        assert (await kept.stating(TEA), await kept.stating(COFFEE)) == (0, 1)

        await house.say("/memory undo")
        await house.shows("Back again")
        await kept.delivered()
        assert (await kept.stating(TEA), await kept.stating(COFFEE)) == (1, 0)
        await kept.save(action="remove", old_text="jasmine tea")
        await kept.delivered()
        assert await kept.stating(TEA) == 0
        assert await house.rows(provider_mirror) == []


async def test_what_was_there_before_it_and_what_is_edited_by_hand_is_mirrored(kept: ProviderHouse) -> None:
    path = kept.house.home / "memories" / "ana" / "USER.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"{TEA}\n§\n", encoding="utf-8")
    async with kept.running():
        await kept.talk("hello", "Hello.")
        await eventually(lambda: kept.stating(TEA))
        await kept.delivered()

        path.write_text(f"{COFFEE}\n§\n", encoding="utf-8")
        await kept.talk("hello again", "Hello again.")
        await eventually(lambda: kept.stating(COFFEE))
        await kept.delivered()
        assert await kept.stating(TEA) == 0


async def test_a_room_has_a_bank_of_its_own(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        house.answer("Noted in the room.")
        await house.telegram.group_message(ROOM, ANA_ID, BOAT)
        await house.shows("Noted in the room.", ROOM)
        await kept.delivered()
        (here,) = await house.rows(room)

        assert await kept.stating(BOAT, RoomScope(RoomId(here.slug), AccountId(1))) == 1
        assert (await kept.stating(BOAT), await kept.stating(BOAT, BO)) == (0, 0)


# What never does.


async def test_a_failed_turn_an_interrupted_and_a_private_one_stay_here(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        house.model.then(Reply(status=401))
        await house.say(BOAT)
        await house.ended(1)
        house.model.then(Reply("A fine boat, and I could say much about it.", stall_after=2))
        await house.say(f"Again: {BOAT}")
        await house.asked(2)
        await house.say("/stop")
        await house.ended(2)
        await house.say("/private")
        await house.shows("This conversation is private now")
        await kept.talk(f"Between us: {BOAT}", "I see.")
        await house.say("/private off")
        await house.shows("The private conversation is erased.")
        await kept.talk("hello", "Hello.")
        await kept.delivered()

        assert await kept.stating(BOAT) == 0
        assert len(await kept.bench.stored(ANA)) == 1


async def test_somebody_who_paused_memory_is_not_followed(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await house.say("/memory pause")
        await house.shows("Paused")
        await kept.talk(BOAT, "I see.")
        await kept.talk("hello", "Hello.", user=BO_ID)
        await kept.delivered()

        assert await kept.bench.stored(ANA) == []
        assert len(await kept.bench.stored(BO)) == 1


async def test_a_turn_that_is_taken_back_goes_there_too(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await kept.talk(BOAT, "A fine boat.")
        await kept.delivered()
        await house.say("/undo")
        await eventually(lambda: _gone(kept, BOAT))


async def _gone(kept: ProviderHouse, fact: str) -> bool:
    return await kept.stating(fact) == 0


# Forgetting.


async def test_a_forgotten_fact_is_gone_there_and_the_person_is_told(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await kept.save(action="add", content=TEA)
        await kept.talk(f"As I said: {TEA}", "Yes.")
        await kept.delivered()
        assert await kept.stating(TEA) == 2

        await house.say("/memory forget 1")
        await house.shows("Forgotten for good")
        await house.shows(f"Also gone at: {kept.bench.name}")
        assert await kept.stating(TEA) == 0
        await kept.talk("What do I drink at breakfast?", "I don't know.")
        assert "jasmine" not in str(house.model.requests[-1]["messages"][-1])


async def test_a_fact_that_can_not_be_erased_yet_goes_later_and_that_is_said(
    kept: ProviderHouse,
) -> None:
    async with kept.running() as house:
        await kept.save(action="add", content=TEA)
        await kept.delivered()
        kept.bench.fail("down")
        await house.say("/memory forget 1")
        await house.shows(f"{kept.bench.name} does not answer")
        kept.bench.fail(None)
        assert await kept.stating(TEA) == 1
    async with kept.running() as house:
        await kept.delivered()
        assert await kept.stating(TEA) == 0


async def test_who_leaves_for_good_leaves_nothing_there(kept: ProviderHouse) -> None:
    async with kept.running() as house:
        await kept.save(action="add", content=TEA)
        await kept.talk(BOAT, "A fine boat.")
        await kept.talk(BOAT, "Yours too.", user=BO_ID)
        await kept.delivered()

        await house.say("/delete-me")
        await house.shows("/delete-me ")
        asked = house.telegram.texts(ANA_ID)[-1]
        await house.say(f"/delete-me {asked.split('/delete-me ')[1].split()[0].strip('`')}")
        await eventually(lambda: _empty(kept))
        await kept.delivered()
        assert await kept.stating(BOAT, BO) == 1
        assert {row.owner for row in await house.rows(provider_mirror)} <= {"person:bo"}


async def link(house: SmallHouse, one: int, other: int) -> None:
    """One of the two asks for a code, and both say yes."""
    await house.say("/link", one)
    await house.telegram.wait_for(lambda: code_in(house.telegram.texts(one)))
    await house.say(f"/link {code_in(house.telegram.texts(one))}", other)
    await house.shows("/link yes", other)
    await house.say("/link yes", other)
    await house.say("/link yes", one)


def code_in(texts: list[str]) -> str:
    words = re.findall(r"\b[A-Z2-9]{8}\b", "\n".join(texts))
    return next((word for word in reversed(words) if codes.looks_like_code(word)), "")


async def test_of_two_who_were_joined_the_tools_find_what_both_had_until_they_are_parted(
    kept: ProviderHouse,
) -> None:
    async with kept.running() as house:
        await house.say("hello", GUEST)
        await house.telegram.wait_for(lambda: code_in(house.telegram.texts(GUEST)))
        await house.say(f"/approve {code_in(house.telegram.texts(GUEST))}")
        await house.shows("You're in", GUEST)
        await kept.talk(BOAT, "A fine boat.", user=GUEST)
        await kept.delivered()

        async def found(answer: str) -> bool:
            """Whether the tool finds the boat when Bo asks."""
            house.call("supermemory_search", {"query": "wooden boat Marigold"})
            await kept.talk("What is my boat called?", answer, user=BO_ID)
            results = [m for m in house.model.requests[-1]["messages"] if m["role"] == "tool"]
            return "restore a wooden boat" in results[-1]["content"]

        assert not await found("I don't know.")
        await link(house, BO_ID, GUEST)
        await house.comes_true(lambda c: c.execute(select(person_alias)).first())
        assert await found("I know it now.")
        await house.say("/link undo", BO_ID)
        await house.comes_true(lambda c: not c.execute(select(person_alias)).all())
        assert not await found("No longer.")


async def _empty(kept: ProviderHouse) -> bool:
    return not await kept.bench.stored(ANA)


# Outages.


@pytest.mark.parametrize("kept", EACH, indirect=True)
async def test_an_outage_costs_no_turn_and_loses_none_of_it(kept: ProviderHouse) -> None:
    kept.bench.fail("down")
    async with kept.running() as house:
        await kept.talk(BOAT, "A fine boat.")
        await kept.save(action="add", content=TEA)
        assert len(await house.rows(provider_outbox)) == 3
    kept.bench.fail(None)
    assert (await kept.stating(BOAT), await kept.stating(TEA)) == (0, 0)

    async with kept.running():
        await kept.delivered()
    assert (await kept.stating(BOAT), await kept.stating(TEA)) == (1, 1)


async def test_a_slow_provider_is_left_alone_after_five_turns(kept: ProviderHouse) -> None:
    kept.bench.fail("slow")
    async with kept.running(recall_timeout="0.05s") as house:
        for number in range(FAILURES_TO_OPEN + 1):
            await kept.talk(f"question number {number}", f"Answer {number}.")
        stored = await house.database.read(lambda c: kv.get_value(c, HEALTH))
        await house.comes_true(lambda c: '"open"' in (kv.get_value(c, HEALTH) or ""))
        stored = await house.database.read(lambda c: kv.get_value(c, HEALTH))
        assert json.loads(stored or "{}")[kept.bench.name]["failures"] >= FAILURES_TO_OPEN
        kept.bench.fail(None)


async def test_a_refused_key_is_no_reason_to_lose_anything(kept: ProviderHouse) -> None:
    kept.bench.fail("locked")
    async with kept.running() as house:
        await kept.talk(BOAT, "A fine boat.")
        await house.comes_true(lambda c: c.execute(select(provider_outbox.c.error)).scalars().first())
        (row,) = await house.rows(provider_outbox)
        assert row.state == "waiting"
        assert "401" in row.error
    kept.bench.fail(None)
    async with kept.running():
        await kept.delivered()
    assert await kept.stating(BOAT) == 1
