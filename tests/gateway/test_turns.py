"""Turns from the inbox to the outbox: fenced, counted, stoppable, answered with a sentence when they fail."""

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text, update

from tests.emulators.base import Fault
from tests.emulators.openai import Reply, ToolUse
from tests.gateway.lanes import flood
from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse, eventually
from trunkline.agent.messages import AssistantMessage, ToolCall, ToolMessage, Usage
from trunkline.agent.ports import TurnLost
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import inbox, people, sessions, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.schema import inbox as inbox_table
from trunkline.gateway.state.schema import message, outbox, step, turn, usage
from trunkline.gateway.state.turns import StoreRecorder, TurnRow

NOW = 1_800_000_000_000
QUEUEING = {"agent": {"busy": "queue", "burst_window": 0.001}}
CALLS = AssistantMessage("Looking.", (ToolCall("c1", "look", "{}"),), "tool_calls")


def begun(connection: Connection) -> TurnRow:
    who = people.ensure_account(connection, "telegram", "", "1", label="", now_ms=NOW).id
    stream = people.stream_of(connection, account_id=who, room_id=None)
    key = SessionKey("telegram", "bot", "1")
    session = sessions.start(connection, key, stream, prompt="", snapshot="", model="", now_ms=NOW)
    row = turns.begin(connection, session.id, stream, who, "me", NOW)
    asked = NewMessage(session.id, "user", "hello", NOW, account_id=who, turn_id=row.key.turn)
    add_message(connection, asked)
    return row


def recorder(database: Database, row: TurnRow) -> StoreRecorder:
    return StoreRecorder(database, row, None, lambda words: words)


async def test_an_attempt_that_was_overtaken_can_commit_nothing_any_more(database: Database) -> None:
    old = await database.write(begun)
    await recorder(database, old).record_calls(1, CALLS, Usage(10, 0, 1), model="m")
    new = await database.write(lambda c: turns.resume(c, old.key.turn, "other"))
    assert new is not None

    with pytest.raises(TurnLost):
        await recorder(database, old).record_results(1, [ToolMessage("c1", "look", "late")])
    with pytest.raises(TurnLost):
        await recorder(database, old).record_calls(2, CALLS, Usage(), model="m")
    with pytest.raises(TurnLost):
        await database.write(lambda c: turns.end(c, old.key, "done", "", NOW))
    await recorder(database, new).record_results(1, [ToolMessage("c1", "look", "in time")])
    await database.write(lambda c: turns.end(c, new.key, "done", "", NOW))

    _, steps = await database.read(lambda c: turns.recorded(c, old.key.turn))
    assert steps == (CALLS, ToolMessage("c1", "look", "in time"))
    assert await database.write(lambda c: turns.resume(c, old.key.turn, "third")) is None


async def test_a_turn_that_ended_cannot_end_again(database: Database) -> None:
    row = await database.write(begun)
    await database.write(lambda c: turns.end(c, row.key, "done", "", NOW))

    with pytest.raises(TurnLost):
        await database.write(lambda c: turns.end(c, row.key, "failed", "", NOW))


async def test_a_step_is_whole_or_not_there(database: Database) -> None:
    row = await database.write(begun)
    await database.write(lambda c: c.execute(insert(step).values(turn_id=row.key.turn, n=1, state="calling")))

    with pytest.raises(Exception, match=r"UNIQUE|unique"):
        await recorder(database, row).record_calls(1, CALLS, Usage(5, 0, 5), model="m")

    assert await database.read(lambda c: turns.recorded(c, row.key.turn)[1]) == ()
    assert await database.read(lambda c: c.execute(select(usage)).all()) == []


async def test_an_answer_is_one_message_with_its_platform_id_in_the_outbox(house: SmallHouse) -> None:
    async with house.running():
        house.answer("The answer is yes.")
        await house.say("well?")
        await house.shows("The answer is yes.")
        await house.comes_true(lambda c: c.execute(select(outbox.c.id).where(outbox.c.state == "sent")).all())

    (ended,) = await house.rows(turn)
    assert (ended.state, ended.reason) == ("done", "done")
    (sent,) = await house.rows(outbox, outbox.c.turn_id == ended.id)
    assert sent.message_id == str(house.telegram.sent(ANA)[0].message_id)
    assert [row.state for row in await house.rows(inbox_table)] == ["done"]


async def test_the_final_text_is_the_whole_answer_whatever_was_shown_before(house: SmallHouse) -> None:
    words = " ".join(f"**word{n}**" for n in range(700))
    async with house.running():
        house.model.then(Reply(words, chunk_chars=40, chunk_delay_s=0.01))
        await house.say("a long one")
        await house.telegram.wait_for(
            lambda: " ".join(house.telegram.texts(ANA)).split() == words.replace("*", "").split()
        )
    assert len(house.telegram.calls_of("editMessageText")) >= 1


@pytest.mark.parametrize("nothing", ["", "   ", "\u200b"])
async def test_an_answer_of_nothing_is_a_sentence_and_no_empty_message(
    house: SmallHouse, nothing: str
) -> None:
    async with house.running():
        house.model.then(Reply(nothing), Reply(nothing))
        await house.say("say nothing")
        await house.shows("empty answer")
        house.model.script.clear()

    assert len(house.telegram.sent(ANA)) == 1


async def test_tokens_of_every_call_are_counted_once(house: SmallHouse) -> None:
    async with house.running():
        house.call("session_search", {})
        house.answer("Nothing there.")
        await house.say("look it up")
        await house.shows("Nothing there.")
        await house.ended(1)

    assert [(row.prompt_tokens, row.completion_tokens) for row in await house.rows(usage)] == [
        (100, 20),
        (100, 20),
    ]


async def test_a_stopped_turn_costs_what_its_steps_cost(house: SmallHouse) -> None:
    async with house.running():
        house.call("session_search", {})
        house.model.then(Reply("word " * 300, chunk_chars=5, chunk_delay_s=0.05))
        await house.say("look it up")
        await house.shows("word word")
        await house.say("/stop")
        await house.shows("(stopped here)")
        await house.ended(1)

    assert [row.prompt_tokens for row in await house.rows(usage)] == [100]
    (stopped,) = await house.rows(turn)
    assert stopped.state == "stopped"
    said = await house.rows(message, message.c.role == "assistant")
    assert [row.interrupted for row in said] == [False, True]


async def test_stopping_before_the_model_said_a_word_leaves_no_empty_message(house: SmallHouse) -> None:
    async with house.running():
        house.model.then(Reply("never seen", delay_s=30))
        await house.say("think long")
        await house.asked(1)
        await house.say("/stop")
        await house.shows("Stopped.")
        await house.ended(1)
        house.answer("Here again.")
        await house.say("and now?")
        await house.shows("Here again.")

    assert house.telegram.texts(ANA) == ["Stopped.", "Here again."]
    assert "think long" in str(house.model.requests[-1])


async def test_stopping_when_all_is_said_says_that_nothing_runs(house: SmallHouse) -> None:
    async with house.running():
        house.answer("Done already.")
        await house.say("quick")
        await house.shows("Done already.")
        await house.ended(1)
        await house.say("/stop")
        await house.shows("Nothing is running.")


async def test_text_of_a_step_whose_call_was_refused_is_not_stored_twice_by_a_stop(house: SmallHouse) -> None:
    async with house.running():
        house.model.then(
            Reply("I will look. ", tools=[ToolUse("no_such_tool", {})]),
            Reply("word " * 300, chunk_chars=5, chunk_delay_s=0.05),
        )
        await house.say("look it up")
        await house.shows("word word")
        await house.say("/stop")
        await house.shows("(stopped here)")

    said = await house.rows(message, message.c.role == "assistant")
    assert sum("I will look." in row.content for row in said) == 1


async def test_a_typing_sign_that_fails_and_a_preview_that_fails_cost_no_answer(house: SmallHouse) -> None:
    house.telegram.fail_next("sendChatAction", Fault(status=500), times=20)
    house.telegram.fail_next("editMessageText", Fault(status=500), times=1)
    async with house.running():
        house.model.then(Reply("A few words and more. " * 10, chunk_chars=10, chunk_delay_s=0.08))
        await house.say("hello")
        await house.shows(("A few words and more. " * 10).strip())


async def test_a_flood_wait_met_by_the_typing_sign_stops_the_preview_too(house: SmallHouse) -> None:
    house.telegram.fail_next("sendChatAction", flood(2))
    go_on = asyncio.Event()
    async with house.running():
        house.model.then(Reply("A few words and more. " * 5, chunk_chars=10, held=go_on))
        await house.say("hello")
        await house.telegram.wait_for(lambda: house.telegram.calls_of("sendChatAction"))
        go_on.set()
        await house.shows(("A few words and more. " * 5).strip())

    refused = house.telegram.calls_of("sendChatAction")[0].at
    sends = house.telegram.calls_of("sendMessage")
    assert len(sends) == 1
    assert sends[0].at - refused >= 2


@pytest.mark.parametrize("answer", ["好。", "It is all there in the preview."])
async def test_whoever_may_miss_an_answer_is_told_so_in_their_language(
    house: SmallHouse, answer: str
) -> None:
    house.telegram.fail_next("sendMessage", Fault(status=500))
    async with house.running():
        house.answer(answer)
        await house.say("hello", user=BO)
        await house.shows("我上一条回答可能有一部分没有送到", chat=BO)

    assert len(house.telegram.sent(BO)) == 1


async def test_a_turn_that_another_attempt_took_over_ends_quietly(house: SmallHouse) -> None:
    go_on = asyncio.Event()
    async with house.running():
        house.model.then(Reply("Too late.", held=go_on))
        await house.say("hello")
        await house.asked(1)
        await house.database.write(lambda c: c.execute(update(turn).values(attempt=7)))
        go_on.set()
        house.answer("Still at work.")
        await house.say("hello?", BO)
        await house.shows("Still at work.", BO)
        await house.ended(1)

    assert house.telegram.texts(ANA) in ([], ["Too late."])
    states = {row.payload != "": row.state for row in await house.rows(inbox_table)}
    assert states == {True: "leased", False: "done"}


async def test_a_message_nobody_can_read_is_set_aside_and_the_next_one_answered(house: SmallHouse) -> None:
    await _store(house, "{broken")
    async with house.running():
        await house.comes_true(
            lambda c: c.execute(select(inbox_table.c.id).where(inbox_table.c.state == "dead")).all()
        )
        house.answer("Here I am.")
        await house.say("hello")
        await house.shows("Here I am.")


async def _store(house: SmallHouse, payload: str) -> None:
    def work(connection: Connection) -> None:
        who = people.ensure_account(connection, "telegram", "", str(ANA), label="", now_ms=now_ms()).id
        key = SessionKey("telegram", str(house.telegram.me["id"]), str(ANA))
        inbox.store(connection, Arrival(key, "m:1:1:0", who, "message", payload, now_ms()), now_ms())

    await house.database.write(work)


async def test_a_message_that_fails_three_times_is_set_aside_and_its_author_told(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    await house.database.write(
        lambda c: c.execute(
            text(
                "CREATE TRIGGER harmful BEFORE INSERT ON message WHEN NEW.content = 'poison' "
                "BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        )
    )
    async with house.running():
        await house.say("poison")
        await house.shows("made me fail three times")
        house.answer("All well.")
        await house.say("and this?")
        await house.shows("All well.")

    (dead,) = await house.rows(inbox_table, inbox_table.c.state == "dead")
    assert json.loads(dead.payload)["text"] == "poison"
    assert "running" not in {row.state for row in await house.rows(turn)}


async def test_a_person_suspended_while_their_message_waited_is_not_answered(house: SmallHouse) -> None:
    go_on = asyncio.Event()
    async with house.running(**QUEUEING):
        house.model.then(Reply("Slow.", held=go_on))
        await house.say("one", BO)
        await house.asked(1)
        await house.say("two", BO)
        await eventually(lambda: _waits(house, 1))
        await house.database.write(
            lambda c: c.execute(text("UPDATE person SET suspended = TRUE WHERE slug = 'bo'"))
        )
        go_on.set()
        await house.comes_true(
            lambda c: len(c.execute(select(inbox_table.c.id).where(inbox_table.c.state == "done")).all()) == 2
        )

    assert len(house.model.requests) == 1
    assert (await house.rows(inbox_table))[1].reason == "not admitted"


async def _waits(house: SmallHouse, count: int) -> bool:
    return len(await house.rows(inbox_table, inbox_table.c.state == "received")) == count


async def test_an_interrupted_turn_of_somebody_suspended_is_ended_and_not_answered(house: SmallHouse) -> None:
    async with house.running():
        house.model.then(Reply("Slow.", delay_s=30))
        await house.say("one", BO)
        await house.asked(1)
    config = {"people": {"ana": {"role": "owner", "telegram": ANA}}}
    async with house.running(**config):
        await house.ended(1)

    assert len(house.model.requests) == 1
    assert house.telegram.texts(BO) == []


async def test_a_rooms_message_that_waited_while_the_group_moved_keeps_the_rooms_scope(
    house: SmallHouse,
) -> None:
    folder = house.home / "memories" / "ana"
    folder.mkdir(parents=True)
    await asyncio.to_thread(Path(folder / "USER.md").write_text, "Ana's birthday is on 3 May.\n§\n")
    go_on = asyncio.Event()
    async with house.running(**QUEUEING):
        house.model.then(Reply("Slow.", held=go_on))
        await house.telegram.group_message(ROOM, ANA, "one")
        await house.asked(1)
        await house.telegram.group_message(ROOM, ANA, "two")
        await eventually(lambda: _waits(house, 1))
        house.answer("In the room.")
        await house.database.write(lambda c: people.move_room(c, "telegram", "", str(ROOM), "-100777"))
        go_on.set()
        await house.asked(2)
        await house.comes_true(lambda c: not c.execute(select(turn).where(turn.c.state == "running")).all())

    assert "3 May" not in str(house.model.requests)
