"""The table of notes that stand for the older part of long conversations; see `notes` and `compaction`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
    text,
)

ID = BigInteger().with_variant(Integer, "sqlite")


def compaction_table(metadata: MetaData) -> Table:
    """One row for each try to make a conversation shorter; of the notes only the newest is in use."""
    zero = text("0")
    return Table(
        "compaction",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("session_id", ID, ForeignKey("session.id"), nullable=False),
        # in use; replaced by a later one; spoilt: something it told of is gone, and it is to be made again;
        # failed
        Column("state", Text, nullable=False),
        Column("note", Text, nullable=False, server_default=""),
        Column("last_seq", ID, nullable=False, server_default=zero),  # it tells of messages up to here
        Column(
            "left_out", Text, nullable=False, server_default=""
        ),  # JSON list of messages it must not tell of
        Column("turn_id", ID, nullable=False, server_default=zero),  # the session's newest turn then
        Column("by_hand", Boolean, nullable=False, server_default=false()),
        Column("before_tokens", ID, nullable=False, server_default=zero),
        Column("after_tokens", ID, nullable=False, server_default=zero),
        Column("created_ms", ID, nullable=False, server_default=zero),
        Index(None, "session_id", "id"),
    )
