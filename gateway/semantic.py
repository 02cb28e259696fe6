"""Search by meaning as the settings want it; nothing of it is loaded where it is off."""

import logging
from typing import TYPE_CHECKING

from trunkline.gateway.config import Config
from trunkline.gateway.state.database import Database

if TYPE_CHECKING:
    from trunkline.gateway.embedder import Embedding

log = logging.getLogger(__name__)


def open_embedding(config: Config, database: Database) -> "Embedding | None":
    """What search by meaning needs, if it is on and can be had."""
    if config.search.semantic is False:
        return None
    try:
        from trunkline.gateway.embedder import Embedding, chosen_embedder  # noqa: PLC0415
    except ImportError:
        log.warning("search by meaning is off: the extra `semantic` is not installed")
        return None
    embedder = chosen_embedder(config)
    return None if embedder is None else Embedding(database, embedder)
