"""What a transcript, a model and a person are told of the files that came with messages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trunkline.adapters.base import Attachment, AttachmentKind, InboundMessage
from trunkline.agent.messages import Picture
from trunkline.agent.prompt import clean_label
from trunkline.gateway.bursts import join
from trunkline.gateway.sentences import say
from trunkline.gateway.state.files import FileRow

NAME_CHARS = 60
MAX_FILES = 10
"""Files of one turn; so many pictures an album has at most on any platform."""
RECORDINGS = (AttachmentKind.VOICE, AttachmentKind.AUDIO)


@dataclass(frozen=True, slots=True)
class Described:
    """`content` is what the transcript says; the model gets `documents` (names, texts) and `pictures`, too.

    `texts` are the messages in it, one by one; `notes` are sentences for the person about files that can't be
    used; `has_voice`: they spoke.
    """

    content: str
    documents: tuple[tuple[str, str], ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    has_voice: bool = False
    texts: tuple[str, ...] = ()


def describe(
    inbound: Sequence[tuple[int, InboundMessage]], came: Iterable[FileRow], language: str
) -> Described:
    """The messages, each with its inbox row, and what was fetched of their files as one."""
    rows = {(row.inbox_row, row.place): row for row in came}
    told = _Told(language)
    contents: list[str] = []
    for row_id, message in inbound:
        lines = [message.text] if message.text else []
        for place, attachment in enumerate(message.attachments):
            row = rows.get((row_id, place)) or _stopped(attachment)
            told.add(row)
            lines.append(told.line(row))
        contents.append("\n".join(lines))
    joined = join([message for _, message in inbound], contents)
    return replace(told.described, content=joined, texts=tuple(contents))


def notes_of(came: Iterable[FileRow], language: str) -> tuple[str, ...]:
    """What the person is to be told of files that can't be used."""
    told = _Told(language)
    for row in came:
        told.add(row)
    return told.described.notes


def is_voice(came: Iterable[FileRow]) -> bool:
    return any(row.kind == AttachmentKind.VOICE and not row.reason for row in came)


class _Told:
    """Gathers the parts of a Described, file by file."""

    def __init__(self, language: str) -> None:
        self._language = language
        self.described = Described("")

    def add(self, row: FileRow) -> None:
        known, name = self.described, shown_name(row, self._language)
        if row.reason:
            if row.reason != "stopped":
                note = say("file_not_used", self._language, name=name, why=self._why(row))
                self.described = replace(known, notes=(*known.notes, note))
            return
        recorded = row.kind in RECORDINGS
        has_text = row.words is not None and not recorded
        self.described = replace(
            known,
            documents=(*known.documents, (name, row.words or "")) if has_text else known.documents,
            pictures=known.pictures if row.shown is None else (*known.pictures, row.shown),
            has_voice=known.has_voice or row.kind == AttachmentKind.VOICE,
        )

    def line(self, row: FileRow) -> str:
        """What was said in a recording; for any other file a line that names it, and why it can't be used."""
        name = shown_name(row, self._language)
        if row.reason:
            return say("file_unused", self._language, name=name, why=self._why(row))
        if row.kind in RECORDINGS:
            return say("file_spoken", self._language, words=row.words or "")
        key = "file_picture" if row.shown is not None else "file_kept"
        return say(key, self._language, id=row.id, name=name)

    def _why(self, row: FileRow) -> str:
        why, _, number = row.reason.partition(" ")
        return say(f"file_why_{why}", self._language, limit=number, most=MAX_FILES)


def shown_name(row: FileRow, language: str) -> str:
    """A file's name as one inert line, or what it is where it has none."""
    name = clean_label(row.name, 4 * NAME_CHARS) or say(f"file_nameless_{row.kind}", language)
    name = name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 12]}…{name[-10:]}"
    too_large = row.reason.startswith("too_large") and row.size_bytes
    return f"{name} ({row.size_bytes // 2**20} MB)" if too_large and row.size_bytes else name


def _stopped(attachment: Attachment) -> FileRow:
    """A file that nobody came to fetch before the turn was stopped."""
    return FileRow(
        0, attachment.kind.value, attachment.name, attachment.mime, attachment.size_bytes, None, "stopped"
    )
