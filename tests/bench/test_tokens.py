"""The benchmark of the token estimate prints its figures in both shapes."""

import json
from pathlib import Path

import pytest

from bench.tokens import main


def test_json_gives_one_number_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json"])
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(figures) == {"english_error", "chinese_error", "code_error"}


def test_any_file_can_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ana, the boat leaves at six.", encoding="utf-8")
    main(["--file", str(file), "--tokenizer", "cl100k_base"])
    assert capsys.readouterr().out.startswith("letter.txt")
