"""The whole chain of what is known of a person: built-in memory, session search and an external provider.

One person, three platforms, real client libraries, real files. Each step looks at what the model was sent,
what is on disk and what is in the database.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, Table, select

from tests.agent.providers.bench_supermemory import KEY
from tests.agent.providers.conformance import ANA
from tests.e2e.installed import DEADLINE_S, installed_program
from tests.e2e.test_amending import settled
from tests.e2e.world import World
from tests.emulators.openai import CHAT, Reply, ToolUse
from tests.emulators.supermemory import SupermemoryEmulator
from tests.gateway.small_house import eventually
from trunkline.agent.providers.base import bank_of
from trunkline.gateway.config import write_secrets
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import (
    memory_journal,
    message,
    provider_mirror,
    provider_outbox,
    session,
    step,
    system_prompt,
)

SHORT = "User prefers short answers."
SHORTER = "User prefers short answers with the conclusion first."
CYCLES = "User cycles to work on most days, except in heavy rain."
TEA = "User drinks jasmine tea at breakfast and on the train."
MERGED = "User cycles to work; prefers short answers, conclusion first."
LIMIT_CHARS = 140
BOILER = "The boiler shows error E37 and the pressure keeps falling"
SUMMARY = "The boiler showed error E37; the cause was a leaking expansion vessel."
BOAT = "I restore a wooden boat called Marigold."


class Chain:
    """The world with a provider beside it."""

    def __init__(self, world: World, provider: SupermemoryEmulator) -> None:
        self.world = world
        self.provider = provider
        self.bank = bank_of(ANA, "trunkline")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        write_secrets(self.world.home, {"SUPERMEMORY_API_KEY": KEY})
        memory = {"provider": "supermemory", "user_char_limit": LIMIT_CHARS, "review_every": 0}
        blocks = {"supermemory": {"base_url": self.provider.url}}
        async with self.world.running(memory=memory, providers=blocks):
            yield

    @property
    def entries(self) -> list[str]:
        """The person's profile as it is on disk."""
        text = Path(self.world.home / "memories" / "ana" / "USER.md").read_text(encoding="utf-8")
        return [entry for entry in text.split("\n§\n") if entry]

    @property
    def kept(self) -> list[str]:
        """What the provider holds of the person, document by document."""
        return [document.content for document in self.provider.documents[self.bank].values()]

    def rows(self, table: Table) -> list[Row[Any]]:
        return rows_in(self.world.home, table)

    def tool_results(self) -> list[dict[str, Any]]:
        said = [one["content"] for one in self.world.request()["messages"] if one["role"] == "tool"]
        return [json.loads(one) for one in said]

    async def delivered(self) -> None:
        """Returns when the provider has all that it is to have."""

        async def is_empty() -> bool:
            return not self.rows(provider_outbox)

        await settled(self.world, 0)
        await eventually(is_empty)


async def test_what_is_said_once_is_known_everywhere(world: World) -> None:
    async with SupermemoryEmulator(KEY).running() as provider:
        chain = Chain(world, provider)
        async with chain.running():
            await a_lasting_preference_is_saved(chain)
            await another_platform_follows_it_untold(chain)
            await it_is_extended_and_not_doubled(chain)
            await an_earlier_conversation_is_found_and_summarised(chain)
            await the_provider_recalls_before_the_model_is_called(chain)
            await a_full_store_is_merged(chain)
        assert provider.violations == []


@pytest.mark.blackbox
async def test_what_waits_for_the_provider_outlives_a_kill_and_reaches_it_once(tmp_path: Path) -> None:
    async with SupermemoryEmulator(KEY).running() as provider, installed_program(tmp_path) as program:
        settings = f"""
            model: {{name: emulated, tool_calls: native}}
            platforms: {{web: {{port: 0}}}}
            access: {{welcome: false}}
            people: {{ana: {{role: owner, telegram: 1001}}}}
            memory: {{provider: supermemory, review_every: 0}}
            providers: {{supermemory: {{base_url: "{provider.url}"}}}}
            """
        (program.home / "trunkline" / "config.yaml").write_text(settings, encoding="utf-8")
        program.tokens["SUPERMEMORY_API_KEY"] = KEY
        home, kept = program.home / "trunkline", provider.documents[bank_of(ANA, "trunkline")]

        async def is_tried() -> bool:
            return any(row.error for row in rows_in(home, provider_outbox))

        async def is_delivered() -> bool:
            return not rows_in(home, provider_outbox)

        provider.fail("down")
        async with program.running() as running:
            await program.connected()
            await program.telegram.direct_message(1001, BOAT)
            await program.telegram.wait_for(lambda: program.telegram.texts(1001), DEADLINE_S)
            await eventually(is_tried, DEADLINE_S)
            await running.kill()
        assert not kept

        provider.fail(None)
        async with program.running():
            await eventually(is_delivered, DEADLINE_S)
        assert [BOAT in document.content for document in kept.values()] == [True]
        assert provider.violations == []


async def a_lasting_preference_is_saved(chain: Chain) -> None:
    world = chain.world
    world.call("memory", action="add", target="user", content=SHORT)
    world.answer("Short it is.")
    await world.ana_on_telegram("Please keep your answers short from now on")
    await world.telegram_shows("Short it is.")

    (result,) = chain.tool_results()
    assert result["success"] is True
    assert result["usage"] == f"19% — 27/{LIMIT_CHARS} chars"
    assert chain.entries == [SHORT]
    (row,) = chain.rows(memory_journal)
    assert (row.state, row.actor, json.loads(row.after)) == ("done", "tool", [SHORT])
    await chain.delivered()
    assert SHORT in chain.kept
    (mirrored,) = chain.rows(provider_mirror)
    assert provider_text(chain, mirrored.remote_id) == SHORT


async def another_platform_follows_it_untold(chain: Chain) -> None:
    world = chain.world
    world.answer("Leaking vessel.")
    await world.ana_on_telegram(BOILER)
    await world.telegram_shows("Leaking vessel.")
    world.answer("Hello.")
    await world.ana_on_discord("hello")
    await world.discord_shows("Hello.")

    assert SHORT in world.system()
    assert "<memory-context>" not in world.last_user()
    here = [row for row in chain.rows(session) if row.platform == "discord"]
    prompts = {row.hash: row.content for row in chain.rows(system_prompt)}
    assert SHORT in prompts[here[0].prompt_hash]


async def it_is_extended_and_not_doubled(chain: Chain) -> None:
    world = chain.world
    world.call("memory", action="replace", target="user", content=SHORTER, old_text="short answers")
    world.answer("Conclusion first.")
    await world.ana_on_discord("And give me the conclusion first, every time")
    await world.discord_shows("Conclusion first.")

    (result,) = chain.tool_results()
    assert (result["success"], result["entry_count"]) == (True, 1)
    assert chain.entries == [SHORTER]
    assert SHORT in world.system()  # frozen for this session
    last = chain.rows(memory_journal)[-1]
    assert (json.loads(last.before), json.loads(last.after)) == ([SHORT], [SHORTER])
    await chain.delivered()
    assert SHORTER in chain.kept
    assert SHORT not in chain.kept
    (mirrored,) = chain.rows(provider_mirror)
    assert provider_text(chain, mirrored.remote_id) == SHORTER

    world.answer("Changed there too.")
    await world.ana_on_telegram("anything new?")
    await world.telegram_shows("Changed there too.")
    assert SHORTER in world.last_user().partition("<memory-context>")[2]  # the change, told once


async def an_earlier_conversation_is_found_and_summarised(chain: Chain) -> None:
    world = chain.world
    world.call("session_search", query="boiler error", limit=1)
    world.answer(SUMMARY, "The expansion vessel leaked.")
    await world.ana_on_discord("What was it about the boiler?")
    await world.discord_shows("The expansion vessel leaked.")

    assert BOILER in str(world.request(-2))  # the record, sent for the summary
    assert SUMMARY in str(chain.tool_results()[-1])
    stored = [row for row in chain.rows(message) if row.tool_name == "session_search"]
    assert SUMMARY in stored[-1].content


async def the_provider_recalls_before_the_model_is_called(chain: Chain) -> None:
    world = chain.world
    world.answer("A fine boat.")
    await world.ana_on_telegram(BOAT)
    await world.telegram_shows("A fine boat.")
    await chain.delivered()
    steps, files = len(chain.rows(step)), chain.entries
    asked, requests = len(chain.provider.calls_of("search")), len(world.model.requests)
    world.answer("Marigold.")
    await world.ana_on_slack("What is the wooden boat called that I restore?")
    await world.slack.wait_for(lambda: "Marigold." in slack_texts(world))

    search = chain.provider.calls_of("search")[asked]
    assert search.arguments["namespace"] == chain.bank
    assert search.at < world.model.calls_of(CHAT)[-1].at
    assert len(world.model.requests) == requests + 1  # no tool was called
    said, _, recalled = world.last_user().partition("<memory-context>")
    assert "Marigold" not in said
    assert BOAT in recalled
    assert recalled.rstrip().endswith("</memory-context>")
    assert "Marigold" not in world.system()
    await chain.delivered()
    mine = [row for row in chain.rows(message) if row.role == "user"][-1]
    assert "<memory-context>" not in mine.content
    assert mine.sent == world.last_user()
    assert all("Marigold" not in row.content for row in chain.rows(system_prompt))
    assert (len(chain.rows(step)), chain.entries) == (steps, files)


async def a_full_store_is_merged(chain: Chain) -> None:
    world = chain.world
    world.call("memory", action="add", target="user", content=CYCLES)
    world.call("memory", action="add", target="user", content=TEA)
    merge = [
        {"action": "replace", "old_text": "cycles to work", "content": MERGED},
        {"action": "remove", "old_text": "with the conclusion first"},
        {"action": "add", "content": TEA},
    ]
    world.model.then(Reply(tools=[ToolUse("memory", {"target": "user", "operations": merge})]))
    world.answer("I keep all of it.")
    await world.ana_on_slack("I cycle to work unless it pours, and drink jasmine tea. Remember both")
    await world.slack.wait_for(lambda: "I keep all of it." in slack_texts(world))

    added, refused, merged = chain.tool_results()
    assert added["success"] is True
    assert refused["success"] is False
    assert "would exceed the limit" in refused["error"]
    assert refused["current_entries"] == [SHORTER, CYCLES]
    assert refused["usage"] == f"79% — 111/{LIMIT_CHARS} chars"
    assert (merged["success"], merged["entry_count"]) == (True, 2)
    assert chain.entries == [MERGED, TEA]
    last = chain.rows(memory_journal)[-1]
    assert (json.loads(last.before), json.loads(last.after)) == ([SHORTER, CYCLES], [MERGED, TEA])
    await chain.delivered()
    assert {MERGED, TEA} <= set(chain.kept)
    assert not {SHORT, SHORTER, CYCLES} & set(chain.kept)
    assert len(chain.rows(provider_mirror)) == 2


def rows_in(home: Path, table: Table) -> list[Row[Any]]:
    with Database.sqlite(home / "state.db") as database:
        return database.read_now(lambda c: list(c.execute(select(table))))


def provider_text(chain: Chain, document: str) -> str:
    return chain.provider.documents[chain.bank][document].content


def slack_texts(world: World) -> list[str]:
    return world.slack.texts(world.slack.workspace.direct_channel("UANA").id)
