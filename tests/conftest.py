"""What holds for every test: the same examples where a run decides something, and the longest test first.

`make test` runs several workers at once; `pytest FILE` is one process.
"""

import os
from collections.abc import Iterator

import pytest
import trustme
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


@pytest.fixture(scope="session", autouse=True)
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client reads all of the machine's authorities for each TLS context, which takes longer than many a
    test does; and all that tests talk to is on this machine."""
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    trustme.CA().cert_pem.write_to_path(file)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(file))
        yield


def _time_limit_s(item: pytest.Item) -> float:
    limit = item.get_closest_marker("timeout")
    return float(limit.args[0]) if limit else 0.0
