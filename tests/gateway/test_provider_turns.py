"""What of the conversations is written down for memory providers, in the house's own transactions."""

from sqlalchemy import Connection, func, select

from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway.state import kv, provider_rows
from trunkline.gateway.state.provider_payloads import SessionEnded, TurnSaid
from trunkline.gateway.state.provider_sessions import ENDED_MARK, SETTLED_MS, note_ended_sessions
from trunkline.gateway.state.schema import account, session


def waiting(connection: Connection) -> list[tuple[str, object]]:
    """Every row of the provider, in order, with whose it is."""
    found = []
    while rows := provider_rows.take(connection, "one", 2**50, 0, 10):
        for row in rows:
            found.append((row.owner, row.payload))
            provider_rows.finish(connection, row, "", "", 0)
    return found


async def test_sessions_that_end_are_noted_once_but_no_private_ones(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.answer("Hello.", "Between us.")
        await house.say("hello")
        await house.shows("Hello.")
        await house.say("/private")
        await house.shows("This conversation is private now")
        await house.say("between us")
        await house.shows("Between us.")
        await house.say("/private off")
        await house.shows("The private conversation is erased.")

    def work(connection: Connection) -> None:
        provider_rows.set_active(connection, ["one"])
        ended_ms = connection.execute(
            select(func.max(session.c.ended_ms)).where(~session.c.private)
        ).scalar_one()
        settled_ms = ended_ms + SETTLED_MS
        assert not note_ended_sessions(connection, settled_ms)  # what ended before there was a provider
        kv.put_value(connection, ENDED_MARK, "0")
        # Another one that ended in that millisecond may not be committed yet.
        assert not note_ended_sessions(connection, settled_ms - 1)
        assert note_ended_sessions(connection, settled_ms)
        assert not note_ended_sessions(connection, settled_ms + 1)
        ((owner, payload),) = waiting(connection)
        assert owner == "person:ana"
        assert isinstance(payload, SessionEnded)
        assert payload.platform == "telegram"

    house.database.write_now(work)


async def test_in_a_room_a_turn_bears_who_asked(sqlite_house: SmallHouse) -> None:
    house = sqlite_house
    async with house.running():
        house.database.write_now(lambda c: provider_rows.set_active(c, ["one"]))
        for number, user in enumerate((ANA, BO)):
            house.answer(f"Answer {number}.")
            await house.telegram.group_message(ROOM, user, f"question {number}")
            await house.shows(f"Answer {number}.", ROOM)
            await house.ended(number + 1)

        found = house.database.write_now(waiting)
        accounts = {row.user_id: str(row.id) for row in await house.rows(account)}
        assert all(owner.startswith("room:") for owner, _ in found)
        assert [(one.author, one.user, one.assistant) for _, one in found if isinstance(one, TurnSaid)] == [
            (accounts[str(ANA)], "question 0", "Answer 0."),
            (accounts[str(BO)], "question 1", "Answer 1."),
        ]
