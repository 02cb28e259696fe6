"""Who hears from us for the first time and was let in beforehand: in the settings, or by open access."""

from sqlalchemy import Connection

from trunkline.adapters.base import ChatKind, InboundKind, InboundMessage
from trunkline.gateway.identity import LOCAL_PLATFORMS
from trunkline.gateway.state import inbox, kv, people
from trunkline.gateway.state.records import Account


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
