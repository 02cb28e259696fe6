"""The table of benches: one line for each provider, and the real servers that the environment names."""

import os
from typing import Any

import pytest

from tests.agent.providers.bench_byterover import ByteRoverBench
from tests.agent.providers.bench_hindsight import HindsightBench
from tests.agent.providers.bench_holographic import HolographicBench
from tests.agent.providers.bench_honcho import HonchoBench
from tests.agent.providers.bench_mem0 import Mem0Bench, Mem0LocalBench
from tests.agent.providers.bench_openviking import OpenVikingBench
from tests.agent.providers.bench_real_byterover import RealByteRoverBench
from tests.agent.providers.bench_retaindb import RetainDbBench
from tests.agent.providers.bench_supermemory import SupermemoryBench
from tests.agent.providers.conformance import Bench
from tests.agent.providers.real_servers import RealHindsightBench, RealOpenVikingBench, address_name

REAL: tuple[type[Bench], ...] = (RealHindsightBench, RealOpenVikingBench, RealByteRoverBench)
BENCHES: tuple[type[Bench], ...] = (
    HolographicBench,
    OpenVikingBench,
    ByteRoverBench,
    RetainDbBench,
    SupermemoryBench,
    HindsightBench,
    HonchoBench,
    Mem0Bench,
    Mem0LocalBench,
    *(bench for bench in REAL if os.environ.get(address_name(bench.name))),
)


def each_bench() -> list[Any]:
    """The table as pytest's parameters."""
    return [pytest.param(bench, marks=bench.marks, id=bench.label or bench.name) for bench in BENCHES]
