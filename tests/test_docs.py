"""What the documents say is so: commands exist, links lead somewhere, the settings table is complete."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trunkline.gateway import cli
from trunkline.gateway.config import SECRET_NAMES
from trunkline.gateway.config_yaml import template
from trunkline.gateway.settings import FileSettings

ROOT = Path(__file__).parent.parent
TRUNKLINE = str(Path(sys.executable).with_name("trunkline"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md")])
FLAGS = {"--yes", "--json"}
TIMES = {"3s": 3.0, "25s": 25.0, "60s": 60.0, "12h": 43200.0}


def commands() -> list[str]:
    """Every line of every shell block, without comments."""
    blocks = [
        block for path in DOCUMENTS for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL)
    ]
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return sorted({line for line in lines if line and not line.startswith("#")})


def trunkline_commands() -> list[list[str]]:
    """The words after `trunkline`, from shell blocks and from `code` in the text."""
    quoted = [
        code for path in DOCUMENTS for code in re.findall(r"`([^`\n]*trunkline [^`\n]*)`", path.read_text())
    ]
    found = []
    for line in {*commands(), *quoted}:
        words = re.search(rf"(?:^|[/ ])trunkline ((?:{'|'.join(cli.COMMANDS)})\b.*)", line)
        if words:
            found.append(shlex.split(words[1]))
    return sorted(found)


@cache
def help_of(*words: str) -> str:
    done = subprocess.run(
        (TRUNKLINE, *words, "--help"),
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "200", "NO_COLOR": "1", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", trunkline_commands(), ids=" ".join)
def test_a_shown_command_exists_with_its_options(words: list[str]) -> None:
    path = [words[0]]
    if len(words) > 1 and "COMMAND" in help_of(words[0]):
        path.append(words[1])
    shown = help_of(*path)

    assert [word for word in words if word.startswith("--") and word not in shown] == []
    assert not arguments(words[len(path) :]) or "Arguments" in shown


def arguments(words: list[str]) -> list[str]:
    """Words that are neither options nor the values of options."""
    found, after_option = [], False
    for word in words:
        if not word.startswith("--") and not after_option:
            found.append(word)
        after_option = word.startswith("--") and word not in FLAGS
    return found


def test_shown_make_targets_exist() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = " ".join(path.read_text() for path in DOCUMENTS if path.name != "CHANGELOG.md")
    shown = set(re.findall(r"`make ([a-z]+)", texts))
    shown |= {words[1] for line in commands() if (words := line.split())[0] == "make"}

    assert shown
    assert shown <= rules


def test_links_within_the_repository_lead_somewhere() -> None:
    broken = [
        f"{path.name}: {target}"
        for path in DOCUMENTS
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
        if not (path.parent / target).exists()
    ]

    assert broken == []


def test_every_secret_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()

    assert [name for name in SECRET_NAMES if f"`{name}`" not in readme] == []


def test_every_runtime_dependency_has_its_reasons_written_down() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["local"]]
    wanted += project["optional-dependencies"]["postgres"]
    decisions = (ROOT / "docs" / "decisions.md").read_text().lower()

    names = [re.split(r"[\[<>=]", requirement)[0].lower() for requirement in wanted]
    assert [name for name in names if f"**{name}**" not in decisions] == []


def settings(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting's dotted name; `*` stands for a name that a person chooses."""
    for name, field in section.model_fields.items():
        path, kind = prefix + (field.alias or name), field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings(kind, f"{path}.")
        elif get_origin(kind) is Mapping and hasattr(get_args(kind)[1], "model_fields"):
            yield from settings(get_args(kind)[1], f"{path}.*.")
        else:
            yield path, field


def shown_default(text: str) -> object:
    bare = text.strip("`")
    return {"empty": "", "true": True, "false": False, **TIMES}.get(bare, bare)


def test_the_settings_table_is_complete_and_its_defaults_are_right() -> None:
    table = (ROOT / "docs" / "configuration.md").read_text()
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", table, re.MULTILINE))

    known = dict(settings(FileSettings))
    assert set(rows) == set(known)
    for path, field in known.items():
        shown = shown_default(rows[path].strip())
        default = field.get_default(call_default_factory=True)
        if default in (None, "", (), {}):
            default = ""
        assert shown in (default, str(default)), path


def test_the_template_shows_every_setting() -> None:
    shown: set[str] = set()
    stack: list[tuple[int, str]] = []
    for line in template().splitlines():
        found = re.match(r"( *)([a-z_]+):", line)
        if found:
            stack = [entry for entry in stack if entry[0] < len(found[1])] + [(len(found[1]), found[2])]
            shown.add(".".join(name for _, name in stack))

    fixed = {path for path, _ in settings(FileSettings) if "*" not in path}
    chosen = {path.split(".*")[0] for path, _ in settings(FileSettings) if "*" in path}
    assert fixed | chosen <= shown
