"""`trunkline skills`: the operator's shared skills, and with --as somebody's own."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.agent.skill_folders import REPORT, put_skill, skill_text
from trunkline.gateway import cli
from trunkline.gateway.config import write_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    write_config(folder, {"people": {"ana": {"role": "owner"}, "bo": {}}})
    return folder


def trunkline(home: Path, *words: str) -> Result:
    variables = {"TRUNKLINE_HOME": str(home), "COLUMNS": "300", "NO_COLOR": "1"}
    return CliRunner().invoke(cli.app, ["skills", *words], env=variables)


def works(home: Path, *words: str) -> str:
    done = trunkline(home, *words)
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    return done.output


def fails(home: Path, *words: str) -> str:
    done = trunkline(home, *words)
    assert done.exit_code != 0, done.output
    return f"{done.output}{done.exception}"


def test_a_folder_is_checked_installed_shown_put_away_and_brought_back(home: Path, tmp_path: Path) -> None:
    source = put_skill(tmp_path / "download", "weekly-report", REPORT, references__style_md="Short.")

    assert "weekly-report can be used" in works(home, "check", str(source))
    assert "Installed weekly-report" in works(home, "install", str(source))
    assert "already" in fails(home, "install", str(source))
    assert "Begin with the result" in works(home, "show", "weekly-report")
    assert works(home, "show", "weekly-report", "--file", "references/style.md").strip() == "Short."
    (listed,) = json.loads(works(home, "list", "--json"))["skills"]
    assert (listed["name"], listed["place"], listed["made_by"]) == ("weekly-report", "shared", "person")
    assert "Writes the weekly report" in works(home, "list")
    works(home, "archive", "weekly-report")
    assert json.loads(works(home, "list", "--json")) == {
        "skills": [],
        "refused": [],
        "archived": ["weekly-report"],
    }
    works(home, "restore", "weekly-report")
    works(home, "pin", "weekly-report")
    assert "pinned" in works(home, "list")
    works(home, "pin", "weekly-report", "--off")
    assert "All 1 can be used" in works(home, "check")


def test_what_can_t_be_used_is_said_with_the_reason(home: Path, tmp_path: Path) -> None:
    bad = put_skill(tmp_path / "download", "bad", "no front matter")
    put_skill(home / "skills", "misnamed", skill_text("other"))

    assert "no front matter" in fails(home, "check", str(bad))
    assert "no front matter" in fails(home, "install", str(bad))
    for command in ("check", "install"):
        assert "There is no folder" in fails(home, command, str(tmp_path / "nowhere"))
    assert "names it other" in " ".join(fails(home, "check").split())
    assert "names it other" in " ".join(works(home, "list").split())
    for words in (("show", "nothing"), ("archive", "../x"), ("restore", "nothing"), ("pin", "nothing")):
        assert "BadSkill" not in fails(home, *words)


def test_with_as_it_is_about_one_persons_own(home: Path, tmp_path: Path) -> None:
    source = put_skill(tmp_path / "download", "tea")

    works(home, "install", str(source), "--as", "bo")

    assert (home / "memories" / "bo" / "skills" / "tea").is_dir()
    assert "tea" in works(home, "list", "--as", "bo")
    assert "tea" not in works(home, "list", "--as", "ana")
    assert "tea" not in works(home, "list")
    assert "Nothing to do" in works(home, "review", "--as", "bo")
    assert "nobody called cy" in fails(home, "list", "--as", "cy")
