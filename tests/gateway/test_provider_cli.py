"""`trunkline memory setup` and `status`, the settings of providers, and what a plain install loads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from trunkline.agent.providers.table import MODULES, UnknownProvider, kind_of
from trunkline.gateway import cli
from trunkline.gateway.config import load_config, parse_config, write_config, write_secrets
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.memory_providers import make_provider
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts

KEY = "sm_a_key_of_the_tests_0000000000"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    write_config(folder, {"people": {"ana": {"role": "owner"}}})
    return folder


def trunkline(home: Path, *words: str, **environment: str) -> Result:
    variables = {"TRUNKLINE_HOME": str(home), "COLUMNS": "300", "SUPERMEMORY_API_KEY": "", **environment}
    return CliRunner().invoke(cli.app, ["memory", *words], env=variables)


def settings(home: Path) -> dict[str, object]:
    return dict(YAML(typ="safe").load((home / "config.yaml").read_text(encoding="utf-8")))


def status(home: Path) -> list[dict[str, object]]:
    return list(json.loads(trunkline(home, "status", "--json").stdout)["providers"])


def test_a_provider_is_set_up_tested_and_shown(home: Path) -> None:
    done = trunkline(home, "setup", "holographic", "--option", "recall_limit=3", "--yes")

    assert done.exit_code == 0, done.output
    config = load_config(home, {})
    assert config.memory.provider == ("holographic",)
    assert config.providers == {"holographic": {"recall_limit": 3}}
    (shown,) = status(home)
    assert (shown["name"], shown["problem"], shown["stored"], shown["waiting"]) == ("holographic", "", 0, 0)
    assert "holographic" in trunkline(home, "status").stdout
    assert "Settings of memory providers" in (home / "config.yaml").read_text(encoding="utf-8")


def test_status_says_how_to_begin(home: Path) -> None:
    assert "memory setup" in trunkline(home, "status").stdout
    assert status(home) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("supermemory",), "SUPERMEMORY_API_KEY is not set"),
        (("holografic",), "did you mean holographic?"),
        ((), "Name a memory provider"),
        (("holographic", "--option", "recall_limt=3"), "did you mean recall_limit?"),
        (("holographic", "--option", "recall_limit=lots"), "recall_limit: give a whole number"),
        (("holographic", "--option", "recall_limit"), "NAME=VALUE"),
        (
            ("supermemory", "--key", f"SUPERMEMORY_API_KEY={KEY}", "--option", "base_url=http://127.0.0.1:1"),
            "does not answer",
        ),
    ],
)
def test_what_does_not_work_is_said_and_not_saved(home: Path, words: tuple[str, ...], sentence: str) -> None:
    before = (home / "config.yaml").read_text(encoding="utf-8")
    done = trunkline(home, "setup", *words, "--yes")

    assert done.exit_code != 0
    assert sentence in f"{done.output} {done.exception}"
    assert KEY not in done.output
    assert (home / "config.yaml").read_text(encoding="utf-8") == before
    assert not (home / ".env").exists()


@pytest.mark.parametrize("name", [name for name in MODULES if kind_of(name).extra])
def test_a_provider_without_its_software_says_what_to_install(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in kind_of(name).imports:
        monkeypatch.setitem(sys.modules, module, None)
    done = trunkline(home, "setup", name, "--yes")

    assert done.exit_code == 1, done.output
    assert f"pip install 'trunkline[{name}]'" in done.stdout
    assert load_config(home, {}).memory.provider == ()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"memory": {"provider": "hologram"}}, "memory.provider: there is no memory provider hologram"),
        ({"providers": {"nobody": {}}}, "providers.nobody: there is no memory provider nobody"),
        ({"providers": {"supermemory": {"serch_mode": "x"}}}, "did you mean search_mode?"),
        ({"providers": {"supermemory": {"namespace": "A B"}}}, "providers.supermemory.namespace"),
        ({"memory": {"recall_timeout": "soon"}}, "memory.recall_timeout"),
    ],
)
def test_settings_of_providers_are_checked_when_they_are_read(
    tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault.replace("?", r"\?")):
        parse_config(tmp_path, changes, {})


def test_several_providers_may_be_chosen_and_their_keys_are_secrets(home: Path) -> None:
    write_secrets(home, {"SUPERMEMORY_API_KEY": KEY, "OTHER_KEY": "not-looked-at-00000"})
    both = {"memory": {"provider": ["supermemory", "holographic"]}}
    plain, chosen = load_config(home, {}), parse_config(home, both, {})

    assert chosen.memory.provider == ("supermemory", "holographic")
    assert plain.secrets.provider_keys == {}
    assert chosen.secrets.provider_keys == {"SUPERMEMORY_API_KEY": KEY}
    assert KEY in chosen.secrets.values
    assert KEY not in repr(chosen)


@pytest.fixture
def facts(sqlite_database: Database) -> StoreFacts:
    return StoreFacts(sqlite_database)


def test_a_provider_that_lacks_something_is_off_and_says_why(tmp_path: Path, facts: StoreFacts) -> None:
    config = parse_config(tmp_path, {"memory": {"provider": "supermemory"}}, {})

    assert make_provider(config, "supermemory", facts) == "SUPERMEMORY_API_KEY is not set."


def test_every_provider_in_the_table_has_its_kind() -> None:
    for name in MODULES:
        assert kind_of(name).name == name
    with pytest.raises(UnknownProvider):
        kind_of("nobody")


def test_the_program_loads_the_same_whether_vendors_software_is_installed_or_not() -> None:
    """So neither the time of a start nor its memory grows for who uses no provider."""
    vendors = [module for name in MODULES for module in kind_of(name).imports]
    code = (
        "import json, sys; sys.modules.update(dict.fromkeys(sys.argv[1:]));"
        "import trunkline.gateway.app, trunkline.gateway.cli, trunkline.gateway.memory_providers;"
        "print(json.dumps([name for name, module in sys.modules.items() if module]))"
    )
    loaded, plain = (
        json.loads(
            subprocess.run((sys.executable, "-c", code, *absent), capture_output=True, check=True).stdout
        )
        for absent in ((), vendors)
    )

    assert sorted(loaded) == sorted(plain)
    assert not {f"trunkline.agent.providers.{name}" for name in MODULES} & set(loaded)


def test_naming_a_provider_in_the_table_loads_no_vendors_software() -> None:
    code = (
        "import sys; from trunkline.agent.providers.table import MODULES, kind_of;"
        "imports = [module for name in MODULES for module in kind_of(name).imports];"
        "print([module for module in imports if module in sys.modules])"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
