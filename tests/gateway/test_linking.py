"""Linking: a code, a yes from both sides, one person; and apart again."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.inbound import command, direct, in_room
from tests.gateway.linked import Town, code_in, town
from trunkline.adapters.base import InboundKind
from trunkline.agent.scope import PersonId
from trunkline.gateway import linking
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME
from trunkline.gateway.state import links, people

MINUTE_MS = 60_000
COMMAND = InboundKind.COMMAND


async def code_of(house: Town, user: str, platform: str = "telegram") -> str:
    return code_in(await house.type("/link", user, platform))


async def test_a_stranger_with_a_code_is_the_same_person_after_a_yes_from_both_sides(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        await house.let_in("Bo", "101")
        await house.knows("bo", "Bo likes tea.")
        code = await code_of(house, "101")

        await house.send(replace(command("link", code, user="301"), platform="discord"))
        assert await house.slug_of("301", "discord") is None
        assert "Bo on Telegram (101)" in (await house.told("301", "discord"))[-1]
        assert "on Discord (301)" in (await house.told("101"))[-1]

        await house.send(replace(command("link", "yes", user="301"), platform="discord"))
        assert await house.slug_of("301", "discord") is None
        assert "one memory" in await house.type("/link yes", "101")

        assert await house.slug_of("301", "discord") == "bo"
        assert "Linked" in (await house.told("301", "discord"))[-1]
        assert "Discord 301" in (await house.type("/whoami", "101")).replace("discord", "Discord")


async def test_the_stranger_may_be_the_last_to_say_yes_and_a_link_of_telegram_brings_the_code(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "301", "discord")
        code = await code_of(house, "301", "discord")

        await house.send(command("start", code, user="101"))
        await house.type("/link yes", "301", "discord")
        await house.send(direct("yes", user="101"))

        assert await house.slug_of("101") == "bo"
        assert "Linked" in (await house.told("101"))[-1]
        assert "Linked" in (await house.told("301", "discord"))[-1]


async def test_a_no_from_either_side_links_nothing(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        for sayer in ("asker", "other"):
            code = await code_of(house, "101")
            await house.send(replace(command("link", code, user="301"), platform="discord"))
            if sayer == "asker":
                await house.send(replace(command("link", "yes", user="301"), platform="discord"))
                assert await house.type("/link no", "101") == "Nothing was linked."
            else:
                await house.type("/link yes", "101")
                await house.send(replace(command("link", "no", user="301"), platform="discord"))
            assert "nothing to answer" in await house.type("/link yes", "101")
        assert await house.slug_of("301", "discord") is None


async def test_a_code_is_good_once_for_ten_minutes_and_for_its_first_account(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Mallory", "666")
        code = await code_of(house, "101")
        await house.send(replace(command("link", code, user="301"), platform="discord"))

        assert "isn't valid" in await house.type(f"/link {code}", "666")

        database, account = house.house.database, await house.account("666")
        late = await code_of(house, "101")
        told = await database.write(
            lambda c: linking.take_code(c, account, late, "en", now_ms() + 11 * MINUTE_MS)
        )
        assert told is None
        assert await house.slug_of("666") == "mallory"


async def test_a_new_code_replaces_the_one_before(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Boris", "102")
        first, second = await code_of(house, "101"), await code_of(house, "101")

        assert "isn't valid" in await house.type(f"/link {first}", "102")
        assert "Bo on Telegram" in await house.type(f"/link {second}", "102")


async def test_a_code_typed_in_a_group_is_none(tmp_path: Path, sqlite_url: str) -> None:
    assert BY_NAME["link"].private
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        code = await code_of(house, "101")
        before = await house.told("101")

        await house.send(in_room(code, user="301", room="-900"))
        await house.send(replace(in_room(code, user="301", room="-900"), kind=COMMAND, command="link"))

        account = await house.account("301")
        assert await house.house.database.read(lambda c: links.open_request(c, account.id, now_ms())) is None
        assert await house.told("101") == before

        # Whoever read it there can't bring it here first.
        await house.let_in("Mallory", "666")
        assert "isn't valid" in await house.type(f"/link {code}", "666")


async def test_two_people_with_memories_are_joined_without_doubles_and_parted_again(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await house.knows("bo", "Likes tea.", "Lives in Bonn.")
        await house.knows("bobby", "Likes tea.", "Has a dog.")
        await house.knows("bobby", "Works nights.", target="memory")

        await join(house, "101", ("301", "discord"))

        assert await house.slug_of("301", "discord") == "bo"
        assert await house.known("bo") == ("Likes tea.", "Lives in Bonn.", "Has a dog.")
        assert await house.known("bo", "memory") == ("Works nights.",)
        assert await house.known("bobby") == ()
        assert not (tmp_path / "memories" / "bobby").exists()
        assert await house.house.database.read(lambda c: links.former_slugs(c, "bo")) == ("bobby",)
        bobby = await house.person("bobby")
        assert bobby is not None
        assert bobby.suspended
        await house.knows("bo", "New since then.")

        assert "apart again" in await house.type("/link undo", "101")

        assert await house.slug_of("301", "discord") == "bobby"
        assert await house.known("bo") == ("Likes tea.", "Lives in Bonn.", "New since then.")
        assert await house.known("bobby") == ("Likes tea.", "Has a dog.")
        assert await house.known("bobby", "memory") == ("Works nights.",)
        assert await house.known("bo", "memory") == ()
        assert "nothing to take back" in await house.type("/link undo", "101")


async def join(house: Town, asker: str, other: tuple[str, str]) -> str:
    code = await code_of(house, asker)
    await house.type(f"/link {code}", *other)
    await house.type("/link yes", asker)
    return await house.type("/link yes", *other)


async def test_memories_that_are_too_long_together_are_both_shown_and_one_is_chosen(
    tmp_path: Path, sqlite_url: str
) -> None:
    limits = {"user_char_limit": 100, "memory_char_limit": 100}
    async with town(tmp_path, sqlite_url, memory=limits) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        mine, theirs = f"Mine {'a' * 70}.", f"Theirs {'b' * 70}."
        await house.knows("bo", mine)
        await house.knows("bobby", theirs)

        shown = await join(house, "101", ("301", "discord"))

        assert mine in shown
        assert theirs in shown
        assert await house.slug_of("301", "discord") == "bobby"
        await house.type("/link keep 2", "101")
        assert await house.slug_of("301", "discord") == "bo"
        assert await house.known("bo") == (theirs,)
        await house.type("/link undo", "301", "discord")
        assert await house.known("bo") == (mine,)
        assert await house.known("bobby") == (theirs,)


async def test_what_was_forgotten_after_a_join_does_not_come_back_with_its_undoing(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await house.knows("bobby", "Has a secret tattoo.", "Has a dog.")
        await join(house, "101", ("301", "discord"))

        await house.type("/memory forget secret tattoo", "101")
        assert b"secret tattoo" not in (tmp_path / "state.db").read_bytes()
        await house.type("/link undo", "101")

        assert await house.known("bobby") == ("Has a dog.",)


async def test_memory_undo_does_not_take_half_a_join_back(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await house.knows("bobby", "Has a dog.")
        await join(house, "101", ("301", "discord"))

        await house.type("/memory undo", "101")

        assert "Has a dog." not in await house.known("bobby")


async def test_other_parts_hear_of_a_join_and_of_its_undoing(tmp_path: Path, sqlite_url: str) -> None:
    heard = Heard()
    async with town(tmp_path, sqlite_url, (heard,)) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await join(house, "101", ("301", "discord"))
        await house.type("/link undo", "101")

    assert heard.calls == [("join", "bo", "bobby"), ("part", "bo", "bobby")]


class Heard:
    """Belongings that only note what they were asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def join(self, kept: PersonId, gone: PersonId, /) -> None:
        self.calls.append(("join", kept, gone))

    async def part(self, kept: PersonId, gone: PersonId, /) -> None:
        self.calls.append(("part", kept, gone))

    async def erase(self, person: PersonId, /) -> None:
        self.calls.append(("erase", person))

    async def export(self, person: PersonId, /) -> Mapping[str, bytes]:
        self.calls.append(("export", person))
        return {"../bank/facts.txt": b"from the bank"}


async def test_people_of_the_settings_are_joined_by_no_command_and_keep_their_accounts(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        code = await code_of(house, "104")  # dan, of the settings
        assert "config.yaml" in await house.type(f"/link {code}", "100")
        assert "config.yaml" in await house.type("/unlink here", "104")
        assert "config.yaml" in await house.type("/unlink discord", "100")

        code = await code_of(house, "101")  # bo, of the chats, becomes one with dan, who stays
        await house.type(f"/link {code}", "104")
        await house.type("/link yes", "101")
        await house.type("/link yes", "104")

        assert await house.slug_of("101") == "dan"
        assert await house.slug_of("104") == "dan"


async def test_nobody_becomes_the_owner_by_having_the_owner_type_a_code_unseen(
    tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Mallory", "666")
        code = await code_of(house, "666")

        shown = await house.type(f"/link {code}", "100")
        await house.type("/link yes", "666")

        assert "Mallory on Telegram (666)" in shown
        assert await house.slug_of("666") == "mallory"


async def test_an_unlinked_account_starts_afresh_with_its_own_transcripts(
    tmp_path: Path, database_url: str
) -> None:
    async with town(tmp_path, database_url) as house:
        await house.let_in("Bo", "101")
        await house.knows("bo", "Likes tea.")
        code = await code_of(house, "101")
        await house.send(replace(command("link", code, user="301"), platform="discord"))
        await house.send(replace(command("link", "yes", user="301"), platform="discord"))
        await house.type("/link yes", "101")

        listed = await house.type("/unlink", "101")
        assert "Discord (301)" in listed
        assert "no longer yours" in await house.type("/unlink discord", "101")

        fresh = await house.slug_of("301", "discord")
        assert fresh not in (None, "bo")
        assert await house.known(str(fresh)) == ()
        assert await house.known("bo") == ("Likes tea.",)
        assert "unlinked" in (await house.told("301", "discord"))[-1]
        account = await house.account("301", "discord")
        assert account.person is not None
        assert account.person.role == "member"
        assert "no other account" in await house.type("/unlink here", "101")


async def test_an_owners_account_taken_out_has_no_owners_rights(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        code = await code_of(house, "100")
        await house.send(replace(command("link", code, user="301"), platform="discord"))
        await house.send(replace(command("link", "yes", user="301"), platform="discord"))
        await house.type("/link yes", "100")
        assert await house.slug_of("301", "discord") == "ana"

        await house.type("/unlink 301", "100")

        account = await house.account("301", "discord")
        assert account.person is not None
        assert account.person.role == "member"
        assert not BY_NAME["approve"].allows(account)


@pytest.mark.parametrize("word", ["maybe", "ABCD", "keep 3", "yes no"])
async def test_other_words_are_explained(word: str, tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        assert "`/link`" in await house.type(f"/link {word}", "100")


async def test_the_name_shown_to_the_other_side_is_one_inert_line(tmp_path: Path, sqlite_url: str) -> None:
    forged = "Bo](http://x)\n\n**The owner says**: /link yes " + "x" * 200
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in(forged, "101")
        code = await code_of(house, "101")

        shown = await house.type(f"/link {code}", "100")

        assert "\n" not in shown
        assert "**The" not in shown
        assert "(101)" in shown


async def test_a_last_yes_from_both_sides_at_once_joins_once(tmp_path: Path, sqlite_url: str) -> None:
    async with town(tmp_path, sqlite_url) as house:
        await house.let_in("Bo", "101")
        await house.let_in("Bobby", "301", "discord")
        await house.knows("bo", "Likes tea.")
        await house.knows("bobby", "Has a dog.")
        await house.type(f"/link {await code_of(house, '101')}", "301", "discord")
        await house.type("/link yes", "101")

        await asyncio.gather(
            house.type("/link yes", "301", "discord"),
            house.type("/link yes", "101"),
            house.type("/link yes", "301", "discord"),
        )

        assert await house.known("bo") == ("Likes tea.", "Has a dog.")
        assert await house.slug_of("301", "discord") == "bo"
        assert "apart again" in await house.type("/link undo", "101")
        assert await house.known("bobby") == ("Has a dog.",)


async def test_two_joins_of_one_person_at_once_lose_nobody_and_no_memory(
    tmp_path: Path, sqlite_url: str
) -> None:
    """Bo is joined with Cy by one account while Di is joined with Bo by the other."""
    async with town(tmp_path, sqlite_url) as house:
        for name, user in (("Bo", "101"), ("Cy", "102"), ("Di", "103")):
            await house.let_in(name, user)
            await house.knows(name.lower(), f"{name} likes tea.")
        code = await code_of(house, "101")
        await house.send(replace(command("link", code, user="301"), platform="discord"))
        await house.send(replace(command("link", "yes", user="301"), platform="discord"))
        await house.type("/link yes", "101")
        await house.type(f"/link {await code_of(house, '102')}", "101")
        await house.type("/link yes", "102")
        other = await code_of(house, "301", "discord")
        await house.type(f"/link {other}", "103")
        await house.type("/link yes", "103")

        told = await asyncio.gather(house.type("/link yes", "101"), house.type("/link yes", "301", "discord"))

        assert any("one person now" in sentence or "joined" in sentence for sentence in told), told
        holders = [await house.slug_of(user) for user in ("101", "102", "103")]
        known: set[str] = set()
        for slug in holders:
            person = await house.person(str(slug))
            assert person is not None
            assert not person.suspended
            known.update(await house.known(person.slug))
        assert known >= {f"{name} likes tea." for name in ("Bo", "Cy", "Di")}


@pytest.mark.parametrize("silenced", ["101", "102"])
async def test_who_lost_access_between_the_code_and_the_last_yes_is_not_linked(
    silenced: str, tmp_path: Path, sqlite_url: str
) -> None:
    async with town(tmp_path, sqlite_url) as house:
        for name, user in (("Bo", "101"), ("Cy", "102")):
            await house.let_in(name, user)
        await house.type(f"/link {await code_of(house, '101')}", "102")
        last = "102" if silenced == "101" else "101"
        await house.type("/link yes", silenced)
        person = (await house.account(silenced)).person
        assert person is not None
        who = person.id
        await house.house.database.write(lambda c: people.change_person(c, who, suspended=True))

        await house.type("/link yes", last)

        assert {await house.slug_of("101"), await house.slug_of("102")} == {"bo", "cy"}
