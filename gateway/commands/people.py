"""What the owner and admins do with people: let in, turn away, list, give a role, block."""

from sqlalchemy import Connection

from trunkline.gateway import identity
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.labels import plain_label
from trunkline.gateway.linking import describe_account, shown_name
from trunkline.gateway.roles import ROLE_ORDER, has_role
from trunkline.gateway.sentences import describe_role, say
from trunkline.gateway.state import codes, erasure, people
from trunkline.gateway.state.records import Person, SessionKey

OFF = frozenset({"off", "关"})
GIVEN_ROLES = ROLE_ORDER[:-1]
"""There is one owner, whom set-up or config.yaml names."""


async def deny(context: CommandContext) -> str:
    found = await context.house.database.write(
        lambda c: identity.deny(c, context.argument, now_ms(), typed_by=context.account.id)
    )
    if isinstance(found, codes.Refused):
        return say("code_locked" if found.locked_until_ms else "code_wrong", context.language)
    return say("denied", context.language, who=describe_account(found, context.language))


async def list_people(context: CommandContext) -> str:
    """Everybody with role and platforms, and who holds a pairing code; nothing that anybody said."""
    language = context.language

    def work(connection: Connection) -> list[str]:
        lines = [_line(connection, person, language) for person in people.list_people(connection)]
        for account_id in codes.waiting_accounts(connection, now_ms()):
            who = describe_account(people.load_account(connection, account_id), language)
            lines.append(f"- {who}: {say('people_waiting', language)}")
        return lines

    return "\n".join([say("people", language), "", *await context.house.database.read(work)])


def _line(connection: Connection, person: Person, language: str) -> str:
    owned = people.accounts_of(connection, person.id)
    platforms = dict.fromkeys(one.platform for one in owned if one.platform not in identity.LOCAL_PLATFORMS)
    notes = [describe_role(person.role, language), *platforms]
    if person.suspended or any(one.blocked for one in owned):
        notes.append(say("people_suspended", language))
    shown = plain_label(person.name)
    name = f" {shown}" if shown and shown != person.slug else ""
    return f"- `{person.slug}`{name}: {', '.join(notes)}"


async def set_role(context: CommandContext) -> str:
    slug, _, role = context.argument.strip().casefold().partition(" ")
    role = role.strip()
    if role not in GIVEN_ROLES:
        return say("role_usage", context.language, roles=", ".join(GIVEN_ROLES))

    def work(connection: Connection) -> str:
        person = people.find_person(connection, slug)
        refused = _refused(person, context)
        if refused is not None or person is None:
            return refused or ""
        people.change_person(connection, person.id, role=role)
        named = describe_role(role, context.language)
        return say("role_set", context.language, name=shown_name(person), role=named)

    return await context.house.database.write(work)


async def block(context: CommandContext) -> str:
    """Silences somebody everywhere, or lets them speak again; deletes nothing."""
    slug, _, word = context.argument.strip().casefold().partition(" ")
    blocked = not word
    if not slug or not (blocked or word.strip() in OFF):
        return say("block_usage", context.language)

    def work(connection: Connection) -> str:
        person = people.find_person(connection, slug)
        refused = _refused(person, context)
        if refused is not None or person is None:
            return refused or ""
        for account in people.accounts_of(connection, person.id):
            people.block_account(connection, account.id, blocked=blocked)
        key = "blocked" if blocked else "unblocked"
        return say(key, context.language, name=shown_name(person))

    told = await context.house.database.write(work)
    for key in await context.house.database.read(lambda c: _silenced(c, slug)):
        context.house.turns.stop(key)
    return told


def _silenced(connection: Connection, slug: str) -> tuple[SessionKey, ...]:
    """Where somebody is being answered who may no longer talk."""
    person = people.find_person(connection, slug)
    owned = () if person is None else people.accounts_of(connection, person.id)
    return erasure.running(connection, [one for one in owned if one.blocked])


def _refused(person: Person | None, context: CommandContext) -> str | None:
    """Why a command can't change this person: unknown, named by config.yaml, or no less than the asker."""
    if person is None or person.source == "joined":
        return say("no_such_person", context.language)
    if person.source == "config":
        return say("fixed_person", context.language, name=shown_name(person))
    own = context.account.person
    if person.role == "owner" or (own is not None and own.id == person.id):
        return say("not_this_person", context.language)
    is_peer = has_role(context.account, "admin") and person.role == "admin"
    if is_peer and not has_role(context.account, "owner"):
        return say("not_this_person", context.language)
    return None
