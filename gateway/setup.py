"""Set-up: asks for the owner, a model and the platforms' tokens, tests each answer, and saves what works.

May be run again at any time; what is set already is kept unless something else is asked for. With nobody to
ask, flags and the environment are the answers, and what is missing is said in a sentence each.
"""

import asyncio
import getpass
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from trunkline.gateway.config import CONFIG_NAME
from trunkline.gateway.setup_checks import (
    DISCORD_URL,
    Accepted,
    TokenRefused,
    check_discord,
    check_slack,
    check_telegram,
)
from trunkline.gateway.setup_interview import Interview
from trunkline.gateway.setup_local import try_small_model
from trunkline.gateway.setup_model import ModelAnswers, set_up_model
from trunkline.gateway.state.people import slugify

NOBODYS_NAMES = ("root", "trunkline")
"""Logins that servers and services run as."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What flags say; empty where nothing was said."""

    owner: str = ""
    language: str = ""
    telegram_token: str = field(default="", repr=False)
    discord_token: str = field(default="", repr=False)
    slack_bot_token: str = field(default="", repr=False)
    slack_app_token: str = field(default="", repr=False)
    model: ModelAnswers = field(default_factory=ModelAnswers)


@dataclass(frozen=True, slots=True)
class _Token:
    """One platform's tokens: secret's name, what to ask for, and the flag's value."""

    secret: str
    question: str
    given: str = field(repr=False)


def set_up(
    folder: Path,
    answers: Answers,
    *,
    may_ask: bool,
    with_model: bool = True,
    console: Console | None = None,
    discord_url: str = DISCORD_URL,
) -> tuple[str, ...]:
    """Runs the whole interview and returns what was refused. Raises ConfigError on a broken file."""
    interview = Interview(folder, console or Console(), may_ask)
    config = interview.config
    if not (folder / CONFIG_NAME).exists():
        interview.save({})
        interview.say(f"Wrote {folder / CONFIG_NAME} with every setting and what it does.")
    _set_up_owner(interview, answers)
    model = answers.model
    while with_model and set_up_model(interview, model) and not try_small_model(interview, agreed=False):
        model = ModelAnswers()
    platforms = config.platforms
    _set_up_platform(
        interview,
        "Telegram",
        (_Token("TELEGRAM_BOT_TOKEN", "Bot token from @BotFather", answers.telegram_token),),
        lambda token: check_telegram(token, platforms.telegram.base_url, platforms.telegram.proxy),
    )
    _set_up_platform(
        interview,
        "Discord",
        (_Token("DISCORD_BOT_TOKEN", "Bot token from the developer portal", answers.discord_token),),
        lambda token: check_discord(token, discord_url, config.discord_proxy),
    )
    _set_up_platform(
        interview,
        "Slack",
        (
            _Token("SLACK_BOT_TOKEN", "Bot token (xoxb-…)", answers.slack_bot_token),
            _Token("SLACK_APP_TOKEN", "App-level token (xapp-…)", answers.slack_app_token),
        ),
        lambda bot, app: check_slack(bot, app, platforms.slack.base_url, platforms.slack.proxy),
    )
    return tuple(interview.problems)


def _set_up_owner(interview: Interview, answers: Answers) -> None:
    config = interview.config
    if config.owner is not None:
        if answers.owner:
            interview.save({f"people.{config.owner}.name": answers.owner})
        return
    login = getpass.getuser()
    name = answers.owner or interview.ask("Your name", "Owner" if login in NOBODYS_NAMES else login)
    slug = slugify(name, taken=config.people)
    entry = {"role": "owner", "name": name, "language": answers.language or None}
    interview.save({f"people.{slug}": {key: value for key, value in entry.items() if value}})
    interview.say(f"The owner is {name}, filed under {slug}.")


def _set_up_platform(
    interview: Interview,
    platform: str,
    tokens: tuple[_Token, ...],
    check: Callable[..., Coroutine[None, None, Accepted]],
) -> None:
    held = interview.config.secrets
    present = [str(getattr(held, token.secret.lower())) for token in tokens]
    given = [token.given or value for token, value in zip(tokens, present, strict=True)]
    said = any(token.given for token in tokens)
    if not all(given):
        if said:
            interview.refuse(f"{platform} needs all of: {', '.join(token.secret for token in tokens)}.")
        if not interview.confirm(f"Connect {platform}?", default=False):
            if not interview.may_ask:
                names = " and ".join(token.secret for token in tokens)
                interview.say(
                    f"{platform} is off: it starts when {names} {'are' if tokens[1:] else 'is'} set."
                )
            return
        given = _ask_tokens(interview, tokens)
    while all(given):
        try:
            accepted = asyncio.run(check(*given))
        except TokenRefused as refused:
            interview.refuse(str(refused))
            if not interview.may_ask:
                return
            interview.say(f"Leave it empty to go on without {platform}.")
            given = _ask_tokens(interview, tokens)
            continue
        changed = {
            token.secret: value
            for token, value, old in zip(tokens, given, present, strict=True)
            if value != old
        }
        if changed:
            interview.save_secrets(changed)
        interview.say(f"{platform} knows it as {accepted.name}.")
        for sentence in accepted.advice:
            interview.say(f"  {sentence}")
        return


def _ask_tokens(interview: Interview, tokens: tuple[_Token, ...]) -> list[str]:
    answers = []
    for token in tokens:
        answer = interview.ask(token.question, secret=True)
        if not answer:
            return [""]
        answers.append(answer)
    return answers
