"""The lock of a bot's token: one process each, whatever became of the last one."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.emulators.slack_bench import Inbox
from trunkline.adapters.base import Adapter
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.locks import Held, claim
from trunkline.gateway.platforms import FAILED, Platform, Platforms
from trunkline.gateway.state.database import Database

HOLDER = """
import sys
from trunkline.gateway.locks import claim
with claim("telegram", sys.argv[1], "the other process"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def other_process(secret: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        (sys.executable, "-c", HOLDER, secret), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_token_that_another_process_has_names_that_process() -> None:
    with other_process("secret") as process:
        with pytest.raises(Held, match="the other process"), claim("telegram", "secret", "me"):
            pass
        with claim("telegram", "another secret", "me"), claim("discord", "secret", "me"):
            pass
        process.communicate()


def test_a_process_that_was_killed_holds_nothing() -> None:
    with other_process("secret") as process:
        process.kill()

    with claim("telegram", "secret", "me"):
        pass


def test_a_note_that_names_a_living_process_holds_nothing(tmp_path: Path) -> None:
    """The number of a process that died may belong to another program by now."""
    with other_process("secret") as process:
        process.kill()
    [note] = tmp_path.rglob("*.holder")
    note.write_text(f"process {os.getppid()}", encoding="utf-8")

    with claim("telegram", "secret", "me"):
        assert note.read_text(encoding="utf-8") == "me"


def test_the_lock_ends_with_its_context_even_if_it_is_still_referred_to() -> None:
    first = claim("telegram", "secret", "the first")
    with first:
        pass

    with other_process("secret") as process:
        process.communicate()


def test_the_secret_is_in_no_file_or_file_name(tmp_path: Path) -> None:
    with claim("telegram", "a-secret-token", "me"):
        written = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert written
        assert not [path for path in written if "a-secret-token" in path.name + path.read_text()]


def test_a_folder_that_somebody_put_in_the_way_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"trunkline-{os.getuid()}").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermissionError), claim("telegram", "secret", "me"):
        pass


async def test_a_chat_that_meets_such_a_folder_says_so_and_ends(
    tmp_path: Path, sqlite_database: Database
) -> None:
    (tmp_path / f"trunkline-{os.getuid()}").symlink_to(tmp_path)
    told: list[str] = []
    platforms = Platforms(sqlite_database, Delivery(sqlite_database), Inbox().deliver, "me", told.append)

    ended = await platforms.run([Platform("terminal", no_adapter, lock_secret="ana/main", thread="main")])

    assert ended == FAILED
    assert [sentence.partition(";")[2] for sentence in told] == [" take it away or set TMPDIR"]


def no_adapter() -> Adapter:
    raise AssertionError("there is no lock for it")
