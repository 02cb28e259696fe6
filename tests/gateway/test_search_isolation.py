"""Isolation at scale: hundreds of people and rooms in one file, and no search ever leaves its scope."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection

from tests.gateway.rows import (
    MINUTE_MS,
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    leave,
    link_account,
    person_scope,
    room_scope,
)
from trunkline.agent.ports import Role, SearchQuery, SessionHit
from trunkline.agent.scope import Scope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.migrate import migrate_now
from trunkline.gateway.state.search import StoreSearch

WORDS = [
    "zephyr",
    "苏州",
    "出差",
    "blue-green",
    "tea",
    "deploy",
    "holiday",
    "lib/cache.py",
    "C++",
    "May",
    "Ärger",
]
ODD = [*WORDS, "OR", "NOT", "AND", '"', "*", "te*", "(", "last week", "latest", "名字", "who"]
ROLES: list[tuple[Role, ...]] = [("user", "assistant"), ("user",), ("tool",), ("user", "assistant", "tool")]
SIZES = {"sqlite": (500, 60, 400), "postgresql": (80, 15, 100)}


@dataclass
class Town:
    """Who may read which session, as the test itself keeps account of it. Each text bears its mark."""

    chance: random.Random
    readers: dict[str, set[str]] = field(default_factory=dict)
    rooms: dict[str, str] = field(default_factory=dict)
    people: list[str] = field(default_factory=list)
    accounts: dict[str, int] = field(default_factory=dict)

    def fill(self, connection: Connection, people: int, rooms: int) -> None:
        for number in range(people):
            slug = f"p{number}"
            self.people.append(slug)
            self.accounts[slug] = add_person(connection, slug)
            direct = direct_stream(connection, self.accounts[slug])
            for letter in "def":
                self._talk(connection, direct, f"{letter}{number}", {slug})
            if number % 10 == 0:
                other = direct_stream(connection, link_account(connection, slug, "slack"))
                self._talk(connection, other, f"s{number}", {slug})
        for number in range(rooms):
            members = self.chance.sample(self.people, 4)
            made = add_room(connection, f"room{number}", *(self.accounts[slug] for slug in members))
            self.rooms[f"r{number}"] = f"room{number}"
            self._talk(connection, made, f"r{number}", set(members))
        gone = self.people[7]
        leave(connection, self.accounts[gone])
        for name in self.rooms:
            self.readers[name].discard(gone)

    def _talk(self, connection: Connection, stream: int, name: str, readers: set[str]) -> None:
        title = self.chance.choice(["", f"{self.chance.choice(WORDS)} mark-{name}-"])
        at_ms = START_MS + self.chance.randrange(1000) * 60 * MINUTE_MS
        made = add_session(connection, stream, name, title=title, started_ms=at_ms, last_ms=at_ms)
        roles: list[Role] = ["user", "assistant", "tool", "user", "assistant"]
        texts = [" ".join(self.chance.choices(WORDS, k=5)) + f" mark-{name}-" for _ in roles]
        add_messages(
            connection,
            [
                NewMessage(made, role, text, at_ms + place * MINUTE_MS, tool_call_id="c", tool_name="look")
                for place, (role, text) in enumerate(zip(roles, texts, strict=True))
            ],
        )
        self.readers[name] = readers

    def scope(self) -> tuple[Scope, set[str]]:
        """A scope, and the sessions that it may see."""
        if self.chance.random() < 0.2:
            name = self.chance.choice(list(self.rooms))
            asker = self.accounts[self.chance.choice(self.people)]
            return room_scope(self.rooms[name], asker), {name}
        slug = self.chance.choice([*self.people, self.people[7]])
        return person_scope(slug), {name for name, who in self.readers.items() if slug in who}

    def query(self) -> SearchQuery:
        mark = f"mark-{self.chance.choice(list(self.readers))}-"
        asked = self.chance.choices(
            [*ODD, mark, self.chance.choice(self.people)], k=self.chance.randrange(1, 6)
        )
        since = datetime.fromtimestamp(START_MS / 1000, UTC) if self.chance.random() < 0.1 else None
        return SearchQuery(
            " ".join(asked),
            limit=10,
            roles=self.chance.choice(ROLES),
            platform=self.chance.choice([None, None, None, "slack"]),
            since=since,
            sort=self.chance.choice(["relevance", "newest", "oldest"]),
        )


@pytest.mark.parametrize("kind", SIZES)
async def test_no_search_of_hundreds_of_people_leaves_its_scope(
    kind: str, request: pytest.FixtureRequest
) -> None:
    people, rooms, searches = SIZES[kind]
    town = Town(random.Random(11))
    with Database(request.getfixturevalue(f"migrated_{kind}_url")) as database:
        migrate_now(database)
        database.write_now(lambda connection: town.fill(connection, people, rooms))
        search = StoreSearch(database)
        shown = 0
        for _ in range(searches):
            (scope, allowed), query = town.scope(), town.query()
            hits = (await search.search(scope, query)).hits
            shown += len(hits)
            assert {hit.card.id for hit in hits} <= allowed, query
            assert {name for hit in hits for name in marks(hit)} <= allowed, query
        assert shown > searches


def marks(hit: SessionHit) -> set[str]:
    """The sessions whose words are in what is shown."""
    lines = (*hit.excerpt, *hit.opening, *hit.closing)
    texts = [hit.card.title, hit.card.preview, *(line.text for line in lines)]
    return {part.partition("-")[0] for text in texts for part in text.split("mark-")[1:]}
