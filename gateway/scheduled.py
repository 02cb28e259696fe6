"""A scheduled run as a turn: the message that begins it, and what models are told of what came by itself."""

import re
from datetime import UTC, datetime

from sqlalchemy import Connection

from trunkline.adapters.base import ChatKind, InboundKind, InboundMessage, Sender
from trunkline.gateway.reminder_times import describe_moment
from trunkline.gateway.state import reminders
from trunkline.gateway.state.records import Account, Room, Session, SessionKey
from trunkline.gateway.state.reminders import Reminder

SCHEDULED = "scheduled"
"""The kind of the inbox row of a run, and the origin of its session."""
TOLD_CHARS = 1_500
MOST_RUNS = 3
_EVENT = re.compile(r"reminder:([0-9]+):([0-9]+)")


def event_of(number: int, due_ms: int | None = None) -> str:
    """Names a run to the inbox; without a time, how the names of all runs of that reminder begin."""
    return f"reminder:{number}:{'' if due_ms is None else due_ms}"


def is_run(inbound: InboundMessage) -> bool:
    """Whether a schedule began the turn of this message."""
    return inbound.message_id is None and _EVENT.fullmatch(inbound.event_id or "") is not None


def begin_message(one: Reminder, account: Account, room: Room | None, key: SessionKey) -> InboundMessage:
    """What stands in the inbox for a run, as if its maker had said it under that key at that hour."""
    return InboundMessage(
        platform=key.platform,
        tenant=key.tenant,
        kind=InboundKind.MESSAGE,
        chat=key.chat,
        chat_kind=ChatKind.DIRECT if room is None else ChatKind.GROUP,
        sender=Sender(account.user_id, account.label),
        sent_at=datetime.fromtimestamp(one.due_ms / 1000, UTC),
        text=one.text,
        realm=account.realm if room is None else room.realm,
        thread=key.thread or None,
        event_id=event_of(one.id, one.due_ms),
        mentions_me=True,
        language=one.language,
    )


def tell_run(inbound: InboundMessage, now: datetime) -> list[str]:
    """What the model of a run is told of its turn."""
    due = describe_moment(inbound.sent_at.astimezone(now.tzinfo), now, "")
    return [
        f"This turn was begun by a schedule, due {due}. The text is what the person asked for ahead of time; "
        "nobody is writing just now. Do it and answer with the result alone. Nobody can answer a question "
        "before you are done."
    ]


def tell_model(connection: Connection, current: Session) -> list[str]:
    """What came into a chat by itself since its conversation's last message, for the model to know of."""
    fired = reminders.fired_here(connection, current.key, current.last_ms)
    lines = [f"Since then you reminded the person here: “{_short(one.text)}”" for one in fired]
    answers = reminders.run_answers(connection, current, MOST_RUNS)
    return [*lines, *(f"Since then a scheduled run of yours wrote here:\n{_short(one)}" for one in answers)]


def _short(text: str) -> str:
    return text if len(text) <= TOLD_CHARS else text[: TOLD_CHARS - 1] + "…"
