"""Which files of an answer go out as one: pictures in a row, as many as the platform shows together.

An album is one message for the outbox, whatever the platform makes of it: sent, or in doubt, as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import AttachmentKind, ChatRef, Chunk, Limits, OutboundFile, OutboundMessage
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.state import outbox
from trunkline.gateway.state.files import FileRow
from trunkline.gateway.state.records import OutboxRow


def payloads_of(
    rows: Sequence[FileRow], to: ChatRef, limits: Limits | None, *, ephemeral: bool
) -> tuple[str, ...]:
    """The messages that bring these files, as the outbox keeps them."""
    return tuple(
        dump_outbound(
            OutboundMessage(
                to, Chunk(""), ephemeral=ephemeral, quiet=True, file=_sent(group[0]), album=_others(group)
            )
        )
        for group in _grouped([row for row in rows if row.sha256], limits)
    )


def take_apart(connection: Connection, row: OutboxRow, message: OutboundMessage, now_ms: int) -> None:
    """Plans the files of a refused album one by one, so that one of them doesn't keep the others back."""
    single = [dump_outbound(replace(message, file=file, album=())) for file in message.files]
    outbox.replan_as_several(connection, row, single, now_ms)


def _grouped(rows: Sequence[FileRow], limits: Limits | None) -> Iterator[list[FileRow]]:
    group: list[FileRow] = []
    for row in rows:
        if group and not (limits is not None and _fits(group, row, limits)):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _fits(group: Sequence[FileRow], row: FileRow, limits: Limits) -> bool:
    pictures = all(one.kind == AttachmentKind.IMAGE for one in (*group, row))
    size_bytes = sum(one.size_bytes or 0 for one in (*group, row))
    return pictures and len(group) < limits.album_files and size_bytes <= limits.album_bytes


def _sent(row: FileRow) -> OutboundFile:
    return OutboundFile(AttachmentKind(row.kind), row.name, row.mime, row.sha256 or "")


def _others(group: Sequence[FileRow]) -> tuple[OutboundFile, ...]:
    return tuple(_sent(row) for row in group[1:])
