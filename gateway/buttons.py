"""Buttons under messages: which there are, and what a press of one asks for.

Most stand for a chat command, which then runs as if the presser had typed it there: what a person may not
type, they can't press.
"""

from dataclasses import replace

from sqlalchemy import Connection

from trunkline.adapters.base import Button, InboundMessage
from trunkline.agent.scope import AccountId
from trunkline.gateway import admission, memory_approval
from trunkline.gateway.sentences import say
from trunkline.gateway.state import held, inbox, presses
from trunkline.gateway.state.records import Account, Room

STOP, RETRY = "stop", "retry"


def under_running(turn: int, language: str) -> tuple[Button, ...]:
    """Under an answer that is being written."""
    return (Button(STOP, say("button_stop", language), str(turn)),)


def under_answer(turn: int, language: str) -> tuple[Button, ...]:
    """Under an answer that is complete."""
    return (Button(RETRY, say("button_retry", language), str(turn)),)


def read_press(
    connection: Connection, press: InboundMessage, account: Account, room: Room | None, stamp_ms: int
) -> InboundMessage | str:
    """The press as the command it stands for, or what the presser is told.

    What a button carries came back through the presser's own program, so nothing in it is trusted.
    """
    person = account.person
    language = account.language_or(press.language)
    action, _, value = press.text.partition(":")
    if not value.isascii() or not value.isdecimal() or len(value) > 18:
        return say("button_over", language)
    match action:
        case "stop" | "retry":
            return _of_turn(connection, press, account, action, int(value), language)
        case "keep" | "drop" if person is not None and room is None:
            waiting = (
                write.number for write in held.list_for(connection, person.slug) if write.mark == int(value)
            )
            number = next(waiting, None)
            word = "approve" if action == memory_approval.KEEP else "reject"
            return (
                say("button_over", language)
                if number is None
                else replace(press, command="memory", text=f"{word} {number}")
            )
        case "admit" | "refuse" if person is not None and person.role == "owner" and room is None:
            stranger = AccountId(int(value))
            return admission.decide(
                connection, stranger, language, stamp_ms, let_in=action == admission.ADMIT
            )
    return say("button_over", language)


def _of_turn(
    connection: Connection, press: InboundMessage, account: Account, action: str, turn: int, language: str
) -> InboundMessage | str:
    found = presses.find_turn(connection, turn)
    here = (press.platform, press.tenant, press.chat, press.thread or "")
    if found is None or (found.key.platform, found.key.tenant, found.key.chat, found.key.thread) != here:
        return say("button_over", language)
    if action == STOP:
        # Who may stop is the command's to say.
        return replace(press, command=STOP, text="") if found.is_running else say("button_over", language)
    is_own = found.account == account.id or (account.person is not None and found.person == account.person.id)
    if not is_own:
        return say("button_not_yours", language)
    if found.is_running or not found.is_latest:
        return say("button_over", language)
    if inbox.is_retried(connection, found.key):
        return say("retrying", language)  # pressed twice
    return replace(press, command=RETRY, text="")
