"""Writes whole conversations as JSON for programs or as Markdown for people, one after the other."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from trunkline.agent.ports import SessionCard
from trunkline.agent.scope import PersonScope
from trunkline.gateway.cli.failure import Failure
from trunkline.gateway.cli.output import local_time
from trunkline.gateway.state import sessions_view
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.sessions_view import WholeMessage


def write_export(
    database: Database, scope: PersonScope, ids: Sequence[str], output: Path | None, *, markdown: bool
) -> int:
    """Writes the sessions to a new file, or to standard output, and returns how many. Blocks.

    JSON is one list, a session on each line. Only one session is held in memory at a time.
    """
    with _opened(output) as out:
        count = 0
        for one in ids:
            found = database.read_now(lambda c, one=one: sessions_view.whole_session(c, scope, one))  # type: ignore[misc]
            if found is None:  # deleted meanwhile
                continue
            if markdown:
                out.write(("\n\n" if count else "") + _markdown(*found))
            else:
                out.write((",\n" if count else "[\n") + json.dumps(_as_json(*found), ensure_ascii=False))
            count += 1
        if not markdown:
            out.write("\n]\n" if count else "[]\n")
    return count


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        made = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Failure(f"{output} is there already; name a new file.") from error
    except OSError as error:
        raise Failure(f"{output} can't be written: {error.strerror}.") from error
    with os.fdopen(made, "w", encoding="utf-8") as file:
        yield file


def _as_json(card: SessionCard, messages: Sequence[WholeMessage]) -> dict[str, object]:
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


def _markdown(card: SessionCard, messages: Sequence[WholeMessage]) -> str:
    began, ended = (local_time(moment, as_json=False) for moment in (card.started, card.last))
    parts = [f"# {card.title or card.preview or card.id}", f"{card.platform}, {began} to {ended}, {card.id}"]
    for one in messages:
        said = [one.text] if one.text and one.role != "tool" else []
        if one.role == "tool":
            said = [_fenced(one.text)]
        said += [f"Calls `{call.name}`:\n\n{_fenced(call.arguments)}" for call in one.calls]
        when = local_time(one.created, as_json=False)
        parts.append(f"**{one.author}**, {when}\n\n" + "\n\n".join(said))
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """A code block whose fence the text can't close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
