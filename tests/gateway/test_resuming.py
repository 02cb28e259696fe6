"""A conversation taken up again begins with the end of the old one, within bounds and within its scope."""

import pytest
from sqlalchemy import Connection

from tests.gateway.rows import (
    MINUTE_MS,
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    link_account,
    person_scope,
    say,
)
from trunkline.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from trunkline.agent.scope import AccountId
from trunkline.gateway.state import resuming
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import set_message_state
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.session_titles import TITLE_CHARS, clean_title, set_title

ANA = person_scope("ana")
HERE = SessionKey("discord", "bot", "here")
LATER_MS = START_MS + 10_000 * MINUTE_MS


@pytest.fixture
def accounts(database: Database) -> tuple[int, int]:
    """Ana's two accounts, on Telegram and Discord."""

    def work(connection: Connection) -> tuple[int, int]:
        return add_person(connection, "ana"), link_account(connection, "ana", "discord")

    return database.write_now(work)


def talk(connection: Connection, account: int, name: str, *texts: str, **values: object) -> list[int]:
    """A session in which the person and the assistant speak in turn."""
    opened = add_session(connection, direct_stream(connection, account), name, **values)
    return [
        say(connection, opened, text, role="assistant" if place % 2 else "user", at_ms=START_MS + place)[0]
        for place, text in enumerate(texts)
    ]


def take_up(connection: Connection, account: int, name: str, at_ms: int = LATER_MS) -> resuming.Resumed:
    done = resuming.resume(connection, ANA, HERE, AccountId(account), name, model="m", now_ms=at_ms)
    assert isinstance(done, resuming.Resumed)
    return done


def shown(connection: Connection, resumed: resuming.Resumed) -> tuple[Message, ...]:
    return resuming.load_conversation(connection, ANA, resumed.session)


def test_what_is_said_in_the_old_one_afterwards_is_not_shown(
    database: Database, accounts: tuple[int, int]
) -> None:
    def work(connection: Connection) -> None:
        talk(connection, accounts[0], "old", "question", "answer")
        resumed = take_up(connection, accounts[1], "old")
        before = shown(connection, resumed)
        say(connection, 1, "much later", at_ms=LATER_MS + 1)
        assert shown(connection, resumed) == before
        assert [type(one) for one in before] == [UserMessage, AssistantMessage]

    database.write_now(work)


def test_the_bridge_is_bounded_and_begins_with_a_question(
    database: Database, accounts: tuple[int, int]
) -> None:
    def work(connection: Connection) -> None:
        talk(connection, accounts[0], "old", *(f"{place} " + "x" * 9_000 for place in range(30)))
        messages = shown(connection, take_up(connection, accounts[1], "old"))
        assert isinstance(messages[0], UserMessage)
        assert len(messages) >= 2
        texts = [
            one.sent if isinstance(one, UserMessage) else one.text
            for one in messages[1:]
            if not isinstance(one, ToolMessage)
        ]
        assert sum(map(len, texts)) <= resuming.BRIDGE_CHARS
        assert texts[-1].startswith("29 ")

    database.write_now(work)


def test_what_was_taken_back_is_gone_from_the_bridge(database: Database, accounts: tuple[int, int]) -> None:
    def work(connection: Connection) -> None:
        ids = talk(connection, accounts[0], "old", "a", "b", "the code is 4711", "c")
        resumed = take_up(connection, accounts[1], "old")
        assert "4711" in str(shown(connection, resumed))
        set_message_state(connection, ANA, ids[2:3], "redacted")
        assert "4711" not in str(shown(connection, resumed))

    database.write_now(work)


def test_a_bridge_reaches_over_several_resumptions(database: Database, accounts: tuple[int, int]) -> None:
    def work(connection: Connection) -> None:
        talk(connection, accounts[0], "old", "the first question", "the first answer")
        second = take_up(connection, accounts[1], "old")
        say(connection, second.session.id, "the second question", at_ms=LATER_MS + 1)
        done = resuming.resume(
            connection,
            ANA,
            SessionKey("telegram", "bot", "there"),
            AccountId(accounts[0]),
            second.session.public_id,
            model="m",
            now_ms=LATER_MS + 2,
        )
        assert isinstance(done, resuming.Resumed)
        texts = str(shown(connection, done))
        assert "the first answer" in texts
        assert "the second question" in texts

    database.write_now(work)


def test_an_account_that_is_no_longer_the_persons_takes_its_bridge_along(
    database: Database, accounts: tuple[int, int]
) -> None:
    def work(connection: Connection) -> None:
        talk(connection, accounts[0], "old", "mine", "yours")
        resumed = take_up(connection, accounts[1], "old")
        assert resuming.load_conversation(connection, person_scope("bo"), resumed.session) == ()

    database.write_now(work)


def test_rooms_private_ones_and_the_open_one_are_refused(
    database: Database, accounts: tuple[int, int]
) -> None:
    def refusal(connection: Connection, name: str) -> object:
        return resuming.resume(connection, ANA, HERE, AccountId(accounts[1]), name, model="m", now_ms=1)

    def work(connection: Connection) -> None:
        add_session(connection, add_room(connection, "den", accounts[1]), "shared")
        add_session(connection, direct_stream(connection, accounts[0]), "hidden", private=True)
        add_session(
            connection, direct_stream(connection, accounts[1]), "open", platform="discord", chat="here"
        )
        assert refusal(connection, "shared") == "room"
        assert refusal(connection, "hidden") == "unknown"
        assert refusal(connection, "nothing") == "unknown"
        assert refusal(connection, "open") == "here"

    database.write_now(work)


def test_a_title_is_one_line_cut_between_words() -> None:
    assert clean_title(" the\tboiler\n\x00drips ") == "the boiler drips"
    long = clean_title("word " * 40)
    assert len(long) <= TITLE_CHARS
    assert long.endswith("word…")
    assert len(clean_title("出差" * 80)) == TITLE_CHARS


def test_a_taken_title_gets_a_number_and_a_number_counts_on(
    database: Database, accounts: tuple[int, int]
) -> None:
    def work(connection: Connection) -> None:
        for name in ("one", "two", "three"):
            talk(connection, accounts[0], name, "hello", chat=name)
        assert set_title(connection, ANA, "one", "Trip") == "Trip"
        assert set_title(connection, ANA, "two", "TRIP") == "TRIP (2)"
        assert set_title(connection, ANA, "three", "Trip (2)") == "Trip (3)"
        assert set_title(connection, ANA, "one", "Trip") == "Trip"
        assert set_title(connection, ANA, "one", "Other", replaces=False) is None
        assert set_title(connection, person_scope("bo"), "one", "Mine") is None

    database.write_now(work)
