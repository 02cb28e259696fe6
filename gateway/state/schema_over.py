"""Which rows of the inbox and the outbox are over, for their indexes and for pruning: both say it in the same
words, since a database uses such an index only then."""

from sqlalchemy import Index, text

# As one term each: of several, SQLite would look at the one by which another index goes.
INBOX_OVER = "(turn_id IS NULL AND state IN ('done', 'noted')) IS TRUE"
OUTBOX_OVER = "(state IN ('sent', 'unknown', 'refused') AND (turn_id IS NULL OR payload <> '')) IS TRUE"


def index_over(name: str, column: str, over: str) -> Index:
    """The rows that are over, by time."""
    return Index(name, column, sqlite_where=text(over), postgresql_where=text(over))
