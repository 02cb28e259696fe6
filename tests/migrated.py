"""A SQLite file that is migrated and empty: written anew for each test, which is quicker than migrating."""

import tempfile
from functools import cache
from pathlib import Path

from trunkline.gateway.state.database import Database
from trunkline.gateway.state.migrate import migrate_now


def put_migrated(file: Path) -> None:
    content = _content()
    file.touch(0o600)  # as the program makes it, for its owner only
    file.write_bytes(content)


@cache
def _content() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        with Database.sqlite(file) as opened:
            migrate_now(opened)
        return file.read_bytes()
