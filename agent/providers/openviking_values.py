"""What is asked of an OpenViking server, without the vendor's SDK: the rest of it sees only this."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Note:
    """A text that is kept, and its name within the bank. `score` is of the question that found it."""

    name: str
    text: str
    score: float = 0.0


class Wire(Protocol):
    """The server's files, one bank for each call. Raises ProviderError; a bank that is not there is empty."""

    async def check(self) -> None: ...

    async def write(self, bank: str, name: str, text: str) -> None:
        """Keeps a text, in place of the one with the same name; it can be found a moment later."""
        ...

    async def find(self, bank: str, query: str, *, limit: int) -> list[Note]:
        """Texts that mean something like the question, the best first."""
        ...

    async def holding(self, bank: str, words: str) -> list[str]:
        """The names of texts with these words in one line, whatever their case."""
        ...

    async def read(self, bank: str, name: str) -> str | None: ...

    async def names(self, bank: str) -> list[str]: ...

    async def delete(self, bank: str, name: str) -> None:
        """An unknown name is no failure."""
        ...

    async def delete_bank(self, bank: str) -> None: ...

    async def aclose(self) -> None: ...
