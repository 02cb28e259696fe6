"""The tests of every provider on the real servers of Hindsight and OpenViking, and ByteRover's own program.

Each server is started once, for a run of pytest of its own. From an emulator come only its embeddings, and
the answers of the model that ByteRover's program asks.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.agent.providers.bench_real_byterover import PROGRAM, RealByteRoverBench
from tests.agent.providers.conformance import ANA, BO, Opened
from tests.agent.providers.real_servers import address_name, installed
from tests.emulators.mem0 import EmbeddingsEmulator
from tests.gateway.postgresql import own_server, written
from tests.gateway.small_house import eventually
from trunkline.agent.providers.base import ForgetAll, ForgetFact
from trunkline.agent.providers.texts import states
from trunkline.agent.scope import Scope
from trunkline.gateway.provider_status import check_provider

ROOT = Path(__file__).parents[3]
SUITE = "tests/agent/providers/test_conformance.py"
DIMENSIONS = 384
EMBEDDER_KEY = "sk-emulated-embedder-key-000000000"
TEA = "User drinks jasmine tea at breakfast."
BREAKFAST = "What does the user drink at breakfast?"
BOAT = "User restores a wooden boat called Marigold."
START_S = 600.0
LOOK_S = 0.2
LIMIT_S = 1_500
TAIL_CHARS = 6_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S)]


@pytest.fixture
async def embedder() -> AsyncIterator[str]:
    async with EmbeddingsEmulator(EMBEDDER_KEY, DIMENSIONS).running() as server:
        yield f"{server.url}/v1"


@pytest.fixture
def database() -> Iterator[str]:
    with own_server() as url:
        yield written(url.set(drivername="postgresql"))


async def test_hindsights_own_server_passes(
    tmp_path: Path, embedder: str, database: str, unused_tcp_port: int
) -> None:
    settings = {
        "HOST": "127.0.0.1",
        "PORT": str(unused_tcp_port),
        "DATABASE_URL": database,
        "LLM_PROVIDER": "none",
        "EMBEDDINGS_PROVIDER": "openai",
        "EMBEDDINGS_OPENAI_BASE_URL": embedder,
        "EMBEDDINGS_OPENAI_API_KEY": EMBEDDER_KEY,
        "EMBEDDINGS_OPENAI_MODEL": "by-words",
        "RERANKER_PROVIDER": "rrf",
        "MCP_ENABLED": "false",
        "WORKER_ID": "tests",
        "WORKER_POLL_INTERVAL_MS": "50",
    }
    environment = {f"HINDSIGHT_API_{name}": value for name, value in settings.items()}
    url = f"http://127.0.0.1:{unused_tcp_port}"
    start = [str(installed("hindsight", "bin/hindsight-api"))]
    async with running(start, environment, tmp_path, url):
        await suite_passes("hindsight", url, tmp_path)


async def test_openvikings_own_server_passes(tmp_path: Path, embedder: str, unused_tcp_port: int) -> None:
    model = {"provider": "openai", "api_base": embedder, "api_key": EMBEDDER_KEY, "model": "by-words"}
    settings = {
        "server": {"host": "127.0.0.1", "port": unused_tcp_port},
        "storage": {"workspace": str(tmp_path / "workspace")},
        "embedding": {"dense": {**model, "dimension": DIMENSIONS}},
    }
    (tmp_path / "ov.conf").write_text(json.dumps(settings))
    program = installed("openviking", "bin/openviking-server")
    start = [str(program), "--config", str(tmp_path / "ov.conf")]
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with running(start, {}, tmp_path, url):
        await suite_passes("openviking", url, tmp_path)


async def test_byterovers_own_program_passes(tmp_path: Path) -> None:
    await suite_passes("byterover", str(installed("byterover", PROGRAM)), tmp_path)


async def test_byterovers_own_program_keeps_answers_and_forgets(tmp_path: Path) -> None:
    bench = RealByteRoverBench(tmp_path)
    async with bench.running():
        opened = Opened(bench, bench.make())
        assert await check_provider(opened.provider, bench.kind.check_s) == ""
        await opened.write(ANA, "w-1", after=TEA)
        assert "jasmine" in await answer(opened, BREAKFAST, ANA)
        assert "jasmine" not in await answer(opened, BREAKFAST, BO)

        kept = await opened.call("byterover_curate", ANA, content=BOAT)
        assert json.loads(kept.content) == {"success": True, "topics": 1}
        assert any(states(text, (BOAT,)) for text in await opened.recall("wooden boat", ANA))
        # Its own index learns of a new file a little later than the search for a recall.
        await eventually(lambda: is_answered(opened, "What is the wooden boat called?", "Marigold"))

        await opened.provider.forget(ForgetFact((BOAT,), (), ()), ANA)
        assert holding(bench, "Marigold") == []
        assert "Marigold" not in await answer(opened, "What is the wooden boat called?", ANA)
        await opened.provider.forget(ForgetAll(), ANA)
        assert holding(bench, "jasmine") == []
        assert bench.model.violations == []


async def answer(opened: Opened, question: str, scope: Scope) -> str:
    return (await opened.call("byterover_query", scope, question=question)).content


async def is_answered(opened: Opened, question: str, word: str) -> bool:
    return word in await answer(opened, question, ANA)


def holding(bench: RealByteRoverBench, word: str) -> list[str]:
    """The files, of the trees and of the program's own records, in which a word stands."""
    paths = (path for path in bench.trees.parent.rglob("*") if path.is_file())
    return [str(path) for path in paths if word.encode() in path.read_bytes()]


@asynccontextmanager
async def running(
    start: Sequence[str], settings: Mapping[str, str], folder: Path, url: str
) -> AsyncIterator[None]:
    """A server's program until the block ends; from the beginning it answers at `url`."""
    home = {"HOME": str(folder), "HF_HUB_OFFLINE": "1", "NO_COLOR": "1"}
    with (folder / "server.log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            *start, cwd=folder, env={**os.environ, **home, **settings}, stdout=log, stderr=log
        )
        try:
            await _answers(server, url, folder / "server.log")
            yield
        finally:
            if server.returncode is None:
                server.kill()
            await server.wait()


async def _answers(server: asyncio.subprocess.Process, url: str, log: Path) -> None:
    async with asyncio.timeout(START_S), httpx.AsyncClient(base_url=url) as client:
        while server.returncode is None:
            try:
                if (await client.get("/health")).is_success:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(LOOK_S)
    told = await asyncio.to_thread(log.read_text)
    pytest.fail(f"The server ended with {server.returncode}:\n{told[-TAIL_CHARS:]}")


async def suite_passes(provider: str, url: str, folder: Path) -> None:
    """Runs the suite on the server at `url`, those tests that are its own."""
    pytest_words = (
        "-n0",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=300",
        f"--basetemp={folder / 'tests'}",
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", *pytest_words, "-k", f"real-{provider}", SUITE),
        cwd=ROOT,
        env={**plain, address_name(provider): url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        told, _ = await run.communicate()
    finally:
        if run.returncode is None:
            run.kill()
            await run.wait()
    assert run.returncode == 0, told.decode(errors="replace")[-TAIL_CHARS:]
