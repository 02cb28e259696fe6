"""Who hears from us before they ask: people let in beforehand are greeted, who may talk gets suggestions."""

from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy import Connection

from trunkline.adapters.base import ChatKind, InboundKind, InboundMessage
from trunkline.gateway.identity import LOCAL_PLATFORMS
from trunkline.gateway.sentences_surfaces import SUGGESTIONS
from trunkline.gateway.state import inbox, kv, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import Account

Suggestions = Callable[[str, str, str], Awaitable[Sequence[str]]]
"""What to suggest to a platform's account, by platform, realm and user id."""


async def suggest(database: Database, platform: str, realm: str, user: str) -> Sequence[str]:
    """Nothing to a stranger, whom no platform is to be called for."""
    found = await database.read(lambda c: people.find_account(c, platform, realm, user))
    may_talk = found is not None and found.person is not None and not found.person.suspended
    return SUGGESTIONS if may_talk and found is not None and not found.blocked else ()


def is_first_contact(connection: Connection, message: InboundMessage, account: Account) -> bool:
    """Whether this is the first message ever that the person wrote to us directly; true once.

    Whoever got a code, a link or an approval wrote before, and was greeted then.
    """
    person = account.person
    if person is None or message.platform in LOCAL_PLATFORMS:
        return False
    if message.kind is not InboundKind.MESSAGE or message.chat_kind is not ChatKind.DIRECT:
        return False
    key = f"greeted.{person.id}"
    if kv.get_value(connection, key) is not None:
        return False
    kv.put_value(connection, key, "1")
    own = [one.id for one in people.accounts_of(connection, person.id)]
    return not inbox.has_written(connection, own)
