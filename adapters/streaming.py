"""The platforms' own ways to show an answer while it is written, for adapters that have one.

Whether and when one is used is the house's business, which goes on by edits where a call is refused.
"""

from typing import Protocol, runtime_checkable

from trunkline.adapters.base import ChatRef, Chunk, Receipt, Rejected


class StoppedByReader(Rejected):
    """Who reads the answer has stopped it by a button of the platform's own."""


@runtime_checkable
class ShowsDrafts(Protocol):
    """An adapter of a platform where words can be shown for a while before they are a message.

    A draft has no id and no buttons, and whatever is sent next takes its place.
    """

    @property
    def draft_fades_s(self) -> float:
        """How long a draft stands unless it is shown again."""
        ...

    def shows_drafts(self, to: ChatRef) -> bool:
        """Whether that is wanted, and possible there as far as anybody knows yet."""
        ...

    async def show_draft(self, to: ChatRef, draft_id: int, chunk: Chunk) -> None:
        """Shows it in place of the draft of the same id, 1 to 2**31 - 1. Raises AdapterError."""
        ...


@runtime_checkable
class Streams(Protocol):
    """An adapter of a platform that has messages to which words are added. `edit` and `delete` end such a one
    first, whoever began it."""

    def streams_in(self, to: ChatRef) -> bool:
        """Whether that is wanted, and possible there as far as anybody knows yet."""
        ...

    async def begin_stream(self, to: ChatRef, reader: str, realm: str) -> Receipt:
        """Posts one without words. `reader` is the user, of that `realm`, whom the answer is for; empty in
        direct chats. Raises AdapterError."""
        ...

    async def add_to_stream(self, to: ChatRef, message_id: str, markdown: str, shown_chars: int) -> None:
        """Adds what follows the first `shown_chars` characters, which stand there; nobody is called by it.

        Raises AdapterError: Rejected when it takes no more, StoppedByReader when a person ended it.
        """
        ...
