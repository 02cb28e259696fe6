"""A person's own copy: one ZIP with their memory, transcripts, skills and files, as JSON and as Markdown."""

import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile

from sqlalchemy import Connection

from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.memory.store import MemoryStore
from trunkline.agent.ports import SessionCard
from trunkline.agent.scope import PersonScope
from trunkline.gateway.clock import zone_of
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.joining import Belongings
from trunkline.gateway.memory_control import exported
from trunkline.gateway.state import links, own_copy, people, sessions_view
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.sessions_view import WholeMessage

NAMES = (("user", "memory/USER.md"), ("memory", "memory/MEMORY.md"))


def folder_of(home: Path, slug: str) -> Path:
    """Where the copies of one person are put for them."""
    return home / "exports" / slug


def new_path(home: Path, slug: str) -> Path:
    """A name for a copy that nobody can guess."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return folder_of(home, slug) / f"{slug}-{day}-{secrets.token_urlsafe(12)}.zip"


async def export_person(
    database: Database,
    memory: MemoryStore,
    belongings: Iterable[Belongings],
    scope: PersonScope,
    target: Path,
    files: FileStore | None,
) -> int:
    """Writes the copy to a new file that only its owner can read; returns how many conversations are in it.

    Without `files` their contents are left out. Raises FileExistsError and other OSErrors.
    """
    known = await memory.read(scope)
    more: dict[str, bytes] = {}
    for slug in (scope.person, *await database.read(lambda c: links.former_slugs(c, scope.person))):
        for one in belongings:
            more |= {_inside(name): content for name, content in (await one.export(slug)).items()}
    return await database.read(lambda c: _write(c, scope, known, more, target, files))


def _write(
    connection: Connection,
    scope: PersonScope,
    known: MemorySnapshot,
    more: Mapping[str, bytes],
    target: Path,
    files: FileStore | None,
) -> int:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with ExitStack() as unless_whole:
        unless_whole.callback(target.unlink)
        with os.fdopen(descriptor, "wb") as file:
            count = _fill(connection, scope, known, more, file, files)
        unless_whole.pop_all()
    return count


def _fill(
    connection: Connection,
    scope: PersonScope,
    known: MemorySnapshot,
    more: Mapping[str, bytes],
    file: IO[bytes],
    files: FileStore | None,
) -> int:
    ids = sessions_view.session_ids(connection, scope)
    zone = zone_of(people.find_person(connection, scope.person))
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("me.json", _json(own_copy.describe_person(connection, scope)))
        archive.writestr("memory/memory.json", exported(known))
        for store, name in NAMES:
            archive.writestr(name, "\n§\n".join(known.user if store == "user" else known.memory) + "\n")
        for number, public_id in enumerate(ids, 1):
            found = sessions_view.whole_session(connection, scope, public_id)
            if found is not None:
                name = f"conversations/{number:05}-{public_id}"
                archive.writestr(f"{name}.json", _json(session_as_json(*found)))
                archive.writestr(f"{name}.md", session_as_markdown(*found, zone))
        for row in own_copy.skills(connection, scope):
            archive.writestr(f"skills/{row.id}.md", f"# {row.name}\n\n{row.description}\n\n{row.content}\n")
        for name, rows in own_copy.tables(connection, scope).items():
            if rows:
                archive.writestr(name, _json(rows))
        for one in own_copy.files(connection, scope):
            kept = None if files is None else files.read(one.sha256)
            if kept is not None:
                archive.writestr(f"files/{one.sha256[:12]}-{_inside(one.name).replace('/', '_')}", kept)
        for name, content in more.items():
            archive.writestr(name, content)
    return len(ids)


def session_as_json(card: SessionCard, messages: Sequence[WholeMessage]) -> dict[str, object]:
    return {
        "id": card.id,
        "title": card.title,
        "platform": card.platform,
        "started": card.started.isoformat(),
        "last": card.last.isoformat(),
        "messages": [
            {
                "id": one.id,
                "role": one.role,
                "author": one.author,
                "time": one.created.isoformat(),
                "text": one.text,
                "calls": [{"name": call.name, "arguments": call.arguments} for call in one.calls],
            }
            for one in messages
        ],
    }


def session_as_markdown(
    card: SessionCard, messages: Sequence[WholeMessage], zone: tzinfo | None = None
) -> str:
    """The conversation for reading, with times of a zone, or else of this machine's."""
    began, ended = (_local(moment, zone) for moment in (card.started, card.last))
    parts = [f"# {card.title or card.preview or card.id}", f"{card.platform}, {began} to {ended}, {card.id}"]
    for one in messages:
        said = [one.text] if one.text and one.role != "tool" else []
        if one.role == "tool":
            said = [fenced(one.text)]
        said += [f"Calls `{call.name}`:\n\n{fenced(call.arguments)}" for call in one.calls]
        parts.append(f"**{one.author}**, {_local(one.created, zone)}\n\n" + "\n\n".join(said))
    return "\n\n".join(parts) + "\n"


def _local(moment: datetime, zone: tzinfo | None) -> str:
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def fenced(text: str) -> str:
    """A code block whose fence the text can't close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _inside(name: str) -> str:
    """A path that stays in the archive's folder wherever it is unpacked."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))
