"""The tables of files: kept here because `schema` is long. They are part of its metadata."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, Table, Text, text

Id = BigInteger().with_variant(Integer, "sqlite")


def file_tables(metadata: MetaData) -> tuple[Table, Table]:
    """Files that came or go out, and contents that lost a reference."""

    def words(name: str) -> Column[str]:
        return Column(name, Text, nullable=False, server_default="")

    attachments = Table(
        "attachment",
        metadata,
        Column("id", Id, primary_key=True, autoincrement=True),
        Column("stream_id", Id, ForeignKey("stream.id"), nullable=False),
        Column("message_id", Id, ForeignKey("message.id"), nullable=True),
        words("kind"),
        words("name"),
        words("mime"),
        Column("size_bytes", Id, nullable=True),
        Column("sha256", Text, nullable=True),
        words("ref"),
        Column("created_ms", Id, nullable=False, server_default=text("0")),
        # What came: the inbox row and its place there. What goes out: the turn and the key of the call.
        Column("inbox_id", Id, nullable=True),
        Column("turn_id", Id, nullable=True),
        words("call"),
        Column("place", Id, nullable=False, server_default=text("0")),
        words("reason"),  # why it can't be used; empty where it can
        Column("words", Text, nullable=True),  # its text, until the message holds it
        Column("shown_sha256", Text, nullable=True),  # the picture as models are shown it
        words("shown_mime"),
        Index(None, "message_id"),
        Index(None, "sha256"),
        Index(None, "inbox_id"),
        Index(None, "turn_id"),
        Index(None, "shown_sha256"),
    )
    # Taken off the disk when the reference was the last.
    dropped = Table("dropped_file", metadata, Column("sha256", Text, primary_key=True))
    return attachments, dropped
