"""The tables of reminders and of the chats people chose as their home; `schema` puts them with the others."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Table, Text, text

_ID = BigInteger().with_variant(Integer, "sqlite")


def reminder_tables(metadata: MetaData) -> tuple[Table, Table]:
    """`reminder` and `home`."""
    reminder = Table(
        "reminder",
        metadata,
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("account_id", _ID, ForeignKey("account.id"), nullable=False),
        Column("stream_id", _ID, ForeignKey("stream.id"), nullable=False),
        # The session key it was asked for under.
        Column("platform", Text, nullable=False),
        Column("tenant", Text, nullable=False),
        Column("chat", Text, nullable=False),
        _text("thread"),
        _text("content"),
        _text("cron"),  # five fields in the zone's wall-clock time; empty for a single one
        _text("timezone"),
        _text("state", "waiting"),  # waiting, done, cancelled
        _int("due_ms"),
        _int("created_ms"),
        _int("member"),
        _text("kind", "text"),  # text: a message; run: a turn of the model's
        _text("maker"),  # the person's slug, empty for somebody in a room who is none
        _text("language"),
        _text("call"),  # <turn>/<step>/<call> of the tool call that made it
        _int("fired_ms"),  # when it was last delivered, or its run begun
        Index(None, "state", "due_ms"),
        Index(None, "account_id"),
        Index(None, "stream_id"),
    )
    home = Table(
        "home",
        metadata,
        Column("person_id", _ID, ForeignKey("person.id"), primary_key=True, autoincrement=False),
        Column("account_id", _ID, ForeignKey("account.id"), nullable=False),
        Column("platform", Text, nullable=False),
        Column("tenant", Text, nullable=False),
        Column("chat", Text, nullable=False),
        _text("thread"),
    )
    return reminder, home


def _text(name: str, default: str = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


def _int(name: str) -> Column[int]:
    return Column(name, _ID, nullable=False, server_default=text("0"))
