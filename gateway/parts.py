"""Where in a question that came as several messages each of them stands, so that a change of one finds it.

It is kept with the question and holds for as long as that reads as it did then.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Row, update

from trunkline.adapters.base import InboundMessage
from trunkline.gateway import bursts
from trunkline.gateway.state.schema import message as message_table


@dataclass(frozen=True, slots=True)
class Part:
    """One message of the platform, and its place in the question's text: `text[start:end]`."""

    message_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question's text and the messages in it, in order; none where nobody knows any more which is whose."""

    text: str
    parts: tuple[Part, ...] = ()

    def has(self, message_id: str) -> bool:
        return any(part.message_id == message_id for part in self.parts)

    def said(self, message_id: str) -> str:
        """What one of its messages says."""
        return "".join(
            self.text[part.start : part.end] for part in self.parts if part.message_id == message_id
        )

    def changed(self, message_id: str, text: str) -> "Question":
        """With another text for one of its messages; as it is where it has no such one."""
        at = next((n for n, part in enumerate(self.parts) if part.message_id == message_id), None)
        if at is None:
            return self
        old = self.parts[at]
        by = len(text) - (old.end - old.start)
        later = (Part(one.message_id, one.start + by, one.end + by) for one in self.parts[at + 1 :])
        parts = (*self.parts[:at], Part(message_id, old.start, old.end + by), *later)
        return Question(self.text[: old.start] + text + self.text[old.end :], parts)

    def longer(self, message_id: str | None, text: str) -> "Question":
        """With one more message at its end."""
        before = f"{self.text}\n\n" if self.text and text else self.text
        part = Part(message_id or "", len(before), len(before) + len(text))
        known = bool(self.parts) or not self.text
        return Question(before + text, (*self.parts, part) if known else ())

    def without(self, message_id: str) -> "Question":
        """Without one of its messages, which it must have, and without the gap that this leaves."""
        pieces = [(part, self.text[part.start : part.end]) for part in self.parts]
        shorter = Question("")
        for part, said in pieces:
            if part.message_id != message_id:
                shorter = shorter.longer(part.message_id, said)
        return shorter

    def dump(self) -> str | None:
        """As it is kept beside the text; None where that tells nothing."""
        if len(self.parts) < 2:
            return None
        return json.dumps(
            [_mark(self.text), *((part.message_id, part.start, part.end) for part in self.parts)]
        )


def joined(inbound: Sequence[InboundMessage], texts: Sequence[str], mask: Callable[[str], str]) -> Question:
    """The messages as one question, without secrets; one that was cut in two parts makes it one piece."""
    whole, masked = mask(bursts.join(inbound, texts)), [mask(text) for text in texts]
    if bursts.join(inbound, masked) != whole:
        return Question(whole)
    places = bursts.places(inbound, masked)
    ids = [message.message_id or "" for message in inbound]
    return Question(
        whole, tuple(Part(one, start, end) for one, (start, end) in zip(ids, places, strict=True))
    )


def of_row(row: Row[Any]) -> Question:
    """The question that a stored message is."""
    return of_stored(row.content, json.loads(row.platform_ids or "[]"), row.parts)


def of_stored(text: str, ids: Sequence[str], kept: str | None) -> Question:
    if len(ids) == 1:
        return Question(text, (Part(ids[0], 0, len(text)),))
    stored: list[Any] = json.loads(kept) if kept else [None]
    known = stored[1:] if stored[0] == _mark(text) else []
    return Question(text, tuple(Part(*part) for part in known))


def keep(connection: Connection, message: int, question: Question) -> None:
    """Keeps the parts of a question with the stored message that it is."""
    kept = question.dump()
    if kept is not None:
        connection.execute(update(message_table).where(message_table.c.id == message).values(parts=kept))


def _mark(text: str) -> int:
    return crc32(text.encode(errors="replace"))
