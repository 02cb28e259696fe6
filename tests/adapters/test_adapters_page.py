"""docs/adapters.md is true: its adapter passes the suite, and a package with it is found and used."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trunkline.gateway import packaged_adapters
from trunkline.gateway.app import chat_platforms
from trunkline.gateway.config import parse_config
from trunkline.gateway.config_faults import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The two files of the page, installed as a package would be."""
    adapter, bench = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (points,) = re.findall(r"```toml\n\[project.entry-points.(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "tincan.py").write_text(adapter)
    (tmp_path / "test_tincan.py").write_text(bench)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    facts = tmp_path / "tincan-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tincan\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[" + points.replace('"', ""))
    return tmp_path


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(package)
    yield
    sys.modules.pop("tincan", None)


def test_the_adapter_of_the_page_passes_the_suite(package: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tincan.py"],
        cwd=package,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 12


@pytest.mark.usefixtures("installed")
def test_a_section_switches_an_installed_platform_on(tmp_path: Path) -> None:
    config = parse_config(tmp_path, {"platforms": {"tincan": {"port": 7001}, "web": {"port": 1}}}, {})

    [platform] = chat_platforms(config)

    assert platform.name == "tincan"
    assert platform.make().platform == "tincan"
    assert config.platforms.web.port == 1


@pytest.mark.usefixtures("installed")
def test_settings_that_the_package_refuses_are_told(tmp_path: Path) -> None:
    config = parse_config(tmp_path, {"platforms": {"tincan": {"port": "many"}}}, {})

    with pytest.raises(ValueError, match="give a whole number"):
        chat_platforms(config)[0].make()


def test_a_platform_that_nobody_installed_is_an_unknown_setting(tmp_path: Path) -> None:
    assert "tincan" not in packaged_adapters.installed()

    with pytest.raises(ConfigError, match="unknown setting"):
        parse_config(tmp_path, {"platforms": {"tincan": {}}}, {})
