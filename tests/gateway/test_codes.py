"""Codes: one active per account, single use, an hour long, locked against guessing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sqlalchemy import Connection

from trunkline.agent.scope import AccountId
from trunkline.gateway.state import codes, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import code

NOW = 1_800_000_000_000
MINUTE = 60_000


def account(connection: Connection, user: str) -> AccountId:
    return people.ensure_account(connection, "telegram", "", user, label=user, now_ms=NOW).id


async def test_a_code_is_good_once(database: Database) -> None:
    def work(connection: Connection) -> tuple[object, object]:
        ana = account(connection, "1")
        word = codes.issue(connection, "pair", ana, NOW)
        assert word is not None
        first = codes.redeem(connection, "pair", word.lower(), NOW, typed_by=None)
        return first, codes.redeem(connection, "pair", word, NOW, typed_by=None)

    first, second = await database.write(work)

    assert isinstance(first, codes.Redeemed)
    assert isinstance(second, codes.Refused)


async def test_a_code_is_given_at_most_once_in_ten_minutes_and_replaces_the_one_before(
    database: Database,
) -> None:
    def work(connection: Connection) -> None:
        ana = account(connection, "1")
        first = codes.issue(connection, "pair", ana, NOW)
        assert first is not None
        assert codes.issue(connection, "pair", ana, NOW + 9 * MINUTE) is None
        second = codes.issue(connection, "pair", ana, NOW + 11 * MINUTE)
        assert second is not None
        later = NOW + 12 * MINUTE
        assert isinstance(codes.redeem(connection, "pair", first, later, typed_by=None), codes.Refused)
        assert isinstance(codes.redeem(connection, "pair", second, later, typed_by=None), codes.Redeemed)

    await database.write(work)


async def test_a_code_ends_after_an_hour(database: Database) -> None:
    def work(connection: Connection) -> object:
        word = codes.issue(connection, "pair", account(connection, "1"), NOW)
        assert word is not None
        return codes.redeem(connection, "pair", word, NOW + 61 * MINUTE, typed_by=None)

    assert isinstance(await database.write(work), codes.Refused)


async def test_a_code_of_another_purpose_is_no_code(database: Database) -> None:
    def work(connection: Connection) -> object:
        word = codes.issue(connection, "pair", account(connection, "1"), NOW)
        assert word is not None
        return codes.redeem(connection, "setup", word, NOW, typed_by=None)

    assert isinstance(await database.write(work), codes.Refused)


async def test_five_wrong_codes_lock_an_account_for_an_hour_even_for_the_right_one(
    database: Database,
) -> None:
    def work(connection: Connection) -> None:
        guesser = account(connection, "2")
        word = codes.issue(connection, "setup", None, NOW)
        assert word is not None
        for _ in range(5):
            refused = codes.redeem(connection, "setup", "AAAAAAAA", NOW, typed_by=guesser)
            assert refused == codes.Refused()
        locked = codes.redeem(connection, "setup", word, NOW + MINUTE, typed_by=guesser)
        assert locked == codes.Refused(NOW + 60 * MINUTE)
        after = codes.redeem(connection, "setup", word, NOW + 61 * MINUTE, typed_by=guesser)
        assert isinstance(after, codes.Refused)
        assert after.locked_until_ms == 0

    await database.write(work)


async def test_guesses_spread_over_many_accounts_lock_everybody(database: Database) -> None:
    def work(connection: Connection) -> object:
        word = codes.issue(connection, "setup", None, NOW)
        assert word is not None
        for n in range(codes.WRONG_TRIES_IN_ALL):
            codes.redeem(connection, "setup", "BBBBBBBB", NOW, typed_by=account(connection, f"g{n}"))
        return codes.redeem(connection, "setup", word, NOW, typed_by=account(connection, "fresh"))

    assert await database.write(work) == codes.Refused(NOW + 60 * MINUTE)


async def test_three_strangers_with_codes_do_not_keep_a_friend_from_getting_one(database: Database) -> None:
    def work(connection: Connection) -> list[str | None]:
        return [codes.issue(connection, "pair", account(connection, str(n)), NOW) for n in range(20)]

    words = await database.write(work)

    assert None not in words
    assert len(set(words)) == 20


async def test_the_database_holds_no_code_in_clear(database: Database) -> None:
    def work(connection: Connection) -> bool:
        word = codes.issue(connection, "pair", account(connection, "1"), NOW)
        assert word is not None
        row = connection.execute(code.select()).one()
        return word.encode() in bytes(row.hash) + bytes(row.salt) or word in str(tuple(row))

    assert not await database.write(work)


def test_words_that_could_be_codes_are_told_from_others() -> None:
    assert codes.looks_like_code(" abcd-efgh ")
    assert codes.looks_like_code("WXYZ2345")
    assert not codes.looks_like_code("hello there")
    assert not codes.looks_like_code("ABCDEFG1")
    assert not codes.looks_like_code("你好你好你好你好")


async def test_words_that_look_like_codes_lock_nobody_while_there_is_no_code(database: Database) -> None:
    def work(connection: Connection) -> object:
        for n in range(60):
            codes.redeem(connection, "setup", "WHATSAPP", NOW, typed_by=account(connection, f"g{n}"))
        word = codes.issue(connection, "pair", account(connection, "friend"), NOW)
        assert word is not None
        return codes.redeem(connection, "pair", word, NOW, typed_by=account(connection, "owner"))

    assert isinstance(await database.write(work), codes.Redeemed)


async def test_guesses_at_the_set_up_code_do_not_lock_approvals(database: Database) -> None:
    def work(connection: Connection) -> object:
        codes.issue(connection, "setup", None, NOW)
        for n in range(60):
            codes.redeem(connection, "setup", "WHATSAPP", NOW, typed_by=account(connection, f"g{n}"))
        word = codes.issue(connection, "pair", account(connection, "friend"), NOW)
        assert word is not None
        return codes.redeem(connection, "pair", word, NOW, typed_by=account(connection, "owner"))

    assert isinstance(await database.write(work), codes.Redeemed)


async def test_ten_thousand_guesses_by_one_or_by_many_find_nothing_and_lock(
    sqlite_database: Database,
) -> None:
    """Most of them have seven of the eight letters right."""

    def work(connection: Connection) -> None:
        guessers = [account(connection, f"g{n}") for n in range(100)]
        for purpose in codes.PURPOSES:
            word = codes.issue(
                connection, purpose, None if purpose == "setup" else account(connection, "owner"), NOW
            )
            assert word is not None
            guesses = [letter + word[1:] for letter in "ABCDEFGH" if letter != word[0]]
            for n in range(10_000 // len(codes.PURPOSES) + 1):
                guesser = guessers[0 if n % 2 else n % 100]
                found = codes.redeem(
                    connection, purpose, guesses[n % len(guesses)], NOW + n, typed_by=guesser
                )
                assert isinstance(found, codes.Refused)
                assert found.locked_until_ms or n < 2 * codes.WRONG_TRIES_IN_ALL
            # Whoever comes now is locked out as well, the one whom the code is for included.
            locked = codes.redeem(connection, purpose, word, NOW + 6000, typed_by=account(connection, "new"))
            assert isinstance(locked, codes.Refused)
            assert locked.locked_until_ms

    await sqlite_database.write(work)


async def test_a_lock_outlives_a_restart(sqlite_url: str) -> None:
    with Database(sqlite_url) as first:

        def guess(connection: Connection) -> str | None:
            word = codes.issue(connection, "link", account(connection, "ana"), NOW)
            for _ in range(codes.WRONG_TRIES_PER_ACCOUNT):
                codes.redeem(connection, "link", "AAAAAAAA", NOW, typed_by=account(connection, "2"))
            return word

        word = await first.write(guess)
    with Database(sqlite_url) as second:
        refused = await second.write(
            lambda c: codes.redeem(c, "link", word or "", NOW + 1, typed_by=account(c, "2"))
        )

    assert refused == codes.Refused(NOW + codes.HOUR_MS)


async def test_every_guess_is_compared_with_every_code_to_its_end(
    sqlite_database: Database,
) -> None:
    """The work of a guess is the same whether it is right, nearly right, wrong, or locked: it is counted."""

    def work(connection: Connection) -> list[int]:
        words = [codes.issue(connection, "link", account(connection, str(n)), NOW) for n in range(20)]
        first = words[0] or ""
        near = first[:-1] + ("A" if first[-1] != "A" else "B")
        for _ in range(codes.WRONG_TRIES_PER_ACCOUNT):
            codes.redeem(connection, "link", "AAAAAAAA", NOW, typed_by=account(connection, "locked"))
        counted = []
        for guess, who in (("ZZZZZZZZ", "x"), (near, "y"), (first, "locked")):
            with counted_digests() as digests:
                codes.redeem(connection, "link", guess, NOW, typed_by=account(connection, who))
            counted.append(len(digests))
        return counted

    assert await sqlite_database.write(work) == [20, 20, 20]


@contextmanager
def counted_digests() -> Iterator[list[str]]:
    """Every call of the hash function inside, seen by the interpreter itself."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "_digest":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def test_a_code_that_was_shown_in_a_room_is_void_and_guesses_there_end_none(
    sqlite_database: Database,
) -> None:
    def work(connection: Connection) -> None:
        words = {
            purpose: codes.issue(
                connection, purpose, None if purpose == "setup" else account(connection, "ana"), NOW
            )
            for purpose in codes.PURPOSES
        }
        assert not codes.void(connection, "nothing of ours: AAAAAAAA, WHATSAPP", NOW)
        shown = ", ".join(f"`{word}`" for word in words.values())
        assert codes.void(connection, f"my codes are\n{shown.lower()} see?", NOW)
        for purpose, word in words.items():
            found = codes.redeem(connection, purpose, word or "", NOW, typed_by=None)
            assert isinstance(found, codes.Redeemed) == (purpose == "pair"), purpose
            assert not codes.void(connection, shown, NOW)

    await sqlite_database.write(work)
