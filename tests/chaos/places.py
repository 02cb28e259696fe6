"""Where people talk to the assistant, on three platforms at once, and what they see there.

A place is one chat with one order of questions and answers. Everybody writes in it under a running number.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.e2e.installed import Installed

HARBOUR = -1001
BOARD, THREADS = "CBOARD", "CTHREADS"


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    telegram: int
    discord: str
    slack: str


PEOPLE = (
    Person("ana", 1001, "2001", "UANA"),
    Person("bo", 1002, "2002", "UBO"),
    Person("cy", 1003, "2003", "UCY"),
)


@dataclass(slots=True)
class Place:
    """`say` writes as a person; `shown` are the bot's messages as they read now, in order.

    `asked` are the numbers of what was said, in order; `new` begins a new session. `ordered` is false where
    each question has a thread of its own, so that none waits for another.
    """

    name: str
    platform: str
    people: Sequence[Person]
    say: Callable[[Person, str], Awaitable[object]]
    shown: Callable[[], list[str]]
    new: Callable[[], Awaitable[object]] | None = None
    ordered: bool = True
    asked: list[int] = field(default_factory=list)

    def since(self, place: int) -> "Place":
        """The same place with the questions from that one on."""
        return replace(self, asked=self.asked[place:])


def all_places(program: Installed) -> tuple[Place, ...]:
    """Everybody's direct chats, a room on each platform, and a channel of threads on Slack."""
    direct = [
        make(program, person) for person in PEOPLE for make in (_telegram_chat, _discord_chat, _slack_chat)
    ]
    return (*direct, _telegram_room(program), _discord_room(program), _slack_room(program), _threads(program))


def settings(program: Installed) -> str:
    """config.yaml of the program: everybody known, the rooms allowed, titles made by a model of their own."""
    people = "\n".join(
        f"  {one.name}: {{role: {'owner' if one is PEOPLE[0] else 'member'}, telegram: {one.telegram}, "
        f"discord: {one.discord}, slack: T0TEAM/{one.slack}}}"
        for one in PEOPLE
    )
    rooms = (
        f"telegram/{HARBOUR}",
        f"discord/{program.discord.general}",
        f"slack/T0TEAM/{BOARD}",
        f"slack/T0TEAM/{THREADS}",
    )
    return f"""
model: {{name: emulated, tool_calls: native}}
auxiliary: {{title: {{name: namer}}, session_search: {{name: namer}}}}
platforms: {{web: {{port: 0}}}}
memory: {{review_every: 0}}
access: {{messages_per_minute: 0, welcome: false}}
people:
{people}
rooms:
{chr(10).join(f"  {room}: {{}}" for room in rooms)}
"""


def _telegram_chat(program: Installed, person: Person) -> Place:
    async def say(who: Person, text: str) -> None:
        await program.telegram.direct_message(who.telegram, text)

    return Place(
        f"telegram {person.name}",
        "telegram",
        (person,),
        say,
        lambda: program.telegram.texts(person.telegram),
        new=lambda: say(person, "/new"),
    )


def _discord_chat(program: Installed, person: Person) -> Place:
    async def say(who: Person, text: str) -> None:
        await program.discord.direct_message(who.discord, text)

    def shown() -> list[str]:
        program.discord.world.user(person.discord)
        return program.discord.texts(program.discord.direct_chat(person.discord))

    return Place(f"discord {person.name}", "discord", (person,), say, shown, new=lambda: say(person, "/new"))


def _slack_chat(program: Installed, person: Person) -> Place:
    async def say(who: Person, text: str) -> None:
        await program.slack.direct_message(who.slack, text)

    def shown() -> list[str]:
        return program.slack.texts(program.slack.workspace.direct_channel(person.slack).id)

    return Place(f"slack {person.name}", "slack", (person,), say, shown, new=lambda: say(person, "!new"))


def _telegram_room(program: Installed) -> Place:
    async def say(who: Person, text: str) -> None:
        await program.telegram.group_message(HARBOUR, who.telegram, text)

    async def begin_anew() -> None:
        command = f"/new@{program.telegram.me['username']}"
        await program.telegram.group_message(HARBOUR, PEOPLE[0].telegram, command, mention=False)

    return Place(
        "telegram room", "telegram", PEOPLE, say, lambda: program.telegram.texts(HARBOUR), new=begin_anew
    )


def _discord_room(program: Installed) -> Place:
    async def say(who: Person, text: str) -> None:
        await program.discord.channel_message(program.discord.general, who.discord, text)

    return Place(
        "discord room",
        "discord",
        PEOPLE,
        say,
        lambda: program.discord.texts(program.discord.general),
        new=lambda: say(PEOPLE[0], "/new"),
    )


def _slack_room(program: Installed) -> Place:
    """One thread of a channel, opened by the first that is said."""
    root: list[str] = []

    async def say(who: Person, text: str) -> None:
        thread = root[0] if root else None
        stamp = await program.slack.channel_message(BOARD, who.slack, text, thread=thread)
        root.append(stamp)

    return Place(
        "slack room",
        "slack",
        PEOPLE,
        say,
        lambda: program.slack.texts(BOARD, root[0]) if root else [],
        new=lambda: say(PEOPLE[0], "new"),
    )


def _threads(program: Installed) -> Place:
    """A channel where every question opens a thread."""
    roots: list[str] = []

    async def say(who: Person, text: str) -> None:
        roots.append(await program.slack.channel_message(THREADS, who.slack, text))

    def shown() -> list[str]:
        return [text for root in roots for text in program.slack.texts(THREADS, root)]

    return Place("slack threads", "slack", PEOPLE, say, shown, ordered=False)
