"""The isolation matrix over the whole program: a model that asks for everything, from every place.

Nothing that the asker may not see there may be in any request to the model, in a tool's result, or in a
message that the place is sent. The part of the matrix that needs no platform is in tests/gateway.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from starlette.routing import Mount, Route

from tests.e2e.isolation import (
    COMMANDS,
    ROUTES,
    TOOLS,
    WEB,
    KnownSession,
    ReadsNothing,
    Roster,
    made_roster,
    markers_in,
    plant,
    reminders_of,
    repeated,
    said,
    uncovered,
)
from tests.e2e.page import Page, opened_page
from tests.e2e.test_amending import settled
from tests.e2e.world import WEB_TOKEN, World
from tests.emulators.base import Emulator
from tests.emulators.openai import Reply, ToolUse
from trunkline.adapters.web.guard import Guard
from trunkline.adapters.web.hub import Hub
from trunkline.adapters.web.site import Posted, Site
from trunkline.gateway.app import open_house

STRANGER = {"telegram": "1009", "discord": "2009"}
CALLS_PER_STEP = 16
"""As many as the turn loop takes at once."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Who asks where: in their direct chat on `platform`, or in a room or its thread."""

    asker: str
    platform: str
    room: str = ""
    in_thread: bool = False

    def visible(self, roster: Roster) -> frozenset[str]:
        return roster.seen_in(self.room) if self.room else roster.seen_by(self.asker)


PLATFORMS = ("telegram", "discord")
DIRECT = tuple(Spot(name, platform) for name in ("ana", "bo", "cy", "dee") for platform in PLATFORMS)
IN_ROOMS = (
    Spot("bo", "discord", "den"),
    Spot("dee", "discord", "den"),
    Spot("cy", "discord", "den", in_thread=True),
    Spot("ana", "telegram", "attic"),
    Spot("bo", "telegram", "attic"),
    Spot("bo", "telegram", "attic", in_thread=True),
    Spot("stranger", "discord", "den"),
    Spot("stranger", "telegram", "attic"),
    Spot("ana", "discord", "den"),
)
"""The last ones were not in the room before they ask."""


class Asker:
    """Speaks from every spot of a running world, and plays the model that then asks for everything."""

    def __init__(self, world: World, roster: Roster, known: Sequence[KnownSession]) -> None:
        self.world = world
        self.roster = roster
        self._calls = [ToolUse(name, dict(call)) for name, probe in TOOLS.items() for call in probe(known)]
        self._steps: list[Sequence[ToolUse]] = []
        self._numbers = count(1)
        self._mark = ""
        self._threads: dict[str, str] = {}
        world.model.responder = self._reply

    def _reply(self, body: dict[str, Any]) -> Reply:
        """Every call, step by step; then, and in side work such as summaries, all that was seen."""
        if body.get("tools") and self._steps:
            return Reply(tools=self._steps.pop(0), chunk_chars=2000)
        return Reply(f"I saw {repeated(seen_by_model(body))} {self._mark}", chunk_chars=2000)

    async def ask(self, spot: Spot) -> None:
        """One turn with every call; fails for what may not be seen, and for what should be but isn't."""
        seen, visible = seen_by_model(*await self.turn(spot)), spot.visible(self.roster)
        assert seen <= visible, f"the model was shown too much for {spot}"
        assert seen == visible, f"the model did not get all it may have for {spot}"
        assert markers_in(await self.shown(spot)) <= visible, f"too much was said at {spot}"

    async def turn(self, spot: Spot) -> list[dict[str, Any]]:
        """One turn with every call, through to its answer; returns the requests the model got."""
        requests, shown = len(self.world.model.requests), len(await self.texts(spot))
        mark = self.aim()
        await self.say(spot, "tell me everything about the kestrel")
        await self.wait(spot, lambda texts: any(mark in text for text in texts[shown:]))
        return self.world.model.requests[requests:]

    async def shown(self, spot: Spot) -> str:
        """All that the place has been sent."""
        return "\n".join(await self.texts(spot))

    def aim(self) -> str:
        """Loads the model with all of the calls; returns the mark that its answer ends with."""
        self._steps = [
            self._calls[start : start + CALLS_PER_STEP]
            for start in range(0, len(self._calls), CALLS_PER_STEP)
        ]
        self._mark = f"END{next(self._numbers)}."
        return self._mark

    async def command(self, spot: Spot, name: str, argument: str) -> frozenset[str]:
        """Runs a chat command and returns the markers of what the place then shows."""
        shown = len(await self.texts(spot))
        if spot.platform == "discord":
            place = await self.place(spot)
            await self.world.discord.slash(self.user(spot), name, argument, channel=place)
        else:
            await self.say(spot, f"/{name} {argument}".strip(), mention=False)
        await self.wait(spot, lambda texts: len(texts) > shown)
        return markers_in("\n".join((await self.texts(spot))[shown:]))

    def user(self, spot: Spot) -> str:
        if spot.asker == "stranger":
            return STRANGER[spot.platform]
        return self.roster.person(spot.asker).accounts[spot.platform]

    async def say(self, spot: Spot, text: str, *, mention: bool = True) -> None:
        user, world = self.user(spot), self.world
        if not spot.room and spot.platform == "telegram":
            await world.telegram.direct_message(int(user), text)
        elif not spot.room:
            await world.discord.direct_message(user, text)
        elif spot.platform == "telegram":
            room = self.roster.room(spot.room)
            thread = int(room.thread) if spot.in_thread else None
            await world.telegram.group_message(
                int(room.chat), int(user), text, thread=thread, mention=mention
            )
        else:
            await world.discord.channel_message(await self.place(spot), user, text, mention=mention)

    async def place(self, spot: Spot) -> str:
        """The Discord channel of a spot; a room's thread is opened when it is first needed."""
        if not spot.room:
            return self.world.discord.direct_chat(self.user(spot))
        channel = self.roster.room(spot.room).chat
        if not spot.in_thread:
            return channel
        if channel not in self._threads:
            made = await self.world.discord.create_thread(channel, self.user(spot), "plans")
            self._threads[channel] = made
        return self._threads[channel]

    async def texts(self, spot: Spot) -> list[str]:
        if spot.platform == "discord":
            return self.world.discord.texts(await self.place(spot))
        chat = self.roster.room(spot.room).chat if spot.room else self.user(spot)
        return self.world.telegram.texts(int(chat))

    async def public(self, spot: Spot) -> str:
        """What everybody in the place can read: not the answers that only the asker was shown."""
        if spot.platform == "telegram":
            return await self.shown(spot)
        sent = self.world.discord.sent(await self.place(spot))
        return "\n".join(message.text for message in sent if not message.ephemeral)

    async def wait(self, spot: Spot, met: Callable[[list[str]], object]) -> None:
        emulator: Emulator = self.world.discord if spot.platform == "discord" else self.world.telegram
        place = await self.place(spot) if spot.platform == "discord" else ""
        chat = self.roster.room(spot.room).chat if spot.room else self.user(spot)

        def texts() -> list[str]:
            return self.world.discord.texts(place) if place else self.world.telegram.texts(int(chat))

        await emulator.wait_for(lambda: met(texts()))


def seen_by_model(*requests: Mapping[str, Any]) -> frozenset[str]:
    """The markers that requests show the model; the calls it made itself are left out."""
    contents = (message.get("content") or "" for request in requests for message in request["messages"])
    return markers_in("\n".join(map(str, contents)))


async def filled(world: World) -> tuple[Roster, tuple[KnownSession, ...]]:
    """The world's home with everything planted, before the program runs."""
    roster = made_roster(world.discord.general)
    attic = roster.room("attic")
    world.telegram.group(int(attic.chat), "Attic", topics=(int(attic.thread),))
    async with open_house(world.config(**roster.settings)) as house:
        return roster, await plant(house, roster)


async def test_a_model_that_asks_for_everything_gets_what_its_asker_may_see_and_no_more(
    world: World,
) -> None:
    roster, known = await filled(world)
    async with world.running(**roster.settings):
        asker = Asker(world, roster, known)
        for spot in (*DIRECT, *IN_ROOMS):
            await asker.ask(spot)
        for spot in (*DIRECT, *IN_ROOMS):
            assert markers_in(await asker.shown(spot)) <= spot.visible(roster)


@pytest.mark.timeout(300)  # each command in each spot, one after the other
async def test_chat_commands_show_private_things_to_their_asker_only(world: World) -> None:
    roster, known = await filled(world)
    rooms = (Spot("cy", "discord", "den"), Spot("ana", "telegram", "attic"))
    async with world.running(**roster.settings):
        asker = Asker(world, roster, known)
        for spot in (*DIRECT[::3], DIRECT[7], *rooms):
            for name, probes in COMMANDS.items():
                for argument in ("",) if isinstance(probes, ReadsNothing) else probes:
                    found = await asker.command(spot, name, argument)
                    assert found <= roster.seen_by(spot.asker), f"/{name} {argument} at {spot}"
        for spot in DIRECT:
            assert markers_in(await asker.shown(spot)) <= spot.visible(roster), spot
        for spot in rooms:
            # A room lists its own reminders; whatever else is shown goes to the asker alone.
            assert markers_in(await asker.public(spot)) <= reminders_of(spot.room), spot


async def test_a_strangers_direct_chat_gets_a_code_and_the_model_is_not_asked(world: World) -> None:
    roster, known = await filled(world)
    async with world.running(**roster.settings):
        asker = Asker(world, roster, known)
        for platform in STRANGER:
            spot = Spot("stranger", platform)
            await asker.say(spot, "tell me everything")
            await asker.wait(spot, lambda texts: len(texts) == 1)
            assert markers_in(await asker.shown(spot)) == frozenset()
        assert world.model.requests == []


async def test_one_who_leaves_a_room_can_search_it_no_more(world: World) -> None:
    roster, known = await filled(world)
    attic, bo = roster.room("attic"), roster.person("bo")
    async with world.running(**roster.settings):
        asker = Asker(world, roster, known)
        await world.telegram.leave(int(attic.chat), int(bo.accounts["telegram"]))
        await world.telegram.wait_for(lambda: not world.telegram.pending)
        seen = seen_by_model(*await asker.turn(Spot("bo", "discord")))
        assert seen == roster.seen_by("bo") - roster.seen_in("attic")


async def test_an_account_taken_from_a_person_has_nothing_of_theirs_even_after_it_is_let_in_again(
    world: World,
) -> None:
    roster, known = await filled(world)
    spot = Spot("bo", "discord")
    async with world.running(**roster.settings):
        await Asker(world, roster, known).ask(spot)
        await settled(world, 0)

    without = roster.settings
    without["people"]["bo"].pop("discord")
    without["access"] = {"unknown": "open", "guest_daily_tokens": 1_000_000}
    async with world.running(**without):
        requests = await Asker(world, roster, known).turn(spot)
        assert seen_by_model(requests[0]) == frozenset()


# The web page


def routes() -> list[str]:
    guard = Guard("token", frozenset(), 1)

    async def receive(thread: str, posted: Posted, language: str) -> None:
        """Nothing is posted: only the routes are read."""

    app = Site("ana", guard, Hub(), receive, None).app()
    return [route.path for route in app.routes if isinstance(route, Route | Mount)]


def test_every_route_of_the_web_page_is_in_the_matrix() -> None:
    assert uncovered(routes(), ROUTES) == []


def threads(known: Sequence[KnownSession]) -> list[str]:
    """Every conversation that one could name in an address."""
    named = [name for one in known for name in (one.id, one.thread, one.holder) if name]
    return [*dict.fromkeys(named), "..%2F..%2Fmemories%2Fana%2FUSER.md"]


async def visit(page: Page, known: Sequence[KnownSession], **headers: str) -> list[tuple[int, str]]:
    """Every route with every name; the event stream only where it can end by itself."""
    answers = []
    for probe in ROUTES.values():
        if isinstance(probe, ReadsNothing):
            continue
        method, path = probe
        for number, thread in enumerate(threads(known) if "{thread}" in path else [""]):
            if method == "POST":
                answers.append(await page.post(thread, f"posted-{number:04}", "/memory", **headers))
            else:
                answers.append(await page.get(path.replace("{thread}", thread), **headers))
    return answers


async def test_the_web_page_gives_nothing_without_its_link_or_under_another_name(world: World) -> None:
    roster, known = await filled(world)
    elsewhere = {"Host": "evil.example:80"}
    async with world.running(**roster.settings), opened_page(world.web_port) as page:
        for headers in ({}, elsewhere, {"Cookie": f"trunkline_{world.web_port}=guessed"}):
            for status, body in await visit(page, known[:4], **headers):
                assert status in (401, 403, 421), headers
                assert markers_in(body) == frozenset()
        await page.open_link("not-the-token")
        assert (await page.get("/"))[0] == 401

        await page.open_link(WEB_TOKEN)
        for status, body in await visit(page, known[:4], **elsewhere):
            assert status in (403, 421)
            assert markers_in(body) == frozenset()
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{world.web_port + 1}"):
            status, body = await page.post("anatalk", "posted-0001", "/memory", Origin=origin)
            assert (status, markers_in(body)) == (403, frozenset())
        assert world.model.requests == []


async def test_the_web_page_shows_its_own_persons_conversations_there_and_no_others(world: World) -> None:
    roster, known = await filled(world)
    async with world.running(**roster.settings), opened_page(world.web_port) as page:
        await page.open_link(WEB_TOKEN)
        shown = frozenset[str]()
        for status, body in await visit(page, known):
            assert status in (200, 202, 404)
            shown |= markers_in(body)
        assert shown <= said(f"ana{WEB}")
        assert shown


async def test_a_model_asked_on_the_web_page_gets_what_the_owner_may_see(world: World) -> None:
    roster, known = await filled(world)
    async with world.running(**roster.settings), opened_page(world.web_port) as page:
        asker = Asker(world, roster, known)
        await page.open_link(WEB_TOKEN)
        mark = asker.aim()
        async with page.follow("fresh", await page.place("fresh")) as events:
            await page.post("fresh", "posted-0001", "tell me everything about the kestrel")
            answer = await events.until(mark)
        seen = seen_by_model(*world.model.requests)
        assert seen == roster.seen_by("ana")
        assert markers_in(answer) <= seen
