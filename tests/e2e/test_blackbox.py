"""The installed program, unmodified, under the platforms' real host names; judged by the emulators alone."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.installed import DEADLINE_S, Installed, installed_program
from tests.emulators.openai import Reply

pytestmark = pytest.mark.blackbox

ANA_TELEGRAM, ANA_DISCORD, ANA_SLACK = 1001, "2001", "UANA"
OWNER = f"""
model: {{name: emulated, tool_calls: native}}
platforms: {{web: {{port: 0}}}}
logs: {{level: debug}}
shutdown: {{grace: 20}}
access: {{welcome: false}}
people:
  ana: {{role: owner, telegram: {ANA_TELEGRAM}, discord: {ANA_DISCORD}, slack: T0TEAM/{ANA_SLACK}}}
"""


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Installed]:
    async with installed_program(tmp_path) as made:
        yield made


@pytest.fixture
def set_up(program: Installed) -> Installed:
    """Set up by hand, with Ana on every platform."""
    (program.home / "trunkline" / "config.yaml").write_text(OWNER, encoding="utf-8")
    return program


class Chats:
    """What is said in Ana's direct chats."""

    def __init__(self, program: Installed) -> None:
        self._program = program

    def on_telegram(self) -> list[str]:
        return self._program.telegram.texts(ANA_TELEGRAM)

    def on_discord(self) -> list[str]:
        return self._program.discord.texts(self._program.discord.direct_chat(ANA_DISCORD))

    def on_slack(self) -> list[str]:
        return self._program.slack.texts(self._program.slack.workspace.direct_channel(ANA_SLACK).id)

    async def all_show(self, text: str) -> None:
        program = self._program
        for emulator, shown in (
            (program.telegram, self.on_telegram),
            (program.discord, self.on_discord),
            (program.slack, self.on_slack),
        ):
            await emulator.wait_for(lambda shown=shown: any(text in one for one in shown()), DEADLINE_S)  # type: ignore[misc]


async def say_everywhere(program: Installed, text: str) -> None:
    await program.telegram.direct_message(ANA_TELEGRAM, text)
    await program.discord.direct_message(ANA_DISCORD, text)
    await program.slack.direct_message(ANA_SLACK, text)


async def test_from_an_empty_home_to_an_answer_on_every_platform(program: Installed) -> None:
    chats = Chats(program)
    async with program.running() as running:
        code = await running.says(r"this code in a direct chat: (\S+)")
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, code)
        await program.telegram.wait_for(lambda: "now yours" in str(chats.on_telegram()), DEADLINE_S)

        await say_everywhere(program, "hello from me")
        await program.telegram.wait_for(lambda: "You said: hello" in str(chats.on_telegram()), DEADLINE_S)
        await program.discord.wait_for(chats.on_discord, DEADLINE_S)
        await program.slack.wait_for(chats.on_slack, DEADLINE_S)
        for shown in (chats.on_discord(), chats.on_slack()):
            pairing = re.search(r"approve ([A-Z0-9]{8})`", shown[0])
            assert pairing is not None
            assert "may talk" in await program.command("people", "approve", pairing[1])
        await say_everywhere(program, "and now?")
        await chats.all_show("You said: and now?")

        assert await running.terminate() == 0
    resumed = {"gateway-resume.discord.gg"}  # asked for only after a lost connection
    assert set(program.proxy.tunnels) | resumed == set(program.proxy.ports)
    assert "Traceback" not in program.written()


async def test_set_up_by_flags_tests_every_answer_and_keeps_the_tokens_to_itself(program: Installed) -> None:
    flags = {
        "--telegram-token": program.tokens.pop("TELEGRAM_BOT_TOKEN"),
        "--discord-token": program.tokens.pop("DISCORD_BOT_TOKEN"),
        "--slack-bot-token": program.tokens.pop("SLACK_BOT_TOKEN"),
        "--slack-app-token": program.tokens.pop("SLACK_APP_TOKEN"),
        "--api-key": program.tokens.pop("OPENAI_API_KEY"),
    }
    words = [word for flag in flags.items() for word in flag]
    said = await program.command("setup", "--yes", "--owner", "Ana", "--preset", "openai", *words)

    assert "emulated" in said
    async with program.running() as running:
        await running.says("send the bot this code")
        await program.connected()
        assert await running.terminate() == 0
    written = program.written()
    assert not [flag for flag, token in flags.items() if token in written]


async def test_a_kill_in_the_middle_of_a_turn_costs_no_answer_and_makes_none_twice(
    set_up: Installed,
) -> None:
    program, chats = set_up, Chats(set_up)
    program.model.responder = lambda body: Reply("Half an answer", delay_s=120)
    async with program.running() as running:
        await program.connected()
        await say_everywhere(program, "what is it?")
        await program.model.wait_for(lambda: len(program.model.requests) == 3, DEADLINE_S)
        await running.kill()

    program.model.responder = lambda body: Reply("The whole answer.")
    async with program.running() as running:
        await chats.all_show("The whole answer.")
        await say_everywhere(program, "/status")
        await chats.all_show("telegram")
        assert await running.terminate() == 0
    for shown in (chats.on_telegram(), chats.on_discord(), chats.on_slack()):
        assert shown.count("The whole answer.") == 1
        assert "Half" not in str(shown)


async def test_when_told_to_end_it_finishes_the_answer_first(set_up: Installed) -> None:
    program, chats = set_up, Chats(set_up)
    program.model.responder = lambda body: Reply("A slow answer, all of it.", delay_s=2)
    async with program.running() as running:
        await program.connected()
        await say_everywhere(program, "what is it?")
        await program.model.wait_for(lambda: len(program.model.requests) == 3, DEADLINE_S)
        assert await running.terminate() == 0

    for shown in (chats.on_telegram(), chats.on_discord(), chats.on_slack()):
        assert shown == ["A slow answer, all of it."]


async def test_when_told_to_end_twice_it_goes_at_once_and_the_next_start_answers(set_up: Installed) -> None:
    program, chats = set_up, Chats(set_up)
    program.model.responder = lambda body: Reply("Never seen.", delay_s=120)
    async with program.running() as running:
        await program.connected()
        await program.telegram.direct_message(ANA_TELEGRAM, "what is it?")
        await program.model.wait_for(lambda: program.model.requests, DEADLINE_S)
        assert await running.terminate_impatiently() == 1

    program.model.responder = lambda body: Reply("The whole answer.")
    async with program.running() as running:
        await program.telegram.wait_for(lambda: "The whole answer." in chats.on_telegram(), DEADLINE_S)
        assert await running.terminate() == 0
    assert chats.on_telegram() == ["The whole answer."]


@pytest.mark.parametrize(
    ("variable", "wrong"),
    [
        ("TELEGRAM_BOT_TOKEN", "987654321:AAWrongTokenThatNobodyEverGaveToMe0"),
        ("DISCORD_BOT_TOKEN", "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.WrongWrongWrongWrongWrongWro"),
        ("SLACK_BOT_TOKEN", "xoxb-1-wrong-token"),
        ("SLACK_APP_TOKEN", "xapp-1-wrong-token"),
    ],
)
async def test_a_wrong_token_is_one_sentence_and_the_other_platforms_work(
    set_up: Installed, variable: str, wrong: str
) -> None:
    program, chats = set_up, Chats(set_up)
    program.tokens[variable] = wrong
    places = {
        "telegram": (program.telegram, chats.on_telegram),
        "discord": (program.discord, chats.on_discord),
        "slack": (program.slack, chats.on_slack),
    }
    refused = variable.split("_")[0].lower()
    places.pop(refused)
    async with program.running() as running:
        await running.says(variable)
        await program.connected(but=refused)
        await say_everywhere(program, "hello")
        for emulator, shown in places.values():
            await emulator.wait_for(lambda shown=shown: "You said: hello" in shown(), DEADLINE_S)  # type: ignore[misc]
        assert await running.terminate() == 0
    sentences = [line for line in running.said.splitlines() if variable in line]
    assert len(sentences) == 1
    assert "Traceback" not in program.written()
