"""On Slack, what was on its way when a process died is looked for, and sent again only if it is not there."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import update

from tests.emulators.base import Fault
from tests.emulators.slack import SlackEmulator
from tests.emulators.slack_bench import emulated, running
from tests.gateway.lanes import Lanes, lanes
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import nonce_of, payloads
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.state import outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import OutboxRow
from trunkline.gateway.state.schema import outbox as outbox_table

CHAT = "C1"


@pytest.fixture
async def slack() -> AsyncIterator[SlackEmulator]:
    async with emulated() as emulator:
        yield emulator


@pytest.fixture
async def on_slack(sqlite_database: Database, slack: SlackEmulator) -> AsyncIterator[Lanes]:
    async with running(slack) as bench, lanes(sqlite_database, bench.adapter) as made:
        yield made


async def die_while_sending(made: Lanes, row: OutboxRow, *, arrived: bool) -> None:
    """What a process leaves that is killed in the middle of a call, and what the next one makes of it."""
    if arrived:
        await made.adapter.send(replace(load_outbound(row.payload), nonce=nonce_of(row)))
    sending = update(outbox_table).values(state="sending", attempts=1)
    await made.database.write(lambda c: c.execute(sending.where(outbox_table.c.id == row.id)))
    await made.database.write(lambda c: outbox.take_back(c, "slack", repeats_safely=True, now_ms=now_ms()))


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_message_is_there_once_whether_or_not_it_had_arrived(
    on_slack: Lanes, slack: SlackEmulator, arrived: bool
) -> None:
    where = on_slack.to(CHAT)
    planned = payloads(where, on_slack.adapter.render("The answer."))
    await on_slack.database.write(lambda c: outbox.plan(c, where.plan("t:1"), planned, now_ms()))
    row = await on_slack.database.read(lambda c: outbox.find(c, "t:1", 0))
    assert row is not None
    await die_while_sending(on_slack, row, arrived=arrived)

    on_slack.delivery.kick("slack", CHAT)
    await on_slack.become("sent")

    assert slack.texts(CHAT) == ["The answer."]


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(accept_then_drop=True)])
async def test_a_message_whose_answer_was_lost_is_there_once(
    on_slack: Lanes, slack: SlackEmulator, fault: Fault
) -> None:
    slack.fail_next("chat.postMessage", fault)

    await on_slack.plan(on_slack.to(CHAT), "The answer.", "t:1")
    await on_slack.become("sent")

    assert slack.texts(CHAT) == ["The answer."]


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_preview_becomes_the_answer_whether_or_not_it_had_arrived(
    on_slack: Lanes, slack: SlackEmulator, arrived: bool
) -> None:
    where = on_slack.to(CHAT)
    (half,) = payloads(where, on_slack.adapter.render("The first half of"))
    row = await on_slack.database.write(
        lambda c: outbox.begin_preview(c, where.plan("t:1"), 0, half, now_ms())
    )
    await die_while_sending(on_slack, row, arrived=arrived)

    await on_slack.plan(where, "The whole answer.", "t:1", repeats_safely=True)
    await slack.wait_for(lambda: slack.texts(CHAT) == ["The whole answer."])
    await on_slack.become("sent")
