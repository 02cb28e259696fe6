"""The first schema: people, transcripts, queues, memory, and the full-text index.

Frozen once released: later changes are later versions.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_people()
    _create_rooms()
    _create_sessions()
    _create_turns()
    _create_messages()
    _create_what_belongs_to_messages()
    _create_inbox()
    _create_outbox()
    _create_memory()
    _create_skills_and_reminders()
    _create_providers()
    _create_usage_and_facts()
    _create_full_text_index()


def _create_full_text_index() -> None:
    for table in ("message_fts", "tool_fts"):
        if op.get_context().dialect.name == "sqlite":
            op.execute(
                f"CREATE VIRTUAL TABLE {table} USING fts5(tokens, content='', columnsize=0, detail=full, "
                "tokenize=\"ascii tokenchars '-_./:@#+&=\\~'\")"
            )
        else:
            op.execute(
                f"CREATE TABLE {table} (id BIGINT NOT NULL, part INTEGER NOT NULL, tokens TSVECTOR NOT NULL, "
                f"CONSTRAINT pk_{table} PRIMARY KEY (id, part))"
            )
            op.execute(f"CREATE INDEX ix_{table}_tokens ON {table} USING gin (tokens)")


def _create_people() -> None:
    op.create_table(
        "person",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("role", sa.Text(), server_default="member", nullable=False),
        sa.Column("source", sa.Text(), server_default="", nullable=False),
        sa.Column("timezone", sa.Text(), server_default="", nullable=False),
        sa.Column("language", sa.Text(), server_default="", nullable=False),
        sa.Column("daily_token_budget", ID, nullable=True),
        sa.Column("suspended", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_person"),
        sa.UniqueConstraint("slug", name="uq_person_slug"),
    )
    op.create_table(
        "account",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("realm", sa.Text(), server_default="", nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("person_id", ID, nullable=True),
        sa.Column("source", sa.Text(), server_default="", nullable=False),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.Column("blocked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["person.id"], name="fk_account_person_id_person"),
        sa.PrimaryKeyConstraint("id", name="pk_account"),
        sa.UniqueConstraint("platform", "realm", "user_id", name="uq_account_platform_realm_user_id"),
    )
    op.create_index("ix_account_person_id", "account", ["person_id"], unique=False)
    op.create_table(
        "code",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("expires_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_code_account_id_account"),
        sa.PrimaryKeyConstraint("id", name="pk_code"),
    )
    op.create_index("ix_code_account_id", "code", ["account_id"], unique=False)
    op.create_index("ix_code_purpose_state", "code", ["purpose", "state"], unique=False)


def _create_rooms() -> None:
    op.create_table(
        "room",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("realm", sa.Text(), server_default="", nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("source", sa.Text(), server_default="", nullable=False),
        sa.Column("allowed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reported", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_room"),
        sa.UniqueConstraint("platform", "realm", "chat", name="uq_room_platform_realm_chat"),
        sa.UniqueConstraint("slug", name="uq_room_slug"),
    )
    op.create_table(
        "room_member",
        sa.Column("room_id", ID, nullable=False),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("first_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("left_ms", ID, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_room_member_account_id_account"),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name="fk_room_member_room_id_room"),
        sa.PrimaryKeyConstraint("room_id", "account_id", name="pk_room_member"),
    )
    op.create_index("ix_room_member_account_id", "room_member", ["account_id"], unique=False)
    op.create_table(
        "stream",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("room_id", ID, nullable=True),
        sa.Column("last_n", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("indexed_count", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("indexed_words", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_stream_account_id_account"),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name="fk_stream_room_id_room"),
        sa.PrimaryKeyConstraint("id", name="pk_stream"),
        sa.UniqueConstraint("account_id", name="uq_stream_account_id"),
        sa.UniqueConstraint("room_id", name="uq_stream_room_id"),
    )


def _create_sessions() -> None:
    op.create_table(
        "system_prompt",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_system_prompt"),
    )
    op.create_table(
        "session",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("public_id", sa.Text(), nullable=False),
        sa.Column("stream_id", ID, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("member", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("prompt_hash", sa.Text(), nullable=True),
        sa.Column("snapshot", sa.Text(), server_default="", nullable=False),
        sa.Column("parent_id", ID, nullable=True),
        sa.Column("origin", sa.Text(), server_default="", nullable=False),
        sa.Column("private", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("started_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("last_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("ended_ms", ID, nullable=True),
        sa.Column("end_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("message_count", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("prompt_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("cached_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("completion_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("cost_micros", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["parent_id"], ["session.id"], name="fk_session_parent_id_session"),
        sa.ForeignKeyConstraint(
            ["prompt_hash"], ["system_prompt.hash"], name="fk_session_prompt_hash_system_prompt"
        ),
        sa.ForeignKeyConstraint(["stream_id"], ["stream.id"], name="fk_session_stream_id_stream"),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
        sa.UniqueConstraint("public_id", name="uq_session_public_id"),
    )
    op.create_index(
        "ix_session_stream_id_last_ms_title", "session", ["stream_id", "last_ms", "title"], unique=False
    )
    op.create_index(
        "uq_session_open",
        "session",
        ["platform", "tenant", "chat", "thread", "member"],
        unique=True,
        sqlite_where=sa.text("ended_ms IS NULL"),
        postgresql_where=sa.text("ended_ms IS NULL"),
    )


def _create_turns() -> None:
    op.create_table(
        "turn",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("state", sa.Text(), server_default="running", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("attempt", ID, server_default=sa.text("1"), nullable=False),
        sa.Column("owner", sa.Text(), server_default="", nullable=False),
        sa.Column("started_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("ended_ms", ID, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_turn_account_id_account"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_turn_session_id_session"),
        sa.PrimaryKeyConstraint("id", name="pk_turn"),
    )
    op.create_index("ix_turn_session_id", "turn", ["session_id"], unique=False)
    op.create_index("ix_turn_state", "turn", ["state"], unique=False)
    op.create_table(
        "step",
        sa.Column("turn_id", ID, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="", nullable=False),
        sa.Column("finish_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("started_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("ended_ms", ID, nullable=True),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name="fk_step_turn_id_turn"),
        sa.PrimaryKeyConstraint("turn_id", "n", name="pk_step"),
    )


def _create_messages() -> None:
    op.create_table(
        "message",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("step_n", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("seq", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("sent", sa.Text(), nullable=True),
        sa.Column("tool_calls", sa.Text(), nullable=True),
        sa.Column("tool_call_id", sa.Text(), nullable=True),
        sa.Column("tool_name", sa.Text(), nullable=True),
        sa.Column("is_error", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("interrupted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("finish_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("platform_ids", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default="live", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_message_account_id_account"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_message_session_id_session"),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name="fk_message_turn_id_turn"),
        sa.PrimaryKeyConstraint("id", name="pk_message"),
        sa.UniqueConstraint("session_id", "seq", name="uq_message_session_id_seq"),
    )


def _create_what_belongs_to_messages() -> None:
    op.create_table(
        "attachment",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("stream_id", ID, nullable=False),
        sa.Column("message_id", ID, nullable=True),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("mime", sa.Text(), server_default="", nullable=False),
        sa.Column("size_bytes", ID, nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("ref", sa.Text(), server_default="", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["message_id"], ["message.id"], name="fk_attachment_message_id_message"),
        sa.ForeignKeyConstraint(["stream_id"], ["stream.id"], name="fk_attachment_stream_id_stream"),
        sa.PrimaryKeyConstraint("id", name="pk_attachment"),
    )
    op.create_index("ix_attachment_message_id", "attachment", ["message_id"], unique=False)
    op.create_index("ix_attachment_sha256", "attachment", ["sha256"], unique=False)
    op.create_table(
        "indexed_message",
        sa.Column("id", ID, autoincrement=False, nullable=False),
        sa.Column("session_id", ID, nullable=False),
        sa.Column("seq", ID, nullable=False),
        sa.Column("role", sa.Integer(), nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("words", sa.Integer(), nullable=False),
        sa.Column("created_ms", ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_indexed_message"),
    )
    op.create_table(
        "embedding",
        sa.Column("message_id", ID, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("norm", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["message_id"], ["message.id"], name="fk_embedding_message_id_message"),
        sa.PrimaryKeyConstraint("message_id", "model", name="pk_embedding"),
    )


def _create_inbox() -> None:
    op.create_table(
        "inbox",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), server_default="", nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("member", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("payload", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="received", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("owner", sa.Text(), server_default="", nullable=False),
        sa.Column("lease_until_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("attempts", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("sent_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("received_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("done_ms", ID, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_inbox_account_id_account"),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name="fk_inbox_turn_id_turn"),
        sa.PrimaryKeyConstraint("id", name="pk_inbox"),
        sa.UniqueConstraint("platform", "tenant", "key", name="uq_inbox_platform_tenant_key"),
    )
    op.create_index("ix_inbox_turn_id", "inbox", ["turn_id"], unique=False)
    op.create_index(
        "ix_inbox_waiting",
        "inbox",
        ["state", "platform", "tenant", "chat", "thread", "member", "id"],
        unique=False,
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="planned", nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("attempts", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("not_before_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("sent_ms", ID, nullable=True),
        sa.ForeignKeyConstraint(["turn_id"], ["turn.id"], name="fk_outbox_turn_id_turn"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("source", "seq", name="uq_outbox_source_seq"),
    )
    op.create_index("ix_outbox_turn_id", "outbox", ["turn_id"], unique=False)
    op.create_index(
        "ix_outbox_waiting", "outbox", ["state", "platform", "tenant", "chat", "id"], unique=False
    )


def _create_memory() -> None:
    op.create_table(
        "memory_text",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("version", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("updated_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("owner", "target", name="pk_memory_text"),
    )
    op.create_table(
        "memory_journal",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), server_default="", nullable=False),
        sa.Column("after", sa.Text(), server_default="", nullable=False),
        sa.Column("operations", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("actor", sa.Text(), server_default="", nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("platform", sa.Text(), server_default="", nullable=False),
        sa.Column("session", sa.Text(), server_default="", nullable=False),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_memory_journal_account_id_account"),
        sa.PrimaryKeyConstraint("id", name="pk_memory_journal"),
    )
    op.create_index("ix_memory_journal_owner_id", "memory_journal", ["owner", "id"], unique=False)
    op.create_index("ix_memory_journal_state", "memory_journal", ["state"], unique=False)


def _create_skills_and_reminders() -> None:
    op.create_table(
        "skill",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("owner", sa.Text(), server_default="", nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("files", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="live", nullable=False),
        sa.Column("origin", sa.Text(), server_default="", nullable=False),
        sa.Column("pinned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("uses", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("used_ms", ID, nullable=True),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_skill"),
        sa.UniqueConstraint("owner", "name", "state", name="uq_skill_owner_name_state"),
    )
    op.create_table(
        "reminder",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("stream_id", ID, nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("chat", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), server_default="", nullable=False),
        sa.Column("content", sa.Text(), server_default="", nullable=False),
        sa.Column("cron", sa.Text(), server_default="", nullable=False),
        sa.Column("timezone", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("due_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_reminder_account_id_account"),
        sa.ForeignKeyConstraint(["stream_id"], ["stream.id"], name="fk_reminder_stream_id_stream"),
        sa.PrimaryKeyConstraint("id", name="pk_reminder"),
    )
    op.create_index("ix_reminder_state_due_ms", "reminder", ["state", "due_ms"], unique=False)


def _create_providers() -> None:
    op.create_table(
        "provider_outbox",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("attempts", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("not_before_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_provider_outbox"),
        sa.UniqueConstraint("provider", "key", name="uq_provider_outbox_provider_key"),
    )
    op.create_table(
        "provider_mirror",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("entry_hash", sa.Text(), nullable=False),
        sa.Column("remote_id", sa.Text(), server_default="", nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("provider", "owner", "entry_hash", name="pk_provider_mirror"),
    )


def _create_usage_and_facts() -> None:
    op.create_table(
        "usage",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("account_id", ID, nullable=True),
        sa.Column("room_id", ID, nullable=True),
        sa.Column("session_id", ID, nullable=True),
        sa.Column("turn_id", ID, nullable=True),
        sa.Column("purpose", sa.Text(), server_default="", nullable=False),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("prompt_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("cached_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("completion_tokens", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("cost_micros", ID, server_default=sa.text("0"), nullable=False),
        sa.Column("created_ms", ID, server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_usage_account_id_account"),
        sa.ForeignKeyConstraint(["room_id"], ["room.id"], name="fk_usage_room_id_room"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_usage_session_id_session"),
        sa.PrimaryKeyConstraint("id", name="pk_usage"),
    )
    op.create_index("ix_usage_account_id_created_ms", "usage", ["account_id", "created_ms"], unique=False)
    op.create_table(
        "kv",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_kv"),
    )
