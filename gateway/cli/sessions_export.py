"""Writes whole conversations as JSON for programs or as Markdown for people, one after the other."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from trunkline.agent.scope import PersonScope
from trunkline.gateway.cli.failure import Failure
from trunkline.gateway.exporting import session_as_json, session_as_markdown
from trunkline.gateway.state import sessions_view
from trunkline.gateway.state.database import Database


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
                out.write(("\n\n" if count else "") + session_as_markdown(*found))
            else:
                out.write(
                    (",\n" if count else "[\n") + json.dumps(session_as_json(*found), ensure_ascii=False)
                )
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
