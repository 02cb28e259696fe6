"""Asks each platform whether it takes a token, before the token is saved. Changes nothing there."""

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from pydantic import BaseModel, RootModel, ValidationError

TELEGRAM_URL = "https://api.telegram.org"
DISCORD_URL = "https://discord.com/api/v10"
SLACK_URL = "https://slack.com/api"

Reply = TypeVar("Reply", bound=BaseModel)

_TELEGRAM_TOKEN = re.compile(r"\d+:[A-Za-z0-9_-]+")
_TIMEOUT = aiohttp.ClientTimeout(total=15)
# Application flags, as Discord's API reference lists them: message content, for large and for small bots.
_MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
DISCORD_RIGHTS = {
    "View Channels": 1 << 10,
    "Send Messages": 1 << 11,
    "Send Messages in Threads": 1 << 38,
    "Create Public Threads": 1 << 35,  # for rooms with auto_thread
    "Read Message History": 1 << 16,  # replies need it
    "Attach Files": 1 << 15,
    "Add Reactions": 1 << 6,
}
"""All that is used, by the name in Discord's invite page."""
_ADMINISTRATOR = 1 << 3
SLACK_SCOPES = frozenset(
    {
        "app_mentions:read",
        "assistant:write",
        "channels:history",
        "channels:read",
        "chat:write",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "mpim:history",
        "reactions:read",
        "reactions:write",
        "users:read",
    }
)
"""Those of deploy/slack-manifest.yaml; the platform tells which an installation has."""
_SERVERS_NAMED = 5


class TokenRefused(Exception):
    """The token can't be used. Its text is the sentence to show; it never holds the token."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Who the token belongs to, and sentences on what the operator should still do."""

    name: str
    advice: tuple[str, ...] = ()


class _TelegramBot(BaseModel):
    username: str
    can_read_all_group_messages: bool = False


class _TelegramReply(BaseModel):
    ok: bool
    result: _TelegramBot | None = None


class _DiscordApplication(BaseModel):
    id: str
    name: str
    flags: int = 0


class _DiscordServer(BaseModel):
    name: str
    permissions: int = 0


class _DiscordServers(RootModel[list[_DiscordServer]]):
    """The servers the bot is in, each with what it may do there."""


class _SlackReply(BaseModel):
    ok: bool
    error: str = ""
    team: str = ""
    user: str = ""


async def check_telegram(token: str, base_url: str | None = None, proxy: str | None = None) -> Accepted:
    """Raises TokenRefused."""
    if not _TELEGRAM_TOKEN.fullmatch(token):
        raise TokenRefused(
            "A Telegram token is a number, a colon and letters. Copy all of it from @BotFather."
        )
    url = f"{base_url or TELEGRAM_URL}/bot{token}/getMe"
    status, answer = await _ask("Telegram", "GET", url, proxy=proxy)
    if status in (401, 404):
        raise TokenRefused(
            "Telegram doesn't know this token. Copy it again from @BotFather: /mybots, your bot, API Token."
        )
    reply = _parse("Telegram", _TelegramReply, answer)
    if reply.result is None:
        raise TokenRefused("Telegram answered, but not with the bot's name. Try again in a minute.")
    advice = (
        "In groups the bot sees only mentions, replies and commands, which is what it needs by default."
        " To let it read all: @BotFather, /setprivacy, Disable; then add it to the group again.",
    )
    return Accepted(f"@{reply.result.username}", () if reply.result.can_read_all_group_messages else advice)


async def check_discord(token: str, base_url: str | None = None, proxy: str | None = None) -> Accepted:
    """Raises TokenRefused."""
    url = f"{base_url or DISCORD_URL}/applications/@me"
    status, answer = await _ask("Discord", "GET", url, proxy=proxy, authorization=f"Bot {token}")
    if status == 401:
        raise TokenRefused(
            "Discord doesn't know this token. Make a new one in the developer portal: your application, Bot,"
            " Reset Token."
        )
    application = _parse("Discord", _DiscordApplication, answer)
    invite = (
        "Invite it to a server with https://discord.com/oauth2/authorize?scope=bot+applications.commands"
        f"&client_id={application.id}&permissions={sum(DISCORD_RIGHTS.values())}"
    )
    intent = (
        "Turn on Message Content Intent in the developer portal: your application, Bot, Privileged Gateway"
        " Intents. Without it Discord refuses the connection."
    )
    readable = application.flags & _MESSAGE_CONTENT_FLAGS
    lacking = await _lacking_rights(base_url or DISCORD_URL, proxy, f"Bot {token}")
    return Accepted(application.name, (*lacking, invite) if readable else (intent, *lacking, invite))


async def _lacking_rights(base: str, proxy: str | None, authorization: str) -> tuple[str, ...]:
    """A sentence for each server in which the bot may not do all that it does; none where nobody tells."""
    try:
        status, answer = await _ask(
            "Discord", "GET", f"{base}/users/@me/guilds", proxy=proxy, authorization=authorization
        )
        servers = _DiscordServers.model_validate(answer).root if status == 200 else []
    except (TokenRefused, ValidationError):
        return ()
    told = []
    for server in servers[:_SERVERS_NAMED]:
        missing = [name for name, bit in DISCORD_RIGHTS.items() if not server.permissions & bit]
        if missing and not server.permissions & _ADMINISTRATOR:
            told.append(f"In “{server.name}” it lacks the rights {', '.join(missing)}: invite it again.")
    return tuple(told)


async def check_slack(
    bot_token: str, app_token: str, base_url: str | None = None, proxy: str | None = None
) -> Accepted:
    """Slack needs both: the bot token to speak, the app-level token to listen. Raises TokenRefused."""
    if not bot_token.startswith("xoxb-"):
        raise TokenRefused("Slack's bot token begins with xoxb-: OAuth & Permissions, Bot User OAuth Token.")
    if not app_token.startswith("xapp-"):
        raise TokenRefused("Slack's app-level token begins with xapp-: Basic Information, App-Level Tokens.")
    base = (base_url or SLACK_URL).rstrip("/")
    who, granted = await _ask_slack(f"{base}/auth.test", bot_token, proxy)
    if not who.ok:
        raise TokenRefused(
            f"Slack refuses the bot token ({who.error}). Copy it again from OAuth & Permissions, after"
            " installing the app to the workspace."
        )
    socket, _ = await _ask_slack(f"{base}/apps.connections.open", app_token, proxy)
    if not socket.ok:
        raise TokenRefused(
            f"Slack refuses the app-level token ({socket.error}). It needs the scope connections:write, and"
            " Socket Mode must be on."
        )
    missing = sorted(SLACK_SCOPES - granted) if granted else []
    advice = (
        f"It lacks the scopes {', '.join(missing)}: add them under OAuth & Permissions (or paste"
        " deploy/slack-manifest.yaml under App Manifest) and install the app again."
    )
    return Accepted(f"{who.user} in {who.team}", (advice,) if missing else ())


async def _ask_slack(url: str, token: str, proxy: str | None) -> tuple[_SlackReply, frozenset[str]]:
    """The answer, and the scopes that the token has, where the platform tells."""
    headers: dict[str, str] = {}
    _, answer = await _ask(
        "Slack", "POST", url, proxy=proxy, authorization=f"Bearer {token}", headers_into=headers
    )
    told = headers.get("x-oauth-scopes", "")
    scopes = frozenset(scope.strip() for scope in told.split(",") if scope.strip())
    return _parse("Slack", _SlackReply, answer), scopes


async def _ask(
    platform: str,
    method: str,
    url: str,
    *,
    proxy: str | None,
    authorization: str | None = None,
    headers_into: dict[str, str] | None = None,
) -> tuple[int, Any]:
    headers = {"Authorization": authorization} if authorization else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as http,
            http.request(method, url, headers=headers, proxy=proxy, allow_redirects=False) as response,
        ):
            if headers_into is not None:
                headers_into.update((name.lower(), value) for name, value in response.headers.items())
            return response.status, await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        # `from None`: the library's text holds the address, and Telegram's address holds the token.
        raise TokenRefused(
            f"{platform} can't be reached from here. Check this machine's internet connection, or set"
            f" platforms.{platform.lower()}.proxy in config.yaml."
        ) from None


def _parse(platform: str, shape: type[Reply], answer: object) -> Reply:
    try:
        return shape.model_validate(answer)
    except ValidationError:
        raise TokenRefused(f"{platform} gave an answer that makes no sense. Try again in a minute.") from None
