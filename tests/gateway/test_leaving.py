"""Every table of state.db is asked: what of a person's is in it, and is that gone once they have left?"""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, update

from tests.gateway.inbound import direct, in_room
from tests.gateway.linked import Town, town
from tests.gateway.planted import BO, CANARY, SHELLS, ids_of, plant
from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage, ReplyTo
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import dump_outbound, load_inbound
from trunkline.gateway.state import inbox
from trunkline.gateway.state.erasure import erase
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.kv import put_value
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.outbox import plan as plan_messages
from trunkline.gateway.state.records import Account, SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table
from trunkline.gateway.state.schema import kv, metadata, outbox, session, usage
from trunkline.gateway.state.spent_today import DAY_MS, forget_old

FACT = f"Likes {CANARY} tea."
ROOT = Path(__file__).parents[2]


async def test_of_who_leaves_no_table_keeps_a_row(tmp_path: Path, database_url: str) -> None:
    async with town(tmp_path, database_url) as house:
        ids = await ids_of(house)
        database = house.house.database
        planted = await database.write(lambda c: plant(c, ids))
        asked = await house.type("/delete-me", BO)
        word = asked.split("/delete-me ")[1].split("`")[0]

        assert "deleted" in await house.type(f"/delete-me {word}", BO)

        def left(connection: Connection) -> dict[str, str]:
            found = {
                table.name: "its row is still there"
                for table, is_it in planted
                if table.name not in SHELLS and connection.execute(select(table).where(is_it)).first()
            }
            for table in metadata.sorted_tables:
                rows = connection.execute(select(table)).all()
                if any(CANARY in str(tuple(row)) for row in rows):
                    found[table.name] = "words of theirs are still there"
            return found

        assert await database.read(left) == {}


async def test_what_was_answered_privately_in_a_room_goes_with_the_person_and_with_the_fact(
    tmp_path: Path, sqlite_url: str
) -> None:
    """Such an answer lies under the room's chat, where other people's messages are."""
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", BO)
        for leave in ("/memory forget 1", "/delete-me"):
            await house.knows("bo", FACT)
            await house.type("/memory", BO)
            await answered_in_the_room(house)
            told = await house.type(leave, BO)
            if leave == "/delete-me":
                await house.type(f"/delete-me {told.split('/delete-me ')[1].split('`')[0]}", BO)

            query = select(outbox.c.payload)
            left = await house.house.database.read(lambda c: c.execute(query).scalars().all())  # noqa: B023
            assert not [payload for payload in left if CANARY in payload], leave


async def answered_in_the_room(house: Town) -> None:
    """A private answer that waits to be sent through an interaction, and one that was sent so."""
    account = await house.account(BO)

    def work(connection: Connection) -> None:
        for state in ("planned", "sent", "refused"):
            key = SessionKey("telegram", "bot", "-900")
            row = inbox.store(
                connection, Arrival(key, f"k{now_ms()}{state}", account.id, "command", "", 1), 1
            )
            said = OutboundMessage(ChatRef("-900"), Chunk(f"- {FACT}"), ephemeral=True, private=True)
            where = Plan(f"i:{row}:private", "telegram", "bot", "-900", "")
            plan_messages(connection, where, [dump_outbound(said)], now_ms())
            changed = update(outbox).where(outbox.c.source == where.source)
            connection.execute(changed.values(state=state))

    await house.house.database.write(work)


async def test_the_next_message_is_not_taken_for_the_last_one_of_who_left(
    tmp_path: Path, sqlite_url: str
) -> None:
    """SQLite gives its id away again, by which its reply in a room went."""
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", BO)
        bo, ana = await house.account(BO), await house.account("100")

        def reply(connection: Connection, account: Account, chat: str) -> int:
            key = SessionKey("telegram", "bot", chat)
            row = inbox.store(connection, Arrival(key, f"k{chat}", account.id, "command", "", 1), 1)
            said = dump_outbound(OutboundMessage(ChatRef(chat), Chunk(f"for {account.user_id}")))
            plan_messages(connection, Plan(f"i:{row}", "telegram", "bot", chat, ""), [said], now_ms())
            return row

        def work(connection: Connection) -> bool:
            assert bo.person is not None
            reply(connection, ana, "-902")
            gone = reply(connection, bo, "-900")
            erase(connection, bo.person, (), None, keeps_entry=False)
            return reply(connection, ana, "100") == gone

        assert await house.house.database.write(work)
        query = select(outbox.c.chat).where(outbox.c.payload.contains("for 100")).order_by(outbox.c.id)
        assert await house.house.database.read(lambda c: c.execute(query).scalars().all()) == ["-902", "100"]


async def test_what_others_quote_in_messages_that_nobody_answered_yet_goes_too(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        await house.let_in("Bo", BO)
        for author, text in ((BO, f"I hid {CANARY}."), ("999", "Said by somebody else.")):
            asked = replace(in_room("What is meant?", user="104"), reply_to=ReplyTo("5", author, text=text))
            await house.send(asked)
        await house.house.database.write(written_by_another_version)
        await leave(house, BO)

        query = select(inbox_table.c.payload).where(inbox_table.c.payload != "").order_by(inbox_table.c.id)
        waiting = await house.house.database.read(lambda c: c.execute(query).scalars().all())
        quoted = [load_inbound(payload).reply_to for payload in waiting]
        assert [one.text for one in quoted if one is not None] == ["[deleted]", "Said by somebody else."]


def written_by_another_version(connection: Connection) -> None:
    """A message of ana's that quotes them, and a file sent to them."""
    row = inbox.store(connection, Arrival(SessionKey("telegram", "bot", "100"), "k", 1, "message", "", 1), 1)
    quotes = f'{{"quote":{{"author_id":"{BO}","text":"{CANARY}"}}}}'
    connection.execute(update(inbox_table).where(inbox_table.c.id == row).values(payload=quotes))
    plan_messages(connection, Plan("n:1", "telegram", "bot", BO, ""), ['{"file":1}'], 1, kind="file")


async def leave(house: Town, user: str) -> None:
    asked = await house.type("/delete-me", user)
    await house.type(f"/delete-me {asked.split('/delete-me ')[1].split('`')[0]}", user)


async def leave_after_spending(house: Town, user: str) -> None:
    account = await house.account(user)

    def spend(connection: Connection) -> None:
        for created_ms, tokens in ((now_ms(), 2000), (now_ms() - 3 * DAY_MS, 5)):
            row = {"account_id": account.id, "prompt_tokens": tokens, "created_ms": created_ms}
            connection.execute(insert(usage).values(**row))

    await house.house.database.write(spend)
    await leave(house, user)


async def used(house: Town) -> list[int]:
    query = select(usage.c.prompt_tokens)
    return list(await house.house.database.read(lambda c: c.execute(query).scalars().all()))


@pytest.mark.parametrize("user", ["104", "777"], ids=["of the settings", "a guest"])
async def test_nobody_has_a_second_share_of_the_day_by_leaving_and_coming_back(
    user: str, tmp_path: Path, sqlite_url: str
) -> None:
    access = {"unknown": "open", "guest_daily_tokens": 1000, "daily_tokens": 1000}
    async with town(tmp_path, sqlite_url, access=access) as house:
        await house.send(direct("hello", user=user))
        await leave_after_spending(house, user)
        assert await used(house) == [2000]

        await house.send(direct("hello again", user=user))

        assert "today's share" in (await house.told(user))[-1]


async def test_what_who_left_had_used_is_forgotten_after_a_day(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", BO)
        await leave_after_spending(house, BO)
        database = house.house.database

        await database.write(lambda c: forget_old(c, now_ms() + DAY_MS - 60_000))
        assert await used(house) == [2000]
        await database.write(lambda c: forget_old(c, now_ms() + DAY_MS + 60_000))

        assert await used(house) == []
        kept = select(kv.c.key).where(kv.c.key.startswith("spent."))
        assert not await database.read(lambda c: c.execute(kept).all())


# Small facts and files, which are no tables.

SMALL_FACTS: dict[str, tuple[str, ...] | str] = {
    "commands/rights.py": ("delete-me.{slug}",),
    "identity.py": ("language.{account}",),
    "memory_approval.py": ("memory.paused.{slug}",),
    "memory_control.py": ("memory.numbers.{slug}",),
    "memory_providers.py": "how providers fare",
    "skills_curator.py": "when skills were looked at",
    "state/codes.py": (
        "wrong_codes:link:{account}",
        "wrong_codes:pair:{account}",
        "wrong_codes:setup:{account}",
    ),
    "state/forgetting.py": ("memory.forgotten.person:{slug}",),
    "state/gone.py": ("gone.telegram:bot:101:",),
    "state/kv.py": "the queries themselves",
    "state/messages.py": "the state of the index",
    "state/people.py": ("account.left.{slug}/7",),
    "state/provider_rows.py": "which providers are on",
    "state/provider_sessions.py": "when sessions ended that providers were told of",
    "state/reviews.py": ("review.mark.{session}", "review.claim.person:{slug}"),
    "state/salvage.py": "when the database was saved",
    "state/sight.py": "what a model can do",
    "state/skill_reviews.py": ("review.skills.{session}",),
    "state/spent_today.py": "for a day, without a word: the test above",
    "state/tool_support.py": "what a model can do",
    "state/usage.py": "prices",
    "turn_files.py": ("vision.told.{account}:m",),
    "web_token.py": "the owner's link",
    "welcoming.py": ("greeted.{person}",),
}
"""For each module that keeps small facts: the keys of a person's, or what they are instead."""

HOME = {
    "state.db": "the tables",
    "config.yaml": "the owner's",
    "memories": "gone: test_rights",
    "exports": "gone: test_rights",
    "files": "gone: test_rights",
    "skills": "everybody's",
    "logs": "no words and no names of people",
    "providers": "banks by person, erased by each provider: test_conformance of the providers",
    "downloads": "what the terminal, which is on this machine, was given to keep",
}
"""Whatever the program puts into the home folder, and what of a person's becomes of it."""


def sources() -> Iterator[tuple[str, str]]:
    """Every module of the house: its path in there, and its text."""
    for part in ("gateway", "agent", "adapters"):
        for path in sorted((ROOT / part).rglob("*.py")):
            yield (
                path.relative_to(ROOT / "gateway" if part == "gateway" else ROOT).as_posix(),
                path.read_text(),
            )


def test_every_module_that_keeps_small_facts_is_thought_of() -> None:
    writes = re.compile(r"\bput_value\(|insert\(kv\)")
    assert sorted(name for name, text in sources() if writes.search(text)) == sorted(SMALL_FACTS)


def test_everything_in_the_home_folder_is_thought_of() -> None:
    found = set()
    for _, text in sources():
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Div)
                and "home" in ast.unparse(node.left)
            ):
                right = node.right
                if (
                    isinstance(right, ast.Constant)
                    and isinstance(right.value, str)
                    and "/" not in ast.unparse(node.left)
                ):
                    found.add(right.value)
    assert found - {".trunkline"} == set(HOME)


async def test_who_leaves_leaves_no_small_fact_and_takes_none_of_others(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        ids = await ids_of(house)
        others = {"greeted.99999", "wrong_codes:link", "wrong_codes:link:99999", "vision.told.99999:m"}

        def plant_facts(connection: Connection) -> set[str]:
            public_id = connection.execute(
                select(session.c.public_id).where(session.c.id == ids.of["session"])
            ).scalar_one()
            names = {**ids.of, "slug": ids.slug, "session": public_id}
            keys = {
                key.format(**names)
                for keys in SMALL_FACTS.values()
                if not isinstance(keys, str)
                for key in keys
            }
            for key in (keys | others) - {f"delete-me.{ids.slug}"}:
                put_value(connection, key, "1")
            return keys

        asked = await house.type("/delete-me", BO)
        keys = await house.house.database.write(plant_facts)
        await house.type(f"/delete-me {asked.split('/delete-me ')[1].split('`')[0]}", BO)

        query = select(kv.c.key)
        left = set(await house.house.database.read(lambda c: c.execute(query).scalars().all()))
        assert left & keys == set()
        assert others <= left
