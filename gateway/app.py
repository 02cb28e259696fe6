"""The composition root: the only module that names concrete adapters, stores and models.

`serve` runs every platform that has a token and the web chat; `chat` runs the terminal alone.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from sqlalchemy.exc import SQLAlchemyError

from trunkline.adapters.base import Adapter, CommandSpec
from trunkline.agent.memory.entries import MemoryLimits
from trunkline.agent.memory.store import FileMemoryStore
from trunkline.agent.model import ModelClient
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_errors import Failed as ModelFailed
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint
from trunkline.agent.scope import AccountId, PersonId
from trunkline.agent.tools.base import Tool
from trunkline.agent.tools.memory import memory_tool
from trunkline.agent.tools.session_search import session_search_tool
from trunkline.agent.turn import TurnLimits
from trunkline.gateway import backups, identity, private_mode, web_token
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.catalogue import COMMANDS
from trunkline.gateway.commands.registry import House
from trunkline.gateway.config import Config, ModelEndpoint
from trunkline.gateway.conversations import StoreConversations
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.locks import Held, claim
from trunkline.gateway.memory_approval import GuardedMemory, Render, as_it_is
from trunkline.gateway.memory_recovery import settle_journal
from trunkline.gateway.models import FallbackModel, NoModel
from trunkline.gateway.opening import Opened, Opening
from trunkline.gateway.platforms import FAILED, Platform, Platforms
from trunkline.gateway.review import Reviews
from trunkline.gateway.router import Router
from trunkline.gateway.secrets import mask_secrets
from trunkline.gateway.sessions import SessionWorkers
from trunkline.gateway.settings import Purpose
from trunkline.gateway.state import outbox, people
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.journal import StoreJournal
from trunkline.gateway.state.migrate import migrate
from trunkline.gateway.state.records import SessionKey
from trunkline.gateway.state.search import StoreSearch
from trunkline.gateway.state.tool_support import StoreToolSupport
from trunkline.gateway.titles import Titles
from trunkline.gateway.turns import TurnRunner

if TYPE_CHECKING:
    from trunkline.gateway.embedder import Embedding

log = logging.getLogger(__name__)

SWEEP_S = 2.0
SEND_GRACE_S = 5.0
LOOKS_BACK = frozenset({"discord", "slack"})
"""Where a message that was on its way when a process died is looked for and, if not found, sent again."""
INSTRUCTION_FILES = ("SOUL.md", "AGENTS.md")
INSTRUCTION_CHARS = 20_000


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
    async with Models(house) as models:
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
                group.create_task(_sweep(delivery, workers), name="sweep"),
                group.create_task(models.prepare(), name="models"),
                group.create_task(backups.watch(house.config.home), name="backups"),
                group.create_task(private_mode.watch(house.database, delivery.kick), name="private"),
            ]
            if house.embedding is not None:
                owned.append(group.create_task(house.embedding.run(), name="embedding"))
            with _signals(stop):
                await stop.wait()
                code = adapters.result() if adapters.done() else 0
                await _drain(delivery, workers, house.config.shutdown.grace_s)
            for task in owned:
                task.cancel()
    return code


async def _drain(delivery: Delivery, workers: SessionWorkers, grace_s: float) -> None:
    """Lets turns finish, then sends what is planned, all of it in the grace time or a little more."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + grace_s
    await workers.drain(grace_s)
    await delivery.drain(max(until_s - loop.time(), SEND_GRACE_S))


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
    house: OpenHouse, delivery: Delivery, models: "Models", tools: Sequence[Tool[Any]], process: str
) -> Reviews:
    memory = guarded_memory(house, delivery.render)
    return Reviews(
        house.database, memory, delivery, models.side("review"), tools, house.config.memory, process
    )


def _workers(
    house: OpenHouse,
    delivery: Delivery,
    models: "Models",
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
        instructions=lambda: _read_instructions(config),
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


def built_in_tools(house: OpenHouse, models: "Models", render: Render = as_it_is) -> tuple[Tool[Any], ...]:
    """Every tool that a model is given, with these settings."""
    settings = house.config.memory
    tools: list[Tool[Any]] = []
    if settings.memory_enabled or settings.user_profile_enabled:
        tools.append(memory_tool(guarded_memory(house, render)))
    tools.append(session_search_tool(house.search, models.auxiliary("session_search")))
    return tuple(tools)


class Postponed:
    """The commands' view of running turns: the workers, which are made after the commands' desk."""

    workers: SessionWorkers

    def running_for(self, key: SessionKey) -> AccountId | None:
        return self.workers.running_for(key)

    def stop(self, key: SessionKey) -> bool:
        return self.workers.stop(key)


class Models:
    """The model clients of the settings, closed at the end of the context."""

    def __init__(self, house: OpenHouse) -> None:
        self._config = house.config
        self._support = StoreToolSupport(house.database)
        self._clients: dict[ModelEndpoint, OpenAIModel] = {}
        endpoints = house.config.model_endpoints()
        self.main: ModelClient = NoModel()
        if endpoints:
            self.main = FallbackModel([self._client(endpoint) for endpoint in endpoints])

    def auxiliary(self, purpose: Purpose) -> ModelClient | None:
        """The model for side work; None when there is none."""
        endpoint = self._config.auxiliary_endpoint(purpose)
        return None if endpoint is None else self._client(endpoint)

    def side(self, purpose: Purpose) -> ModelClient:
        """The model for side work where the settings name one, else the main one with its fallbacks."""
        own = self.auxiliary(purpose) if getattr(self._config.auxiliary, purpose) is not None else None
        return own or self.main

    async def __aenter__(self) -> Self:
        return self

    async def prepare(self) -> None:
        """Loads the SDK while the platforms connect, so that the first answer needn't wait for it."""
        for client in self._clients.values():
            try:
                await client.prepare()
            except ModelFailed as failed:
                log.warning("model not prepared: %s", failed.failure.kind)

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            await client.aclose()

    def _client(self, endpoint: ModelEndpoint) -> OpenAIModel:
        if endpoint not in self._clients:
            where = Endpoint(endpoint.base_url or OPENAI_URL, endpoint.api_key)
            self._clients[endpoint] = OpenAIModel(
                endpoint.name, where, tool_calls=endpoint.tool_calls, support=self._support
            )
        return self._clients[endpoint]


async def _sweep(delivery: Delivery, workers: SessionWorkers) -> None:
    """Finds what waits: what a dead process left, and what other processes (the command line) planned."""
    while True:
        try:
            await delivery.sweep()
            for platform, line in delivery.connected.items():
                await workers.sweep(platform, line.tenant, line.thread)
        except SQLAlchemyError as error:
            log.warning("sweep failed: %s", type(error).__name__)
        await asyncio.sleep(SWEEP_S)


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


def _read_instructions(config: Config) -> Mapping[str, str]:
    """The operator's own texts for the system prompt; what can't be read is left out and logged."""
    texts = {}
    for name in INSTRUCTION_FILES:
        path = config.home / name
        try:
            texts[name] = path.read_text(encoding="utf-8")[:INSTRUCTION_CHARS]
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            log.warning("%s left out: %s", name, type(error).__name__)
    return texts


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask for an orderly end; a second one ends at once."""

    def ask() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def tell(sentence: str) -> None:
    """A line for the operator, on standard output."""
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()
