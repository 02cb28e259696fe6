"""A home folder, or a part of it, that belongs to somebody else: one line, and an end."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_DROP_FROM_BOUNDS = 24
_RIGHTS_OF_ROOT = (1, 2)
"""Linux: PR_CAPBSET_DROP, and the capabilities to write and read what is others'."""


def give_up_rights() -> None:
    """Makes root as powerless over others' files as anybody else, from the next program on."""
    if os.getuid() == 0:
        for right in _RIGHTS_OF_ROOT:
            if ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDS, right, 0, 0, 0) != 0:
                raise PermissionError("root can't give up its rights here")


def belong_to_somebody_else(path: Path) -> None:
    if os.getuid() == 0:
        os.chown(path, 1234, 1234)
    path.chmod(0o555 if path.is_dir() else 0o444)


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return trunkline(home, *command, first=give_up_rights)


def trunkline(
    home: Path, *command: str, first: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trunkline.gateway", *command],
        env={"PATH": os.environ["PATH"], "TRUNKLINE_HOME": str(home), "HOME": str(home)},
        preexec_fn=first,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux" and os.getuid() == 0, reason="root may write everywhere here")
@pytest.mark.parametrize("part", ["state.db", "memories", "memories/ana", "files"])
def test_what_cannot_be_written_is_named_with_its_owner_and_us(tmp_path: Path, part: str) -> None:
    home = tmp_path / "home"
    path = home / part
    if path.suffix:
        home.mkdir()
        path.touch()
    else:
        path.mkdir(parents=True)
    belong_to_somebody_else(path)

    done = run(home, "run")

    owner = path.stat().st_uid
    path.chmod(0o755)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2
    assert f"{path}: " in done.stderr
    assert f"belongs to user {owner} and user {os.getuid()} can't write to it" in done.stderr


@pytest.mark.skipif(sys.platform != "linux" and os.getuid() == 0, reason="root may write everywhere here")
def test_a_folder_that_cannot_hold_a_home_is_named_with_its_owner_and_us(tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    belong_to_somebody_else(folder)

    done = run(folder / "home", "sessions", "list")

    owner = folder.stat().st_uid
    folder.chmod(0o755)
    assert done.returncode == 2
    assert f"{folder} belongs to user {owner} and user {os.getuid()} can't write to it" in done.stderr


@pytest.mark.parametrize("command", [("run",), ("people", "list"), ("setup", "--yes")])
def test_a_home_of_somebody_else_is_left_as_it_is_with_a_sentence(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    belong_to_somebody_else(home)

    done = run(home, *command)

    owner = home.stat().st_uid
    home.chmod(0o755)
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"belongs to user {owner}" in done.stderr
    assert list(home.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can write into a home of somebody else's")
@pytest.mark.parametrize(
    "command",
    [("people", "list"), ("memory", "show"), ("db", "backup"), ("setup", "--yes", "--owner", "Ana")],
)
def test_no_command_of_roots_leaves_a_file_of_roots_in_a_home_of_somebody_else(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    assert trunkline(home, "people", "list").returncode == 0
    for path in (tmp_path, home, *home.rglob("*")):
        os.chown(path, 1234, 1234)

    done = trunkline(home, *command)

    assert {path.stat().st_uid for path in home.rglob("*")} == {1234}
    if done.returncode != 0:
        assert "Run this command as that user." in done.stderr
