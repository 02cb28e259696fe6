"""Who people are: what config.yaml asserts at each load, approvals by code, and the owner's own accounts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.agent.scope import AccountId
from trunkline.gateway.config_faults import ConfigError, Fault
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.settings import FileSettings, PersonEntry
from trunkline.gateway.state import codes, inbox, kv, outbox, people, usage
from trunkline.gateway.state.records import Account, Person

LOCAL_PLATFORMS = ("web", "terminal")
"""Platforms on this machine: the sender's id there is a person's slug."""

DEFAULT_OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Approved:
    """A stranger has become a person."""

    person: Person
    account: Account


def assert_config(connection: Connection, settings: FileSettings, now_ms: int) -> None:
    """Makes the database agree with `people` and `rooms` of the file, which wins.

    A person or an account that was taken out of the file is suspended or left without a person; nothing
    that was said is deleted. Makes sure that there is an owner.
    """
    _assert_people(connection, settings.people, now_ms)
    _assert_rooms(connection, settings, now_ms)
    usage.keep_prices(connection, settings.prices)
    if not people.owners(connection):
        taken = [person.slug for person in people.list_people(connection)]
        slug = people.slugify(DEFAULT_OWNER, taken)
        people.add_person(connection, slug, name="", role="owner", source="setup", now_ms=now_ms)


def _assert_people(connection: Connection, entries: Mapping[str, PersonEntry], now_ms: int) -> None:
    named: set[tuple[str, str, str]] = set()
    for slug, entry in entries.items():
        person = people.find_person(connection, slug)
        if person is None:
            person = people.add_person(
                connection, slug, name=entry.name, role=entry.role, source="config", now_ms=now_ms
            )
        _check_same_person(connection, person, entry)
        values: dict[str, object] = {"role": entry.role, "source": "config", "suspended": False}
        values |= {"name": entry.name} if entry.name else {}
        values |= {"timezone": entry.timezone} if entry.timezone else {}
        values |= {"language": entry.language} if entry.language else {}
        people.change_person(connection, person.id, **values)
        for ref in entry.accounts:
            named.add((ref.platform, ref.realm, ref.user_id))
            account = people.ensure_account(
                connection, ref.platform, ref.realm, ref.user_id, label="", now_ms=now_ms
            )
            people.give_account(connection, account.id, person.id, "config")
    for account in people.accounts_from(connection, "config"):
        # Somebody taken out whole keeps their accounts, so that they are known as suspended.
        is_named = (account.platform, account.realm, account.user_id) in named
        if not is_named and account.person is not None and account.person.slug in entries:
            people.give_account(connection, account.id, None, "")
    for person in people.list_people(connection):
        if person.source == "config" and person.slug not in entries:
            people.change_person(connection, person.id, suspended=True)


def disagreements(connection: Connection, settings: FileSettings) -> tuple[str, ...]:
    """A sentence for everybody of whom file and database say different things; the file wins."""
    told = [
        f"{person.slug} was taken out of config.yaml and has no access; nothing was deleted."
        for person in people.list_people(connection)
        if person.source == "config" and person.slug not in settings.people
    ]
    for slug, entry in settings.people.items():
        for ref in entry.accounts:
            found = people.find_account(connection, ref.platform, ref.realm, ref.user_id)
            holder = None if found is None else found.person
            if holder is not None and holder.slug != slug:
                account = f"{ref.platform} {ref.user_id}"
                told.append(f"{account} is {holder.slug}'s in the database; config.yaml makes it {slug}'s.")
    return tuple(told)


def _check_same_person(connection: Connection, person: Person, entry: PersonEntry) -> None:
    """A name somebody chose for themselves must not make them the person the file means.

    Raises ConfigError when a person from the chats has this slug and none of the entry's accounts.
    """
    if person.source == "joined":
        advice = "this name belongs to somebody who was joined with another person; choose another one"
        raise ConfigError([Fault(f"people.{person.slug}", advice)])
    if person.source not in ("pairing", "open", "unlinked"):
        return
    own = {
        (account.platform, account.realm, account.user_id)
        for account in people.accounts_of(connection, person.id)
        if account.platform not in LOCAL_PLATFORMS
    }
    if own and not own.intersection((ref.platform, ref.realm, ref.user_id) for ref in entry.accounts):
        known = ", ".join(sorted(f"{platform} {user}" for platform, _, user in own))
        advice = (
            f"somebody from the chats is called {person.slug} already ({known}); choose another name, or "
            "list that account too if it is the same person"
        )
        raise ConfigError([Fault(f"people.{person.slug}", advice)])


def _assert_rooms(connection: Connection, settings: FileSettings, now_ms: int) -> None:
    named = set()
    for ref in settings.room_refs:
        chat = people.chat_now(connection, ref.platform, ref.realm, ref.chat)
        room = people.ensure_room(connection, ref.platform, ref.realm, chat, title="", now_ms=now_ms)
        people.change_room(connection, room.id, allowed=True, source="config")
        named.add(room.id)
    for room in people.rooms_from(connection, "config"):
        if room.id not in named:
            people.change_room(connection, room.id, allowed=False, source="")


def local_account(connection: Connection, platform: str, slug: str, now_ms: int) -> Account | None:
    """The account of a person at the terminal or the local web page; None for a slug nobody has."""
    person = people.find_person(connection, slug)
    if person is None or person.suspended:
        return None
    account = people.ensure_account(connection, platform, "", slug, label=person.name, now_ms=now_ms)
    if account.person is None:
        people.give_account(connection, account.id, person.id, "local")
        account = people.load_account(connection, account.id)
    return account


def approve(
    connection: Connection, text: str, now_ms: int, *, typed_by: AccountId | None
) -> Approved | codes.Refused:
    """Lets the holder of a pairing code in, as a member with an empty memory of their own."""
    found = codes.redeem(connection, "pair", text, now_ms, typed_by=typed_by)
    if isinstance(found, codes.Refused) or found.account is None:
        return codes.Refused() if isinstance(found, codes.Redeemed) else found
    account = people.load_account(connection, found.account)
    if account.person is not None:
        return codes.Refused()  # config.yaml or the owner was faster
    return let_in(connection, account, now_ms)


def let_in(connection: Connection, account: Account, now_ms: int) -> Approved:
    """Makes a stranger's account a new person, a member, and tells them."""
    taken = [person.slug for person in people.list_people(connection)]
    slug = people.slugify(account.label or account.platform, taken)
    person = people.add_person(
        connection, slug, name=account.label, role="member", source="pairing", now_ms=now_ms
    )
    people.give_account(connection, account.id, person.id, "pairing")
    language = kv.get_value(connection, _language_key(account)) or ""
    kv.remove_value(connection, _language_key(account))
    tell(connection, account, say("approved_you", language), now_ms)
    return Approved(person, people.load_account(connection, account.id))


def note_language(connection: Connection, stranger: Account, language: str) -> None:
    """Keeps the language of a stranger's app for the sentence that lets them in."""
    if language:
        kv.put_value(connection, _language_key(stranger), language)


def _language_key(stranger: Account) -> str:
    return f"language.{stranger.id}"


def deny(
    connection: Connection, text: str, now_ms: int, *, typed_by: AccountId | None
) -> Account | codes.Refused:
    """Turns the holder of a pairing code away: the code is spent and the account blocked, without a word."""
    found = codes.redeem(connection, "pair", text, now_ms, typed_by=typed_by)
    if isinstance(found, codes.Refused) or found.account is None:
        return codes.Refused() if isinstance(found, codes.Redeemed) else found
    account = people.load_account(connection, found.account)
    if account.person is not None:
        return codes.Refused()
    people.block_account(connection, account.id, blocked=True)
    return account


def tell(connection: Connection, account: Account, sentence: str, now_ms: int) -> None:
    """Plans a sentence to the account's direct chat; the running program finds it within seconds.

    An account that never wrote to us directly, or writes from this machine, is told nothing.
    """
    place = inbox.last_place(connection, account.id)
    if place is None:
        return
    told = OutboundMessage(ChatRef(place.chat, place.thread or None), Chunk(sentence))
    outbox.plan(connection, outbox.notice(place), [dump_outbound(told)], now_ms)


def claim_owner(connection: Connection, account: Account, text: str, now_ms: int) -> Approved | codes.Refused:
    """Gives an account to the owner when the text is the set-up code printed at start."""
    found = codes.redeem(connection, "setup", text, now_ms, typed_by=account.id)
    owners = people.owners(connection)
    if isinstance(found, codes.Refused) or not owners:
        return found if isinstance(found, codes.Refused) else codes.Refused()
    people.give_account(connection, account.id, owners[0].id, "setup")
    return Approved(owners[0], people.load_account(connection, account.id))


def issue_setup_code(connection: Connection, platforms: Collection[str], now_ms: int) -> str | None:
    """A code by which the owner claims an account of theirs on one of these platforms.

    None when the owner has an account on each of them already, or none of them is a chat platform.
    """
    owners = people.owners(connection)
    known = {account.platform for owner in owners for account in people.accounts_of(connection, owner.id)}
    if set(platforms) <= known.union(LOCAL_PLATFORMS):
        return None
    return codes.issue(connection, "setup", None, now_ms)
