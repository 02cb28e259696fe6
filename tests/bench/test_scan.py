"""The bench of the threat scan: its texts are of one size, and its figures have the names published."""

import json
import random

import pytest

from bench import scan


@pytest.mark.parametrize("name", sorted(scan.SHAPES))
def test_every_text_is_a_megabyte(name: str) -> None:
    text = scan.fill(scan.SHAPES[name](random.Random(scan.SEED)))

    assert scan.SIZE_BYTES - 4 < len(text.encode()) <= scan.SIZE_BYTES


def test_its_last_line_is_one_object_of_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    scan.main(["--json"], {"english": scan.SHAPES["english"]})

    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures.keys() == {"english_ms", "worst_ms", "worst_ratio"}
    assert all(value > 0 for value in figures.values())
