import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from rich.console import Console
from ruamel.yaml import YAML

from tests.emulators.base import Emulator, Fault
from tests.emulators.discord import DiscordEmulator
from tests.emulators.openai import OpenAIEmulator, Reply, ToolUse
from tests.emulators.slack import APP_TOKEN, BOT_TOKEN, SlackEmulator
from tests.emulators.telegram import TelegramEmulator
from trunkline.gateway.config import Config, load_config, write_config
from trunkline.gateway.setup import Answers, set_up
from trunkline.gateway.setup_checks import (
    DISCORD_RIGHTS,
    SLACK_SCOPES,
    TokenRefused,
    check_discord,
    check_slack,
    check_telegram,
)
from trunkline.gateway.setup_interview import Interview
from trunkline.gateway.setup_model import ModelAnswers, set_up_model

CLOSED_PORT = "http://127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Outcome:
    problems: tuple[str, ...]
    said: str
    config: Config


async def unattended(folder: Path, answers: Answers, *, discord_url: str = CLOSED_PORT) -> Outcome:
    """Set-up with nobody to ask, on a thread of its own as the command runs it."""
    out = io.StringIO()
    console = Console(file=out, width=500)
    problems = await asyncio.to_thread(
        lambda: set_up(folder, answers, may_ask=False, console=console, discord_url=discord_url)
    )
    return Outcome(problems, out.getvalue(), load_config(folder, {}))


@asynccontextmanager
async def telegram(*, privacy: bool = False) -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator(privacy=privacy).running() as server:
        assert isinstance(server, TelegramEmulator)
        yield server
        assert server.violations == []


async def test_telegram_names_the_bot_of_a_good_token() -> None:
    async with telegram() as server:
        accepted = await check_telegram(server.token, server.url)

    assert accepted.name == "@TrunklineBot"


async def test_telegram_with_privacy_mode_says_what_the_bot_sees() -> None:
    async with telegram(privacy=True) as server:
        accepted = await check_telegram(server.token, server.url)

    assert "/setprivacy" in accepted.advice[0]


async def test_a_bad_telegram_token_is_refused_and_not_repeated() -> None:
    async with telegram() as server:
        with pytest.raises(TokenRefused, match="BotFather") as caught:
            await check_telegram("123:wrong-token", server.url)

    assert "wrong-token" not in str(caught.value)


async def test_discord_gives_the_invite_link_of_a_good_token() -> None:
    async with DiscordEmulator().running() as server:
        accepted = await check_discord(server.token, f"{server.url}/api/v10")

    assert "client_id=" in accepted.advice[-1]


async def test_a_server_where_discord_grants_too_little_is_named() -> None:
    async with DiscordEmulator().running() as server:
        server.world.granted = sum(DISCORD_RIGHTS.values()) - DISCORD_RIGHTS["Add Reactions"]
        accepted = await check_discord(server.token, f"{server.url}/api/v10")
        server.world.granted = sum(DISCORD_RIGHTS.values())
        enough = await check_discord(server.token, f"{server.url}/api/v10")

    assert any("lacks the rights Add Reactions" in sentence for sentence in accepted.advice)
    assert not any("lacks" in sentence for sentence in enough.advice)


async def test_a_bad_discord_token_is_refused() -> None:
    async with DiscordEmulator().running() as server:
        with pytest.raises(TokenRefused, match="Reset Token"):
            await check_discord("wrong", f"{server.url}/api/v10")


async def test_slack_takes_both_tokens() -> None:
    async with SlackEmulator().running() as server:
        accepted = await check_slack(BOT_TOKEN, APP_TOKEN, server.api_url)

    assert " in " in accepted.name


async def test_scopes_that_slack_did_not_grant_are_named() -> None:
    async with SlackEmulator().running() as server:
        server.granted = tuple(SLACK_SCOPES - {"reactions:write", "users:read"})
        accepted = await check_slack(BOT_TOKEN, APP_TOKEN, server.api_url)
        server.granted = (*SLACK_SCOPES, "team:read")
        enough = await check_slack(BOT_TOKEN, APP_TOKEN, server.api_url)

    assert "lacks the scopes reactions:write, users:read" in accepted.advice[0]
    assert enough.advice == ()


def test_the_manifest_asks_for_the_scopes_that_are_used() -> None:
    manifest = YAML(typ="safe").load(
        (Path(__file__).parents[2] / "deploy" / "slack-manifest.yaml").read_text()
    )

    assert set(manifest["oauth_config"]["scopes"]["bot"]) == SLACK_SCOPES


@pytest.mark.parametrize(
    ("bot", "app", "sentence"),
    [
        ("xoxp-1", APP_TOKEN, "begins with xoxb-"),
        (BOT_TOKEN, "xoxb-2", "begins with xapp-"),
        ("xoxb-wrong", APP_TOKEN, "refuses the bot token"),
        (BOT_TOKEN, "xapp-wrong", "connections:write"),
    ],
)
async def test_slack_says_which_of_its_tokens_is_bad(bot: str, app: str, sentence: str) -> None:
    async with SlackEmulator().running() as server:
        with pytest.raises(TokenRefused, match=sentence):
            await check_slack(bot, app, server.api_url)


async def test_a_platform_that_is_away_is_a_sentence_without_the_token() -> None:
    with pytest.raises(TokenRefused, match=r"platforms\.telegram\.proxy") as caught:
        await check_telegram("123456789:secret", CLOSED_PORT)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_set_up_alone_writes_a_file_with_an_owner_and_says_what_is_missing(tmp_path: Path) -> None:
    outcome = await unattended(tmp_path, Answers(owner="Åsa Öberg", language="sv"))

    assert outcome.problems == ()
    assert outcome.config.owner == "asa-oberg"
    assert outcome.config.people["asa-oberg"].name == "Åsa Öberg"
    assert "trunkline model try" in outcome.said
    for secret in ("TELEGRAM_BOT_TOKEN", "DISCORD_BOT_TOKEN", "SLACK_BOT_TOKEN and SLACK_APP_TOKEN"):
        assert f"starts when {secret}" in outcome.said


async def test_set_up_saves_the_tokens_that_work(tmp_path: Path) -> None:
    async with telegram() as bots, SlackEmulator().running() as slack, DiscordEmulator().running() as discord:
        write_config(
            tmp_path,
            {"platforms.telegram.base_url": bots.url, "platforms.slack.base_url": slack.api_url},
        )
        answers = Answers(
            owner="Al",
            telegram_token=bots.token,
            discord_token=discord.token,
            slack_bot_token=BOT_TOKEN,
            slack_app_token=APP_TOKEN,
        )
        outcome = await unattended(tmp_path, answers, discord_url=f"{discord.url}/api/v10")

    assert outcome.problems == ()
    assert outcome.config.platforms_with_token == ("telegram", "discord", "slack")
    assert bots.token not in outcome.said


async def test_set_up_does_not_save_a_token_that_is_refused(tmp_path: Path) -> None:
    async with telegram() as server:
        write_config(tmp_path, {"platforms.telegram.base_url": server.url})
        outcome = await unattended(tmp_path, Answers(owner="Al", telegram_token="123456789:wrong"))

    assert len(outcome.problems) == 1
    assert outcome.config.secrets.telegram_bot_token == ""
    assert not (tmp_path / ".env").exists()


async def test_set_up_may_be_run_again_and_keeps_what_is_there(tmp_path: Path) -> None:
    await unattended(tmp_path, Answers(owner="Al"))
    path = tmp_path / "config.yaml"
    path.write_text(path.read_text().replace("agent:", "# my note\nagent:"))
    before = path.read_text()

    outcome = await unattended(tmp_path, Answers())

    assert outcome.problems == ()
    assert path.read_text() == before


async def test_set_up_saves_a_model_that_answered(tmp_path: Path) -> None:
    call = ToolUse("write_note", {"text": "ready"})
    async with OpenAIEmulator(Reply("ready"), Reply(tools=[call])).running() as server:
        server.api_key = "key-for-the-test"
        model = ModelAnswers(base_url=server.base_url, api_key="key-for-the-test")
        outcome = await unattended(tmp_path, Answers(owner="Al", model=model))

    assert outcome.problems == ()
    assert (outcome.config.model.name, outcome.config.model.base_url) == ("emulated", server.base_url)
    assert outcome.config.secrets.openai_api_key == "key-for-the-test"


async def test_set_up_does_not_save_a_model_whose_key_is_refused(tmp_path: Path) -> None:
    async with OpenAIEmulator().running() as server:
        server.api_key = "another-key"
        model = ModelAnswers(base_url=server.base_url, name="emulated", api_key="wrong-key")
        outcome = await unattended(tmp_path, Answers(owner="Al", model=model))

    assert "refuses the API key" in outcome.problems[0]
    assert outcome.config.model.name == ""
    assert outcome.config.secrets.openai_api_key == ""


async def test_set_up_says_so_when_nothing_answers_at_the_address(tmp_path: Path) -> None:
    model = ModelAnswers(base_url=f"{CLOSED_PORT}/v1", name="any")
    outcome = await unattended(tmp_path, Answers(owner="Al", model=model))

    assert f"Nothing answers at {CLOSED_PORT}/v1" in outcome.problems[0]


async def test_a_platform_that_answers_nonsense_is_asked_again_later() -> None:
    async with telegram() as server:
        server.fail_next(
            "getMe", Fault(status=502, body={"ok": False, "error_code": 502, "description": "x"})
        )
        with pytest.raises(TokenRefused, match="again in a minute"):
            await check_telegram(server.token, server.url)


class Answering(Console):
    """A terminal at which somebody gives these answers, in order."""

    def __init__(self, *answers: str) -> None:
        self.shown = io.StringIO()
        self.answers = list(answers)
        super().__init__(file=self.shown, width=500)

    def input(self, *_: object, **__: object) -> str:
        return self.answers.pop(0)


async def asked(folder: Path, model: ModelAnswers, *answers: str) -> tuple[Config, str]:
    """The model's step with somebody to ask; every answer is used up."""
    terminal = Answering(*answers)
    write_config(folder, {})
    await asyncio.to_thread(set_up_model, Interview(folder, terminal, may_ask=True), model)
    assert terminal.answers == []
    return load_config(folder, {}), terminal.shown.getvalue()


def ready(server: OpenAIEmulator) -> None:
    server.then(Reply("ready"), Reply(tools=[ToolUse("write_note", {"text": "ready"})]))


async def test_an_address_with_a_web_page_is_a_sentence(tmp_path: Path) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<html>It works</html>", content_type="text/html")

    other = Emulator()
    other.app.router.add_route("*", "/{path:.*}", page)
    async with other.running():
        model = ModelAnswers(base_url=f"{other.url}/html", api_key="k")
        outcome = await unattended(tmp_path, Answers(owner="Z", model=model))

    assert "answers with a web page" in outcome.problems[0]
    assert "/v1" in outcome.problems[0]


@pytest.mark.parametrize("name", ["", "emulated"])
async def test_an_address_without_v1_is_mended(tmp_path: Path, name: str) -> None:
    async with OpenAIEmulator().running() as server:
        ready(server)
        outcome = await unattended(
            tmp_path, Answers(owner="Z", model=ModelAnswers(base_url=server.url, name=name, api_key="k"))
        )

    assert outcome.problems == ()
    assert outcome.config.model.base_url == server.base_url


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_address_with_nothing_at_it_is_a_sentence(tmp_path: Path, status: int) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status)

    server = Emulator()
    server.app.router.add_post("/{path:.*}", refuse)
    async with server.running():
        outcome = await unattended(tmp_path, Answers(owner="Z", model=ModelAnswers(base_url=server.url)))

    assert outcome.problems[0].startswith(f"There is no model API at {server.url}.")


async def test_after_a_wrong_key_the_key_is_asked_for_again(tmp_path: Path) -> None:
    async with OpenAIEmulator().running() as server:
        server.api_key = "right"
        ready(server)
        config, said = await asked(tmp_path, ModelAnswers(base_url=server.base_url), "wrong", "right")

    assert "refuses the API key" in said
    assert (config.model.name, config.secrets.openai_api_key) == ("emulated", "right")


@pytest.mark.parametrize(("answer", "taken"), [("", "a"), ("2", "b"), ("b", "b")])
async def test_a_model_is_chosen_by_number_or_name_and_the_first_by_default(
    tmp_path: Path, answer: str, taken: str
) -> None:
    async with OpenAIEmulator().running() as server:
        server.models = {"a": "x", "b": "x"}
        ready(server)
        config, said = await asked(tmp_path, ModelAnswers(base_url=server.base_url), "k", answer)

    assert "1. a" in said
    assert config.model.name == taken


@pytest.mark.parametrize(("answer", "taken"), [("2", 2), ("ollama", 2), ("open", 1)])
def test_a_menu_takes_a_number_or_how_a_title_begins_and_says_so_otherwise(
    tmp_path: Path, answer: str, taken: int
) -> None:
    terminal = Answering("banana", "9", "O", answer)

    choice = Interview(tmp_path, terminal, may_ask=True).choose("Which?", ("OpenAI", "Ollama", "Later"))

    assert choice == taken
    assert terminal.shown.getvalue().count("Give a number from 1 to 3, or how one begins.") == 3


def test_who_declines_the_small_model_chooses_again(tmp_path: Path) -> None:
    terminal = Answering("Ana", "8", "n", "9", "n", "n", "n")

    assert set_up(tmp_path, Answers(), may_ask=True, console=terminal) == ()

    said = terminal.shown.getvalue()
    assert terminal.answers == []
    assert said.count("A small local model: good for trying") == 2
    assert said.index("very small model") < said.index("Set a model any time")


@pytest.mark.parametrize("login", ["root", "trunkline"])
async def test_a_login_that_is_nobodys_name_is_not_the_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    monkeypatch.setenv("LOGNAME", login)

    outcome = await unattended(tmp_path, Answers())

    assert outcome.config.owner == "owner"


async def test_a_telegram_token_of_another_shape_is_refused_without_asking_telegram() -> None:
    async with telegram() as server:
        with pytest.raises(TokenRefused, match="a number, a colon"):
            await check_telegram("hello", server.url)
        assert server.calls == []
