"""A home folder, or a part of it, that belongs to somebody else: one line, and an end."""

import ctypes
import os
import subprocess
import sys
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
    return subprocess.run(
        [sys.executable, "-m", "trunkline.gateway", *command],
        env={"PATH": os.environ["PATH"], "TRUNKLINE_HOME": str(home), "HOME": str(home)},
        preexec_fn=give_up_rights,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux" and os.getuid() == 0, reason="root may write everywhere here")
@pytest.mark.parametrize("part", ["", "state.db", "memories", "memories/ana", "files"])
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
