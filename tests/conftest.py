"""What holds for every test: the same examples where a run decides something, and the longest test first.

`make test` runs several workers at once; `pytest FILE` is one process.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

# Examples take longer while other workers have the processor; no property here is about time.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("decides", settings.get_profile("shared"), derandomize=True)
settings.load_profile("decides" if os.environ.get("CI") else "shared")

# More workers than this and each costs more to start, a PostgreSQL included, than it saves.
MAX_WORKERS = 6

LONG_S = 600.0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: much of a test is waiting for another process."""
    return min((os.cpu_count() or 1) + 1, MAX_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What may run for many minutes begins first, so that it runs beside the rest and not after it."""
    items.sort(key=lambda item: _time_limit_s(item) < LONG_S)


def _time_limit_s(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0]) if limit else 0.0
