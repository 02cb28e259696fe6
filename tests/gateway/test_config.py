import stat
from pathlib import Path

import pytest

from trunkline.gateway.config import (
    Config,
    home,
    load_config,
    parse_config,
    write_config,
    write_secrets,
)
from trunkline.gateway.config_faults import ConfigError, database_fault
from trunkline.gateway.config_yaml import template
from trunkline.gateway.settings import AccountRef, FileSettings, RoomRef


def parsed(settings: dict[str, object], environ: dict[str, str] | None = None) -> Config:
    return parse_config(Path("/nowhere"), settings, environ or {})


def faults(settings: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parsed(settings)
    return {fault.path: fault.advice for fault in caught.value.faults}


def test_an_empty_home_has_a_config_that_works(tmp_path: Path) -> None:
    config = load_config(tmp_path, {})

    assert config.model_endpoints() == ()
    assert config.platforms_with_token == ()
    assert (config.platforms.web.host, config.platforms.web.port) == ("127.0.0.1", 8765)
    assert config.database_url == f"sqlite:///{tmp_path / 'state.db'}"


def test_the_template_changes_no_default(tmp_path: Path) -> None:
    write_config(tmp_path, {})

    assert (tmp_path / "config.yaml").read_text() == template()
    written = load_config(tmp_path, {})
    assert {name: getattr(written, name) for name in FileSettings.model_fields} == dict(FileSettings())


def test_every_fault_is_listed_at_once_with_what_to_do() -> None:
    found = faults(
        {
            "modle": "x",
            "model": {"context_tokens": "lots", "tool_calls": "magic"},
            "people": {"bob": {"telegram": "@bob", "timezone": "Mars/Base"}},
            "rooms": {"irc/x": {}},
            "inbox": {"max_age": "soon"},
        }
    )

    assert found == {
        "modle": "unknown setting; did you mean model?",
        "model.context_tokens": "give a whole number",
        "model.tool_calls": "input should be 'auto', 'native' or 'schema'",
        "people.bob.telegram.0": "give the numeric user id, not a @name; the person sees it with /whoami",
        "people.bob.timezone": "give a time zone of the IANA list, such as Europe/Berlin or Asia/Shanghai",
        "rooms.irc/x": "name a room as telegram/-100123, discord/789 or slack/T0AB12/C0DE34",
        "inbox.max_age": "give a time such as 25s, 10m, 12h or 2d",
    }


@pytest.mark.parametrize(
    ("settings", "path", "near"),
    [
        ({"model": {"base_ulr": "http://x"}}, "model.base_ulr", "base_url"),
        ({"shutdown": {"grase": 3}}, "shutdown.grase", "grace"),
        ({"people": {"al": {"rol": "owner"}}}, "people.al.rol", "role"),
        ({"rooms": {"discord/1": {"fre": True}}}, "rooms.discord/1.fre", "free"),
        ({"auxiliary": {"title": {"nam": "x"}}}, "auxiliary.title.nam", "name"),
        ({"model": {"fallback": [{"nmae": "x"}]}}, "model.fallback.0.nmae", "name"),
    ],
)
def test_an_unknown_key_is_told_its_nearest_name(settings: dict[str, object], path: str, near: str) -> None:
    assert faults(settings) == {path: f"unknown setting; did you mean {near}?"}


def test_a_database_of_another_kind_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match="postgresql://") as caught:
        parsed({}, {"DATABASE_URL": "mysql://root:hunter2@127.0.0.1/x"})
    assert "hunter2" not in str(caught.value)


def test_postgresql_without_its_driver_says_what_to_install() -> None:
    assert database_fault("postgresql://127.0.0.1/x") is None
    assert "trunkline[postgres]" in str(database_fault("postgresql://127.0.0.1/x", "no_such_driver"))


def test_a_token_in_the_file_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parsed({"platforms": {"telegram": {"token": "123:very-secret"}}})

    assert "TELEGRAM_BOT_TOKEN" in str(caught.value)
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [("model:\n  name: x\n  name: y\n", "line 3"), ("model: {name: x\naccess: [", "line 2")],
    ids=["twice", "broken"],
)
def test_yaml_that_cannot_be_read_names_the_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "config.yaml").write_text(text)

    with pytest.raises(ConfigError, match=line):
        load_config(tmp_path, {})


@pytest.mark.parametrize("content", [b"- a\n- b\n", b"just text", b"\xff\xfe\x00"])
def test_a_file_that_is_no_settings_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.yaml").write_bytes(content)

    with pytest.raises(ConfigError, match="must"):
        load_config(tmp_path, {})


def test_a_person_may_have_one_account_or_many_on_a_platform() -> None:
    config = parsed({"people": {"alice": {"role": "owner", "telegram": 12, "slack": ["T0A/U0B", "T1/W2"]}}})

    assert config.owner == "alice"
    assert config.people["alice"].accounts == (
        AccountRef("telegram", "", "12"),
        AccountRef("slack", "T0A", "U0B"),
        AccountRef("slack", "T1", "W2"),
    )


def test_two_owners_or_one_account_of_two_people_are_faults() -> None:
    found = faults(
        {"people": {"a": {"role": "owner", "discord": 5}, "b": {"role": "owner", "discord": ["5", 6]}}}
    )

    assert found == {
        "people.b.role": "a is the owner already",
        "people.b.discord": "this account is a's already",
    }


@pytest.mark.parametrize("slug", ["Alice", "../x", "9lives", "rooms", "小明"])
def test_a_person_needs_a_slug_that_names_a_folder(slug: str) -> None:
    assert list(faults({"people": {slug: {}}})) == [f"people.{slug}"]


def test_rooms_are_named_by_platform_and_chat() -> None:
    config = parsed({"rooms": {"telegram/-100": {"free": True}, "slack/T0A/C0B": {"sessions": "person"}}})

    entries = config.room_refs
    assert entries[RoomRef("telegram", "", "-100")].free
    assert entries[RoomRef("slack", "T0A", "C0B")].sessions == "person"


def test_open_access_needs_a_budget() -> None:
    assert list(faults({"access": {"unknown": "open"}})) == ["access"]
    assert parsed({"access": {"unknown": "open", "guest_daily_tokens": 1000}}).access.unknown == "open"


@pytest.mark.parametrize(("text", "seconds"), [(5, 5.0), ("25s", 25.0), ("10m", 600.0), ("1.5 h", 5400.0)])
def test_times_may_have_units(text: object, seconds: float) -> None:
    assert parsed({"shutdown": {"grace": text}}).shutdown.grace_s == seconds


def test_the_environment_wins_over_the_env_file(tmp_path: Path) -> None:
    write_secrets(tmp_path, {"TELEGRAM_BOT_TOKEN": "from-file", "OPENAI_API_KEY": 'a\'b$c "q"'})

    config = load_config(tmp_path, {"TELEGRAM_BOT_TOKEN": "from-environment"})

    assert config.secrets.telegram_bot_token == "from-environment"
    assert config.secrets.openai_api_key == 'a\'b$c "q"'
    assert config.platforms_with_token == ("telegram",)


def test_secrets_are_for_their_owner_only_and_others_are_noted(tmp_path: Path) -> None:
    write_secrets(tmp_path, {"OPENAI_API_KEY": "one"})
    env = tmp_path / ".env"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert load_config(tmp_path, {}).notes == ()

    env.chmod(0o644)

    assert "chmod 600" in load_config(tmp_path, {}).notes[0]


def test_secrets_are_in_no_representation() -> None:
    config = parsed({}, {"OPENAI_API_KEY": "key-one", "DATABASE_URL": "postgresql://u:pass-two@h/d"})

    assert set(config.secrets.values) == {"key-one", "pass-two"}
    shown = f"{config!r} {config} {config.secrets!r}"
    assert "key-one" not in shown
    assert "pass-two" not in shown


def test_slack_needs_both_tokens() -> None:
    assert parsed({}, {"SLACK_BOT_TOKEN": "xoxb"}).platforms_with_token == ()
    assert parsed({}, {"SLACK_BOT_TOKEN": "xoxb", "SLACK_APP_TOKEN": "xapp"}).platforms_with_token == (
        "slack",
    )


def test_discord_gets_the_proxy_that_its_library_would_ignore() -> None:
    assert parsed({}, {"HTTPS_PROXY": "http://p:1"}).discord_proxy == "http://p:1"
    own = parsed({"platforms": {"discord": {"proxy": "http://own:2"}}}, {"HTTPS_PROXY": "http://p:1"})
    assert own.discord_proxy == "http://own:2"


def test_a_fallback_takes_what_it_leaves_out_from_the_main_model() -> None:
    config = parsed(
        {
            "model": {
                "name": "big",
                "base_url": "http://m/v1/",
                "api_key_env": "MY_KEY",
                "fallback": ["small"],
            }
        },
        {"MY_KEY": "mine", "OPENAI_API_KEY": "other"},
    )

    main, fallback = config.model_endpoints()
    assert (main.name, main.base_url, main.api_key) == ("big", "http://m/v1", "mine")
    assert (fallback.name, fallback.base_url, fallback.api_key) == ("small", "http://m/v1", "mine")


def test_a_named_key_is_not_sent_to_another_address() -> None:
    config = parsed(
        {
            "model": {"name": "big", "base_url": "http://m/v1", "api_key_env": "MY_KEY"},
            "auxiliary": {"title": {"name": "tiny", "base_url": "http://other/v1"}},
        },
        {"MY_KEY": "mine"},
    )

    title = config.auxiliary_endpoint("title")
    assert title is not None
    assert (title.base_url, title.api_key) == ("http://other/v1", "")
    review = config.auxiliary_endpoint("review")
    assert review is not None
    assert (review.name, review.api_key) == ("big", "mine")


def test_a_model_to_choose_has_a_key_of_its_own_which_is_a_secret() -> None:
    chosen = {"name": "far", "base_url": "http://other/v1", "api_key_env": "FAR_KEY"}
    config = parsed({"model": {"name": "big"}, "models": [chosen]}, {"FAR_KEY": "far away"})

    (far,) = config.choosable_endpoints()
    assert far.api_key == "far away"
    assert "far away" in config.secrets.values


def test_a_change_keeps_comments_and_order(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# mine\nagent:\n  max_rounds: 3  # slow machine\n\nmodel:\n  name: old\n")

    write_config(tmp_path, {"model.name": "new", "people.alice": {"role": "owner", "telegram": [1, 2]}})

    assert path.read_text() == (
        "# mine\nagent:\n  max_rounds: 3  # slow machine\n\nmodel:\n  name: new\n"
        "people:\n  alice:\n    role: owner\n    telegram: [1, 2]\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_change_that_would_not_load_is_not_written(tmp_path: Path) -> None:
    write_config(tmp_path, {"model.name": "good"})
    before = (tmp_path / "config.yaml").read_text()

    with pytest.raises(ConfigError, match=r"agent\.max_rounds"):
        write_config(tmp_path, {"agent.max_rounds": 0})

    assert (tmp_path / "config.yaml").read_text() == before


def test_the_home_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = home({"TRUNKLINE_HOME": str(tmp_path / "deep" / "home")})

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_home_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(ConfigError, match="can't be made"):
        home({"TRUNKLINE_HOME": str(tmp_path / "home" / "x")})
