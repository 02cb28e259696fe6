"""What is asked of Supermemory's API, without the vendor's SDK: its tools and the provider see only this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Found:
    """A memory, or a passage of a document. `document` is the id of where it is from, empty if unknown."""

    id: str
    text: str
    score: float = 0.0
    is_memory: bool = True
    document: str = ""


class Wire(Protocol):
    """The vendor's API, one namespace for each call. Raises ProviderError."""

    async def check(self) -> None: ...

    async def add(
        self,
        bank: str,
        document: str,
        content: str,
        *,
        context: str = "",
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Keeps a document; the same one again changes nothing."""
        ...

    async def search(
        self, bank: str, query: str, *, limit: int, mode: Literal["hybrid", "memories", "chunks"]
    ) -> list[Found]: ...

    async def profile(self, bank: str) -> tuple[list[Found], list[Found]]:
        """Facts that last, and what is going on now."""
        ...

    async def find_to_forget(self, bank: str, query: str) -> list[Found]:
        """The memories that a request to forget this would mean; nothing is forgotten."""
        ...

    async def forget_memories(self, bank: str, ids: Sequence[str]) -> int: ...

    async def delete_documents(self, bank: str, ids: Sequence[str]) -> int:
        """Deletes documents with what was drawn from them; unknown ids count for nothing."""
        ...

    async def delete_namespace(self, bank: str) -> int:
        """Deletes everything in it, for good; returns how much there was."""
        ...

    async def count_documents(self, bank: str) -> int: ...

    async def aclose(self) -> None: ...
