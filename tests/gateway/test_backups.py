"""Our copies of the database end; what somebody else keeps is theirs."""

import os
from pathlib import Path

from trunkline.gateway.backups import KEPT_DAYS, expire

NOW_S = 1_800_000_000.0


def copy(folder: Path, name: str, age_days: float) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(b"a copy")
    os.utime(path, (NOW_S - age_days * 86_400,) * 2)
    return path


def test_an_old_copy_of_ours_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    old = copy(tmp_path / "backups", "state-20260101-000000.db", KEPT_DAYS + 1)
    young = copy(tmp_path / "backups", "state-20260201-000000.db", KEPT_DAYS - 1)
    foreign = copy(tmp_path / "backups", "mine.db", 400)
    database = copy(tmp_path, "state.db", 400)

    assert expire(tmp_path, NOW_S) == 1

    assert not old.exists()
    assert young.exists()
    assert foreign.exists()
    assert database.exists()


def test_a_home_without_copies_is_fine(tmp_path: Path) -> None:
    assert expire(tmp_path, NOW_S) == 0
