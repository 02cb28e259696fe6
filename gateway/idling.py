"""Begins afresh after a long silence, where the operator has set that, with a bridge to what was before."""

from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.gateway.sentences import say
from trunkline.gateway.state import session_titles, sessions
from trunkline.gateway.state.records import Session, SessionKey

LINE_CHARS = 200
IDLE = "idle"
"""The end reason of a session that silence has ended, and the origin of the one after it."""


@dataclass(frozen=True, slots=True)
class Left:
    """The conversation that was left: its row and public id, what it was called, and for how long."""

    id: int
    public_id: str
    title: str
    hours: int

    def tell_person(self, language: str) -> str:
        return say("idle_reset", language, title=f"“{self.title}”")

    def tell_model(self) -> str:
        """The bridge line of the new conversation."""
        return (
            f"This conversation began after {self.hours} hours of silence. The one before it was about "
            f"“{self.title}”; session_search has the whole of it as session {self.public_id}."
        )


def leave_if_idle(
    connection: Connection, key: SessionKey, current: Session | None, idle_hours: float | None, now_ms: int
) -> Left | None:
    """Ends the current session when nobody wrote in it for so long; None when it goes on."""
    if current is None or idle_hours is None or current.private:
        return None
    silent_hours = (now_ms - current.last_ms) / 3_600_000
    if silent_hours < idle_hours:
        return None
    sessions.end(connection, key, IDLE, now_ms)
    title = current.title or session_titles.first_words(connection, current.id, LINE_CHARS) or "…"
    return Left(current.id, current.public_id, title, int(silent_hours))
