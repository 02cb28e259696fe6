"""Sentences for what is wrong with config.yaml: where, what, and what to do. Never shows a value."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from typing import get_args

from pydantic import BaseModel, ValidationError

from trunkline.agent.extras import install_command


@dataclass(frozen=True, slots=True)
class Fault:
    """`path` is a dotted setting, or a file; `advice` says what to do."""

    path: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}: {self.advice}"


class ConfigError(Exception):
    """The configuration can't be used. `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(dict.fromkeys(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))


_SENTENCES = {
    "int_parsing": "give a whole number",
    "int_type": "give a whole number",
    "int_from_float": "give a whole number",
    "float_parsing": "give a number",
    "float_type": "give a number",
    "bool_parsing": "give true or false",
    "bool_type": "give true or false",
    "string_type": "give a text",
    "tuple_type": "give a list, such as [one, two]",
    "model_type": "give a block of settings, not a single value",
    "mapping_type": "give a block of settings, not a single value",
}

# Where people put a secret that belongs into `.env`.
_SECRET_KEYS = {
    "model.api_key": "OPENAI_API_KEY",
    "platforms.telegram.token": "TELEGRAM_BOT_TOKEN",
    "platforms.telegram.bot_token": "TELEGRAM_BOT_TOKEN",
    "platforms.discord.token": "DISCORD_BOT_TOKEN",
    "platforms.discord.bot_token": "DISCORD_BOT_TOKEN",
    "platforms.slack.token": "SLACK_BOT_TOKEN",
    "platforms.slack.bot_token": "SLACK_BOT_TOKEN",
    "platforms.slack.app_token": "SLACK_APP_TOKEN",
}


def database_fault(url: str, driver: str = "psycopg") -> Fault | None:
    """Why a database can't be used before anything connects to it; `driver` is PostgreSQL's module."""
    if url.startswith("sqlite"):
        return None
    if not url.startswith("postgresql"):
        return Fault("DATABASE_URL", "give an address that begins with postgresql:// or sqlite:///")
    if find_spec(driver) is None:
        return Fault("database.url", f"PostgreSQL needs an extra: run {install_command('postgres')}")
    return None


def faults_of(error: ValidationError, root: type[BaseModel]) -> list[Fault]:
    """One fault for each of pydantic's errors."""
    faults = []
    for entry in error.errors(include_url=False, include_input=False):
        location = entry["loc"]
        path = ".".join(str(part) for part in location)
        if entry["type"] == "extra_forbidden":
            advice = _advice_on_unknown(path, str(location[-1]), _section_at(root, location[:-1]))
        elif entry["type"] == "value_error":
            advice = str(entry["msg"]).removeprefix("Value error, ")
        else:
            advice = _SENTENCES.get(entry["type"]) or _lower_first(entry["msg"])
        faults.append(Fault(path, advice))
    return faults


def _advice_on_unknown(path: str, key: str, section: type[BaseModel] | None) -> str:
    if path in _SECRET_KEYS:
        return f"secrets don't belong here: put it into .env as {_SECRET_KEYS[path]} and remove this line"
    known = [field.alias or name for name, field in section.model_fields.items()] if section else []
    near = get_close_matches(key, known, n=1)
    if near:
        return f"unknown setting; did you mean {near[0]}?"
    return f"unknown setting; known here: {', '.join(known)}"


def _section_at(root: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model that holds the key after `location`; parts that name no field are keys of a mapping."""
    section = root
    for part in location:
        for name, field in section.model_fields.items():
            if part in (name, field.alias):
                section = _model_in(field.annotation) or section
    return section


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
