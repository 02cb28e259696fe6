"""Each fault around the program, on each platform: all is answered once and in order, nothing is left."""

import logging
from pathlib import Path

import pytest

from tests.chaos.faults import FAULTS, try_faults

pytestmark = [pytest.mark.slow, pytest.mark.blackbox]

SEED = 11


@pytest.mark.timeout(600)
async def test_no_fault_loses_a_message_or_answers_one_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Clients that are cut off in the middle of a call are what this is about.
    caplog.set_level(logging.CRITICAL, "aiohttp.server")

    verdicts = await try_faults(tmp_path, list(FAULTS), SEED)

    assert {name: verdict.faults for name, verdict in verdicts.items() if not verdict.whole} == {}
    assert all(verdict.answered + verdict.unknown == verdict.sent > 20 for verdict in verdicts.values())
