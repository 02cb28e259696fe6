"""Forty deaths of the program while people talk to it: every question is answered, none twice, in order."""

import logging
from pathlib import Path

import pytest

from tests.chaos.harness import torment
from tests.chaos.judge import see

pytestmark = [pytest.mark.slow, pytest.mark.blackbox]

SEED = 7


@pytest.mark.timeout(900)
async def test_forty_kills_lose_no_message_and_answer_none_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Clients that die in the middle of a call are what this is about.
    caplog.set_level(logging.CRITICAL, "aiohttp.server")

    outcome = await torment(tmp_path, kills=40, seed=SEED)

    verdict = outcome.verdict
    assert verdict.good, "\n".join([f"seed {SEED}", str(outcome.moments), *verdict.faults])
    assert verdict.sent > 100


def test_the_judge_sees_a_whole_answer_a_second_one_and_a_piece_that_came_twice() -> None:
    whole, other = "B1t1z words A1x1of2t1z words A1x2of2t1z", "B1t2z words A1x1of2t2z"

    assert see([whole], [1])[1].whole == (1,)
    assert see([other, whole], [1])[1].whole == (1,)
    assert see([other, whole], [1])[1].begun == (2, 1)
    assert see([whole, other, "A1x2of2t2z"], [1])[1].whole == (1, 2)
    assert see([whole, "A1x2of2t1z"], [1])[1].repeated
    assert see([other], [1])[1].whole == ()
