"""What becomes of an edit whose message is answered: another answer in its place, or another transcript.

How edits and deletions arrive is `changes`.
"""

from collections.abc import Callable
from typing import Any, Literal

from sqlalchemy import Connection, Row

from trunkline.adapters.base import ChatKind, InboundMessage
from trunkline.gateway import again, parts
from trunkline.gateway.changes import reword, said_in
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.turns import find_model
from trunkline.gateway.opening import load_message, who_is
from trunkline.gateway.roles import ACTS, may
from trunkline.gateway.sentences import describe_role, say
from trunkline.gateway.state import inbox, takeback
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import InboxRow

Reanswer = Literal["direct", "everywhere", "never"]

CORRECTED = "(A part of this was changed later, to what follows:)"


class Amending:
    """What becomes of an edit whose message is answered. `reanswer` says where the answer follows it."""

    def __init__(self, database: Database, mask: Callable[[str], str], reanswer: Reanswer) -> None:
        self._database = database
        self._mask = mask
        self._reanswer = reanswer

    async def settle(self, row: InboxRow) -> bool:
        """Amends the transcript and ends the row; false when the question is to be answered anew instead.

        Raises NotAdmitted.
        """
        return await self._database.write(lambda c: self._settle(c, row))

    async def refusal(self, row: InboxRow, models: tuple[str, ...]) -> str:
        """Why a `/retry` can't be done, as a sentence; empty when it can. Raises NotAdmitted."""
        return await self._database.read(lambda c: self._refusal(c, row, models))

    def _refusal(self, connection: Connection, row: InboxRow, models: tuple[str, ...]) -> str:
        message = load_message(row)
        who = who_is(connection, row, message)
        past = again.past_turn(connection, row, message)
        if past is None:
            return say("retry_nothing", who.language)
        if past.author != row.account and not may(who.account, "stop_others"):
            return say("retry_not_yours", who.language)
        wanted = message.text.strip()
        if not wanted:
            return ""
        if not may(who.account, "choose_model"):
            return say("not_yours", who.language, role=describe_role(ACTS["choose_model"], who.language))
        if find_model(wanted, models) is None:
            return say("model_unknown", who.language, name=wanted[:60], models=", ".join(models) or "-")
        return ""

    def _settle(self, connection: Connection, row: InboxRow) -> bool:
        message = load_message(row)
        who_is(connection, row, message)
        text = self._mask(message.text)
        past = again.past_turn(connection, row, message)
        if past is not None and past.author == row.account and self._follows(message):
            question, in_time = again.question_of(past), now_ms() - past.ended_ms <= again.REANSWER_MS
            known = question.has(message.edited_of or "")
            if in_time and known and again.edited(question, message, text) != question:
                return False
        self.amend(connection, row)
        return True

    def amend(self, connection: Connection, row: InboxRow) -> None:
        """Changes the words of the transcript, not their answer, and ends the row."""
        message = load_message(row)
        turn = takeback.turn_of(
            connection, row.key.platform, row.key.tenant, row.key.chat, message.edited_of or ""
        )
        if turn is not None:
            for said in said_in(connection, turn, message.edited_of or ""):
                _reword(connection, said, message, self._mask(message.text))
        inbox.finish(connection, [row.id], "done", "amended", now_ms())

    def _follows(self, message: InboundMessage) -> bool:
        is_direct = message.chat_kind is ChatKind.DIRECT
        return self._reanswer == "everywhere" or (self._reanswer == "direct" and is_direct)


def _reword(connection: Connection, row: Row[Any], edit: InboundMessage, text: str) -> None:
    """Where nobody knows any more which part of a question was whose, the correction follows it."""
    question = parts.of_row(row)
    if question.has(edit.edited_of or ""):
        changed = again.edited(question, edit, text)
    else:
        changed = parts.Question(f"{row.content}\n\n{CORRECTED}\n{text}")
    if changed.text:
        reword(connection, row, changed)
