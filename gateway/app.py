"""The composition root: the only module that names concrete adapters, stores and models.

`serve` runs every platform that has a token and the web chat; `chat` runs the terminal alone.
"""

import asyncio
import logging
import os
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich.console import Console

from trunkline.adapters.base import Adapter, CommandSpec
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.scope import PersonId
from trunkline.agent.tools.base import Tool
from trunkline.agent.tools.memory import memory_tool
from trunkline.agent.tools.session_search import session_search_tool
from trunkline.agent.turn import TurnLimits
from trunkline.gateway import backups, identity, private_mode, web_token
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import COMMANDS
from trunkline.gateway.commands.registry import House
from trunkline.gateway.config import Config
from trunkline.gateway.conversations import StoreConversations
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.instructions import read_instructions
from trunkline.gateway.lifecycle import Postponed, drain, stop_on_signals, sweep
from trunkline.gateway.locks import Held, claim
from trunkline.gateway.memory_approval import GuardedMemory, Render, as_it_is
from trunkline.gateway.memory_recovery import settle_journal
from trunkline.gateway.model_clients import Models
from trunkline.gateway.opening import Opened, Opening
from trunkline.gateway.platforms import FAILED, Platform, Platforms
from trunkline.gateway.review import Reviews
from trunkline.gateway.router import Router
from trunkline.gateway.secrets import mask_secrets
from trunkline.gateway.sessions import SessionWorkers
from trunkline.gateway.state import outbox, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.migrate import migrate
from trunkline.gateway.state.search import StoreSearch
from trunkline.gateway.titles import Titles
from trunkline.gateway.turns import TurnRunner

if TYPE_CHECKING:
    from trunkline.gateway.embedder import Embedding

log = logging.getLogger(__name__)

LOOKS_BACK = frozenset({"discord", "slack"})
"""Where a message that was on its way when a process died is looked for and, if not found, sent again."""


@dataclass(frozen=True, slots=True)
class OpenHouse:
    """The stores, migrated and agreeing with config.yaml."""

    config: Config
    database: Database
    memory: FileMemoryStore
    search: StoreSearch
    embedding: "Embedding | None" = None


@asynccontextmanager
async def open_house(config: Config) -> AsyncIterator[OpenHouse]:
    """Opens state.db and the memory files for as long as the context lasts."""
    with Database(config.database_url) as database:
        await migrate(database)
        await database.write(lambda c: identity.assert_config(c, config, now_ms()))
        settings = config.memory
        limits = MemoryLimits(
            memory_chars=settings.memory_char_limit,
            user_chars=settings.user_char_limit,
            memory_enabled=settings.memory_enabled,
            user_enabled=settings.user_profile_enabled,
        )
        journal = StoreJournal(database)
        memory = FileMemoryStore(config.home, limits, journal)
        await settle_journal(journal, memory)
        embedding = _embedding(config, database)
        yield OpenHouse(config, database, memory, StoreSearch(database, embedding), embedding)


async def serve(config: Config) -> int:
    """Runs until SIGTERM or SIGINT, then lets turns finish; one process per home. Returns the exit code."""
    with ExitStack() as held:
        try:
            held.enter_context(claim("home", str(config.home.resolve()), f"process {os.getpid()}"))
        except Held:
            tell(f"Trunkline is already running with {config.home}. Stop that one first.")
            return FAILED
        return await _serve(config)


async def _serve(config: Config) -> int:
    async with open_house(config) as house:
        owner = (await house.database.read(people.owners))[0]
        token = await house.database.write(web_token.ensure)
        tell(f"Trunkline {version('trunkline')}")
        for note in config.notes:
            tell(note)
        if not config.model_endpoints():
            tell("There is no model yet: messages are kept, and answered with how to set one.")
        platforms = [*chat_platforms(config), web_platform(house, owner.slug, token)]
        names = [platform.name for platform in platforms]
        setup_code = await house.database.write(lambda c: identity.issue_setup_code(c, names, now_ms()))
        if setup_code is not None:
            tell(f"To be known on your own account, send the bot this code in a direct chat: {setup_code}")
        return await run_platforms(house, platforms)


async def chat(config: Config, person: PersonId, conversation: str) -> int:
    """A conversation in this terminal until it is left. Returns the exit code."""
    async with open_house(config) as house:
        if await house.database.read(lambda c: people.find_person(c, person)) is None:
            tell(f"There is nobody called {person}; `trunkline people list` shows who there is.")
            return 3
        return await run_platforms(house, [_terminal_platform(person, conversation)])


async def run_platforms(house: OpenHouse, platforms: Sequence[Platform]) -> int:
    process = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    delivery = Delivery(house.database)
    async with Models(house.config, house.database) as models:
        tools = built_in_tools(house, models, delivery.render)
        reviews = _reviews(house, delivery, models, tools, process)
        titles = Titles(house.database, models.side("title"))

        def after_turn(opened: Opened) -> None:
            titles.after_turn(opened)
            reviews.after_turn(opened)

        workers = _workers(house, delivery, models, tools, after_turn, process)
        router = Router(
            house.database,
            house.config,
            wake=workers.wake,
            control=workers.control,
            kick=delivery.kick,
        )
        runner = Platforms(house.database, delivery, router.accept, process, tell)
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
                group.create_task(sweep(delivery, workers), name="sweep"),
                group.create_task(models.prepare(), name="models"),
                group.create_task(backups.watch(house.config.home), name="backups"),
                group.create_task(private_mode.watch(house.database, delivery.kick), name="private"),
            ]
            if house.embedding is not None:
                owned.append(group.create_task(house.embedding.run(), name="embedding"))
            with stop_on_signals(stop):
                await stop.wait()
                code = adapters.result() if adapters.done() else 0
                await drain(delivery, workers, house.config.shutdown.grace_s)
            for task in owned:
                task.cancel()
    return code


def _embedding(config: Config, database: Database) -> "Embedding | None":
    """What search by meaning needs; nothing of it is loaded where that is off."""
    if config.search.semantic is False:
        return None
    try:
        from trunkline.gateway.embedder import Embedding, chosen_embedder  # noqa: PLC0415
    except ImportError:
        log.warning("search by meaning is off: the extra `semantic` is not installed")
        return None
    embedder = chosen_embedder(config)
    return None if embedder is None else Embedding(database, embedder)


def _reviews(
    house: OpenHouse, delivery: Delivery, models: Models, tools: Sequence[Tool[Any]], process: str
) -> Reviews:
    memory = guarded_memory(house, delivery.render)
    return Reviews(
        house.database, memory, delivery, models.side("review"), tools, house.config.memory, process
    )


def _workers(
    house: OpenHouse,
    delivery: Delivery,
    models: Models,
    tools: Sequence[Tool[Any]],
    after_turn: Callable[[Opened], None],
    process: str,
) -> SessionWorkers:
    config = house.config
    mask = partial(mask_secrets, secrets=config.secrets.values)
    opening = Opening(
        house.database,
        house.memory,
        tools,
        owner=process,
        model_name=models.main.name,
        mask=mask,
        instructions=lambda: read_instructions(config),
    )
    turns = Postponed()
    desk = House(
        database=house.database,
        memory=house.memory,
        search=house.search,
        turns=turns,
        version=version("trunkline"),
        model=models.main.name,
        platforms=lambda: tuple(delivery.connected),
        mask=mask,
    )
    runner = TurnRunner(
        desk,
        delivery,
        opening,
        models.main,
        tools,
        TurnLimits(max_rounds=config.agent.max_rounds),
        mask,
        after_turn=after_turn,
    )
    workers = SessionWorkers(house.database, runner, process)
    turns.workers = workers
    return workers


def guarded_memory(house: OpenHouse, render: Render) -> GuardedMemory:
    """The memory as models may change it: not while it is paused, and where it is so set with a yes only."""
    approval = house.config.memory.write_approval
    return GuardedMemory(house.memory, house.database, approval=approval, render=render)


def built_in_tools(house: OpenHouse, models: Models, render: Render = as_it_is) -> tuple[Tool[Any], ...]:
    """Every tool that a model is given, with these settings."""
    settings = house.config.memory
    tools: list[Tool[Any]] = []
    if settings.memory_enabled or settings.user_profile_enabled:
        tools.append(memory_tool(guarded_memory(house, render)))
    tools.append(session_search_tool(house.search, models.auxiliary("session_search")))
    return tuple(tools)


# Platforms. Each adapter is imported when it is configured, since its library takes its time to load.


def chat_platforms(config: Config) -> list[Platform]:
    makers: dict[str, Callable[[Config], Adapter]] = {
        "telegram": _telegram,
        "discord": _discord,
        "slack": _slack,
    }
    secrets = config.secrets
    tokens = {
        "telegram": secrets.telegram_bot_token,
        "discord": secrets.discord_bot_token,
        "slack": secrets.slack_bot_token,
    }
    return [
        Platform(
            name,
            partial(makers[name], config),
            repeats_safely=name in LOOKS_BACK,
            repeatable_ms=outbox.FINDABLE_MS,
            lock_secret=tokens[name],
        )
        for name in config.platforms_with_token
    ]


def _telegram(config: Config) -> Adapter:
    from trunkline.adapters.telegram import TelegramAdapter  # noqa: PLC0415

    settings = config.platforms.telegram
    return TelegramAdapter(
        config.secrets.telegram_bot_token,
        commands=command_specs(),
        base_url=settings.base_url,
        proxy=settings.proxy,
    )


def _discord(config: Config) -> Adapter:
    from trunkline.adapters.discord import DiscordAdapter  # noqa: PLC0415

    return DiscordAdapter(
        config.secrets.discord_bot_token, commands=command_specs(), proxy=config.discord_proxy
    )


def _slack(config: Config) -> Adapter:
    from trunkline.adapters.slack import SlackAdapter  # noqa: PLC0415

    settings = config.platforms.slack
    return SlackAdapter(
        config.secrets.slack_bot_token,
        config.secrets.slack_app_token,
        commands=command_specs(),
        base_url=settings.base_url,
        proxy=settings.proxy,
    )


def web_platform(house: OpenHouse, owner: PersonId, token: str) -> Platform:
    def make() -> Adapter:
        from trunkline.adapters.web.adapter import WebAdapter  # noqa: PLC0415

        web = house.config.platforms.web
        return WebAdapter(web.host, web.port, owner, token, conversations=StoreConversations(house.database))

    settings = house.config.platforms.web
    link = f"Web chat: http://{settings.host}:{settings.port}/?token={token}"
    return Platform("web", make, lock_secret=str(house.config.home.resolve()), greeting=link)


def _terminal_platform(person: PersonId, conversation: str) -> Platform:
    def make() -> Adapter:
        from trunkline.adapters.terminal import LineReader, TerminalAdapter  # noqa: PLC0415

        return TerminalAdapter(person, conversation=conversation, read_line=LineReader(), console=Console())

    return Platform("terminal", make, lock_secret=f"{person}/{conversation}", thread=conversation)


def command_specs() -> tuple[CommandSpec, ...]:
    return tuple(command.spec() for command in COMMANDS)


def tell(sentence: str) -> None:
    """A line for the operator, on standard output."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()
