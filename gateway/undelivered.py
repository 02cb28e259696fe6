"""What a person is told of messages of an answer, or of a command's reply, that were refused, or of which
nobody knows whether they arrived. Sending them is the delivery's."""

from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import ChatRef, Chunk, OutboundMessage
from trunkline.gateway.clock import now_ms
from trunkline.gateway.late_answers import asker_of, language_of
from trunkline.gateway.payloads import dump_outbound, load_inbound
from trunkline.gateway.reminder_delivery import is_reminder, repeat_in_doubt
from trunkline.gateway.sentences import say
from trunkline.gateway.state import outbox
from trunkline.gateway.state.outbox import Plan
from trunkline.gateway.state.records import OutboxRow

ANSWER = "t:"
"""Begins the source of an answer's text; the turn's number follows."""
REPLY = "i:"
"""Begins the source of the reply to a command; the number of its inbox row follows."""
DOUBT = "d:"
"""Begins the source of what is told here."""


def plan_doubt(connection: Connection, where: Plan, to: ChatRef, language: str) -> None:
    """Plans the sentence that a part of an answer may not have arrived, once for each answer."""
    _tell_once(connection, where, f"{DOUBT}{where.source}", to, say("answer_in_doubt", language))


def report_doubt(connection: Connection, row: OutboxRow) -> None:
    """Tells the person when a message that may not have arrived is a part of what they asked for; a reminder
    is said again, with that word before it."""
    if is_reminder(row.source):
        repeat_in_doubt(connection, row, f"{DOUBT}{row.source}:{row.seq}", now_ms())
    if row.source.startswith((ANSWER, REPLY)) or row.kind == "file":
        to = ChatRef(row.chat, row.thread or None)
        plan_doubt(connection, _place_of(row), to, _language_of(connection, row))


def report_refusal(connection: Connection, row: OutboxRow, message: OutboundMessage) -> None:
    """Tells the person of each file that was refused, and once of an answer's or a reply's text that was."""
    language = _language_of(connection, row)
    if row.kind == "file":
        name = "" if message.file is None else message.file.name
        source = f"{DOUBT}{row.source}:{row.seq}"
        _tell_once(connection, _place_of(row), source, message.to, say("file_not_sent", language, name=name))
    elif row.source.startswith((ANSWER, REPLY)) and row.kind != "delete":
        key = "answer_refused" if row.source.startswith(ANSWER) else "reply_refused"
        _tell_once(connection, _place_of(row), f"{DOUBT}{row.source}:refused", message.to, say(key, language))


def _place_of(row: OutboxRow) -> Plan:
    return Plan(row.source, row.platform, row.tenant, row.chat, row.thread)


def _tell_once(connection: Connection, where: Plan, source: str, to: ChatRef, sentence: str) -> None:
    if outbox.find(connection, source, 0) is None:
        told = dump_outbound(OutboundMessage(to, Chunk(sentence)))
        outbox.plan(connection, replace(where, source=source), [told], now_ms())


def _language_of(connection: Connection, row: OutboxRow) -> str:
    """The language of the person whom the row answers: the one they chose, else their app's while we know
    it."""
    chosen, question = outbox.asked_by(connection, row.id)
    if chosen or question:
        return chosen or load_inbound(question).language
    return language_of(asker_of(connection, row))
