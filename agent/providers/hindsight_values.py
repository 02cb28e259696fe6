"""What is asked of Hindsight's API, without the vendor's SDK: its tools and the provider see only this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Budget = Literal["low", "mid", "high"]


@dataclass(frozen=True, slots=True)
class Found:
    """A fact, or an observation that the server made of several. `document` is empty for an observation.

    `sources` are the ids of an observation's facts, where they were asked for.
    """

    id: str
    text: str
    score: float = 0.0
    document: str = ""
    sources: tuple[str, ...] = ()


class Wire(Protocol):
    """The vendor's API, one bank for each call. Raises ProviderError; a bank that is not there is empty."""

    async def check(self) -> None: ...

    async def retain(
        self,
        bank: str,
        document: str,
        content: str,
        *,
        mission: str,
        context: str = "",
        date: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Hands over a document, in place of the one with the same id; facts are drawn from it later."""
        ...

    async def recall(self, bank: str, query: str, *, budget: Budget, max_tokens: int) -> list[Found]: ...

    async def reflect(self, bank: str, query: str, *, budget: Budget) -> str:
        """An answer in words, made of what the bank holds."""
        ...

    async def documents_with(self, bank: str, text: str) -> dict[str, str]:
        """The documents that hold this text, whatever its case: their own texts by id."""
        ...

    async def observations_with(self, bank: str, text: str) -> list[Found]: ...

    async def clear_observations(self, bank: str, fact: str) -> None:
        """Deletes the observations made of a fact; the server makes new ones of what is left."""
        ...

    async def being_drawn_from(self, bank: str) -> frozenset[str]:
        """The documents that were handed over and not worked on yet; an empty name for unknown ones."""
        ...

    async def delete_documents(self, bank: str, ids: Sequence[str]) -> int:
        """Deletes documents with the facts drawn from them; unknown ids count for nothing."""
        ...

    async def delete_bank(self, bank: str) -> None: ...

    async def count_documents(self, bank: str) -> int: ...

    async def aclose(self) -> None: ...
