"""What is asked of Mem0, hosted or in this process: its tools and the provider see only this."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Role = Literal["user", "assistant"]
KEY = "trunkline_key"
"""The name in a memory's metadata of what it was made from: our name for an entry or a turn."""

INSTRUCTIONS = """\
Keep what will help an assistant in later conversations with this person: lasting facts about them, \
preferences and dislikes, routines, people, places and tools in their life, projects that go on, and \
whatever they ask to have remembered. Do not keep: errands, passing wishes, small talk, what the assistant \
said, did or proposed, or details of how something was carried out. One plain statement for each fact, with \
names, dates and numbers as they were said. When in doubt, keep less."""


@dataclass(frozen=True, slots=True)
class Memory:
    id: str
    text: str
    score: float = 0.0


class Wire(Protocol):
    """One user's memories for each call: `bank` is the user. Raises ProviderError."""

    async def check(self) -> None: ...

    async def add(
        self,
        bank: str,
        key: str,
        said: Sequence[tuple[Role, str]],
        *,
        as_it_is: bool,
        date: datetime | None = None,
    ) -> None:
        """Keeps a text word for word, or what is worth keeping of it; returns when that can be found."""
        ...

    async def search(self, bank: str, query: str, limit: int) -> list[Memory]: ...

    async def with_key(self, bank: str, key: str) -> list[Memory]: ...

    async def get(self, bank: str, memory: str) -> Memory | None:
        """None where this user has no such memory, whoever else has."""
        ...

    async def update(self, memory: str, text: str) -> None: ...

    async def delete(self, memory: str) -> bool:
        """Whether there was such a one."""
        ...

    async def delete_all(self, bank: str) -> None: ...

    async def count(self, bank: str) -> int | None:
        """None where another process has the store."""
        ...

    async def aclose(self) -> None: ...
