"""One process per bot token on a machine, whichever home folder it uses."""

import hashlib
import os
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout


class Held(Exception):
    """Another process holds the lock; the text says which."""


def claim(name: str, secret: str, holder: str) -> FileLock:
    """Takes the lock for a platform's token and notes that `holder` has it; the caller releases it.

    The lock dies with its process, so a reused process id means nothing. Raises Held.
    """
    folder = Path(tempfile.gettempdir()) / f"trunkline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    digest = hashlib.sha256(secret.encode()).hexdigest()[:16]
    path = folder / f"{name}-{digest}.lock"
    note = path.with_suffix(".holder")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        known = note.read_text(encoding="utf-8") if note.exists() else "another process"
        raise Held(f"{name} is already connected with this token by {known}. Stop that one first.") from error
    note.write_text(holder, encoding="utf-8")
    return lock
