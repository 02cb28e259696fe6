"""One process per bot token on a machine, whichever home folder it uses."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class Held(Exception):
    """Another process holds the lock; the text says which."""


@contextmanager
def claim(name: str, secret: str, holder: str) -> Iterator[None]:
    """Holds the lock for a platform's token, and says that `holder` does, while the context lasts.

    The lock dies with its process, so a reused process id means nothing. Raises Held.
    """
    digest = hashlib.sha256(secret.encode()).hexdigest()[:16]
    path = _folder() / f"{name}-{digest}.lock"
    note = path.with_suffix(".holder")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        known = note.read_text(encoding="utf-8") if note.exists() else "another process"
        raise Held(
            f"{name} is already connected by {known or 'another process'}. Stop that one first."
        ) from error
    try:
        note.write_text(holder, encoding="utf-8")
        yield
    finally:
        lock.release()


def _folder() -> Path:
    """A folder of this user's own. Raises PermissionError when somebody else has made it."""
    folder = Path(tempfile.gettempdir()) / f"trunkline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; take it away or set TMPDIR")
    return folder
