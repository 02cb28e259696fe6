"""The composition root: the only module that names concrete adapters, stores and models.

`serve` runs every platform that has a token and the web chat; `chat` runs the terminal alone.
"""

import asyncio
import gc
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich.console import Console

from trunkline.adapters.base import Adapter, CommandSpec
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.store import FileMemoryStore, MemoryStore
from trunkline.agent.scope import PersonId
from trunkline.agent.skills.store import FileSkillStore
from trunkline.agent.tools.base import Tool
from trunkline.agent.tools.memory import memory_tool
from trunkline.agent.tools.react import react_tool
from trunkline.agent.tools.remind import remind_tool
from trunkline.agent.tools.send_file import send_file_tool
from trunkline.agent.tools.session_search import session_search_tool
from trunkline.agent.tools.skills import skill_tools
from trunkline.agent.turn import TurnLimits
from trunkline.gateway import identity, packaged_adapters, spending, web_token
from trunkline.gateway.attachments import Attachments
from trunkline.gateway.beside_turns import FollowsTurns
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import BY_NAME, COMMANDS
from trunkline.gateway.commands.registry import House
from trunkline.gateway.compaction import Compaction
from trunkline.gateway.config import Config
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.facts_kept import FactBelongings
from trunkline.gateway.file_desk import StoreFileDesk
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.housekeeping import keep_house
from trunkline.gateway.instructions import read_instructions
from trunkline.gateway.joining import Belongings
from trunkline.gateway.lifecycle import LEAVING_S, Postponed, drain, stop_on_signals, sweep
from trunkline.gateway.liveness import describe_platforms
from trunkline.gateway.locks import Held, claim_home
from trunkline.gateway.mcp_servers import McpServers
from trunkline.gateway.memory_approval import GuardedMemory, Render, as_it_is
from trunkline.gateway.memory_providers import MemoryProviders, open_providers
from trunkline.gateway.memory_recovery import settle_journal
from trunkline.gateway.mending import served_whole
from trunkline.gateway.model_clients import Models
from trunkline.gateway.opening import Beside, NewSessions, Opened, Opening
from trunkline.gateway.packaged_tools import load_packaged_tools
from trunkline.gateway.platforms import FAILED, Platform, Platforms
from trunkline.gateway.program import program, tell
from trunkline.gateway.reacting import AdapterOf, Reactions
from trunkline.gateway.reminder_desk import StoreReminderDesk
from trunkline.gateway.review import Reviews
from trunkline.gateway.router import Router
from trunkline.gateway.scheduler import Scheduler
from trunkline.gateway.secrets import mask_secrets
from trunkline.gateway.semantic import open_embedding
from trunkline.gateway.sessions import SessionWorkers
from trunkline.gateway.skill_notices import SkillReviews
from trunkline.gateway.skills import GuardedSkills
from trunkline.gateway.skills_curator import Curator
from trunkline.gateway.skills_kept import SkillBelongings
from trunkline.gateway.skills_menu import SkillMenus, shared_commands
from trunkline.gateway.state import outbox, people, provider_rows
from trunkline.gateway.state.conversations import StoreConversations
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.memory_texts import TableMemoryStore
from trunkline.gateway.state.ready import make_ready
from trunkline.gateway.state.search import StoreSearch
from trunkline.gateway.steering import BusyRules
from trunkline.gateway.titles import Titles
from trunkline.gateway.turn_files import TurnFiles
from trunkline.gateway.turns import Mind, TurnRunner
from trunkline.gateway.web_files import StoreCabinet
from trunkline.gateway.welcoming import Suggestions, suggest

if TYPE_CHECKING:
    from trunkline.gateway.embedder import Embedding

log = logging.getLogger(__name__)

LOOKS_BACK = frozenset({"discord", "slack"})
"""Where a message that was on its way when a process died is looked for and, if not found, sent again."""


def _name_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True)
class OpenHouse:
    """The stores, migrated and agreeing with config.yaml."""

    config: Config
    database: Database
    memory: MemoryStore
    search: StoreSearch
    skills: FileSkillStore
    embedding: "Embedding | None" = None
    process: str = field(default_factory=_name_process)
    """Under this name the process holds what it works at."""

    @property
    def files(self) -> FileStore:
        """Where the contents of files lie."""
        return FileStore(self.config.home / "files")


@asynccontextmanager
async def open_house(config: Config) -> AsyncIterator[OpenHouse]:
    """Opens the database and the memory for as long as the context lasts. Raises Unusable."""
    with Database(config.database_url) as database:
        await make_ready(database)
        await database.write(lambda c: identity.assert_config(c, config, now_ms()))
        settings = config.memory
        limits = MemoryLimits(
            memory_chars=settings.memory_char_limit,
            user_chars=settings.user_char_limit,
            memory_enabled=settings.memory_enabled,
            user_enabled=settings.user_profile_enabled,
        )
        await database.write(lambda c: provider_rows.set_active(c, config.memory.provider))
        memory: MemoryStore = FileMemoryStore(config.home, limits, StoreJournal(database))
        if not database.is_sqlite:
            memory = TableMemoryStore(config.home, limits, database)
        await settle_journal(StoreJournal(database), memory)
        embedding = open_embedding(config, database)
        skills = FileSkillStore(config.home, frozenset(BY_NAME))
        yield OpenHouse(config, database, memory, StoreSearch(database, embedding), skills, embedding)


Prepared = Callable[[Config], AbstractAsyncContextManager[Config]]
"""Has ready what the settings ask for, such as a model's server, and gives the settings to go on with."""


async def serve(config: Config, prepared: Prepared = nullcontext) -> int:
    """Runs until SIGTERM or SIGINT, then lets turns finish; one process per home. Returns the exit code."""
    with ExitStack() as held:
        try:
            home, leaving_s = str(config.home.resolve()), config.shutdown.grace_s + LEAVING_S
            await claim_home(held, home, leaving_s, tell)
        except Held:
            return FAILED
        except PermissionError as error:
            tell(f"{error}.")
            return FAILED
        async with prepared(config) as ready:
            return await served_whole(ready, _serve)


async def _serve(config: Config) -> int:
    async with open_house(config) as house:
        owner = (await house.database.read(people.owners))[0]
        token = await house.database.write(web_token.ensure)
        tell(f"Trunkline {version('trunkline')}")
        for note in config.notes:
            tell(note)
        if not config.model_endpoints():
            tell("There is no model yet: messages are kept, and answered with how to set one.")
        platforms = [
            *chat_platforms(
                config, partial(suggest, house.database), await shared_commands(usable_skills(house))
            ),
            web_platform(house, owner.slug, token),
        ]
        names = [platform.name for platform in platforms]
        setup_code = await house.database.write(lambda c: identity.issue_setup_code(c, names, now_ms()))
        if setup_code is not None:
            tell(f"To be known on your own account, send the bot this code in a direct chat: {setup_code}")
        gc.collect()
        gc.freeze()  # what is loaded stays; looking through it for garbage would hold everybody up for 0.2 s
        return await run_platforms(house, platforms)


async def chat(config: Config, person: PersonId, conversation: str) -> int:
    """A conversation in this terminal until it is left. Returns the exit code."""
    async with open_house(config) as house:
        if await house.database.read(lambda c: people.find_person(c, person)) is None:
            tell(f"There is nobody called {person}; `{program()} people list` shows who there is.")
            return 3
        return await run_platforms(house, [_terminal_platform(house, person, conversation)])


async def run_platforms(house: OpenHouse, platforms: Sequence[Platform]) -> int:
    config, delivery = house.config, Delivery(house.database, house.files)
    async with Models(house.config, house.database, house.files.show) as models:
        providers = open_providers(house.config, house.database, house.memory)
        tools = (*built_in_tools(house, models, delivery.render, delivery.adapter), *providers.tools())
        reviews = _reviews(house, delivery, models, tools)
        titles = Titles(house.database, models.side("title"), delivery.adapter)
        servers = McpServers(house.config, [tool.name for tool in tools])
        menus = SkillMenus(house.database, usable_skills(house), delivery.adapter)
        compaction = Compaction(house.database, models, tools, delivery, providers.shortened, servers.tools)

        followers: tuple[FollowsTurns, ...] = (titles, reviews, providers, compaction, menus)

        def after_turn(opened: Opened) -> None:
            for one in followers:
                one.after_turn(opened)

        mind = Mind(models.choices, tools, TurnLimits(max_rounds=config.agent.max_rounds), servers.tools)
        workers = _workers(house, delivery, models, providers, mind, after_turn, compaction, menus)
        scheduler = Scheduler(house.database, delivery, house.config, workers.wake)
        router = Router(
            house.database, house.config, wake=workers.wake, control=workers.control, kick=delivery.kick
        )
        runner = Platforms(house.database, delivery, router.accept, house.process, tell)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            adapters = group.create_task(runner.run(platforms), name="adapters")
            adapters.add_done_callback(lambda _: stop.set())
            owned = [
                adapters,
                group.create_task(delivery.run(), name="delivery"),
                group.create_task(workers.run(), name="workers"),
                group.create_task(reviews.run(), name="reviews"),
                group.create_task(titles.run(), name="titles"),
                group.create_task(menus.run(), name="menus"),
                group.create_task(sweep(delivery, workers), name="sweep"),
                group.create_task(models.prepare(), name="models"),
                group.create_task(keep_house(config, house.database, house.files, delivery), name="chores"),
                group.create_task(compaction.run(), name="compaction"),
                group.create_task(servers.run(), name="tool servers"),
                group.create_task(providers.run(), name="providers"),
                group.create_task(scheduler.run(), name="scheduler"),
            ]
            if house.config.skills.enabled and house.config.skills.curator:
                curator = Curator(house.database, house.skills, delivery.render, delivery.kick)
                owned.append(group.create_task(curator.run(), name="curator"))
            if house.embedding is not None:
                owned.append(group.create_task(house.embedding.run(), name="embedding"))
            with stop_on_signals(stop):
                await stop.wait()
                code = adapters.result() if adapters.done() else 0
                await drain(delivery, workers, house.config.shutdown.grace_s)
                await providers.drain()
            for task in owned:
                task.cancel()
    return code


def _reviews(house: OpenHouse, delivery: Delivery, models: Models, tools: Sequence[Tool[Any]]) -> Reviews:
    memory = guarded_memory(house, delivery.render)
    settings = house.config
    skills = SkillReviews(
        settings.skills.review_rounds if settings.skills.enabled else 0,
        guarded_skills(house),
        house.skills.note_overlaps,
    )
    return Reviews(
        house.database, memory, delivery, models.side("review"), tools, settings.memory, house.process, skills
    )


def _workers(
    house: OpenHouse,
    delivery: Delivery,
    models: Models,
    providers: MemoryProviders,
    mind: Mind,
    after_turn: Callable[[Opened], None],
    compaction: Compaction,
    menus: SkillMenus,
) -> SessionWorkers:
    config = house.config
    mask = partial(mask_secrets, secrets=config.secrets.values)
    opening = Opening(
        house.database,
        house.memory,
        mind.tools,
        owner=house.process,
        new=NewSessions(models.main.name, config.sessions.idle_reset_hours),
        mask=mask,
        instructions=lambda: read_instructions(config),
        beside=Beside(usable_skills(house), providers.recall),
    )
    turns = Postponed()
    desk = House(
        database=house.database,
        memory=house.memory,
        search=house.search,
        turns=turns,
        version=version("trunkline"),
        model=models.main.name,
        platforms=partial(describe_platforms, delivery),
        mask=mask,
        models=tuple(models.choices),
        kick=delivery.kick,
        settings=config,
        home=config.home,
        belongings=(*belongings(house), menus),
        skills=usable_skills(house),
        erased=providers.erased,
        shorten=compaction.by_hand,
    )
    runner = TurnRunner(
        desk,
        _turn_files(house, delivery, models),
        opening,
        mind,
        compaction,
        after_turn=after_turn,
        rules=BusyRules(config.agent.busy, config.agent.burst_window_s, config.agent.reanswer_edits),
    )
    workers = SessionWorkers(house.database, runner, house.process)
    turns.workers = workers
    return workers


def _turn_files(house: OpenHouse, delivery: Delivery, models: Models) -> TurnFiles:
    attachments = Attachments(
        house.database,
        house.files,
        delivery.adapter,
        max_bytes=house.config.files.max_mb * 2**20,
        hearing=models.ear,
    )
    return TurnFiles(house.database, house.files, delivery, attachments, models.sees, models.mouth)


def guarded_memory(house: OpenHouse, render: Render) -> GuardedMemory:
    """The memory as models may change it: not while it is paused, and where it is so set with a yes only."""
    approval = house.config.memory.write_approval
    return GuardedMemory(house.memory, house.database, approval=approval, render=render)


def usable_skills(house: OpenHouse) -> FileSkillStore | None:
    return house.skills if house.config.skills.enabled else None


def guarded_skills(house: OpenHouse) -> GuardedSkills:
    """The skills as models may change them: not in private conversations, nor while memory is paused."""
    return GuardedSkills(house.skills, house.database, approval=house.config.memory.write_approval)


def built_in_tools(
    house: OpenHouse, models: Models, render: Render = as_it_is, adapter_of: AdapterOf = lambda _: None
) -> tuple[Tool[Any], ...]:
    """Every tool that a model is given, with these settings; last those of other packages."""
    settings = house.config.memory
    tools: list[Tool[Any]] = []
    if settings.memory_enabled or settings.user_profile_enabled:
        tools.append(memory_tool(guarded_memory(house, render)))
    count = partial(spending.count_beside, house.database)
    tools.append(session_search_tool(house.search, models.auxiliary("session_search"), count=count))
    mask = partial(mask_secrets, secrets=house.config.secrets.values)
    tools.append(send_file_tool(StoreFileDesk(house.database, house.files, mask)))
    tools.append(react_tool(Reactions(house.database, adapter_of)))
    tools.append(remind_tool(StoreReminderDesk(house.database, mask)))
    if house.config.skills.enabled:
        tools += skill_tools(guarded_skills(house))
    tools += load_packaged_tools([tool.name for tool in tools], house.config, tell)
    return tuple(tools)


def belongings(house: OpenHouse) -> tuple[Belongings, ...]:
    """What keeps things of people beside the memory files and state.db: asked when two are joined, when one
    takes a copy, and when one leaves for good."""
    return (SkillBelongings(house.skills), FactBelongings(StoreFacts(house.database)))


# Platforms. Each adapter is imported when it is configured, since its library takes its time to load.


def chat_platforms(
    config: Config, suggestions: Suggestions | None = None, skills: Sequence[CommandSpec] = ()
) -> list[Platform]:
    """`skills` stand in the menus after our own commands."""
    menu = (*command_specs(), *skills)
    makers: dict[str, Callable[[Config], Adapter]] = {
        "telegram": partial(_telegram, menu),
        "discord": partial(_discord, menu),
        "slack": partial(_slack, suggestions),
    }
    secrets = config.secrets
    tokens = {
        "telegram": secrets.telegram_bot_token,
        "discord": secrets.discord_bot_token,
        "slack": secrets.slack_bot_token,
    }
    ours = [
        Platform(
            name,
            partial(makers[name], config),
            repeats_safely=name in LOOKS_BACK,
            repeatable_ms=outbox.FINDABLE_MS,
            lock_secret=tokens[name],
        )
        for name in config.platforms_with_token
    ]
    theirs = [
        Platform(
            name,
            partial(packaged_adapters.make, name, settings, command_specs()),
            lock_secret=f"{config.home.resolve()}/{name}",
        )
        for name, settings in config.platforms.packaged.items()
    ]
    return ours + theirs


def _telegram(menu: Sequence[CommandSpec], config: Config) -> Adapter:
    from trunkline.adapters.telegram import TelegramAdapter  # noqa: PLC0415

    settings, token = config.platforms.telegram, config.secrets.telegram_bot_token
    return TelegramAdapter(
        token, commands=menu, base_url=settings.base_url, proxy=settings.proxy, drafts=settings.is_native
    )


def _discord(menu: Sequence[CommandSpec], config: Config) -> Adapter:
    from trunkline.adapters.discord import DiscordAdapter  # noqa: PLC0415

    return DiscordAdapter(config.secrets.discord_bot_token, commands=menu, proxy=config.discord_proxy)


def _slack(suggestions: Suggestions | None, config: Config) -> Adapter:
    from trunkline.adapters.slack import SlackAdapter  # noqa: PLC0415

    settings = config.platforms.slack
    return SlackAdapter(
        config.secrets.slack_bot_token,
        config.secrets.slack_app_token,
        commands=command_specs(),
        base_url=settings.base_url,
        proxy=settings.proxy,
        suggest=None if suggestions is None else partial(suggestions, "slack"),
        streams=settings.is_native,
    )


def web_platform(house: OpenHouse, owner: PersonId, token: str) -> Platform:
    from trunkline.adapters.web.adapter import WebAdapter  # noqa: PLC0415

    settings = house.config.platforms.web
    made: list[WebAdapter] = []

    def make() -> Adapter:
        mask = partial(mask_secrets, secrets=house.config.secrets.values)
        adapter = WebAdapter(
            settings.host,
            settings.port,
            owner,
            token,
            conversations=StoreConversations(house.database, mask),
            cabinet=StoreCabinet(house.files),
            commands=command_specs(),
        )
        made[:] = [adapter]
        return adapter

    def greeting() -> str:
        return f"Web chat: {made[0].link}"

    return Platform("web", make, lock_secret=str(house.config.home.resolve()), greeting=greeting)


def _terminal_platform(house: OpenHouse, person: PersonId, conversation: str) -> Platform:
    def make() -> Adapter:
        from trunkline.adapters.terminal import LineReader, TerminalAdapter  # noqa: PLC0415

        lines = LineReader()
        return TerminalAdapter(
            person,
            conversation=conversation,
            read_line=lines,
            keyboard=lines.keyboard,
            console=Console(),
            downloads=house.config.home / "downloads",
        )

    return Platform("terminal", make, lock_secret=f"{person}/{conversation}", thread=conversation)


def command_specs() -> tuple[CommandSpec, ...]:
    return tuple(command.spec() for command in COMMANDS)
