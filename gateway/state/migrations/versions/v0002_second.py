"""The second schema: what media, busy chats, skills, reminders and providers need beyond the first.

Frozen once released: later changes are later versions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("session", sa.Column("skills", sa.Text(), server_default="", nullable=False))
    _add_files()
    _add_busy_chats()
    _create_facts()
    _create_links()
    _create_compaction()
    _add_reminders()


def _add_files() -> None:
    for name in ("inbox_id", "turn_id"):
        op.add_column("attachment", sa.Column(name, ID, nullable=True))
    op.add_column("attachment", sa.Column("place", ID, server_default=sa.text("0"), nullable=False))
    for name in ("call", "reason", "shown_mime"):
        op.add_column("attachment", sa.Column(name, sa.Text(), server_default="", nullable=False))
    for name in ("words", "shown_sha256"):
        op.add_column("attachment", sa.Column(name, sa.Text(), nullable=True))
    for name in ("inbox_id", "turn_id", "shown_sha256"):
        op.create_index(f"ix_attachment_{name}", "attachment", [name])
    op.create_table(
        "dropped_file",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_dropped_file"),
    )


def _create_compaction() -> None:
    op.create_index("ix_session_parent_id", "session", ["parent_id"])
    op.create_table(
        "compaction",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("last_seq", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("left_out", sa.Text(), server_default="", nullable=False),
        sa.Column("turn_id", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("by_hand", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("before_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("after_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_compaction_session_id_session"),
        sa.PrimaryKeyConstraint("id", name="pk_compaction"),
    )
    op.create_index("ix_compaction_session_id_id", "compaction", ["session_id", "id"])


def _create_links() -> None:
    op.create_table(
        "link_request",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("asker_id", ID, nullable=False),
        sa.Column("other_id", ID, nullable=False),
        sa.Column("asker_yes", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("other_yes", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("expires_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["asker_id"], ["account.id"], name="fk_link_request_asker_id_account"),
        sa.ForeignKeyConstraint(["other_id"], ["account.id"], name="fk_link_request_other_id_account"),
        sa.PrimaryKeyConstraint("id", name="pk_link_request"),
    )
    op.create_index("ix_link_request_asker_id", "link_request", ["asker_id"])
    op.create_index("ix_link_request_other_id", "link_request", ["other_id"])
    op.create_table(
        "person_alias",
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("person_id", ID, nullable=False),
        sa.Column("accounts", sa.Text(), server_default="", nullable=False),
        sa.Column("journal", sa.Text(), server_default="", nullable=False),
        sa.Column("writes", sa.Text(), server_default="", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_person_alias_person_id_person"),
        sa.PrimaryKeyConstraint("slug", name="pk_person_alias"),
    )
    op.create_index("ix_person_alias_person_id", "person_alias", ["person_id"])


def _create_facts() -> None:
    op.create_table(
        "fact",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), server_default="", nullable=False),
        sa.Column("source", sa.Text(), server_default="", nullable=False),
        sa.Column("trust", sa.Float(), nullable=False),
        sa.Column("entities", sa.Text(), server_default="", nullable=False),
        sa.Column("helpful", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("unhelpful", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("updated_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_fact"),
        sa.UniqueConstraint("owner", "key", name="uq_fact_owner_key"),
    )
    op.create_table(
        "fact_term",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("fact_id", ID, nullable=False),
        sa.ForeignKeyConstraint(["fact_id"], ["fact.id"], name="fk_fact_term_fact_id_fact"),
        sa.PrimaryKeyConstraint("owner", "term", "fact_id", name="pk_fact_term"),
    )
    op.create_index("ix_fact_term_fact_id", "fact_term", ["fact_id"])


def _add_busy_chats() -> None:
    op.add_column("inbox", sa.Column("not_before_ms", ID, server_default=sa.text("0"), nullable=False))
    op.create_index("ix_inbox_account_id_received_ms", "inbox", ["account_id", "received_ms"])
    op.create_table(
        "heard",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("room_id", ID, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("message_id", sa.Text(), server_default="", nullable=False),
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("sent_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("heard_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name="fk_heard_room_id_room"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_heard_account_id_account"),
        sa.PrimaryKeyConstraint("id", name="pk_heard"),
    )
    place = ["platform", "tenant", "chat", "thread", "id"]
    op.create_index("ix_heard_platform_tenant_chat_thread_id", "heard", place)


def _add_reminders() -> None:
    for name in ("member", "fired_ms"):
        op.add_column("reminder", sa.Column(name, ID, server_default=sa.text("0"), nullable=False))
    op.add_column("reminder", sa.Column("kind", sa.Text(), server_default="text", nullable=False))
    for name in ("maker", "language", "call"):
        op.add_column("reminder", sa.Column(name, sa.Text(), server_default="", nullable=False))
    for name in ("account_id", "stream_id"):
        op.create_index(f"ix_reminder_{name}", "reminder", [name])
    op.create_table(
        "home",
        sa.Column("person_id", ID, autoincrement=False, nullable=False),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_home_person_id_person"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_home_account_id_account"),
        sa.PrimaryKeyConstraint("person_id", name="pk_home"),
    )
