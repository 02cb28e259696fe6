"""The table of deletions that came before their message: kept here because `schema` is long."""

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text, text

Id = BigInteger().with_variant(Integer, "sqlite")


def early_deletion_table(metadata: MetaData) -> Table:
    """The inbox keys of messages that are not to be taken in when they come."""
    return Table(
        "early_deletion",
        metadata,
        Column("platform", Text, primary_key=True),
        Column("tenant", Text, primary_key=True),
        Column("key", Text, primary_key=True),
        Column("deleted_ms", Id, nullable=False, server_default=text("0")),
    )
