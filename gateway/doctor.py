"""What `trunkline doctor` looks at: settings, tokens, the model's endpoint and the web chat's port."""

import errno
import json
import socket
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass

import aiohttp
from sqlalchemy.exc import SQLAlchemyError

from trunkline.agent.openai_client import ToolMode
from trunkline.agent.openai_client_sdk import OPENAI_URL
from trunkline.agent.openai_client_setup import check_endpoint
from trunkline.gateway.config import Config, ModelEndpoint
from trunkline.gateway.identity import disagreements
from trunkline.gateway.program import program
from trunkline.gateway.setup_checks import (
    DISCORD_URL,
    Accepted,
    TokenRefused,
    check_discord,
    check_slack,
    check_telegram,
)
from trunkline.gateway.setup_model import describe_failure
from trunkline.gateway.state.checks import index_state, journal_mode
from trunkline.gateway.state.database import Database, sqlite_file
from trunkline.gateway.state.mounts import network_kind

_HEALTH_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. What is not `fine` must be mended for it to work."""

    subject: str
    fine: bool
    sentence: str


async def examine(config: Config, *, discord_url: str = DISCORD_URL) -> AsyncIterator[Finding]:
    """Yields findings as they come; asks the platforms and the model, and changes nothing."""
    yield Finding("settings", True, f"{config.home / 'config.yaml'} is in order.")
    for note in config.notes:
        yield Finding("secrets", False, note)
    if config.owner is None:
        yield Finding("people", False, f"Nobody is the owner: run `{program()} setup`.")
    async for finding in _people(config):
        yield finding
    async for finding in _models(config):
        yield finding
    secrets, platforms = config.secrets, config.platforms
    if secrets.telegram_bot_token:
        asked = check_telegram(
            secrets.telegram_bot_token, platforms.telegram.base_url, platforms.telegram.proxy
        )
        yield await _token("telegram", asked)
    if secrets.discord_bot_token:
        yield await _token(
            "discord", check_discord(secrets.discord_bot_token, discord_url, config.discord_proxy)
        )
    if secrets.slack_bot_token or secrets.slack_app_token:
        asked = check_slack(
            secrets.slack_bot_token,
            secrets.slack_app_token,
            platforms.slack.base_url,
            platforms.slack.proxy,
        )
        yield await _token("slack", asked)
    yield await _database(config)
    yield await _port(platforms.web.host, platforms.web.port)


async def _models(config: Config) -> AsyncIterator[Finding]:
    endpoints = config.model_endpoints()
    if not endpoints:
        yield Finding(
            "model", False, f"No model is set: run `{program()} setup`, or `{program()} model try`."
        )
    for endpoint in endpoints:
        yield await _model(endpoint)


async def _model(endpoint: ModelEndpoint) -> Finding:
    url = endpoint.base_url or OPENAI_URL
    check = await check_endpoint(endpoint.name, url, endpoint.api_key)
    if check.failure is not None:
        return Finding("model", False, describe_failure(check.failure, url))
    if check.tools is ToolMode.NONE:
        sentence = (
            f"{endpoint.name} answers, but can't call tools: it remembers and looks up nothing by itself."
        )
        return Finding("model", True, sentence)
    return Finding("model", True, f"{endpoint.name} answers, and calls tools the {check.tools} way.")


async def _token(platform: str, asked: Awaitable[Accepted]) -> Finding:
    try:
        accepted = await asked
    except TokenRefused as refused:
        return Finding(platform, False, str(refused))
    return Finding(platform, True, " ".join((f"Knows it as {accepted.name}.", *accepted.advice)))


async def _database(config: Config) -> Finding:
    path = sqlite_file(config.database_url)
    if path is not None and not path.exists():
        return Finding("database", True, "It is made at the first start.")
    try:
        with Database(config.database_url) as database:
            index = await database.read(index_state)
            journal = await database.read(journal_mode)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        advice = f"`{program()} db check` says more"
        return Finding("database", False, f"It can't be read ({cause}): {advice}.")
    mount = None if path is None else network_kind(path)
    place = f" It is on a {mount} mount, so writes are slow (journal mode {journal})." if mount else ""
    return Finding("database", index.fine, index.sentence + place)


async def _people(config: Config) -> AsyncIterator[Finding]:
    """Where the file and the database disagree: the file wins, at the next start if not before."""
    path = sqlite_file(config.database_url)
    if path is not None and not path.exists():
        return
    try:
        with Database(config.database_url) as database:
            for sentence in await database.read(lambda c: disagreements(c, config)):
                yield Finding("people", True, sentence)
    except SQLAlchemyError:
        return  # the finding on the database says it


async def _port(host: str, port: int) -> Finding:
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return Finding("web", True, f"Port {port} on {host} is free for the web chat.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            if await _is_ours(host, port):
                return Finding("web", True, f"A running Trunkline serves the web chat on port {port}.")
            advice = "end that one, or set platforms.web.port to another number"
            return Finding("web", False, f"Port {port} on {host} is taken by another program: {advice}.")
        advice = "choose another in platforms.web of config.yaml"
        return Finding("web", False, f"Port {port} on {host} can't be used ({error.strerror}): {advice}.")


async def _is_ours(host: str, port: int) -> bool:
    """Whether the web chat of a Trunkline is what answers there."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    url = f"http://{f'[{name}]' if ':' in name else name}:{port}/healthz"
    try:
        async with aiohttp.ClientSession(timeout=_HEALTH_TIMEOUT) as http, http.get(url) as response:
            health: object = json.loads(await response.content.read(100))
            return health == {"product": "trunkline", "status": "ok"}
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False
