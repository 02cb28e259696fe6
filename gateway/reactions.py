"""What people's reactions to an answer become: a line that the model reads with their next message."""

from sqlalchemy import Connection

from trunkline.adapters.base import InboundMessage
from trunkline.agent.prompt import clean_label
from trunkline.gateway.payloads import dump_inbound, load_inbound, load_outbound
from trunkline.gateway.state import inbox, presses, reacted
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import Account, SessionKey

EMOJI_CHARS = 16
BEGINNING_CHARS = 60
NAME_CHARS = 40


def note(connection: Connection, reaction: InboundMessage, account: Account, stamp_ms: int) -> None:
    """Keeps a reaction to an answer of ours for the conversation it was in; any other is let go."""
    under = reaction.reply_to
    if under is None:
        return
    turn = reacted.turn_of_message(
        connection, reaction.platform, reaction.tenant, reaction.chat, under.message_id
    )
    found = None if turn is None else presses.find_turn(connection, turn)
    if found is None:
        return
    arrival = Arrival(
        found.key,
        reaction.key,
        account.id,
        kind="reaction",
        payload=dump_inbound(reaction),
        sent_ms=int(reaction.sent_at.timestamp() * 1000),
        state="noted",
    )
    inbox.store(connection, arrival, stamp_ms)


def take(connection: Connection, key: SessionKey) -> list[str]:
    """The lines for what was noted under a key since the last turn: each person's last word on an answer."""
    last: dict[tuple[str, str], InboundMessage] = {}
    for payload in reacted.take_noted(connection, key):
        reaction = load_inbound(payload)
        if reaction.reply_to is not None:
            last[reaction.sender.id, reaction.reply_to.message_id] = reaction
    in_room = key.thread != "" or len({sender for sender, _ in last}) > 1
    lines = (_line(connection, reaction, named=in_room) for reaction in last.values() if reaction.text)
    return ["\n".join(lines)] if last else []


def _line(connection: Connection, reaction: InboundMessage, *, named: bool) -> str:
    who = f'"{clean_label(reaction.sender.label, NAME_CHARS)}"' if named else "The person"
    under = "" if reaction.reply_to is None else reaction.reply_to.message_id
    payload = reacted.payload_of(connection, reaction.platform, reaction.tenant, reaction.chat, under)
    answer = "" if not payload else load_outbound(payload).chunk.text
    beginning = clean_label(answer, BEGINNING_CHARS)
    return f'{who} reacted with {clean_label(reaction.text, EMOJI_CHARS)} to your answer "{beginning}".'
