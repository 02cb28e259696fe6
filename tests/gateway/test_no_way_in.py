"""Messages come over connections that we opened ourselves alone: there is no webhook that could be forged."""

import ast
from pathlib import Path

import pytest

from tests.gateway.small_house import SmallHouse
from trunkline.gateway.config import parse_config
from trunkline.gateway.config_faults import ConfigError

ROOT = Path(__file__).parents[2]
SERVERS = frozenset({"uvicorn", "starlette", "aiohttp.web", "http.server", "socketserver", "hypercorn"})
SERVING_CALLS = frozenset(
    {"start_server", "create_server", "start_unix_server", "start_webhook", "set_webhook"}
)


@pytest.mark.parametrize(
    ("platform", "key"),
    [
        ("telegram", "webhook_url"),
        ("telegram", "webhook"),
        ("telegram", "secret_token"),
        ("discord", "public_key"),
        ("slack", "signing_secret"),
        ("slack", "http_mode"),
        ("slack", "port"),
    ],
)
def test_settings_that_ask_for_a_webhook_are_refused_by_name(platform: str, key: str, tmp_path: Path) -> None:
    """With a secret or without: it would seem to be guarded while nothing reads it."""
    with pytest.raises(ConfigError) as caught:
        parse_config(tmp_path, {"platforms": {platform: {key: "https://bot.example/hook"}}}, {})

    (fault,) = caught.value.faults
    assert key in f"{fault.path} {fault.advice}"


def test_nothing_but_the_web_page_listens() -> None:
    found = set()
    for part in ("gateway", "agent", "adapters"):
        for path in (ROOT / part).rglob("*.py"):
            if _serves(ast.parse(path.read_text(encoding="utf-8"))):
                found.add(path.relative_to(ROOT).parts[:2])

    # The doctor tries whether the page's port is free.
    assert found == {("adapters", "web"), ("gateway", "doctor.py")}


def _serves(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        if any(name == server or name.startswith(f"{server}.") for name in names for server in SERVERS):
            return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SERVING_CALLS
        ):
            return True
    return False


async def test_a_webhook_that_somebody_had_set_for_the_bot_is_taken_away_and_messages_come_all_the_same(
    sqlite_house: SmallHouse,
) -> None:
    house = sqlite_house
    house.telegram.webhook_url = "https://elsewhere.example/hook"
    async with house.running():
        house.answer("Here I am.")
        await house.say("Are you there?")
        await house.shows("Here I am.")

    assert house.telegram.webhook_url == ""
