"""What is decided twice at the same moment, in two chats or by two programs, happens once."""

import asyncio
from pathlib import Path

from sqlalchemy import Connection, select

from tests.gateway.inbound import direct
from tests.gateway.linked import code_in
from tests.gateway.memory_desk import ANA, typing
from trunkline.agent.memory.operations import Operation
from trunkline.agent.scope import AccountId
from trunkline.gateway import admission, identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.payloads import load_outbound
from trunkline.gateway.router import store
from trunkline.gateway.settings import parse_settings
from trunkline.gateway.state import codes, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account
from trunkline.gateway.state.schema import outbox, person

EVE = "666"
SETTINGS = parse_settings({"people": {"ana": {"role": "owner", "telegram": 100, "discord": 200}}})
IN, OUT, OVER = "may talk to me now", "stays out", "decided already"


async def knock(database: Database) -> AccountId:
    """Eve writes and is given a code."""

    def work(connection: Connection) -> AccountId:
        identity.assert_config(connection, SETTINGS, now_ms())
        store(connection, direct("let me in", user=EVE, name="Eve"), SETTINGS, now_ms())
        found = people.find_account(connection, "telegram", "", EVE)
        assert found is not None
        return found.id

    return await database.write(work)


async def decide(database: Database, eve: AccountId, *, let_in: bool) -> str:
    return await database.write(lambda c: admission.decide(c, eve, "en", now_ms(), let_in=let_in))


async def of_eve(database: Database) -> tuple[Account, int, list[str]]:
    """Her account, how many people there are beside the owners, and what she was told."""

    def work(connection: Connection) -> tuple[Account, int, list[str]]:
        account = people.find_account(connection, "telegram", "", EVE)
        assert account is not None
        others = connection.execute(select(person.c.id).where(person.c.role != "owner")).all()
        payloads = connection.execute(select(outbox.c.payload).where(outbox.c.chat == EVE)).scalars()
        return account, len(others), [load_outbound(payload).chunk.text for payload in payloads]

    return await database.read(work)


async def test_a_stranger_let_in_several_times_at_once_becomes_one_person(database: Database) -> None:
    eve = await knock(database)

    told = await asyncio.gather(*(decide(database, eve, let_in=True) for _ in range(4)))

    account, others, heard = await of_eve(database)
    assert [IN in one for one in told].count(True) == 1
    assert [OVER in one for one in told].count(True) == 3
    assert account.person is not None
    assert others == 1
    assert [text for text in heard if "You're in" in text] == heard[1:2]


async def test_of_a_yes_and_a_no_at_once_one_counts_and_the_other_is_told_so(database: Database) -> None:
    eve = await knock(database)

    yes, no = await asyncio.gather(decide(database, eve, let_in=True), decide(database, eve, let_in=False))

    account, others, _ = await of_eve(database)
    assert (IN in yes, OVER in no, account.person is not None, account.blocked, others) in (
        (True, True, True, False, 1),
        (False, False, False, True, 0),
    )
    assert (OVER in yes) == (OUT in no)


async def test_a_button_and_the_code_at_once_let_in_once(database: Database) -> None:
    eve = await knock(database)
    _, _, heard = await of_eve(database)
    code = code_in(heard[0])

    pressed, *typed = await asyncio.gather(
        decide(database, eve, let_in=True),
        *(database.write(lambda c: identity.approve(c, code, now_ms(), typed_by=None)) for _ in range(2)),
    )

    let_in = [one for one in typed if not isinstance(one, codes.Refused)]
    assert (IN in pressed) + len(let_in) == 1
    assert (await of_eve(database))[1] == 1


async def test_a_memory_approved_on_two_platforms_at_once_is_saved_once(
    tmp_path: Path, database_url: str
) -> None:
    async with typing(tmp_path, database_url, write_approval=True) as desk:
        await desk.model_writes(Operation("add", "Ana likes tea."))

        await asyncio.gather(*(desk.type("/memory approve 1") for _ in range(3)))

        assert (await desk.house.memory.read(ANA)).user == ("Ana likes tea.",)
        assert "Nothing waits" in await desk.type("/memory approve")
