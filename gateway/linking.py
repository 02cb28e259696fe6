"""Two accounts become one person's: by a one-time code, and a yes from both after each saw who the other is.

Everything here is within a transaction. Joining two people who both have a memory is joining's work.
"""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from trunkline.gateway import identity
from trunkline.gateway.labels import plain_label
from trunkline.gateway.roles import ROLE_ORDER
from trunkline.gateway.sentences import describe_place, say
from trunkline.gateway.state import codes, links, people
from trunkline.gateway.state.links import Request
from trunkline.gateway.state.records import Account, Person

CODE_MS = 600_000
PURPOSE = "link"
YES, NO = frozenset({"yes", "是", "好"}), frozenset({"no", "否", "不"})


@dataclass(frozen=True, slots=True)
class Join:
    """Both said yes and both are people already: one is to be joined with the other. `account` spoke last."""

    request: Request
    kept: Person
    gone: Person
    account: Account


Refusal = Literal["same", "fixed", "nobody"]


def issue_code(connection: Connection, account: Account, now_ms: int) -> str:
    """A code for another account of the same person's; an earlier one is no longer good."""
    word = codes.issue(connection, PURPOSE, account.id, now_ms, lasts_ms=CODE_MS, gap_ms=0)
    assert word is not None, "only a gap keeps a code back"
    return word


def take_code(connection: Connection, account: Account, text: str, language: str, now_ms: int) -> str | None:
    """What an account is told that typed somebody's code; None when the text is no code of anybody's.

    A right code is spent and bound to this account; both sides are shown who the other is.
    """
    found = codes.redeem(connection, PURPOSE, text, now_ms, typed_by=account.id)
    if isinstance(found, codes.Refused):
        return say("code_locked", language) if found.locked_until_ms else None
    if found.account is None:
        return None
    asker = people.load_account(connection, found.account)
    refusal = _refusal(asker, account)
    if refusal is not None:
        return say(f"link_{refusal}", language)
    links.add_request(connection, asker.id, account.id, now_ms, CODE_MS)
    shown = say("link_asked", _language(asker), who=describe_account(account, _language(asker)))
    identity.tell(connection, asker, shown, now_ms)
    return say("link_confirm", language, who=describe_account(asker, language))


def answer(
    connection: Connection, account: Account, *, yes: bool, language: str, now_ms: int
) -> str | Join | None:
    """What one side is told about its yes or no; None when nothing waits for it.

    With the second yes the accounts are linked, or the Join that is left to do is returned.
    """
    request = links.open_request(connection, account.id, now_ms)
    if request is None:
        return None
    asker, other = (people.load_account(connection, one) for one in (request.asker, request.other))
    far = other if account.id == asker.id else asker
    if not yes:
        links.close_request(connection, request, "refused")
        identity.tell(connection, far, say("link_refused", _language(far)), now_ms)
        return say("link_refused", language)
    request = links.say_yes(connection, request, account.id, now_ms + CODE_MS)
    if not (request.asker_yes and request.other_yes):
        return say("link_waiting", language, who=describe_account(far, language))
    refusal = _refusal(asker, other)
    if refusal is not None or asker.person is None:
        links.close_request(connection, request, "refused")
        return say(f"link_{refusal}", language)
    if other.person is not None:
        kept, gone = _kept_first(asker.person, other.person)
        return Join(request, kept, gone, account)
    people.give_account(connection, other.id, asker.person.id, "link")
    finish(connection, request, account, now_ms)
    return say("linked", language, name=shown_name(asker.person), who=describe_account(far, language))


def finish(connection: Connection, request: Request, account: Account, now_ms: int) -> None:
    """Ends a request that came true, and tells the side that `account` is not."""
    links.close_request(connection, request, "done")
    far_id = request.other if account.id == request.asker else request.asker
    far, near = (people.load_account(connection, one) for one in (far_id, account.id))
    name = "" if far.person is None else shown_name(far.person)
    sentence = say("linked", _language(far), name=name, who=describe_account(near, _language(far)))
    identity.tell(connection, far, sentence, now_ms)


def take_word_of_stranger(
    connection: Connection, account: Account, argument: str, language: str, now_ms: int
) -> str | None:
    """`/link CODE`, `/link yes` or `/link no` of somebody who is nobody yet; None when it means nothing."""
    word = argument.strip().casefold()
    if word in YES | NO:
        told = answer(connection, account, yes=word in YES, language=language, now_ms=now_ms)
        return told if isinstance(told, str) else None
    if not codes.looks_like_code(argument):
        return None
    return take_code(connection, account, argument, language, now_ms)


def unlink(connection: Connection, account: Account, now_ms: int) -> Person:
    """Makes an account a new person with an empty memory, a member at most; its transcripts go with it."""
    owner = account.person
    assert owner is not None
    role = "guest" if owner.role == "guest" else "member"
    taken = [person.slug for person in people.list_people(connection)]
    slug = people.slugify(account.label or account.platform, taken)
    fresh = people.add_person(
        connection, slug, name=account.label, role=role, source="unlinked", now_ms=now_ms,
        language=owner.language,
    )  # fmt: skip
    people.give_account(connection, account.id, fresh.id, "unlinked")
    return fresh


def describe_account(account: Account, language: str = "") -> str:
    """For example `Ana on Telegram (1001)`: the name can be chosen by anybody, the id can't."""
    label = plain_label(account.label) or "?"
    place = describe_place(account.platform, language)
    return say("account", language, label=label, place=place, id=plain_label(account.user_id))


def shown_name(person: Person) -> str:
    return plain_label(person.name) or person.slug


def _refusal(asker: Account, other: Account) -> Refusal | None:
    """Why two accounts can't be linked by a command."""
    if asker.person is None or asker.person.suspended or asker.blocked or other.blocked:
        return "nobody"
    if other.person is None:
        return None
    if other.person.suspended:
        return "nobody"
    if other.person.id == asker.person.id:
        return "same"
    _, gone = _kept_first(asker.person, other.person)
    return "fixed" if gone.source == "config" or gone.role == "owner" else None


def _kept_first(asker: Person, other: Person) -> tuple[Person, Person]:
    """Whom config.yaml names stays, else the one with more rights, else the one whose code it was."""

    def weight(person: Person) -> tuple[bool, int]:
        return person.source == "config", ROLE_ORDER.index(person.role)

    return (other, asker) if weight(other) > weight(asker) else (asker, other)


def _language(account: Account) -> str:
    return account.language_or("")
