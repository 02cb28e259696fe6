"""What is forgotten is gone: from the store, the database's tables, and the bytes of the files."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from tests.gateway.inbound import direct
from tests.gateway.memory_desk import ANA, Typing, typing
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, Outcome
from trunkline.agent.memory.snapshot import MemorySnapshot, render_blocks
from trunkline.agent.messages import ToolCall
from trunkline.agent.ports import SearchQuery, Target, WriteOrigin
from trunkline.agent.recall import fence
from trunkline.agent.scope import Scope
from trunkline.gateway.app import guarded_memory
from trunkline.gateway.clock import now_ms
from trunkline.gateway.memory_approval import as_it_is
from trunkline.gateway.opening import NewSessions, Opening
from trunkline.gateway.payloads import dump_inbound, load_inbound
from trunkline.gateway.sentences import CATALOGUE
from trunkline.gateway.state import inbox as inbox_rows
from trunkline.gateway.state import outbox, people, reminders, sessions
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import NewMessage, load_history
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox, memory_journal, message, session, system_prompt
from trunkline.gateway.state.schema import outbox as outbox_table

FACT = "User is allergic to zanthoxylum."
SECRET_WORD = "zanthoxylum"
OLDER = "User is allergic to zanthoxylum, says the zoologist."
TEA = "User likes tea."


@pytest.fixture
async def desk(tmp_path: Path, database_url: str) -> AsyncIterator[Typing]:
    async with typing(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
async def on_sqlite(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Typing]:
    async with typing(tmp_path, sqlite_url) as opened:
        yield opened


def called(content: str) -> tuple[ToolCall, ...]:
    arguments = json.dumps({"action": "add", "target": "user", "content": content})
    return (ToolCall("c1", "memory", arguments),)


def said(role: str, content: str, **more: object) -> NewMessage:
    return NewMessage(0, role, content, now_ms(), **more)  # type: ignore[arg-type]


async def full_of_copies(desk: Typing) -> None:
    """The fact is in the store, a backup, the journal (two wordings), a frozen prompt, a snapshot, sent text,
    a call of the tool and its result, an answer in the outbox, and in what the two of them said."""
    known = MemorySnapshot(user=(FACT, TEA))
    limits = desk.house.memory.limits
    note = fence([f"- added to the user profile: {FACT}"])
    opened, turn = await desk.conversation(
        said("user", f"remember that {SECRET_WORD} makes me ill", sent=f"{note}\n\nremember that"),
        said("assistant", "", tool_calls=called(FACT)),
        said(
            "tool",
            json.dumps({"success": True, "current_entries": [FACT, TEA]}),
            tool_name="memory",
            tool_call_id="c1",
        ),
        said("assistant", f"I'll keep {SECRET_WORD} away."),
        prompt=f"Who you are.\n\n{render_blocks(known, limits)}",
        snapshot=known.to_json(),
    )
    await desk.model_adds(OLDER, TEA, session=opened, turn=turn)
    await desk.model_writes(Operation("replace", FACT, OLDER), session=opened, turn=turn)
    path = desk.file("ana")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name("USER.md.bak").write_text(f"- {FACT}\n- {TEA}\n", encoding="utf-8")
    where = outbox.Plan(f"t:{turn}", "discord", "bot", "dm-200", "", turn)

    def deliver(connection: object) -> None:
        payload = f'{{"to":{{"chat":"dm-200"}},"chunk":{{"text":"I will keep {SECRET_WORD} away."}}}}'
        outbox.plan(connection, where, [payload], now_ms())  # type: ignore[arg-type]
        outbox.mark_sent(connection, 1, "m1", payload, now_ms())  # type: ignore[arg-type]

    await desk.house.database.write(deliver)


def files_with(home: Path, word: str) -> list[str]:
    return sorted(
        path.name for path in home.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    )


async def test_a_forgotten_fact_leaves_no_trace_in_any_file(on_sqlite: Typing) -> None:
    home = on_sqlite.house.config.home
    await full_of_copies(on_sqlite)
    assert "state.db" in " ".join(files_with(home, SECRET_WORD))
    shown = await on_sqlite.type("/memory")
    number = next(line.partition(".")[0] for line in shown.splitlines() if FACT in line)

    reply = await on_sqlite.type(f"/memory forget {number} transcript")

    assert SECRET_WORD not in reply
    assert files_with(home, SECRET_WORD) == []
    assert files_with(home, "zoologist") == []
    assert (await on_sqlite.house.memory.read(ANA)).user == (TEA,)


async def test_no_trace_is_left_among_thousands_of_pages_either(on_sqlite: Typing) -> None:
    """Cells that moved between pages, overflow pages and index segments have held the words, too."""
    for batch in range(40):
        filler = f"message {batch} of many, about nothing in particular " * (1 + 37 * batch % 190)
        spoken = f"{filler} {FACT if batch % 3 == 0 else TEA} {filler}"
        opened, _ = await on_sqlite.conversation(
            *(said("user", f"{spoken} {n}", sent=f"{fence([f'- added: {FACT}'])} {n}") for n in range(20))
        )
        key = SessionKey("discord", "bot", "dm-200")
        await on_sqlite.house.database.write(lambda c, k=key: sessions.end(c, k, "new", now_ms()))  # type: ignore[misc]
        await on_sqlite.model_adds(f"User likes tea number {batch}.", target="memory", session=opened, turn=0)
    await on_sqlite.model_adds(FACT)

    await on_sqlite.type(f"/memory forget {SECRET_WORD}")
    await on_sqlite.type("/memory forget 1 transcript")

    assert files_with(on_sqlite.house.config.home, SECRET_WORD) == []


async def test_words_typed_to_forget_are_gone_from_the_command_too(on_sqlite: Typing) -> None:
    await on_sqlite.model_adds(FACT, TEA)

    await on_sqlite.type(f"/memory forget {SECRET_WORD}", finish=False)

    assert files_with(on_sqlite.house.config.home, SECRET_WORD) == []
    query = select(inbox.c.payload).order_by(inbox.c.id.desc()).limit(1)
    payload = await on_sqlite.house.database.read(lambda c: c.execute(query).scalar_one())
    again = load_inbound(payload)  # what a crash before the answer would run: it names nothing
    assert (again.command, again.text) == ("memory", "")


async def test_a_fact_in_another_script_is_found_in_every_escape(on_sqlite: Typing) -> None:
    fact = "对花生严重过敏“真的”"
    await on_sqlite.conversation(
        said("user", "好", sent=f"{fence([f'- added to the user profile: {fact}'])}\n\n好"),
        said("assistant", "", tool_calls=called(fact)),
        said("tool", "{}", tool_name="memory", tool_call_id="c1"),
    )
    await on_sqlite.model_adds(fact)

    await on_sqlite.type("/memory forget 花生")

    home = on_sqlite.house.config.home
    assert files_with(home, "花生") == []
    assert files_with(home, r"\u82b1\u751f") == []


async def test_without_a_word_about_it_the_transcript_stays_and_its_removal_is_offered(desk: Typing) -> None:
    await full_of_copies(desk)

    reply = await desk.type("/memory forget 1")

    assert "/memory forget 1 transcript" in reply
    texts = await desk.house.database.read(lambda c: c.execute(select(message.c.content)).scalars().all())
    assert any(SECRET_WORD in text for text in texts)
    found = await desk.house.search.search(ANA, SearchQuery(SECRET_WORD))
    assert found.hits

    assert "Removed from the conversation" in await desk.type("/memory forget 1 transcript")
    texts = await desk.house.database.read(lambda c: c.execute(select(message.c.content)).scalars().all())
    assert not any(SECRET_WORD in text for text in texts)
    assert not (await desk.house.search.search(ANA, SearchQuery(SECRET_WORD))).hits
    assert "nothing was forgotten" in await desk.type("/memory forget 1 transcript")


async def test_what_stays_of_a_conversation_can_still_be_replayed(desk: Typing) -> None:
    await full_of_copies(desk)
    key = SessionKey("discord", "bot", "dm-200")

    await desk.type("/memory forget 1")

    opened = await desk.house.database.read(lambda c: sessions.find_open(c, key))
    assert opened is not None
    assert opened.prompt == ""
    assert MemorySnapshot.from_json(opened.snapshot).user == (TEA,)
    history = await desk.house.database.read(lambda c: load_history(c, ANA, opened.id))
    assert len(history) == 4
    assert TEA in str(history)
    assert FACT not in str(history)


async def test_a_prompt_that_others_use_or_that_does_not_hold_the_fact_stays(desk: Typing) -> None:
    await desk.conversation(prompt="Nothing about anybody.")
    await desk.model_adds(FACT)

    await desk.type("/memory forget 1")

    prompts = await desk.house.database.read(lambda c: c.execute(select(system_prompt.c.content)).all())
    kept = await desk.house.database.read(lambda c: c.execute(select(session.c.prompt_hash)).scalars().all())
    assert [row.content for row in prompts] == ["Nothing about anybody."]
    assert None not in kept


async def test_copies_in_chats_of_an_account_that_was_unlinked_since_go_too(desk: Typing) -> None:
    known = MemorySnapshot(user=(FACT,))
    told = said("user", "hello", sent=f"{fence([f'- added to the user profile: {FACT}'])}\n\nhello")
    await desk.conversation(
        told, said("assistant", "", tool_calls=called(FACT)), prompt=FACT, snapshot=known.to_json()
    )
    await desk.model_adds(FACT)
    discord, other = await desk.account("ana", "discord"), await desk.account("bo")
    assert other.person is not None
    other_id = other.person.id
    await desk.house.database.write(lambda c: people.give_account(c, discord.id, other_id, "link"))

    await desk.type("/memory forget 1")

    for table in (system_prompt, session, message, memory_journal):
        rows = await desk.house.database.read(lambda c, table=table: c.execute(select(table)).all())
        assert SECRET_WORD not in str(rows)


async def test_a_person_with_an_account_unlinked_since_is_told_that_its_conversations_stay(
    desk: Typing,
) -> None:
    await desk.model_adds(FACT, TEA)
    discord, other = await desk.account("ana", "discord"), await desk.account("bo")
    person = other.person
    assert person is not None
    assert "unlinked" not in await desk.type("/memory forget 1")

    await desk.house.database.write(lambda c: people.give_account(c, discord.id, person.id, "link"))
    assert "stays in that account's own conversations" in await desk.type(f"/memory forget {TEA}")


async def made_reminder(desk: Typing, text: str, call: str = "") -> int:
    """One of Ana's that waits until tomorrow."""
    account = await desk.account("ana")

    def work(connection: Connection) -> int:
        key = SessionKey("telegram", "bot", "100")
        stream = people.stream_of(connection, account_id=account.id, room_id=None)
        tomorrow_ms = now_ms() + 86_400_000
        wanted = reminders.NewReminder(
            account.id, stream, key, "ana", "text", text, tomorrow_ms, "", "Europe/Berlin", "en", call
        )
        return reminders.add(connection, wanted, now_ms())

    return await desk.house.database.write(work)


async def test_reminders_that_say_it_stay_and_are_named_with_how_to_end_them(desk: Typing) -> None:
    opened, turn = await desk.conversation(said("user", "remember it, and remind me"))
    await desk.model_adds(FACT, TEA, session=opened, turn=turn)
    says = await made_reminder(desk, f"{FACT} Buy pills.")
    of_that_turn = await made_reminder(desk, "buy pills", call=f"{turn}/1/c1")
    other = await made_reminder(desk, "water the plants")

    reply = await desk.type("/memory forget 1")

    assert f"({says}, {of_that_turn})" in reply
    assert f"/reminders cancel {says}" in reply
    assert SECRET_WORD not in reply
    listed = await desk.type("/reminders")
    for number in (says, of_that_turn, other):
        assert f"**{number}**" in listed or f"{number}." in listed


async def test_a_reminder_that_is_over_goes_with_the_fact(on_sqlite: Typing) -> None:
    await on_sqlite.model_adds(FACT)
    over = await made_reminder(on_sqlite, FACT)
    await on_sqlite.house.database.write(lambda c: reminders.cancel(c, over))

    reply = await on_sqlite.type("/memory forget 1")

    assert "reminders" not in reply
    assert files_with(on_sqlite.house.config.home, SECRET_WORD) == []


async def test_a_message_that_was_never_answered_goes_with_the_fact(on_sqlite: Typing) -> None:
    await on_sqlite.model_adds(FACT)
    account, key = await on_sqlite.account("ana"), SessionKey("telegram", "bot", "100")
    for kind in ("set aside", "dead", "failed"):
        hello = direct(f"Please mind: {FACT} ({kind})", user="100")
        arrival = Arrival(key, hello.key, account.id, "message", dump_inbound(hello), now_ms())

        def arrive(connection: Connection, arrival: Arrival = arrival, kind: str = kind) -> None:
            row = inbox_rows.store(connection, arrival, now_ms())
            if kind == "set aside":
                inbox_rows.set_aside(connection, [row], "unpaid", now_ms())
            else:
                inbox_rows.finish(connection, [row], kind, "poison", now_ms())

        await on_sqlite.house.database.write(arrive)

    await on_sqlite.type("/memory forget 1")

    assert files_with(on_sqlite.house.config.home, SECRET_WORD) == []


async def test_forgetting_takes_the_fact_out_of_the_undo_record_and_leaves_the_rest(desk: Typing) -> None:
    await desk.model_writes(Operation("add", FACT), Operation("add", TEA))
    await desk.model_adds("User has a dog.")

    await desk.type(f"/memory forget {FACT}")

    await desk.type("/memory undo 2")
    assert (await desk.house.memory.read(ANA)).user == ()
    rows = await desk.house.database.read(lambda c: c.execute(select(memory_journal)).all())
    assert SECRET_WORD not in str(rows)
    assert TEA in str(rows)
    assert "no change left" in await desk.type("/memory undo")


async def test_an_unclear_word_forgets_nothing_and_lists_what_it_could_mean(desk: Typing) -> None:
    await desk.model_adds(FACT, TEA)

    reply = await desk.type("/memory forget user")

    assert FACT in reply
    assert TEA in reply
    assert len((await desk.house.memory.read(ANA)).user) == 2


async def test_a_number_means_what_was_shown_even_if_the_list_has_changed_since(desk: Typing) -> None:
    await desk.model_adds(FACT, TEA, "User has a dog.")
    await desk.type("/memory")
    await desk.model_writes(Operation("remove", old_text=FACT))

    await desk.type("/memory forget 2")
    assert (await desk.house.memory.read(ANA)).user == ("User has a dog.",)
    assert "nothing was forgotten" in await desk.type("/memory forget 2")
    await desk.type("/memory forget 3")
    assert (await desk.house.memory.read(ANA)).user == ()


async def test_a_number_with_an_open_offer_is_not_given_to_another_fact(desk: Typing) -> None:
    await full_of_copies(desk)
    await desk.type("/memory forget 1")

    assert f"2. {TEA}" in await desk.type("/memory")

    assert "Removed from the conversation" in await desk.type("/memory forget 1 transcript")
    assert (await desk.house.memory.read(ANA)).user == (TEA,)
    assert f"1. {TEA}" in await desk.type("/memory")


async def test_a_write_that_waits_is_forgotten_with_its_fact(tmp_path: Path, sqlite_url: str) -> None:
    async with typing(tmp_path, sqlite_url, write_approval=True) as desk:
        await desk.type(f"/memory add {FACT}")
        await desk.model_writes(Operation("replace", f"{FACT} Badly so.", FACT))
        await desk.type("/memory forget 1")

        assert "Nothing waits" in await desk.type("/memory approve")
        assert files_with(tmp_path, SECRET_WORD) == []


async def test_an_unreadable_file_is_left_alone_and_said(desk: Typing) -> None:
    await desk.model_adds(FACT)
    path = desk.file("ana")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff\xfe" + FACT.encode())
    before = path.read_bytes()

    for typed in ("/memory forget 1", "/memory add something", "/memory undo", "/memory"):
        assert "can't read your memory file" in await desk.type(typed)
    assert path.read_bytes() == before


async def test_a_hand_written_file_loses_only_the_forgotten_fact(desk: Typing) -> None:
    path = desk.file("ana")
    path.parent.mkdir(parents=True)
    text = (
        f"# About me\n\nI live in Lisbon,\nnear the river.\n\n- {FACT}\n- plays the cello\n\n1. tea at five\n"
    )
    path.write_text(text, encoding="utf-8")

    await desk.type(f"/memory forget {SECRET_WORD}")

    left = "\n".join((await desk.house.memory.read(ANA)).user)
    assert SECRET_WORD not in left
    assert path.exists() is desk.house.database.is_sqlite
    assert files_with(desk.house.config.home, "cello") == ["USER.md"] * path.exists()
    for kept in ("About me", "I live in Lisbon,\nnear the river.", "plays the cello", "tea at five"):
        assert kept in left
    assert not list(path.parent.glob("*.bak*"))


async def test_what_is_not_sent_yet_loses_the_fact_and_is_still_sent(desk: Typing) -> None:
    await desk.model_adds(FACT)
    await desk.conversation()

    def plan(connection: object) -> None:
        where = outbox.Plan("n:1", "discord", "bot", "dm-200", "")
        payload = f'{{"to":{{"chat":"dm-200"}},"chunk":{{"text":"Noted: {FACT}"}}}}'
        others = f'{{"text":"Noted by another version: {FACT}"}}'
        outbox.plan(connection, where, [payload, others], now_ms())  # type: ignore[arg-type]

    await desk.house.database.write(plan)

    await desk.type("/memory forget 1")

    query = select(outbox_table).order_by(outbox_table.c.seq)
    row, others = await desk.house.database.read(lambda c: c.execute(query).all())
    assert row.state == "planned"
    assert "[forgotten]" in row.payload
    assert SECRET_WORD not in row.payload + others.payload


def test_the_answer_to_forget_names_no_fact() -> None:
    assert "{text}" not in "".join(CATALOGUE["memory_forgotten"] + CATALOGUE["memory_forget_offer"])


async def test_a_review_that_still_reads_the_forgotten_fact_cannot_save_it_again(desk: Typing) -> None:
    await full_of_copies(desk)
    key = SessionKey("discord", "bot", "dm-200")
    await desk.type("/memory forget 1")
    opened = await desk.house.database.read(lambda c: sessions.find_open(c, key))
    assert opened is not None
    origin = WriteOrigin("review", "discord", session=opened.public_id)

    memory = guarded_memory(desk.house, as_it_is)
    outcome = await memory.apply(ANA, "user", (Operation("add", FACT),), origin)

    assert isinstance(outcome, Failed)
    assert FACT not in (await desk.house.memory.read(ANA)).user


class ForgetsMeanwhile:
    """The memory of somebody who has a fact forgotten while a turn of theirs begins."""

    def __init__(self, desk: Typing) -> None:
        self._desk = desk
        self.reads = 0

    @property
    def limits(self) -> MemoryLimits:
        return self._desk.house.memory.limits

    async def read(self, scope: Scope) -> MemorySnapshot:
        found = await self._desk.house.memory.read(scope)
        self.reads += 1
        if self.reads == 1:
            await self._desk.type("/memory forget 1")
        return found

    async def apply(self, scope: Scope, target: Target, operations: object, origin: WriteOrigin) -> Outcome:
        raise AssertionError("beginning a turn writes no memory")

    async def erase_backups(self, scope: Scope) -> None:
        raise AssertionError("beginning a turn erases nothing")

    async def erase_folder(self, scope: Scope) -> None:
        raise AssertionError("beginning a turn erases nothing")


async def test_a_turn_that_read_the_memory_before_a_forget_does_not_freeze_the_fact(desk: Typing) -> None:
    await desk.model_adds(FACT)
    account, key = await desk.account("ana"), SessionKey("telegram", "bot", "100")
    hello = direct("hello", user="100")
    arrival = Arrival(key, hello.key, account.id, "message", dump_inbound(hello), now_ms())
    await desk.house.database.write(lambda c: inbox_rows.store(c, arrival, now_ms()))
    rows = await desk.house.database.write(lambda c: inbox_rows.lease(c, key, "process", now_ms()))
    memory = ForgetsMeanwhile(desk)
    opening = Opening(
        desk.house.database, memory, (), owner="process", new=NewSessions("m"), mask=str, instructions=dict
    )

    opened = await opening.open(rows)

    assert opened is not None
    assert memory.reads == 2
    assert FACT not in opened.session.prompt
