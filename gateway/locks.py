"""One process per bot token on a machine, whichever home folder it uses."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOOK_AGAIN_S = 0.2


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


async def claim_home(held: ExitStack, home: str, wait_s: float, tell: Callable[[str], None]) -> None:
    """Holds a home folder (its resolved path) for this process while `held` lasts.

    One that is just ending is waited for, so that a start beside a stop comes up. Raises Held when the
    other process is still there after `wait_s`, and PermissionError.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    told = False
    while True:
        try:
            held.enter_context(claim("home", home, f"process {os.getpid()}"))
        except Held:
            if not told:
                tell(
                    f"Trunkline is already running with {home}. Stop that one first: "
                    f"this start waits {wait_s:.0f} seconds for it to end."
                )
            told = True
            if loop.time() > until_s:
                tell("It is still running, so this start gives up.")
                raise
            await asyncio.sleep(LOOK_AGAIN_S)
        else:
            return


def _folder() -> Path:
    """A folder of this user's own. Raises PermissionError when somebody else has made it."""
    folder = Path(tempfile.gettempdir()) / f"trunkline-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; take it away or set TMPDIR")
    return folder
