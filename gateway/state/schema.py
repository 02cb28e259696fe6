"""The tables of state.db, once for SQLite and PostgreSQL. Indexes for full text are in the migrations.

Times are integers, milliseconds since 1970 UTC. `message.id` is `stream << 32 | n` on both databases.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from trunkline.gateway.state.schema_compaction import compaction_table
from trunkline.gateway.state.schema_early import early_deletion_table
from trunkline.gateway.state.schema_facts import fact_tables
from trunkline.gateway.state.schema_files import file_tables
from trunkline.gateway.state.schema_over import INBOX_OVER, OUTBOX_OVER, index_over
from trunkline.gateway.state.schema_reminders import reminder_tables

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# A BigInteger primary key is no rowid alias on SQLite; there every integer is 64 bits wide anyway.
Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", Id, primary_key=True, autoincrement=True)


def _ref(name: str, target: str, *, nullable: bool = True) -> Column[int]:
    return Column(name, Id, ForeignKey(target), nullable=nullable)


def _text(name: str, default: str | None = "") -> Column[str]:
    if default is None:
        return Column(name, Text, nullable=True)
    return Column(name, Text, nullable=False, server_default=default)


def _int(name: str, default: int | None = 0) -> Column[int]:
    if default is None:
        return Column(name, Id, nullable=True)
    return Column(name, Id, nullable=False, server_default=text(str(default)))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=false())


person = Table(
    "person",
    metadata,
    _id(),
    Column("slug", Text, nullable=False, unique=True),
    _text("name"),
    _text("role", "member"),  # owner, admin, member, guest
    _text("source"),  # config, setup, pairing, open
    _text("timezone"),
    _text("language"),
    _int("daily_token_budget", None),
    _flag("suspended"),
    _int("created_ms"),
)

account = Table(
    "account",
    metadata,
    _id(),
    Column("platform", Text, nullable=False),
    _text("realm"),
    Column("user_id", Text, nullable=False),
    _ref("person_id", "person.id"),
    _text("source"),  # config, pairing, link, setup, local; empty without a person
    _text("label"),
    _flag("blocked"),
    _int("created_ms"),
    UniqueConstraint("platform", "realm", "user_id"),
    Index(None, "person_id"),
)

room = Table(
    "room",
    metadata,
    _id(),
    Column("slug", Text, nullable=False, unique=True),
    Column("platform", Text, nullable=False),
    _text("realm"),
    Column("chat", Text, nullable=False),
    _text("title"),
    _text("source"),  # config, command; empty while not allowed
    _flag("allowed"),
    _flag("reported"),  # the owner has been told that the bot was added here
    _int("created_ms"),
    UniqueConstraint("platform", "realm", "chat"),
)

# Who took part in a room: wrote there and has not left. Ends access to its history when left.
room_member = Table(
    "room_member",
    metadata,
    Column("room_id", Id, ForeignKey("room.id"), primary_key=True),
    Column("account_id", Id, ForeignKey("account.id"), primary_key=True),
    _int("first_ms"),
    _int("left_ms", None),
    Index(None, "account_id"),
)

# The unit of scope: one account's direct chats, or one room. `last_n` numbers its messages.
stream = Table(
    "stream",
    metadata,
    _id(),
    Column("account_id", Id, ForeignKey("account.id"), unique=True, nullable=True),
    Column("room_id", Id, ForeignKey("room.id"), unique=True, nullable=True),
    _int("last_n"),
    _int("indexed_count"),  # messages in the full-text index and the sum of their lengths in words
    _int("indexed_words"),
)

system_prompt = Table(
    "system_prompt",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("content", Text, nullable=False),
)

session = Table(
    "session",
    metadata,
    _id(),
    Column("public_id", Text, nullable=False, unique=True),
    _ref("stream_id", "stream.id", nullable=False),
    # The session key: `member` is the account id where a room keeps one session per person, else 0.
    Column("platform", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("chat", Text, nullable=False),
    _text("thread"),
    _int("member"),
    _text("title"),
    _text("model"),
    Column("prompt_hash", Text, ForeignKey("system_prompt.hash"), nullable=True),
    _text("snapshot"),  # the memory entries the model has been told of, as JSON
    _text("skills"),  # the skills it has been told of, as JSON
    _ref("parent_id", "session.id"),
    _text("origin"),  # empty, idle, resume, branch, scheduled
    _flag("private"),
    _int("started_ms"),
    _int("last_ms"),
    _int("ended_ms", None),
    _text("end_reason"),
    _int("message_count"),
    _int("prompt_tokens"),
    _int("cached_tokens"),
    _int("completion_tokens"),
    _int("cost_micros"),
    Index(None, "parent_id"),
    Index(None, "prompt_hash"),
    Index(None, "stream_id", "last_ms", "title"),  # a search reads all titles of a scope from it
    Index(
        "uq_session_open",
        "platform",
        "tenant",
        "chat",
        "thread",
        "member",
        unique=True,
        sqlite_where=text("ended_ms IS NULL"),
        postgresql_where=text("ended_ms IS NULL"),
    ),
)

turn = Table(
    "turn",
    metadata,
    _id(),
    _ref("session_id", "session.id", nullable=False),
    _ref("account_id", "account.id", nullable=False),
    _text("state", "running"),  # running, done, stopped, failed
    _text("reason"),
    _int("attempt", 1),  # the fencing token: every commit of the turn checks it
    _text("owner"),  # the process that runs it
    _int("started_ms"),
    _int("ended_ms", None),
    Index(None, "session_id"),
    Index(None, "state"),
)

step = Table(
    "step",
    metadata,
    Column("turn_id", Id, ForeignKey("turn.id"), primary_key=True),
    Column("n", Integer, primary_key=True),
    _text("state"),  # calling, done
    _text("finish_reason"),
    _int("started_ms"),
    _int("ended_ms", None),
)

message = Table(
    "message",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    _ref("session_id", "session.id", nullable=False),
    _ref("turn_id", "turn.id"),
    _int("step_n"),
    _int("seq"),
    Column("role", Text, nullable=False),  # user, assistant, tool
    _ref("account_id", "account.id"),  # the author of a user message
    _text("content"),
    _text("sent", None),  # the exact text the model got, where it differs from content
    _text("tool_calls", None),  # JSON list of id, name, arguments
    _text("tool_call_id", None),
    _text("tool_name", None),
    _flag("is_error"),
    _flag("interrupted"),
    _text("finish_reason"),
    _text("platform_ids", None),  # JSON list of the platform's message ids
    _text("parts", None),  # where in `content` each of several messages stands, as JSON
    # Whose lines stand in `sent` as overheard: an account for each line, in order, between commas.
    _text("heard_from", None),
    _int("quoted_from", None),  # the account whose words are quoted in `sent`
    _text("state", "live"),  # live, compacted, undone, redacted
    _int("created_ms"),
    UniqueConstraint("session_id", "seq"),
    Index(None, "turn_id"),
)

# What ranking needs of an indexed message, narrow so that a search reads few pages.
indexed_message = Table(
    "indexed_message",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("session_id", Id, nullable=False),
    Column("seq", Id, nullable=False),
    Column("role", Integer, nullable=False),  # 0 user, 1 assistant, 2 tool
    Column("account_id", Id, nullable=True),
    Column("words", Integer, nullable=False),
    Column("created_ms", Id, nullable=False),
)

attachment, dropped_file = file_tables(metadata)

inbox = Table(
    "inbox",
    metadata,
    _id(),
    Column("platform", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("key", Text, nullable=False),
    # The session key it belongs to; chat is empty for what starts no turn.
    _text("chat"),
    _text("thread"),
    _int("member"),
    _ref("account_id", "account.id"),
    _text("kind"),
    _text("payload"),  # the InboundMessage as JSON; emptied when it is no longer needed
    _text("state", "received"),  # received, leased, done, failed, dead
    _text("reason"),
    _text("owner"),
    _int("lease_until_ms"),
    _int("attempts"),
    _ref("turn_id", "turn.id"),
    _int("sent_ms"),
    _int("received_ms"),
    _int("not_before_ms"),  # held back so long: its author writes faster than they may
    _int("done_ms", None),
    UniqueConstraint("platform", "tenant", "key"),
    Index("ix_inbox_waiting", "state", "platform", "tenant", "chat", "thread", "member", "id"),
    Index(None, "account_id", "received_ms"),
    Index(None, "turn_id"),
    index_over("ix_inbox_over", "done_ms", INBOX_OVER),
)

# What was said in a room without being said to the assistant, for its next answer there.
heard = Table(
    "heard",
    metadata,
    _id(),
    _ref("room_id", "room.id", nullable=False),
    Column("platform", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("chat", Text, nullable=False),
    _text("thread"),
    _ref("account_id", "account.id", nullable=False),
    _text("message_id"),
    _text("content"),
    _int("sent_ms"),
    _int("heard_ms"),
    Index(None, "platform", "tenant", "chat", "thread", "id"),
)

outbox = Table(
    "outbox",
    metadata,
    _id(),
    Column("source", Text, nullable=False),  # t:<turn> for an answer, i:<inbox row> for a reply, n:<uuid>
    Column("seq", Integer, nullable=False),
    _ref("turn_id", "turn.id"),
    Column("platform", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("chat", Text, nullable=False),
    _text("thread"),
    Column("kind", Text, nullable=False),  # preview, text, buttons, file, delete
    _text("payload"),  # the OutboundMessage as JSON
    _text("state", "planned"),  # planned, sending, sent, unknown, refused
    _text("message_id", None),
    _int("attempts"),
    _int("not_before_ms"),
    _text("error"),
    _int("created_ms"),
    _int("sent_ms", None),
    UniqueConstraint("source", "seq"),
    Index("ix_outbox_waiting", "state", "platform", "tenant", "chat", "id"),
    Index(None, "turn_id"),
    index_over("ix_outbox_over", "created_ms", OUTBOX_OVER),
)

# In use on PostgreSQL; on SQLite the two texts are files.
memory_text = Table(
    "memory_text",
    metadata,
    Column("owner", Text, primary_key=True),  # person:<slug> or room:<slug>
    Column("target", Text, primary_key=True),
    _text("content"),
    _int("version"),
    _int("updated_ms"),
)

memory_journal = Table(
    "memory_journal",
    metadata,
    _id(),
    Column("owner", Text, nullable=False),  # person:<slug> or room:<slug>
    Column("target", Text, nullable=False),
    Column("action", Text, nullable=False),
    _text("before"),
    _text("after"),
    _text("operations"),  # of a held write only: its number and what it would do, as JSON
    _text("state", "pending"),  # pending, done, abandoned, undone, held
    _text("actor"),
    _ref("account_id", "account.id"),
    _text("platform"),
    _text("session"),
    _int("turn_id", None),
    _int("created_ms"),
    Index(None, "owner", "id"),
    Index(None, "state"),
)

skill = Table(
    "skill",
    metadata,
    _id(),
    _text("owner"),  # person:<slug>, room:<slug>, empty for shared ones
    Column("name", Text, nullable=False),
    _text("description"),
    _text("content"),
    _text("files"),
    _text("state", "live"),  # live, stale, archived
    _text("origin"),
    _flag("pinned"),
    _int("uses"),
    _int("used_ms", None),
    _int("created_ms"),
    UniqueConstraint("owner", "name", "state"),
)

reminder, home = reminder_tables(metadata)

code = Table(
    "code",
    metadata,
    _id(),
    Column("purpose", Text, nullable=False),  # pair, link, setup
    _ref("account_id", "account.id"),
    Column("salt", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    _text("state", "active"),  # active, used, replaced
    _int("created_ms"),
    _int("expires_ms"),
    Index(None, "purpose", "state"),
    Index(None, "account_id"),
)

# Two accounts of which one typed the other's code: they become one person's when both have said yes.
link_request = Table(
    "link_request",
    metadata,
    _id(),
    _ref("asker_id", "account.id", nullable=False),  # whose code it was
    _ref("other_id", "account.id", nullable=False),  # who typed it
    _flag("asker_yes"),
    _flag("other_yes"),
    _text("state", "open"),  # open, done, refused
    _int("created_ms"),
    _int("expires_ms"),
    Index(None, "asker_id"),
    Index(None, "other_id"),
)

# A slug that became another person's when two were joined. What providers keep under it is that person's.
person_alias = Table(
    "person_alias",
    metadata,
    Column("slug", Text, primary_key=True),
    _ref("person_id", "person.id", nullable=False),
    _text("accounts"),  # JSON lists of what to give back when the two are parted again: the accounts,
    _text("journal"),  # the journal rows that came along, and the writes that joined the memories
    _text("writes"),
    _int("created_ms"),
    Index(None, "person_id"),
)

usage = Table(
    "usage",
    metadata,
    _id(),
    _ref("account_id", "account.id"),
    _ref("room_id", "room.id"),
    _ref("session_id", "session.id"),
    _int("turn_id", None),
    _text("purpose"),
    _text("model"),
    _int("prompt_tokens"),
    _int("cached_tokens"),
    _int("completion_tokens"),
    _int("cost_micros"),
    _int("created_ms"),
    Index(None, "account_id", "created_ms"),
    Index(None, "session_id"),
)

provider_outbox = Table(
    "provider_outbox",
    metadata,
    _id(),
    Column("provider", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),  # sync, mirror, forget
    Column("key", Text, nullable=False),
    _text("payload"),
    _text("state", "waiting"),
    _int("attempts"),
    _int("not_before_ms"),
    _text("error"),
    _int("created_ms"),
    UniqueConstraint("provider", "key"),
)

provider_mirror = Table(
    "provider_mirror",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("entry_hash", Text, primary_key=True),
    _text("remote_id"),
    _int("created_ms"),
)

embedding = Table(
    "embedding",
    metadata,
    Column("message_id", Id, ForeignKey("message.id"), primary_key=True),
    Column("model", Text, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    Column("norm", Float, nullable=False),
)

fact, fact_term = fact_tables(metadata)

compaction = compaction_table(metadata)

early_deletion = early_deletion_table(metadata)

# Small facts of the install: the analyser's version, what a model can do, wrong tries at codes.
kv = Table(
    "kv",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
