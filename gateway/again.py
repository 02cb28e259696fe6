"""A turn that is taken anew: for `/retry`, and for an edit of the question answered last.

The old turn is undone, and the new one answers in its messages. Running it is like running any other.
"""

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from trunkline.adapters.base import InboundKind, InboundMessage
from trunkline.agent.messages import UserMessage
from trunkline.agent.scope import Scope
from trunkline.gateway import parts
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import inbox, sessions, takeback, turns
from trunkline.gateway.state.messages import NewMessage, add_message
from trunkline.gateway.state.records import InboxRow, Session
from trunkline.gateway.state.takeback import PastTurn
from trunkline.gateway.state.turns import TurnRow
from trunkline.gateway.wording import with_text

REANSWER_MS = 300_000
"""For so long after an answer an edit of its question changes it."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """The new turn in place of the old one, its question, and the message it answers."""

    row: TurnRow
    user: UserMessage
    inbound: InboundMessage


def past_turn(connection: Connection, row: InboxRow, message: InboundMessage) -> PastTurn | None:
    """The turn that a retry or an edit is about, where it is the last one of the open session."""
    session = sessions.find_open(connection, row.key)
    if session is None:
        return None
    if row.kind == "retry":
        last = takeback.last_turns(connection, session.id, 1)
        return last[0] if last else None
    of = takeback.turn_of(connection, row.key.platform, row.key.tenant, row.key.chat, message.edited_of or "")
    return None if of is None else takeback.find_turn(connection, session.id, of)


def question_of(past: PastTurn) -> parts.Question:
    return parts.of_stored(past.text, past.platform_ids, past.parts)


def edited(question: parts.Question, edit: InboundMessage, text: str) -> parts.Question:
    """A question after an edit of a message it has; the lines of that one's files stay at its end."""
    message_id = edit.edited_of or ""
    lines = question.said(message_id).split("\n")[-len(edit.attachments) :] if edit.attachments else []
    return question.changed(message_id, "\n".join([*([text] if text else []), *lines]))


def repeat(
    connection: Connection,
    row: InboxRow,
    message: InboundMessage,
    past: PastTurn,
    session: Session,
    scope: Scope,
    *,
    owner: str,
    question: parts.Question | None,
) -> Repeated:
    """Undoes the past turn and begins its successor. `question` is what is asked now, if that has changed."""
    stamp_ms = now_ms()
    question = question or question_of(past)
    user = UserMessage(question.text, past.sent)
    if question.text != past.text:
        user = UserMessage(question.text, with_text(past.sent, past.text, question.text))
    takeback.take_back(connection, scope, past.id, "taken anew")
    turn = turns.begin(connection, session.id, session.stream, past.author, owner, stamp_ms)
    asked = add_message(
        connection,
        NewMessage(
            session_id=session.id,
            turn_id=turn.key.turn,
            role="user",
            content=user.text,
            sent=user.sent,
            account_id=past.author,
            platform_ids=past.platform_ids,
            heard_from=past.heard_from,
            quoted_from=past.quoted_from,
            created_ms=stamp_ms,
        ),
    )
    parts.keep(connection, asked, question)
    takeback.hand_over(connection, past.id, turn.key.turn, asked)
    takeback.plan_removal(connection, past.id, stamp_ms)  # its files: the new answer has its own
    inbox.attach_turn(connection, [row.id], turn.key.turn)
    inbound = replace(
        message,
        kind=InboundKind.MESSAGE,
        command=None,
        text=user.text,
        message_id=past.platform_ids[0] if past.platform_ids else message.message_id,
        interaction=None,
        interaction_expires=None,
    )
    return Repeated(turn, turns.recorded(connection, turn.key.turn)[0], inbound)
