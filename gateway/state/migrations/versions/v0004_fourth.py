"""The fourth schema: smaller pages of the search index, so that fewer postings are read over on the way to a
stream's own.

Frozen once released: later changes are later versions.
"""

import logging

from alembic import op
from sqlalchemy.exc import DatabaseError

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

log = logging.getLogger(__name__)


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    for table in ("message_fts", "tool_fts"):
        # What is written from now on has pages of that size, and old ones get it as the index merges them.
        try:
            op.execute(f"INSERT INTO {table}({table}, rank) VALUES ('pgsz', 1000)")
        except DatabaseError as error:
            # A damaged index keeps nobody from starting; one that is built anew has that size.
            log.warning("page size of the index not set: %s", type(error).__name__)
