"""What a start does about a damaged database: saves what can be read, and tells the operator and the owner.

How rows are saved is `state.salvage`'s. It is for the one process that has the home folder for itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DBAPIError

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway import admission
from trunkline.gateway.backups import FOLDER
from trunkline.gateway.clock import now_ms
from trunkline.gateway.config import Config
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.program import tell
from trunkline.gateway.sentences import say
from trunkline.gateway.state import outbox
from trunkline.gateway.state.outbox import notice
from trunkline.gateway.state.ready import Damaged, Unusable
from trunkline.gateway.state.salvage import Hopeless, Salvaged, salvage, take_place

log = logging.getLogger(__name__)


async def served_whole(config: Config, serve: Callable[[Config], Awaitable[int]]) -> int:
    """Serves with a database that is whole, or as whole as it could be made. Raises Unusable."""
    file = _file_of(config)
    if file is not None:
        await asyncio.to_thread(take_place, file)
        await asyncio.to_thread(_refuse_emptied, file, config.home / "memories")
    try:
        return await serve(config)
    except Damaged as damage:
        if file is None:
            raise
        await _mend(config, file, damage)
    return await serve(config)


def _refuse_emptied(file: Path, memories: Path) -> None:
    """Raises Unusable for an empty file beside memories of people: they would all be strangers."""
    is_empty = file.exists() and not file.stat().st_size and not file.with_name(f"{file.name}-wal").exists()
    if is_empty and memories.is_dir() and any(memories.iterdir()):
        raise Unusable(
            f"The database {file} is empty, but people are remembered here. Restore a backup, "
            "or remove the file to begin anew.",
            may_pass=False,
        )


async def _mend(config: Config, file: Path, damage: Damaged) -> None:
    tell(
        f"The database is damaged: {damage.what}. What can be read is saved now; that may take some minutes."
    )
    aside = config.home / FOLDER / f"state-damaged-{datetime.now():%Y%m%d-%H%M%S}.db"  # noqa: DTZ005

    def last(connection: Connection, salvaged: Salvaged) -> None:
        _tell_owner(connection, salvaged, aside)

    try:
        salvaged = await asyncio.to_thread(salvage, file, aside, now_ms(), last)
    except Hopeless as error:
        said = f"The database is damaged: {damage.what}. Restore a backup: nothing can be saved ({error})."
        raise Unusable(said, may_pass=False) from error
    except (OSError, DBAPIError) as error:
        cause = error.strerror if isinstance(error, OSError) else error.orig
        said = f"The database is damaged: {damage.what}. It can't be saved now: {cause}."
        raise Unusable(said, may_pass=True) from error
    log.warning("damaged database saved: %d rows, holes in: %s", salvaged.rows, ", ".join(salvaged.holes))
    tell(describe(salvaged, aside, ""))


def describe(salvaged: Salvaged, aside: Path, language: str) -> str:
    """What was saved and lost, and where the damaged file lies."""
    sentences = [say("salvaged", language, file=str(aside))]
    if salvaged.holes:
        sentences.append(say("salvaged_holes", language, tables=", ".join(salvaged.holes)))
    else:
        sentences.append(say("salvaged_whole", language))
    if salvaged.forgot_answers:
        sentences.append(say("salvaged_unsure", language))
    return " ".join(sentences)


def _tell_owner(connection: Connection, salvaged: Salvaged, aside: Path) -> None:
    found = admission.find_owner(connection)
    if found is None:
        return
    owner, place = found
    told = OutboundMessage(
        ChatRef(place.chat, place.thread or None), Chunk(describe(salvaged, aside, owner.language))
    )
    outbox.plan(connection, notice(place), [dump_outbound(told)], now_ms())


def _file_of(config: Config) -> Path | None:
    url = make_url(config.database_url)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
