"""Plain values of the rows that the house works with; queries live in the modules beside this one."""

from dataclasses import dataclass

from trunkline.agent.scope import AccountId, PersonId, PersonScope, RoomId, RoomScope, Scope


@dataclass(frozen=True, slots=True)
class Person:
    """Someone the assistant knows. `slug` names folders and never changes; `name` is for showing."""

    id: int
    slug: PersonId
    name: str
    role: str
    timezone: str
    language: str
    source: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class Account:
    """One platform account: a person's, or a stranger's when `person` is None. `label` is never compared.

    `source` tells how it came to its person: config, setup, pairing, open, link, local; else empty.
    """

    id: AccountId
    platform: str
    realm: str
    user_id: str
    label: str
    blocked: bool
    person: Person | None
    source: str = ""

    def language_or(self, app: str) -> str:
        """The language that its person chose, else that of the app they write with."""
        chosen = "" if self.person is None else self.person.language
        return chosen or app


@dataclass(frozen=True, slots=True)
class Room:
    """A top-level chat that is not direct. `allowed` lets its members talk to the assistant there."""

    id: int
    slug: RoomId
    platform: str
    realm: str
    chat: str
    title: str
    allowed: bool
    reported: bool


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What makes two messages part of one conversation. `member` is an account, or 0 when shared."""

    platform: str
    tenant: str
    chat: str
    thread: str = ""
    member: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """The row of one conversation from its start to its end. `snapshot` is a MemorySnapshot as JSON."""

    id: int
    public_id: str
    stream: int
    key: SessionKey
    title: str
    model: str
    prompt: str
    snapshot: str
    started_ms: int
    last_ms: int
    private: bool = False


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A stored inbound message that waits for its turn or has it. `attempts` weighs its tries so far."""

    id: int
    key: SessionKey
    account: AccountId
    kind: str
    payload: str
    attempts: int
    turn: int | None
    sent_ms: int
    received_ms: int = 0


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One message to send. With a `message_id` it is on the platform already and is edited in place."""

    id: int
    source: str
    seq: int
    platform: str
    tenant: str
    chat: str
    thread: str
    kind: str
    payload: str
    state: str
    message_id: str | None
    attempts: int
    created_ms: int


def scope_of(account: Account, room: Room | None) -> Scope:
    """The scope of what `account` says in `room`, or in its direct chat when there is none.

    Raises ValueError for a direct chat of an account without a person: it has nothing to read.
    """
    if room is not None:
        return RoomScope(room.slug, account.id)
    if account.person is None:
        raise ValueError(f"account {account.id} has no person")
    return PersonScope(account.person.slug)
