"""Who people are: what the file says wins, nothing is deleted, and codes open one door once."""

import pytest
from sqlalchemy import Connection

from tests.gateway.inbound import direct, in_room
from trunkline.gateway import access, identity
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.identity import Approved, assert_config, claim_owner, issue_setup_code, local_account
from trunkline.gateway.settings import FileSettings, parse_settings
from trunkline.gateway.state import codes, people
from trunkline.gateway.state.codes import Refused
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account

NOW = 1_800_000_000_000
ANA = {"role": "owner", "name": "Ana", "telegram": 100, "discord": 200}


def settings(**persons: object) -> FileSettings:
    return parse_settings({"people": persons, "rooms": {"telegram/-900": {}}})


async def load(database: Database, file: FileSettings) -> None:
    await database.write(lambda c: assert_config(c, file, NOW))


async def slug_of(database: Database, user: str, platform: str = "telegram") -> str | None:
    found = await database.read(lambda c: people.find_account(c, platform, "", user))
    return None if found is None or found.person is None else found.person.slug


def stranger(connection: Connection, user: str = "666", label: str = "Zoë") -> Account:
    return people.ensure_account(connection, "telegram", "", user, label=label, now_ms=NOW)


async def test_one_person_has_the_accounts_that_the_file_names_and_loading_again_changes_nothing(
    database: Database,
) -> None:
    for _ in range(2):
        await load(database, settings(ana=ANA))

    assert [await slug_of(database, "100"), await slug_of(database, "200", "discord")] == ["ana", "ana"]
    assert len(await database.read(people.list_people)) == 1


async def test_an_account_that_moves_to_another_person_in_the_file_is_theirs(database: Database) -> None:
    await load(database, settings(ana=ANA, bo={"telegram": 101}))
    await load(database, settings(ana={"role": "owner"}, bo={"telegram": [100, 101]}))

    assert await slug_of(database, "100") == "bo"
    assert await slug_of(database, "200", "discord") is None


async def test_who_is_taken_out_of_the_file_is_suspended_and_comes_back_as_the_same_person(
    database: Database,
) -> None:
    await load(database, settings(ana=ANA, bo={"telegram": 101}))
    before = await database.read(lambda c: people.find_person(c, "bo"))
    await load(database, settings(ana=ANA))
    gone = await database.read(lambda c: people.find_person(c, "bo"))
    await load(database, settings(ana=ANA, bo={"telegram": 101}))

    assert before is not None
    assert gone is not None
    assert gone.suspended
    assert await database.read(lambda c: people.find_person(c, "bo")) == before


async def test_without_anybody_in_the_file_there_is_an_owner(database: Database) -> None:
    await load(database, parse_settings({}))

    (owner,) = await database.read(people.owners)
    assert (owner.slug, owner.role) == ("owner", "owner")


async def test_the_owner_of_the_file_comes_before_one_that_was_there_earlier(database: Database) -> None:
    await load(database, parse_settings({}))
    await load(database, settings(ana=ANA))

    assert [owner.slug for owner in await database.read(people.owners)] == ["ana", "owner"]


async def test_a_room_taken_out_of_the_file_is_closed_and_one_opened_by_a_command_stays(
    database: Database,
) -> None:
    await load(database, settings(ana=ANA))

    def open_another(connection: Connection) -> None:
        room = people.ensure_room(connection, "telegram", "", "-901", title="", now_ms=NOW)
        people.change_room(connection, room.id, allowed=True, source="command")

    await database.write(open_another)
    await load(database, parse_settings({"people": {"ana": ANA}}))

    def both(connection: Connection) -> list[bool]:
        found = [people.find_room(connection, "telegram", "", chat) for chat in ("-900", "-901")]
        return [room is not None and room.allowed for room in found]

    assert await database.read(both) == [False, True]


async def test_a_person_on_this_machine_is_the_one_of_that_slug_and_nobody_suspended(
    database: Database,
) -> None:
    await load(database, settings(ana=ANA, bo={"telegram": 101}))
    await load(database, settings(ana=ANA))

    found = await database.write(lambda c: local_account(c, "web", "ana", NOW))
    assert found is not None
    assert found.person is not None
    assert await database.write(lambda c: local_account(c, "web", "ana", NOW)) == found
    assert await database.write(lambda c: local_account(c, "web", "bo", NOW)) is None
    assert await database.write(lambda c: local_account(c, "web", "nobody", NOW)) is None


async def test_an_approved_stranger_is_a_member_of_their_own_and_the_code_is_used_up(
    database: Database,
) -> None:
    await load(database, settings(ana=ANA))
    code = await database.write(lambda c: codes.issue(c, "pair", stranger(c).id, NOW))
    assert code is not None

    first = await database.write(lambda c: identity.approve(c, code, NOW, typed_by=None))
    second = await database.write(lambda c: identity.approve(c, code, NOW, typed_by=None))

    assert isinstance(first, Approved)
    assert (first.person.slug, first.person.role, first.account.user_id) == ("zoe", "member", "666")
    assert isinstance(second, Refused)


async def test_two_strangers_of_one_name_are_two_people(database: Database) -> None:
    await load(database, settings(ana=ANA))
    for user in ("666", "667"):
        code = await database.write(lambda c, u=user: codes.issue(c, "pair", stranger(c, u, "Ana").id, NOW))  # type: ignore[misc]
        await database.write(lambda c, w=code: identity.approve(c, w or "", NOW, typed_by=None))  # type: ignore[misc]

    assert await slug_of(database, "666") == "ana-2"
    assert await slug_of(database, "667") == "ana-3"


async def test_the_set_up_code_gives_one_account_to_the_owner_and_is_then_no_longer_made(
    database: Database,
) -> None:
    await load(database, parse_settings({}))
    code = await database.write(lambda c: issue_setup_code(c, ["telegram", "web"], NOW))
    assert code is not None

    assert isinstance(await database.write(lambda c: claim_owner(c, stranger(c), "WRONGONE", NOW)), Refused)
    claimed = await database.write(lambda c: claim_owner(c, stranger(c), code, NOW))
    again = await database.write(lambda c: claim_owner(c, stranger(c, "667"), code, NOW))

    assert isinstance(claimed, Approved)
    assert await slug_of(database, "666") == "owner"
    assert isinstance(again, Refused)
    assert await database.write(lambda c: issue_setup_code(c, ["telegram", "web"], NOW)) is None


async def test_a_pairing_code_does_not_make_its_holder_the_owner(database: Database) -> None:
    await load(database, parse_settings({}))
    await database.write(lambda c: issue_setup_code(c, ["telegram", "web"], NOW))
    code = await database.write(lambda c: codes.issue(c, "pair", stranger(c).id, NOW))

    assert isinstance(await database.write(lambda c: claim_owner(c, stranger(c), code or "", NOW)), Refused)
    assert await slug_of(database, "666") is None


async def test_the_owner_gets_a_code_again_for_a_platform_without_an_account_of_theirs(
    database: Database,
) -> None:
    await load(database, settings(ana=ANA))

    assert await database.write(lambda c: issue_setup_code(c, ["telegram", "web"], NOW)) is None
    assert await database.write(lambda c: issue_setup_code(c, ["telegram", "slack"], NOW)) is not None
    assert await database.write(lambda c: issue_setup_code(c, ["web", "terminal"], NOW)) is None


async def test_a_name_somebody_chose_does_not_make_them_the_person_of_the_file(database: Database) -> None:
    await load(database, settings(ana=ANA))
    code = await database.write(lambda c: codes.issue(c, "pair", stranger(c, "666", "Boss").id, NOW))
    await database.write(lambda c: identity.approve(c, code or "", NOW, typed_by=None))

    with pytest.raises(ConfigError, match=r"people\.boss"):
        await load(database, settings(ana=ANA, boss={"role": "admin", "telegram": 777}))
    await load(database, settings(ana=ANA, boss={"role": "admin", "telegram": [666, 777]}))

    assert await slug_of(database, "777") == "boss"


async def test_a_person_taken_out_of_the_file_is_denied_everywhere_and_back_with_it(
    database: Database,
) -> None:
    with_bo = settings(ana=ANA, bo={"telegram": 101})
    await load(database, with_bo)
    without = settings(ana=ANA)
    await load(database, without)

    for message in (direct("hi", user="101"), in_room("hi", user="101")):
        verdict = await database.write(lambda c, m=message: access.decide(c, m, without, NOW))  # type: ignore[misc]
        assert isinstance(verdict, access.Denied)
    await load(database, with_bo)
    assert await slug_of(database, "101") == "bo"


async def test_an_old_code_takes_no_account_from_the_person_of_the_file(database: Database) -> None:
    await load(database, settings(ana=ANA))
    code = await database.write(lambda c: codes.issue(c, "pair", stranger(c, "42").id, NOW))
    await load(database, settings(ana=ANA, carol={"telegram": 42}))

    assert isinstance(
        await database.write(lambda c: identity.approve(c, code or "", NOW, typed_by=None)), Refused
    )
    assert await slug_of(database, "42") == "carol"


async def test_where_file_and_database_disagree_is_said(database: Database) -> None:
    await load(database, settings(ana=ANA, bo={"telegram": 101}))
    file = settings(ana={**ANA, "telegram": [100, 101]})

    told = await database.read(lambda c: identity.disagreements(c, file))
    await load(database, file)
    after = await database.read(lambda c: identity.disagreements(c, file))

    gone = "bo was taken out of config.yaml and has no access; nothing was deleted."
    assert told == (gone, "telegram 101 is bo's in the database; config.yaml makes it ana's.")
    assert after == (gone,)
