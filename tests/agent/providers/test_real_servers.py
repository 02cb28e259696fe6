"""The tests of every provider on the real servers of Hindsight and OpenViking.

Each server is started once, for a run of pytest of its own. Only its embeddings come from an emulator.
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

from tests.agent.providers.real_servers import INSTALLED, address_name
from tests.emulators.mem0 import EmbeddingsEmulator
from tests.gateway.postgresql import own_server, written

ROOT = Path(__file__).parents[3]
SUITE = "tests/agent/providers/test_conformance.py"
DIMENSIONS = 384
EMBEDDER_KEY = "sk-emulated-embedder-key-000000000"
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
    async with running(command("hindsight", "hindsight-api"), environment, tmp_path, url):
        await suite_passes("hindsight", url, tmp_path)


async def test_openvikings_own_server_passes(tmp_path: Path, embedder: str, unused_tcp_port: int) -> None:
    model = {"provider": "openai", "api_base": embedder, "api_key": EMBEDDER_KEY, "model": "by-words"}
    settings = {
        "server": {"host": "127.0.0.1", "port": unused_tcp_port},
        "storage": {"workspace": str(tmp_path / "workspace")},
        "embedding": {"dense": {**model, "dimension": DIMENSIONS}},
    }
    (tmp_path / "ov.conf").write_text(json.dumps(settings))
    start = command("openviking", "openviking-server", "--config", str(tmp_path / "ov.conf"))
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with running(start, {}, tmp_path, url):
        await suite_passes("openviking", url, tmp_path)


def command(server: str, program: str, *arguments: str) -> list[str]:
    """How an installed server is started. Where it isn't installed the test is skipped, but never in CI."""
    path = INSTALLED / server / "bin" / program
    if not path.exists():
        told = f"The server of {server} is not installed here: `make servers` does it."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    return [str(path), *arguments]


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
