"""A stranger's wish to be let in, as the owner sees it: one message with buttons, and what they decide."""

from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from trunkline.adapters.base import Button, ChatRef, Chunk, OutboundMessage
from trunkline.agent.scope import AccountId
from trunkline.gateway import identity
from trunkline.gateway.labels import plain_label
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import describe_place, say
from trunkline.gateway.state import codes, outbox, people, sessions
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import Account, Person, SessionKey

ADMIT, REFUSE = "admit", "refuse"

NOTICES_PER_HOUR = 10
"""Beyond them strangers still get their codes; nobody can fill the owner's chat."""
HOUR_MS = 3_600_000
SOURCE = "a:"
"""Begins the source of a notice."""


@dataclass(frozen=True, slots=True)
class Told:
    """The chat in which the owner was told."""

    platform: str
    chat: str


def tell_owner(connection: Connection, account: Account, stamp_ms: int) -> Told | None:
    """Plans the notice in the chat in which an owner was last talked to; None where there is none."""
    found = find_owner(connection)
    if found is None:
        return None
    if outbox.count_since(connection, SOURCE, stamp_ms - HOUR_MS) >= NOTICES_PER_HOUR:
        return None
    owner, place = found
    language = owner.language
    sentence = say(
        "request",
        language,
        name=plain_name(account) or say("request_nameless", language),
        platform=describe_place(account.platform, language),
    )
    buttons = (
        Button(ADMIT, say("button_admit", language), str(account.id)),
        Button(REFUSE, say("button_refuse", language), str(account.id)),
    )
    notice = OutboundMessage(ChatRef(place.chat, place.thread or None), Chunk(sentence), buttons=buttons)
    where = Plan(f"{SOURCE}{account.id}:{stamp_ms}", place.platform, place.tenant, place.chat, place.thread)
    outbox.plan(connection, where, [dump_outbound(notice)], stamp_ms)
    return Told(place.platform, place.chat)


def find_owner(connection: Connection) -> tuple[Person, SessionKey] | None:
    """An owner, and the chat in which they were last talked to; None where there is no such chat."""
    homes = ((owner, sessions.home_of(connection, owner.id)) for owner in people.owners(connection))
    return next(((owner, home) for owner, home in homes if home is not None), None)


def plain_name(account: Account) -> str:
    return plain_label(account.label)


def decide(connection: Connection, stranger: AccountId, language: str, stamp_ms: int, *, let_in: bool) -> str:
    """Does what the owner decided, once, and says what came of it. Who presses is checked by the caller."""
    try:
        account = people.load_account(connection, stranger)
    except NoResultFound:
        return say("request_decided", language)
    if account.person is not None or account.blocked:
        return say("request_decided", language)
    codes.spend(connection, "pair", stranger)
    if let_in:
        person = identity.let_in(connection, account, stamp_ms).person
        return say("approved", language, name=plain_label(person.name) or person.slug)
    people.block_account(connection, stranger, blocked=True)
    return say("request_refused", language, name=plain_name(account) or account.user_id)
