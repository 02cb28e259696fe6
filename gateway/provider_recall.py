"""What memory providers recall for a turn that is about to begin, and what they may not be asked.

It is asked outside of any transaction; whether a fact was forgotten meanwhile, the opening of the turn sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from trunkline.agent.memory.snapshot import MemorySnapshot
from trunkline.agent.providers.base import Conversation
from trunkline.agent.providers.dispatch import Dispatcher, Question
from trunkline.agent.scope import PersonScope, Scope
from trunkline.gateway.memory_approval import PAUSED, PRIVATE, is_paused
from trunkline.gateway.state import links, people, provider_view, sessions
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import owner_of
from trunkline.gateway.state.records import SessionKey

NEEDS_YES = (
    "Changes need the person's yes here, and this store can't ask for it. Use the tool `memory`, which asks."
)


@dataclass(frozen=True, slots=True)
class _Before:
    """What is known of the conversation before the turn."""

    session: str
    scopes: tuple[Scope, ...]
    withheld: tuple[str, ...]


class ProviderRecall:
    """Recall for the opening of turns."""

    def __init__(self, database: Database, dispatcher: Dispatcher) -> None:
        self._database = database
        self._dispatcher = dispatcher

    async def recall(
        self, scope: Scope, key: SessionKey, texts: Sequence[str], known: MemorySnapshot, forgotten: int
    ) -> tuple[str, ...]:
        """Passages for the turn that these texts begin, best first; nothing in a private conversation."""
        if not self._dispatcher.names:
            return ()
        before = await self._database.read(lambda c: _before(c, scope, key))
        if not before.scopes:
            return ()
        question = Question(
            "\n\n".join(filter(None, texts)),
            Conversation(before.session, key.platform),
            (*known.user, *known.memory),
            before.withheld,
            forgotten,
        )
        return await self._dispatcher.recall(question, before.scopes)

    def system_block(self, scope: Scope) -> str:
        return self._dispatcher.system_block(scope)


class PersonsWish:
    """The `Gate` of the providers' tools: private conversations, the pause, and the wish to be asked."""

    def __init__(self, database: Database, *, approval: bool) -> None:
        self._database = database
        self._approval = approval

    async def refusal(self, scope: Scope, session: str, *, writes: bool) -> str | None:
        return await self._database.read(lambda c: self._refusal(c, scope, session, writes=writes))

    async def banks(self, scope: Scope) -> tuple[Scope, ...]:
        return await self._database.read(lambda c: _kept(c, _every(c, scope)))

    def _refusal(self, connection: Connection, scope: Scope, public_id: str, *, writes: bool) -> str | None:
        standing = sessions.standing(connection, public_id)
        if standing is not None and standing.private:
            return PRIVATE
        if not writes:
            return None
        person = people.person_of(connection, scope)
        if person is not None and is_paused(connection, person.slug):
            return PAUSED
        return NEEDS_YES if self._approval else None


def _before(connection: Connection, scope: Scope, key: SessionKey) -> _Before:
    """No scope is asked about in a private conversation, nor one of which everything is being erased."""
    found = sessions.find_open(connection, key)
    every = () if found is not None and found.private else _every(connection, scope)
    return _Before(
        "" if found is None else found.public_id,
        _kept(connection, every),
        tuple(text for one in every for text in provider_view.withheld(connection, owner_of(one))),
    )


def _every(connection: Connection, scope: Scope) -> tuple[Scope, ...]:
    """The scope, and those of people who were joined with its person."""
    if not isinstance(scope, PersonScope):
        return (scope,)
    return (scope, *map(PersonScope, links.former_slugs(connection, scope.person)))


def _kept(connection: Connection, scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """Those of which not everything is being erased."""
    return tuple(one for one in scopes if not provider_view.is_forgetting_all(connection, owner_of(one)))
