"""`trunkline people`: what the operator sees and does, over a real home folder."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner, Result

from tests.gateway.inbound import direct
from tests.gateway.linked import SETTINGS, Town, code_in, town
from trunkline.gateway.cli import app
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.config import write_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Ana and Dan of config.yaml; Bo and Cy of the chats, who know something."""
    write_config(tmp_path, SETTINGS)

    async def fill(house: Town) -> None:
        await house.let_in("Bo", "101")
        await house.let_in("Cy", "301", "discord")
        await house.knows("bo", "Likes tea.")
        await house.knows("cy", "Has a dog.")

    use(tmp_path, fill)
    return tmp_path


def use(home: Path, work: Callable[[Town], Awaitable[None]]) -> None:
    async def opened() -> None:
        async with town(home, f"sqlite:///{home / 'state.db'}") as house:
            await work(house)

    asyncio.run(opened())


def run(home: Path, *words: str, answer: str = "") -> Result:
    environment = {"TRUNKLINE_HOME": str(home), "DATABASE_URL": "", "COLUMNS": "300"}
    return CliRunner().invoke(app, ["people", *words], env=environment, input=answer)


def failure(home: Path, *words: str) -> Failure:
    failed = run(home, *words).exception
    assert isinstance(failed, Failure), failed
    return failed


def shown(home: Path, slug: str) -> dict[str, object]:
    found = json.loads(run(home, "show", slug, "--json").stdout)
    assert isinstance(found, dict)
    return found


def test_a_person_is_shown_with_accounts_and_how_they_came(home: Path) -> None:
    bo = shown(home, "bo")

    assert (bo["role"], bo["source"], bo["joined"]) == ("member", "pairing", [])
    assert bo["accounts"] == [
        {"account": "telegram/101", "name": "Bo", "source": "pairing", "blocked": False}
    ]
    assert "telegram/101" in run(home, "show", "bo").stdout
    assert failure(home, "show", "nobody").exit_code == ExitCode.NOT_FOUND


def test_a_stranger_is_let_in_by_their_code_once_and_then_listed(home: Path) -> None:
    heard: list[str] = []

    async def knock(house: Town) -> None:
        await house.send(direct("hello", user="777", name="Eve"))
        heard.extend(await house.told("777"))

    use(home, knock)
    code = code_in(heard[-1])
    listed = {row["person"] for row in json.loads(run(home, "list", "--json").stdout)}

    assert "Eve may talk" in run(home, "approve", code).stdout

    now_listed = {row["person"]: row for row in json.loads(run(home, "list", "--json").stdout)}
    assert set(now_listed) - listed == {"eve"}
    assert now_listed["eve"]["role"] == "member"
    assert failure(home, "approve", code).exit_code == ExitCode.NOT_FOUND


def test_a_role_is_given_to_people_of_the_chats_only(home: Path) -> None:
    run(home, "role", "bo", "admin")

    assert shown(home, "bo")["role"] == "admin"
    assert "config.yaml" in str(failure(home, "role", "dan", "admin"))
    assert "no role" in str(failure(home, "role", "bo", "owner"))


def test_an_account_is_linked_whoever_had_it_but_not_from_a_person_of_the_settings(home: Path) -> None:
    assert "bo's now" in run(home, "link", "bo", "discord/301").stdout
    assert "discord/301" in json.dumps(shown(home, "bo"))
    assert shown(home, "cy")["accounts"] == []

    assert "bo's now" in run(home, "link", "bo", "slack/T1/U1").stdout
    assert "ana is set in config.yaml" in str(failure(home, "link", "bo", "telegram/100"))
    assert "telegram/123" in str(failure(home, "link", "bo", "telegram/@bo"))


def test_who_is_removed_has_no_access_and_keeps_everything_until_let_in_again(home: Path) -> None:
    run(home, "remove", "bo")
    assert shown(home, "bo")["role"] == "suspended"
    assert (home / "memories" / "bo" / "USER.md").exists()

    run(home, "role", "bo", "member")
    assert shown(home, "bo")["role"] == "member"


def test_erasing_asks_first_and_leaves_nothing(home: Path) -> None:
    assert isinstance(run(home, "remove", "bo", "--erase", answer="n\n").exception, Failure)
    assert shown(home, "bo")["role"] == "member"

    assert "deleted" in run(home, "remove", "bo", "--erase", "--yes").stdout

    assert failure(home, "show", "bo").exit_code == ExitCode.NOT_FOUND
    assert not (home / "memories" / "bo").exists()
    assert b"Likes tea" not in (home / "state.db").read_bytes()


def test_a_copy_is_written_to_a_new_file_for_its_reader_only(home: Path) -> None:
    target = home / "bo.zip"

    assert "bo.zip" in run(home, "export", "bo", str(target)).stdout

    with ZipFile(target) as archive:
        assert b"Likes tea." in archive.read("memory/USER.md")
        assert b"Has a dog" not in b"".join(archive.read(name) for name in archive.namelist())
    assert target.stat().st_mode & 0o077 == 0
    assert "there already" in str(failure(home, "export", "bo", str(target)))


def test_two_who_were_joined_are_parted_by_the_name_of_the_one(home: Path) -> None:
    async def join(house: Town) -> None:
        code = code_in(await house.type("/link", "101"))
        await house.type(f"/link {code}", "301", "discord")
        await house.type("/link yes", "101")
        await house.type("/link yes", "301", "discord")

    use(home, join)
    assert shown(home, "bo")["joined"] == ["cy"]

    assert "apart again" in run(home, "unmerge", "cy").stdout

    assert shown(home, "cy")["role"] == "member"
    assert "Has a dog." in (home / "memories" / "cy" / "USER.md").read_text()
    assert failure(home, "unmerge", "cy").exit_code == ExitCode.NOT_FOUND
