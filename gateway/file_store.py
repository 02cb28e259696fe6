"""The files people sent and get, on disk by the hash of their content: `files/<two letters>/<hash>`.

Which of them are still needed is known to the rows (`state.files`); names are never part of a path.
"""

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trunkline.agent.messages import Picture

_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One content on disk and when it was last put there, in ms since 1970."""

    sha256: str
    put_ms: int


class FileStore:
    """Calls block; callers use a thread. The folder is made when it is first needed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, content: bytes) -> str:
        """Keeps the content, whole or not at all, and returns its hash. Raises OSError."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.path(sha256)
        if path.exists():
            os.utime(path)  # so that a clean-up under way leaves it
            return sha256
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        partial = path.with_name(f".{secrets.token_hex(8)}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return sha256

    def read(self, sha256: str) -> bytes | None:
        """The content of this hash; None when it isn't kept."""
        try:
            return self.path(sha256).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, sha256: str) -> None:
        self.path(sha256).unlink(missing_ok=True)

    def put_ms(self, sha256: str) -> int | None:
        try:
            return int(self.path(sha256).stat().st_mtime * 1000)
        except FileNotFoundError:
            return None

    def kept(self) -> Iterator[KeptFile]:
        """Everything that is on disk."""
        for path in self._root.glob("??/*"):
            put_ms = self.put_ms(path.name) if _NAME.fullmatch(path.name) else None
            if put_ms is not None:
                yield KeptFile(path.name, put_ms)

    async def show(self, picture: Picture) -> bytes | None:
        """The bytes of a picture for a model."""
        return await asyncio.to_thread(self.read, picture.sha256)

    def path(self, sha256: str) -> Path:
        """Where the content of this hash is. Raises ValueError for what is no hash."""
        if not _NAME.fullmatch(sha256):
            raise ValueError("not the hash of a file")
        return self._root / sha256[:2] / sha256
