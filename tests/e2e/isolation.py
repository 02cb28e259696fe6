"""What the isolation matrix is made of: people and rooms, what is planted with each, and who may see what.

Everything planted bears a marker, a word that stands nowhere else. Each reader of the product (tool, chat
command, route, command of the command line) has a row here that says how to ask it for everything; a reader
without a row fails the matrix by its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, update

from trunkline.agent.memory.files import MemoryFolders
from trunkline.agent.messages import ToolCall
from trunkline.agent.ports import Target
from trunkline.agent.scope import PersonId, PersonScope, RoomScope, Scope
from trunkline.gateway.app import OpenHouse
from trunkline.gateway.identity import LOCAL_PLATFORMS, local_account
from trunkline.gateway.state import people, reminders, sessions
from trunkline.gateway.state.messages import NewMessage, add_messages
from trunkline.gateway.state.records import Account, Room, SessionKey
from trunkline.gateway.state.reminders import NewReminder
from trunkline.gateway.state.schema import session

TOPIC = "kestrel"
"""Stands in every planted text, so that one question finds all of them."""

PLANTED_MS = 1_750_000_000_000
FAR_MS = 4_000_000_000_000
SAID = ("title", "asked", "answered", "looked", "called")
"""What bears a marker in a session: its title, a text of each role, and the arguments of a tool call."""

WEB, TERMINAL = LOCAL_PLATFORMS
_MARKER = re.compile(r"zq[a-z]+x")


@dataclass(frozen=True, slots=True)
class Someone:
    """A person of the matrix: role, and user id by platform."""

    name: str
    role: str
    accounts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SharedRoom:
    """A room of the matrix. `members` have written there; `thread` is one in it that was talked in."""

    name: str
    platform: str
    chat: str
    thread: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roster:
    """Everybody and every place."""

    people: tuple[Someone, ...]
    rooms: tuple[SharedRoom, ...]

    def person(self, name: str) -> Someone:
        return next(one for one in self.people if one.name == name)

    def room(self, name: str) -> SharedRoom:
        return next(one for one in self.rooms if one.name == name)

    @property
    def settings(self) -> dict[str, Any]:
        """The blocks of config.yaml that make it so."""
        return {
            "people": {one.name: {"role": one.role, **one.accounts} for one in self.people},
            "rooms": {f"{room.platform}/{room.chat}": {} for room in self.rooms},
            "skills": {"review_rounds": 0},  # a review of one place would ask in the middle of the next
            "access": {"messages_per_minute": 0, "welcome": False},
        }

    @property
    def markers(self) -> frozenset[str]:
        """All of them."""
        direct = (said(f"{one.name}{platform}") for one in self.people for platform in platforms_of(one))
        shared = (
            said(room.name) | said(f"{room.name}thread") | kept(room.name, ("notes",)) for room in self.rooms
        )
        return frozenset().union(*direct, *shared, *(kept(one.name) for one in self.people))

    def seen_by(self, name: str) -> frozenset[str]:
        """What a person may see in their own direct chats (spec: identity, section 4)."""
        own = (said(f"{name}{platform}") for platform in platforms_of(self.person(name)))
        shared = (said(room.name) | said(f"{room.name}thread") for room in self.rooms if name in room.members)
        return frozenset().union(kept(name), *own, *shared)

    def seen_in(self, room: str) -> frozenset[str]:
        """What anybody may see in a room and its threads."""
        return kept(room, ("notes",)) | said(room) | said(f"{room}thread")


def made_roster(discord_channel: str) -> Roster:
    """An owner, a member, an admin and a guest, with two platforms, web page and terminal each; two rooms."""
    return Roster(
        people=(
            Someone("ana", "owner", {"telegram": "1001", "discord": "2001"}),
            Someone("bo", "member", {"telegram": "1002", "discord": "2002"}),
            Someone("cy", "admin", {"telegram": "1003", "discord": "2003"}),
            Someone("dee", "guest", {"telegram": "1004", "discord": "2004"}),
        ),
        rooms=(
            SharedRoom("den", "discord", discord_channel, "990001", ("bo", "cy", "dee")),
            SharedRoom("attic", "telegram", "-1000000000777", "7", ("ana", "bo")),
        ),
    )


def platforms_of(one: Someone) -> tuple[str, ...]:
    return (*one.accounts, *LOCAL_PLATFORMS)


def marker(holder: str, kind: str) -> str:
    return f"zq{holder}{kind}x"


def said(holder: str) -> frozenset[str]:
    """The markers of one session."""
    return frozenset(marker(holder, kind) for kind in SAID)


def kept(holder: str, stores: tuple[str, ...] = ("user", "notes")) -> frozenset[str]:
    """The markers of a person's or a room's memory files, two entries in each, and of their skill."""
    entries = (marker(holder, f"{store}{entry}") for store in stores for entry in ("one", "two"))
    return frozenset([*entries, marker(holder, "way")])


def reminders_of(room: str) -> frozenset[str]:
    """The markers of a room's own reminders, those of its thread among them."""
    return frozenset({marker(room, "asked"), marker(f"{room}thread", "asked")})


def markers_in(text: str) -> frozenset[str]:
    """Those in a text, also where the scripted model repeated them backwards (see `repeated`)."""
    return frozenset(_MARKER.findall(text)) | frozenset(word[::-1] for word in re.findall(r"x[a-z]+qz", text))


def repeated(found: Iterable[str]) -> str:
    """What the scripted model says of markers it saw: backwards, so that no later search finds them."""
    return " ".join(word[::-1] for word in sorted(found)) or "nothing"


# Planting


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A planted session as anybody could name it."""

    holder: str
    id: str
    thread: str
    messages: tuple[int, ...]


async def plant(house: OpenHouse, roster: Roster) -> tuple[KnownSession, ...]:
    """Fills every store of an open house; returns every id that there is."""

    def work(connection: Connection) -> list[KnownSession]:
        planted = []
        for one in roster.people:
            for platform in platforms_of(one):
                account = account_of(connection, one, platform)
                stream = people.stream_of(connection, account_id=account.id, room_id=None)
                chat = one.name if platform in LOCAL_PLATFORMS else one.accounts[platform]
                thread = f"{one.name}talk" if platform in LOCAL_PLATFORMS else ""
                key = SessionKey(platform, "bot", chat, thread)
                planted.append(_plant_session(connection, f"{one.name}{platform}", key, stream, account))
                _plant_reminder(connection, f"{one.name}{platform}", key, stream, account)
        for place in roster.rooms:
            room = room_of(connection, place)
            writers = [account_of(connection, roster.person(name), place.platform) for name in place.members]
            for writer in writers:
                people.note_member(connection, room.id, writer.id, PLANTED_MS)
            stream = people.stream_of(connection, account_id=writers[0].id, room_id=room.id)
            for name, thread in ((place.name, ""), (f"{place.name}thread", place.thread)):
                key = SessionKey(place.platform, "bot", place.chat, thread)
                planted.append(_plant_session(connection, name, key, stream, writers[0]))
                _plant_reminder(connection, name, key, stream, writers[0])
        return planted

    planted = await house.database.write(work)
    for one in roster.people:
        _plant_file(house, person_scope(one.name), "user", one.name, "user")
        _plant_file(house, person_scope(one.name), "memory", one.name, "notes")
        _plant_skill(house, person_scope(one.name), one.name)
    for place in roster.rooms:
        scope = await house.database.read(lambda c, place=place: room_scope(c, roster, place))  # type: ignore[misc]
        _plant_file(house, scope, "memory", place.name, "notes")
        _plant_skill(house, scope, place.name)
    return tuple(planted)


def _plant_session(
    connection: Connection, holder: str, key: SessionKey, stream: int, account: Account
) -> KnownSession:
    opened = sessions.start(
        connection, key, stream, prompt="", snapshot="{}", model="planted", now_ms=PLANTED_MS
    )
    call = ToolCall("call-1", "look", f'{{"at": "{marker(holder, "called")}"}}')
    words = {kind: f"The {TOPIC} and {marker(holder, kind)}." for kind in SAID}
    ids = add_messages(
        connection,
        [
            NewMessage(opened.id, "user", words["asked"], PLANTED_MS, account_id=account.id),
            NewMessage(opened.id, "assistant", "", PLANTED_MS, tool_calls=(call,)),
            NewMessage(
                opened.id, "tool", words["looked"], PLANTED_MS, tool_call_id=call.id, tool_name="look"
            ),
            NewMessage(opened.id, "assistant", words["answered"], PLANTED_MS),
        ],
    )
    connection.execute(update(session).where(session.c.id == opened.id).values(title=words["title"]))
    sessions.end(connection, key, "planted", PLANTED_MS)
    return KnownSession(holder, opened.public_id, key.thread, tuple(ids))


def _plant_reminder(
    connection: Connection, holder: str, key: SessionKey, stream: int, account: Account
) -> None:
    """One that waits for long; it bears a marker that the session has, too."""
    assert account.person is not None
    text = f"The {TOPIC} and {marker(holder, 'asked')}."
    new = NewReminder(
        account.id, stream, key, account.person.slug, "text", text, FAR_MS, "", "UTC", "", f"plant {holder}"
    )
    reminders.add(connection, new, PLANTED_MS)


def _plant_file(house: OpenHouse, scope: Scope, target: Target, holder: str, store: str) -> None:
    path = MemoryFolders(house.config.home).path_of(scope, target)
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = (f"The {TOPIC} and {marker(holder, store + entry)}.\n§\n" for entry in ("one", "two"))
    path.write_text("".join(entries), encoding="utf-8")


def _plant_skill(house: OpenHouse, scope: Scope, holder: str) -> None:
    folder = house.skills.root_of(scope) / way_of(holder)
    (folder / "references").mkdir(parents=True, exist_ok=True)
    words = f"The {TOPIC} and {marker(holder, 'way')}."
    text = f"---\nname: {folder.name}\ndescription: {words}\n---\n{words}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    (folder / "references" / "more.md").write_text(words, encoding="utf-8")


def way_of(holder: str) -> str:
    """The name of a person's or a room's skill."""
    return f"{holder}-way"


def account_of(connection: Connection, one: Someone, platform: str) -> Account:
    if platform in LOCAL_PLATFORMS:
        found = local_account(connection, platform, one.name, PLANTED_MS)
    else:
        found = people.find_account(connection, platform, "", one.accounts[platform])
    assert found is not None
    return found


def room_of(connection: Connection, place: SharedRoom) -> Room:
    found = people.find_room(connection, place.platform, "", place.chat)
    assert found is not None
    return found


def person_scope(name: str) -> PersonScope:
    return PersonScope(PersonId(name))


def room_scope(
    connection: Connection, roster: Roster, place: SharedRoom, asker: str | None = None
) -> RoomScope:
    """The scope of a room, asked by one of its members or by somebody else who has an account there."""
    account = account_of(connection, roster.person(asker or place.members[0]), place.platform)
    return RoomScope(room_of(connection, place).slug, account.id)


# How each reader is asked for everything


@dataclass(frozen=True, slots=True)
class ReadsNothing:
    """A registered thing that reads no memory and no transcript; `reason` says what it does instead."""

    reason: str


Arguments = Mapping[str, Any]


def memory_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    """There is no read; but a change that fails shows the entries there are."""
    calls: list[Arguments] = []
    for target in ("user", "memory"):
        calls.append({"target": target, "action": "replace", "old_text": "no such entry", "content": "x"})
        calls.append({"target": target, "operations": [{"action": "remove", "old_text": "zq"}]})
    return calls


def search_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    everyone = {"role_filter": "user,assistant,tool"}
    all_of_it = {"summarize": False, "limit": 10, **everyone}
    calls: list[Arguments] = [
        {},
        {"limit": 20},
        {"query": TOPIC, "limit": 5, **everyone},
        {"query": f'"{TOPIC}" OR zq*', "sort": "newest", **all_of_it},
        {"query": "zq*", "sort": "oldest", "since": "2000-01-01", "until": "2100-01-01", **all_of_it},
        {"query": f"{TOPIC} NOT nothing", "platform": "../*", **all_of_it},
        {"session_id": "../../memories/ana/USER.md"},
        {"session_id": "%"},
    ]
    calls += [{"query": TOPIC, "platform": platform, **all_of_it} for platform in _PLATFORMS]
    for number, one in enumerate(known):
        other = known[number - 1]
        calls.append({"session_id": one.id})
        calls.append({"session_id": one.id, "around_message_id": one.messages[0], "window": 20})
        calls.append({"session_id": one.id, "around_message_id": other.messages[-1], "window": 20})
    return calls


def skill_list_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    return [{}, {"category": "zq"}]


def skill_view_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    calls: list[Arguments] = []
    for holder in _HOLDERS:
        calls += [{"name": way_of(holder)}, {"name": way_of(holder), "file_path": "references/more.md"}]
        calls.append({"name": "ana-way", "file_path": f"../../../{holder}/skills/{way_of(holder)}/SKILL.md"})
        calls.append({"name": f"../../{holder}/skills/{way_of(holder)}"})
    return calls


def skill_manage_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    """Changes that are refused, of every skill there is: a refusal shows no text."""
    calls: list[Arguments] = []
    for holder in _HOLDERS:
        name = way_of(holder)
        passage = {"old_text": "no such text", "new_text": "x"}
        calls.append({"action": "patch", "name": name, "file_path": "references/more.md", **passage})
        calls.append({"action": "edit", "name": name, "content": "x", "description": "y"})
    return calls


_HOLDERS = ("ana", "bo", "cy", "den", "attic")
_PLATFORMS = ("telegram", "discord", "slack", "web", "terminal")


def file_calls(known: Sequence[KnownSession]) -> list[Arguments]:
    """Files by their numbers, and a text. That others' files read like none is in test_attachments."""
    calls: list[Arguments] = [{"file": number, "name": "mine", "elsewhere": True} for number in range(1, 4)]
    return [*calls, {"name": "note.txt", "text": "nothing of anybody"}]


def react_calls(_: Sequence[KnownSession]) -> list[Arguments]:
    """It answers with whether a reaction was put."""
    return [{"emoji": "👍"}, {"emoji": "no emoji"}]


def remind_calls(_: Sequence[KnownSession]) -> list[Arguments]:
    """A list; nothing is made, since its time is past. What numbers of others do is in test_reminder_desk."""
    past = {"text": "nothing of anybody", "at": "2000-01-01T09:00", "timezone": "UTC", "do": "tell"}
    calls: list[Arguments] = [{"action": "list"}, {"action": "create", **past}]
    calls += [{"text": "x", "after": "0s"}, {"text": "x", "every": "* * * * *"}]
    calls += [{"action": "cancel", "number": 99_999}]
    return calls


TOOLS = {
    "remind": remind_calls,
    "send_file": file_calls,
    "react": react_calls,
    "memory": memory_calls,
    "session_search": search_calls,
    "skills_list": skill_list_calls,
    "skill_view": skill_view_calls,
    "skill_manage": skill_manage_calls,
}
"""For each tool: the calls that ask it for all it could have."""

_NAMES = ("", "ana", "bo", "../ana", "rooms/den")

COMMANDS: Mapping[str, tuple[str, ...] | ReadsNothing] = {
    "remind": ReadsNothing("makes a reminder, or asks back"),
    "reminders": ("", "cancel 99999", *_NAMES),
    "sethome": ReadsNothing("notes the asker's own chat"),
    "start": ReadsNothing("greets by the asker's own name"),
    "help": ReadsNothing("lists commands"),
    "new": ReadsNothing("ends the asker's session"),
    "stop": ReadsNothing("stops a running turn"),
    "status": ReadsNothing("shows version, model and platforms"),
    "approve": ReadsNothing("takes a code; a wrong one is refused"),
    "allow": ReadsNothing("opens a room"),
    "retry": ReadsNothing("has the asker's last question answered again, by a turn like any other"),
    "undo": ("", "3", "20"),
    "queue": ("",),
    "compress": ("", TOPIC),
    "branch": ReadsNothing("copies the asker's own conversation, for turns like any other"),
    "model": ReadsNothing("names models"),
    "deny": ReadsNothing("takes a code; a wrong one is refused"),
    "role": ReadsNothing("changes a role; a name it doesn't know is refused"),
    "block": ReadsNothing("silences somebody; a name it doesn't know is refused"),
    "people": ReadsNothing("lists people and platforms, nothing they said"),
    "link": ("", "yes", "no", "keep 2", "undo", "ABCDEFGH", *_NAMES),
    "unlink": _NAMES,
    "export": ReadsNothing("writes a file, which a test of its own looks into, and says where"),
    "delete-me": ReadsNothing("asks for a word first"),
    "whoami": _NAMES,
    "usage": _NAMES,
    "private": ReadsNothing("begins a conversation, or erases the asker's own"),
    "memory": (
        *_NAMES,
        "list",
        "search zq",
        f"search {TOPIC}",
        "export",
        "forget zq",
        "forget 99 transcript",
        "edit 99 x",
        "approve",
        "reject 99",
    ),
    "skills": (*_NAMES, "show ana-way", "show bo-way", "show ../bo/skills/bo-way", "undo", "restore bo-way"),
    "sessions": _NAMES,
    "resume": ("", "1", "2", "99", "zq", TOPIC, *_NAMES),
    "title": ("", "zq"),
    "search": (TOPIC, "zq*", f'"{TOPIC}" OR zq*', "../ana", ""),
}
"""For each chat command: the arguments that ask it for all it could have."""

ROUTES: Mapping[str, tuple[str, str] | ReadsNothing] = {
    "/healthz": ReadsNothing("says that the process lives"),
    "/static": ReadsNothing("serves the page's own files"),
    "/new": ReadsNothing("makes the name of a conversation"),
    "/": ("GET", "/"),
    "/conversations": ("GET", "/conversations"),
    "/c/{thread}/title": ReadsNothing("names one of its own person's conversations, or says there is none"),
    "/c/{thread}/delete": ReadsNothing(
        "deletes one of its own person's conversations, and says nothing of it"
    ),
    "/c/{thread}": ("GET", "/c/{thread}"),
    "/c/{thread}/events": ("GET", "/c/{thread}/events"),
    "/c/{thread}/messages": ("POST", "/c/{thread}/messages"),
    "/c/{thread}/files": ReadsNothing("takes a file in"),
    "/c/{thread}/files/{sha256}/{name}": ("GET", f"/c/{{thread}}/files/{'0' * 64}/x"),
}
"""For each route of the web page: method and path; `{thread}` is filled with every id there is."""

CLI: Mapping[str, tuple[str, ...] | ReadsNothing] = {
    "setup": ReadsNothing("writes the settings"),
    "run": ReadsNothing("starts the platforms; each is a place of the matrix"),
    "chat": ReadsNothing("is a direct chat; the terminal's sessions are planted like all others"),
    "mcp list": ReadsNothing("lists the tool servers of the settings"),
    "mcp check": ReadsNothing("lists the tools of servers"),
    "people list": ReadsNothing("lists people and accounts for the operator, nothing they said"),
    "people approve": ReadsNothing("takes a code"),
    "people show": ReadsNothing("shows role and accounts for the operator, nothing anybody said"),
    "people link": ReadsNothing("gives an account to a person"),
    "people role": ReadsNothing("changes a role"),
    "people remove": ReadsNothing("takes access away, or deletes"),
    "people unmerge": ReadsNothing("parts two people again"),
    "people export": ReadsNothing("writes a file, which a test of its own looks into"),
    "model list": ReadsNothing("asks model servers"),
    "model probe": ReadsNothing("asks the model's server"),
    "model try": ReadsNothing("fetches a model"),
    "model serve": ReadsNothing("serves a file"),
    "doctor": ReadsNothing("looks at settings and tokens"),
    "version": ReadsNothing("shows the version"),
    "memory show": ("--json",),
    "memory export": (),
    "memory setup": ReadsNothing("writes the settings of a provider"),
    "memory status": ReadsNothing("counts what providers hold, for the operator"),
    "memory edit": ReadsNothing("opens an editor on what `memory export` shows"),
    "memory import": ReadsNothing("adds entries"),
    "skills list": ("--json",),
    "skills show": ReadsNothing("shows the text of what `skills list` lists"),
    "skills install": ReadsNothing("copies a folder"),
    "skills check": ReadsNothing("says what can't be used of what `skills list` lists"),
    "skills review": ReadsNothing("names skills of the one person who is asked for"),
    "skills archive": ReadsNothing("moves a folder"),
    "skills restore": ReadsNothing("moves a folder"),
    "skills pin": ReadsNothing("marks a skill"),
    "sessions list": ("--json",),
    "sessions search": (TOPIC, "--limit", "10", "--json"),
    "sessions show": ("{session}", "--json"),
    "sessions export": ("--json",),
    "sessions stats": ("--json",),
    "sessions rename": ReadsNothing("changes a title; what is out of scope is not found"),
    "sessions delete": ReadsNothing("deletes; what is out of scope is not found"),
    "sessions prune": ReadsNothing("deletes what is old"),
    "inbox list": ReadsNothing("lists rows for the operator, nothing they say"),
    "inbox retry": ReadsNothing("lets a message wait again"),
    "inbox drop": ReadsNothing("gives a message up"),
    "db check": ReadsNothing("compares the index with the messages, for the operator"),
    "db backup": ReadsNothing("copies the whole file, for the operator"),
    "db reindex": ReadsNothing("builds the index"),
    "db stats": ReadsNothing("counts rows"),
}
"""For each command of `trunkline`: its arguments; `{session}` is filled with every id there is."""


def uncovered(registered: Iterable[str], table: Iterable[str]) -> list[str]:
    """The names that only one of the two has."""
    return sorted(set(registered) ^ set(table))
