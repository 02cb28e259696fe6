"""The lock files agree with pyproject.toml and with one another, and nothing comes in without a hash."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]

WANTED = {
    "run": [*RUN, *GROUPS["build"]],
    "dev": [*RUN, *GROUPS["build"], *GROUPS["dev"]],
    "local": [*RUN, *GROUPS["build"], *EXTRAS["local"]],
}


SERVERS = {
    f"servers/{path.stem}": [line for line in path.read_text().splitlines() if not line.startswith("#")]
    for path in sorted((ROOT / "requirements" / "servers").glob("*.in"))
}
"""The servers that tests run on, each a program apart: their locks have nothing in common with ours."""


def locked(name: str) -> dict[str, set[Version]]:
    """Every pinned version; a package may have several for different Pythons."""
    pins: dict[str, set[Version]] = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", line)
        if found:
            pins.setdefault(canonicalize_name(found[1]), set()).add(Version(found[2]))
    return pins


@pytest.mark.parametrize("name", [*WANTED, *SERVERS])
def test_every_dependency_is_pinned_to_a_version_it_allows(name: str) -> None:
    pins = locked(name)

    for text in {**WANTED, **SERVERS}[name]:
        requirement = Requirement(text)
        versions = pins.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in requirements/{name}.txt: run `make lock`"
        for version in versions:
            assert version in requirement.specifier, f"{text} is locked to {version}: run `make lock`"


@pytest.mark.parametrize("name", ["dev", "local"])
def test_the_locks_agree_on_what_they_share(name: str) -> None:
    run, other = locked("run"), locked(name)

    assert {package: other.get(package) for package in run} == run


@pytest.mark.parametrize("name", [*WANTED, *SERVERS])
def test_every_pin_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()

    pins = re.split(r"\n(?=[A-Za-z0-9])", text)[1:]
    assert len(pins) >= len({**WANTED, **SERVERS}[name])
    assert [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin] == []
    assert not re.search(r"https?://|--index-url|--find-links|\bfile:", text)


def test_every_package_of_npms_list_has_a_hash_and_no_address() -> None:
    folder = ROOT / "requirements" / "servers" / "byterover"
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    listed = json.loads((folder / "package-lock.json").read_text())["packages"]

    assert listed.pop("")["dependencies"] == wanted
    assert {f"node_modules/{name}" for name in wanted} <= set(listed)
    assert [name for name, one in listed.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, one in listed.items() if "resolved" in one] == []
