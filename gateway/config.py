"""What the operator decided: config.yaml, and the secrets of the environment and `.env`, parsed once.

The only reader of the environment in the product. Everything else gets the values it needs; asking for the
values is set-up's job.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dotenv import dotenv_values, set_key

from trunkline.gateway.config_faults import ConfigError, Fault, database_fault
from trunkline.gateway.config_yaml import read_yaml, render_changed
from trunkline.gateway.provider_settings import secret_names
from trunkline.gateway.settings import FileSettings, ModelChoice, Platform, Purpose, parse_settings
from trunkline.gateway.settings_mcp import secret_names as mcp_secret_names

CONFIG_NAME = "config.yaml"
ENV_NAME = ".env"

SECRET_NAMES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "DATABASE_URL",
)
"""The names that set-up writes to `.env`."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model choice with everything filled in. `base_url` is None for the SDK's own default."""

    name: str
    base_url: str | None
    api_key: str = field(repr=False)
    tool_calls: Literal["auto", "native", "schema"]
    context_tokens: int | None
    vision: bool | Literal["auto"] = "auto"


@dataclass(frozen=True, slots=True)
class Secrets:
    """Tokens and keys, empty where not set. `model_keys` holds those that `api_key_env` settings name.

    `provider_keys` are those that the memory providers of the settings look at, `mcp_keys` those that tool
    servers are given.
    """

    openai_api_key: str = field(default="", repr=False)
    openai_base_url: str = ""
    telegram_bot_token: str = field(default="", repr=False)
    discord_bot_token: str = field(default="", repr=False)
    slack_bot_token: str = field(default="", repr=False)
    slack_app_token: str = field(default="", repr=False)
    database_url: str = field(default="", repr=False)
    https_proxy: str = field(default="", repr=False)
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    provider_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    mcp_keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def values(self) -> tuple[str, ...]:
        """Everything that may never be shown, for the log's redaction."""
        passwords = (re.search(r"//[^:/@]*:([^@]+)@", url) for url in (self.database_url, self.https_proxy))
        return tuple(
            value
            for value in (
                self.openai_api_key,
                self.telegram_bot_token,
                self.discord_bot_token,
                self.slack_bot_token,
                self.slack_app_token,
                *self.model_keys.values(),
                *self.provider_keys.values(),
                *self.mcp_keys.values(),
                *(found[1] for found in passwords if found),
            )
            if value
        )


class Config(FileSettings):
    """The file's settings together with the home folder, the secrets, and `notes` for the operator."""

    home: Path
    secrets: Secrets = Secrets()
    notes: tuple[str, ...] = ()

    @property
    def platforms_with_token(self) -> tuple[Platform, ...]:
        """Slack needs both of its tokens."""
        secrets = self.secrets
        tokens: dict[Platform, bool] = {
            "telegram": bool(secrets.telegram_bot_token),
            "discord": bool(secrets.discord_bot_token),
            "slack": bool(secrets.slack_bot_token and secrets.slack_app_token),
        }
        return tuple(platform for platform, ready in tokens.items() if ready)

    @property
    def database_url(self) -> str:
        """The file's own address, else DATABASE_URL, else state.db in the home folder."""
        return self.database.url or self.secrets.database_url or f"sqlite:///{self.home / 'state.db'}"

    @property
    def discord_proxy(self) -> str | None:
        """discord.py doesn't look at HTTPS_PROXY, so we do."""
        return self.platforms.discord.proxy or self.secrets.https_proxy or None

    def model_endpoints(self) -> tuple[ModelEndpoint, ...]:
        """The main model and its fallbacks in order; empty when no model is set."""
        if not self.model.name:
            return ()
        return tuple(self._endpoint(choice) for choice in (self.model, *self.model.fallback))

    def choosable_endpoints(self) -> tuple[ModelEndpoint, ...]:
        """The models that a conversation may be given, beside the main one."""
        return tuple(self._endpoint(choice) for choice in (*self.model.fallback, *self.models) if choice.name)

    def auxiliary_endpoint(self, purpose: Purpose) -> ModelEndpoint | None:
        """The model for side work; None when neither it nor a main model is set."""
        choices: dict[Purpose, ModelChoice | None] = {
            "title": self.auxiliary.title,
            "session_search": self.auxiliary.session_search,
            "review": self.auxiliary.review,
            "compaction": self.auxiliary.compaction,
        }
        choice = choices[purpose] or self.model
        return self._endpoint(choice) if choice.name or self.model.name else None

    def sound_endpoint(self, choice: ModelChoice | None) -> ModelEndpoint | None:
        """The model that hears or speaks; None where none is named."""
        return None if choice is None or not choice.name else self._endpoint(choice)

    def embedding_endpoint(self) -> ModelEndpoint | None:
        """The model that makes vectors for search; None when none is named."""
        named = self.search.embeddings
        if not named.name:
            return None
        return self._endpoint(
            ModelChoice(name=named.name, base_url=named.base_url, api_key_env=named.api_key_env)
        )

    def _endpoint(self, choice: ModelChoice) -> ModelEndpoint:
        """What a choice leaves out comes from the main model, but a key never goes to another address."""
        same_place = choice.base_url in (None, self.model.base_url)
        key_env = choice.api_key_env or (self.model.api_key_env if same_place else None)
        return ModelEndpoint(
            name=choice.name or self.model.name,
            base_url=choice.base_url or self.model.base_url or self.secrets.openai_base_url or None,
            api_key=self.secrets.model_keys.get(key_env, "") if key_env else self.secrets.openai_api_key,
            tool_calls=choice.tool_calls,
            context_tokens=choice.context_tokens,
            vision=choice.vision,
        )


def home_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the home folder is, or will be."""
    named = (os.environ if environ is None else environ).get("TRUNKLINE_HOME")
    return Path(named).expanduser().absolute() if named else Path.home() / ".trunkline"


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The home folder, made if missing, open to its owner only. Raises ConfigError when it can't be used."""
    folder = home_path(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = f"the home folder can't be made: {error.strerror}"
        if isinstance(error, PermissionError):
            near = next(parent for parent in folder.parents if parent.exists())
            problem += f"; {near} {_not_ours(near)}"
        raise ConfigError([Fault(str(folder), problem)]) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        problem = f"the home folder {_not_ours(folder)}; change its owner or set TRUNKLINE_HOME"
        raise ConfigError([Fault(str(folder), problem)])
    for path in _kept_in(folder):
        if not os.access(path, os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)):
            raise ConfigError([Fault(str(path), f"it {_not_ours(path)}; change its owner")])
    return folder


def _kept_in(folder: Path) -> Iterator[Path]:
    """What is there of that which must be written to; a command run as another user may have made it."""
    for name in ("state.db", "state.db-wal", "state.db-shm", "files", "logs", "memories"):
        if (folder / name).exists():
            yield folder / name
    if os.access(folder / "memories", os.R_OK | os.X_OK):
        yield from (Path(entry.path) for entry in os.scandir(folder / "memories"))


def _not_ours(path: Path) -> str:
    return f"belongs to user {path.stat().st_uid} and user {os.getuid()} can't write to it"


def editor_command(environ: Mapping[str, str] | None = None) -> str:
    """The person's editor, as other programs find it."""
    environment = os.environ if environ is None else environ
    return environment.get("VISUAL") or environment.get("EDITOR") or "vi"


def load_config(folder: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Reads config.yaml and the secrets. A missing file is an empty one.

    Raises ConfigError with every fault there is.
    """
    return parse_config(folder, read_yaml(folder / CONFIG_NAME), environ)


def parse_config(
    folder: Path, settings: Mapping[str, object], environ: Mapping[str, str] | None = None
) -> Config:
    """The Config of already read `settings`. Raises ConfigError with every fault there is."""
    parsed = parse_settings(settings)
    secrets, notes = _load_secrets(folder, parsed, os.environ if environ is None else environ)
    config = Config.model_validate({**dict(parsed), "home": folder, "secrets": secrets, "notes": notes})
    if (fault := database_fault(config.database_url)) is not None:
        raise ConfigError([fault])
    return config


def read_secret(folder: Path, name: str, environ: Mapping[str, str] | None = None) -> str:
    """One secret by its name, empty where it isn't set."""
    stored, _ = _read_env(folder)
    return ((os.environ if environ is None else environ).get(name) or stored.get(name) or "").strip()


def write_config(folder: Path, changes: Mapping[str, object]) -> None:
    """Sets dotted paths (`model.name`) in config.yaml, keeping every comment and the order of the file.

    A missing file begins as the commented template. None empties a setting. Nothing is written when the
    result would not load: then ConfigError is raised.
    """
    text, settings = render_changed(folder / CONFIG_NAME, changes)
    parse_config(folder, settings, {})
    _write_private(folder / CONFIG_NAME, text)


def write_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    """Sets names in `.env`, which only its owner may read."""
    path = folder / ENV_NAME
    if not path.exists():
        _write_private(path, "# Secrets of Trunkline. The environment wins over this file.\n")
    path.chmod(0o600)
    for name, value in secrets.items():
        set_key(path, name, value, quote_mode="always")
    path.chmod(0o600)


def _write_private(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".new")
    partial.unlink(missing_ok=True)
    with os.fdopen(
        os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _load_secrets(
    folder: Path, settings: FileSettings, environ: Mapping[str, str]
) -> tuple[Secrets, tuple[str, ...]]:
    stored, notes = _read_env(folder)

    def value(name: str) -> str:
        return (environ.get(name) or stored.get(name) or "").strip()

    auxiliary = settings.auxiliary
    choices = (settings.model, *settings.model.fallback, *settings.models, auxiliary.title,
               auxiliary.session_search, auxiliary.review, auxiliary.compaction,
               auxiliary.transcription, auxiliary.speech)  # fmt: skip
    key_names = {choice.api_key_env for choice in choices if choice and choice.api_key_env}
    key_names |= {key for key in (settings.search.embeddings.api_key_env,) if key}
    provider_keys = secret_names(settings.memory.provider, settings.providers)
    return Secrets(
        openai_api_key=value("OPENAI_API_KEY"),
        openai_base_url=value("OPENAI_BASE_URL").rstrip("/"),
        telegram_bot_token=value("TELEGRAM_BOT_TOKEN"),
        discord_bot_token=value("DISCORD_BOT_TOKEN"),
        slack_bot_token=value("SLACK_BOT_TOKEN"),
        slack_app_token=value("SLACK_APP_TOKEN"),
        database_url=value("DATABASE_URL"),
        https_proxy=value("HTTPS_PROXY") or value("https_proxy"),
        model_keys={name: value(name) for name in key_names},
        provider_keys={name: value(name) for name in provider_keys},
        mcp_keys={name: value(name) for name in mcp_secret_names(settings.mcp.servers.values())},
    ), notes


def _read_env(folder: Path) -> tuple[Mapping[str, str | None], tuple[str, ...]]:
    path = folder / ENV_NAME
    if not path.exists():
        return {}, ()
    try:
        stored = dotenv_values(path, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Fault(str(path), "can't be read; it must be UTF-8 text of yours")]) from error
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return stored, (f"{path} can be read by others on this machine: run chmod 600 on it.",)
    return stored, ()
