"""The third schema: whose words a model was told of as overheard or quoted, to be taken back by account; what
is needed to change one message of a question that came as several; finding what is over; what a turn's
commit and a deletion look up.

Frozen once released: later changes are later versions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("message", sa.Column("heard_from", sa.Text(), nullable=True))
    op.add_column("message", sa.Column("quoted_from", ID, nullable=True))
    op.add_column("message", sa.Column("parts", sa.Text(), nullable=True))
    op.create_table(
        "early_deletion",
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("deleted_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("platform", "tenant", "key", name="pk_early_deletion"),
    )
    over = sa.text("(turn_id IS NULL AND state IN ('done', 'noted')) IS TRUE")
    op.create_index("ix_inbox_over", "inbox", ["done_ms"], sqlite_where=over, postgresql_where=over)
    sent = "state IN ('sent', 'unknown', 'refused')"
    over = sa.text(f"({sent} AND (turn_id IS NULL OR payload <> '')) IS TRUE")
    op.create_index("ix_outbox_over", "outbox", ["created_ms"], sqlite_where=over, postgresql_where=over)
    for table, column in (("message", "turn_id"), ("session", "prompt_hash"), ("usage", "session_id")):
        op.create_index(f"ix_{table}_{column}", table, [column])
