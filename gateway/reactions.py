"""What people's reactions to an answer become: a line that the model reads with their next message."""

from sqlalchemy import Connection

from trunkline.adapters.base import InboundMessage, OutboundMessage
from trunkline.agent.prompt import clean_label
from trunkline.gateway.payloads import dump_inbound, load_inbound, load_outbound
from trunkline.gateway.state import inbox, namesakes, people, presses, reacted
from trunkline.gateway.state.inbox import Arrival
from trunkline.gateway.state.records import Account, Room, SessionKey

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


def take(connection: Connection, key: SessionKey, room: Room | None) -> list[str]:
    """The lines for what was noted under a key since the last turn: each person's last word on an answer.

    In a room they say who it was, since somebody else may ask next.
    """
    last: dict[tuple[str, str], InboundMessage] = {}
    for payload in reacted.take_noted(connection, key):
        reaction = load_inbound(payload)
        if reaction.reply_to is not None:
            last[reaction.sender.id, reaction.reply_to.message_id] = reaction
    lines = (_line(connection, reaction, room) for reaction in last.values() if reaction.text)
    return ["\n".join(lines)] if last else []


def _line(connection: Connection, reaction: InboundMessage, room: Room | None) -> str:
    who = "The person" if room is None else _who(connection, reaction, room)
    under = "" if reaction.reply_to is None else reaction.reply_to.message_id
    found = reacted.find(connection, reaction.platform, reaction.tenant, reaction.chat, under)
    # Of what was forgotten, or is old, only the row is left.
    what = "an answer of yours" if found is None or not found[0] else _what(load_outbound(found[0]), found[1])
    return f"{who} reacted with {clean_label(reaction.text, EMOJI_CHARS)} to {what}."


def _who(connection: Connection, reaction: InboundMessage, room: Room) -> str:
    """A name, which somebody else may have, too: then with the number by which they are told apart."""
    sender = reaction.sender
    found = people.find_account(connection, reaction.platform, reaction.realm, sender.id)
    name = sender.label if found is None else found.label or sender.label
    shown = f'"{clean_label(name, NAME_CHARS)}"'
    is_alike = found is not None and namesakes.alike(connection, room.id, [found.id])
    return f"{shown} #{found.id}" if found is not None and is_alike else shown


def _what(message: OutboundMessage, place: int) -> str:
    """How the model is told which message of its own it is: by its words, or by the file that it brought."""
    if message.file is None:
        return f'your answer "{clean_label(message.chunk.text, BEGINNING_CHARS)}"'
    file = message.files[place]
    return f'the file "{clean_label(file.name, NAME_CHARS)}" that you sent'
