"""Who may talk: denied by default, decided from ids alone."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection, func, select

from tests.gateway.inbound import direct, in_room
from trunkline.adapters.base import InboundKind, InboundMessage, ReplyTo, Sender
from trunkline.gateway import access, identity
from trunkline.gateway.roles import role_of
from trunkline.gateway.settings import FileSettings, parse_settings
from trunkline.gateway.state import people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.schema import account, room_member

NOW = 1_800_000_000_000
SETTINGS = parse_settings(
    {
        "people": {"ana": {"role": "owner", "telegram": 100, "discord": 200}, "bo": {"telegram": 101}},
        "rooms": {"telegram/-900": {}, "telegram/-901": {"free": True}},
    }
)


async def decide(
    database: Database, message: InboundMessage, settings: FileSettings = SETTINGS
) -> access.Verdict:
    def work(connection: Connection) -> access.Verdict:
        identity.assert_config(connection, settings, NOW)
        return access.decide(connection, message, settings, NOW)

    return await database.write(work)


async def test_a_person_of_the_config_is_known_on_each_of_their_platforms(database: Database) -> None:
    for platform, user in (("telegram", "100"), ("discord", "200")):
        verdict = await decide(database, direct("hi", user=user, platform=platform))

        assert isinstance(verdict, access.Admitted)
        assert verdict.account.person is not None
        assert verdict.account.person.slug == "ana"


async def test_a_stranger_is_no_one(database: Database) -> None:
    assert isinstance(await decide(database, direct("hi", user="666")), access.Stranger)


async def test_the_name_and_id_of_a_friend_on_another_platform_open_nothing(database: Database) -> None:
    copied = replace(direct("hi", platform="slack"), sender=Sender("100", "Ana"), realm="T1")

    assert isinstance(await decide(database, copied), access.Stranger)


@pytest.mark.parametrize("name", ["Ana", "Аna", "Ana\u200b", "100", "telegram/100"])
async def test_a_stranger_who_is_called_like_the_owner_is_a_stranger_and_a_guest_in_rooms(
    name: str, database: Database
) -> None:
    copied = replace(direct("hi"), sender=Sender("666", name))
    assert isinstance(await decide(database, copied), access.Stranger)

    inside = await decide(database, replace(in_room("hi"), sender=Sender("666", name)))
    assert isinstance(inside, access.Admitted)
    assert inside.account.person is None
    assert role_of(inside.account) == "guest"


async def test_the_same_user_id_in_another_team_is_somebody_else(database: Database) -> None:
    settings = parse_settings({"people": {"ana": {"role": "owner", "slack": "T1/U1"}}})
    mine = replace(direct("hi", user="U1", platform="slack"), realm="T1")
    theirs = replace(mine, realm="T2")

    assert isinstance(await decide(database, mine, settings), access.Admitted)
    assert isinstance(await decide(database, theirs, settings), access.Stranger)


async def test_unknown_people_are_ignored_where_the_operator_says_so(database: Database) -> None:
    settings = parse_settings({"access": {"unknown": "ignore"}})

    assert isinstance(await decide(database, direct("hi"), settings), access.Denied)


async def test_an_open_house_makes_a_guest(database: Database) -> None:
    settings = parse_settings({"access": {"unknown": "open", "guest_daily_tokens": 1000}})

    verdict = await decide(database, direct("hi", user="7", name="Łucja"), settings)

    assert isinstance(verdict, access.Admitted)
    assert verdict.account.person is not None
    assert (verdict.account.person.role, verdict.account.person.name) == ("guest", "Łucja")


async def test_bots_and_senders_that_are_no_person_are_not_answered(database: Database) -> None:
    bot = replace(direct("hi"), sender=Sender("100", "Ana", is_bot=True))
    channel = replace(in_room("hi"), sender=Sender("-900", "The house", is_person=False))

    assert isinstance(await decide(database, bot), access.Denied)
    assert isinstance(await decide(database, channel), access.Denied)


async def test_a_person_taken_out_of_the_config_is_suspended(database: Database) -> None:
    await decide(database, direct("hi", user="101"))
    without_bo = parse_settings({"people": {"ana": {"role": "owner", "telegram": 100}}})

    verdict = await decide(database, direct("hi", user="101"), without_bo)

    assert isinstance(verdict, access.Stranger | access.Denied)
    bo = await database.read(lambda c: people.find_person(c, "bo"))
    assert bo is not None
    assert bo.suspended


async def test_an_allowed_room_answers_when_addressed_and_only_then(database: Database) -> None:
    addressed = await decide(database, in_room("hi", user="555"))
    aside = await decide(database, in_room("hi", user="555", mention=False))

    assert isinstance(addressed, access.Admitted)
    assert addressed.addressed
    assert isinstance(aside, access.Admitted)
    assert not aside.addressed


async def test_a_free_room_answers_everything(database: Database) -> None:
    verdict = await decide(database, in_room("hi", room="-901", mention=False))

    assert isinstance(verdict, access.Admitted)
    assert verdict.addressed


async def test_a_room_nobody_allowed_is_closed_and_its_members_leave_no_row(database: Database) -> None:
    verdict = await decide(database, in_room("hi", user="777", room="-999"))

    assert isinstance(verdict, access.ClosedRoom)
    assert verdict.account is None
    query = select(func.count()).select_from(account).where(account.c.user_id == "777")
    assert await database.read(lambda c: c.execute(query).scalar()) == 0


async def test_membership_in_an_allowed_room_gives_no_direct_chat(database: Database) -> None:
    await decide(database, in_room("hi", user="555"))

    assert isinstance(await decide(database, direct("hi", user="555")), access.Stranger)


async def test_who_wrote_in_a_room_took_part_in_it(database: Database) -> None:
    await decide(database, in_room("hi", user="555", mention=False))

    query = select(func.count()).select_from(room_member)
    assert await database.read(lambda c: c.execute(query).scalar()) == 1


@pytest.mark.parametrize("platform", ["web", "terminal"])
async def test_this_machines_own_platforms_know_people_by_their_slug(
    database: Database, platform: str
) -> None:
    known = replace(direct("hi", user="ana", platform=platform), tenant="local")
    unknown = replace(direct("hi", user="mallory", platform=platform), tenant="local")

    assert isinstance(await decide(database, known), access.Admitted)
    assert isinstance(await decide(database, unknown), access.Denied)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("discord", "", "12"), ("discord", "", "1-2")),
        (("slack", "T1", "C1"), ("slack", "T", "1C1")),
        (("slack", "T1", "C1"), ("slack", "", "T1-C1")),
        (("telegram", "", "-100"), ("telegram", "", "100")),
        (("telegram", "", "../../x"), ("telegram", "", "____x")),
    ],
)
def test_different_rooms_have_different_folder_safe_slugs(
    first: tuple[str, str, str], second: tuple[str, str, str]
) -> None:
    one, other = people.room_slug(*first), people.room_slug(*second)

    assert one != other
    assert all(char.isalnum() or char in "-_" for char in one + other)


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "", "安娜", "Ana O'Neil-Łuczak 🌿", "x" * 300, "rooms", "7"]
)
def test_any_name_gives_a_safe_slug_of_its_own(name: str) -> None:
    slug = people.slugify(name, {"ana", "person"})

    assert slug.isascii()
    assert slug[0].isalpha()
    assert len(slug) <= 32
    assert all(char.isalnum() or char == "-" for char in slug)
    assert slug not in {"rooms", "ana", "person"}


ALERTS = Sender("555", "Alerts", is_bot=True, is_person=False)


async def test_a_bot_that_the_operator_names_may_speak_in_that_room_and_nowhere_else(
    database: Database,
) -> None:
    """DC-07.3; SL-08: what an answer to us looks like counts for nothing."""
    rooms = {"telegram/-900": {"bots": 555}, "telegram/-901": {"free": True, "bots": [556, "B0AB12"]}}
    settings = parse_settings({"people": {"ana": {"role": "owner", "telegram": 100}}, "rooms": rooms})
    said = replace(in_room("disk full"), sender=ALERTS)

    admitted = await decide(database, said, settings)
    assert isinstance(admitted, access.Admitted)
    assert admitted.addressed
    assert role_of(admitted.account) == "guest"
    for change in ({"kind": InboundKind.COMMAND, "command": "stop"}, {"kind": InboundKind.EDIT}):
        assert isinstance(await decide(database, replace(said, **change), settings), access.Denied)
    for elsewhere in (replace(said, chat="-901"), replace(direct("disk full"), sender=ALERTS)):
        assert isinstance(await decide(database, elsewhere, settings), access.Denied)

    reply = replace(said, mentions_me=False, reply_to=ReplyTo("1", "bot", is_own=True))
    replied = await decide(database, reply, settings)
    assert isinstance(replied, access.Admitted)
    assert not replied.addressed
    slack = replace(said, chat="-901", sender=replace(ALERTS, id="B0AB12"), mentions_me=False)
    assert isinstance(await decide(database, slack, settings), access.Admitted)

    def members(connection: Connection) -> int:
        return connection.execute(select(func.count()).select_from(room_member)).scalar_one()

    assert await database.read(members) == 0
