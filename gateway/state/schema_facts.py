"""The tables of Holographic's facts: kept here because `schema` is long. They are part of its metadata."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

Id = BigInteger().with_variant(Integer, "sqlite")


def fact_tables(metadata: MetaData) -> tuple[Table, Table]:
    """The facts, and what each is found by; the owner is person:<slug> or room:<slug>."""
    zero = text("0")
    facts = Table(
        "fact",
        metadata,
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("owner", Text, nullable=False),
        Column("key", Text, nullable=False),
        Column("content", Text, nullable=False),
        Column("category", Text, nullable=False, server_default=""),
        Column("source", Text, nullable=False, server_default=""),
        Column("trust", Float, nullable=False),
        Column("entities", Text, nullable=False, server_default=""),  # JSON list
        Column("helpful", Id, nullable=False, server_default=zero),
        Column("unhelpful", Id, nullable=False, server_default=zero),
        Column("created_ms", Id, nullable=False, server_default=zero),
        Column("updated_ms", Id, nullable=False, server_default=zero),
        UniqueConstraint("owner", "key"),
    )
    terms = Table(
        "fact_term",
        metadata,
        Column("owner", Text, primary_key=True),
        Column("term", Text, primary_key=True),  # a name in the fact begins with @
        Column("fact_id", Id, ForeignKey("fact.id"), primary_key=True),
        Index(None, "fact_id"),
    )
    return facts, terms
