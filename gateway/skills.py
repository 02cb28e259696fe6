"""What stands between a model and the skills: private conversations, a pause of memory; and naming a skill.

What a person or the operator does by command passes; the store behind decides about the rest.
"""

import re
import unicodedata
from collections.abc import AsyncIterator
from contextlib import suppress

from sqlalchemy import Connection

from trunkline.agent.scope import PersonScope, Scope
from trunkline.agent.skills.edits import Change, Changed, Origin
from trunkline.agent.skills.format import BadSkill
from trunkline.agent.skills.index import describe_changes, dump_told
from trunkline.agent.skills.store import Shelf, SkillPage, SkillStore
from trunkline.agent.stream_text import NOTE
from trunkline.agent.tools.skills import render_page
from trunkline.gateway.memory_approval import is_paused
from trunkline.gateway.state import people, sessions, skills_told
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.forgetting import Fact

PRIVATE = "This conversation is private, so nothing of it is kept, in no skill either."
PAUSED = (
    "The person has paused memory, so no skill is changed now. Don't try again in this conversation; "
    "`/memory resume` switches it on again."
)
FORGOTTEN = "The person has just had something forgotten, so a review of this conversation changes nothing."
APPROVAL = (
    "In this house nothing is kept without the person's yes, and skills have none yet: show the person the "
    "text in your answer; the operator can install it."
)

CALLED = (
    f"{NOTE} the person called the skill “{{name}}” by its name. Do what it says, with what they wrote "
    "after the name.]"
)

_CALL = re.compile(r"[/!](\w[\w-]*)(?:\s.*)?", re.DOTALL)


class GuardedSkills:
    """The shelves for the model's tools. With `approval` a model changes none."""

    def __init__(self, store: SkillStore, database: Database, *, approval: bool) -> None:
        self._store = store
        self._database = database
        self._approval = approval

    async def shelf(self, scope: Scope) -> Shelf:
        return await self._store.shelf(scope)

    async def open(self, scope: Scope, name: str, path: str | None) -> SkillPage:
        return await self._store.open(scope, name, path)

    async def change(self, owner: Scope, change: Change, origin: Origin) -> Changed:
        await self._check(owner, origin)
        return await self._store.change(owner, change, origin)

    async def note_use(self, scope: Scope, name: str, origin: Origin) -> None:
        standing = await self._database.read(lambda c: sessions.standing(c, origin.session))
        if standing is None or not standing.private:
            await self._store.note_use(scope, name, origin)

    async def _check(self, owner: Scope, origin: Origin) -> None:
        """Raises BadSkill when the conversation must leave nothing behind."""
        refusal = await self._database.read(lambda c: _refusal(c, owner, origin))
        if refusal is not None:
            raise BadSkill(refusal)
        if self._approval:
            raise BadSkill(APPROVAL)


def _refusal(connection: Connection, owner: Scope, origin: Origin) -> str | None:
    standing = sessions.standing(connection, origin.session)
    if standing is not None and standing.private:
        return PRIVATE
    if standing is not None and standing.forgotten and origin.by == "review":
        return FORGOTTEN
    person = people.person_of(connection, owner)
    return PAUSED if person is not None and is_paused(connection, person.slug) else None


async def skills_that_tell(store: SkillStore, scope: PersonScope, fact: Fact) -> tuple[str, ...]:
    """The names of a person's own skills in whose texts a fact stands."""
    found = []
    for skill in (await store.shelf(scope)).skills:
        if skill.place == "own":
            texts = [text async for text in _texts(store, scope, skill.name)]
            found += [skill.name] if any(map(fact.stands_in, texts)) else []
    return tuple(found)


async def _texts(store: SkillStore, scope: PersonScope, name: str) -> AsyncIterator[str]:
    """All that can be read of a skill; a picture in it can't."""
    try:
        page = await store.open(scope, name, None)
    except BadSkill:
        return
    yield page.text
    for file in page.files:
        with suppress(BadSkill):
            yield (await store.open(scope, name, file.path)).text


# Naming a skill: `/name words`, also where a platform knows nothing of such a command.


def spoken(command: str | None, text: str) -> str:
    """What the person wrote, command and all. Some platforms end a command's name at its first hyphen."""
    if command is None:
        return text
    return f"/{command}{'' if text.startswith('-') else ' '}{text}".rstrip()


def called_skill(said: str, shelf: Shelf) -> str | None:
    """The name of the skill that a text calls by beginning with /name; any script, hyphen or underscore."""
    found = _CALL.fullmatch(said.strip())
    if found is None:
        return None
    name = unicodedata.normalize("NFC", found[1]).lower()
    known = {skill.name.replace("_", "-"): skill.name for skill in shelf.skills}
    return known.get(name.replace("_", "-"))


def may_call_skill(said: str) -> bool:
    """Whether a text has the form of a call; which skills there are is not asked."""
    return _CALL.fullmatch(said.strip()) is not None


def tell_changes(connection: Connection, session_id: int, shelf: Shelf) -> str | None:
    """What of the skills has changed since the session's model was told; counts as told from now on."""
    told = skills_told.load_told(connection, session_id)
    changes = describe_changes(told, shelf)
    if changes is not None:
        skills_told.put_told(connection, session_id, dump_told(shelf))
    return changes


def render_called(page: SkillPage) -> str:
    """What stands after the person's words for the model."""
    return f"{CALLED.format(name=page.skill.name)}\n{render_page(page)}"
