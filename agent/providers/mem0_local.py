"""Mem0's open-source engine in this process: Qdrant in a folder, vectors from an OpenAI-compatible server.

No model reads the texts: they are kept word for word. One thread does all of it, since the store is made for
one; while a process has the folder, no other one can open it. Only this module loads that part of the SDK.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import openai
from filelock import FileLock, Timeout

from trunkline.agent.providers.base import ProviderDown, ProviderError, ProviderLocked
from trunkline.agent.providers.http import failure_of
from trunkline.agent.providers.mem0_values import KEY, Memory, Role

T = TypeVar("T")

PIECE_CHARS = 2_000
"""Longer texts are kept in pieces: one vector says little about many pages."""
QUERY_CHARS = 2_000
LISTED = 10_000
CLOSE_S = 1.5
COLLECTION = "memories"
NO_KEY = "none"
"""The client wants one, also for a server that wants none."""
OTHER_VECTORS = (
    "the memories in {folder} have vectors of {old}; with {new} none would be found. Set the old embedder "
    "again, or move the folder away to begin anew"
)

WRONG_SIZE = "the embedder's vectors have {found} dimensions: set providers.mem0.embedder_dimensions to that"


@dataclass(frozen=True, slots=True)
class Embedder:
    """Who makes the vectors: an address that speaks OpenAI's embeddings API, a model there, its size."""

    base_url: str
    model: str
    dimensions: int
    key: str


class Mem0Local:
    """`mem0_values.Wire` on a folder, which is opened when first asked."""

    def __init__(self, folder: Path, embedder: Embedder, timeout_s: float) -> None:
        self._folder = folder
        self._embedder = embedder
        self._timeout_s = timeout_s
        self._thread: ThreadPoolExecutor | None = None
        self._engine: Any = None
        self._opened = ExitStack()

    async def check(self) -> None:
        with suppress(_InUse):
            await self._do(lambda engine: engine.embedding_model.embed("hello", "search"))

    async def add(
        self,
        bank: str,
        key: str,
        said: Sequence[tuple[Role, str]],
        *,
        as_it_is: bool,
        date: datetime | None = None,
    ) -> None:
        """Only what the person said: kept word for word, the assistant's words would pass for facts."""
        pieces = [
            {"role": role, "content": text[start : start + PIECE_CHARS]}
            for role, text in said
            if role == "user"
            for start in range(0, len(text), PIECE_CHARS)
        ]
        await self._do(lambda engine: engine.add(pieces, user_id=bank, metadata={KEY: key}, infer=False))

    async def search(self, bank: str, query: str, limit: int) -> list[Memory]:
        def work(engine: Any) -> list[Memory]:
            answer = engine.search(query[:QUERY_CHARS], filters={"user_id": bank}, top_k=limit, threshold=0.0)
            return [_memory(one) for one in answer["results"]]

        return await self._do(work)

    async def with_key(self, bank: str, key: str) -> list[Memory]:
        return await self._do(lambda engine: _listed(engine, {"user_id": bank, KEY: key}))

    async def get(self, bank: str, memory: str) -> Memory | None:
        found = await self._do(lambda engine: _listed(engine, {"user_id": bank}))
        return next((one for one in found if one.id == memory), None)

    async def update(self, memory: str, text: str) -> None:
        await self._do(lambda engine: engine.update(memory, text=text))

    async def delete(self, memory: str) -> bool:
        def work(engine: Any) -> bool:
            if engine.get(memory) is None:
                return False
            engine.delete(memory)
            return True

        return await self._do(work)

    async def delete_all(self, bank: str) -> None:
        await self._do(lambda engine: engine.delete_all(user_id=bank))

    async def count(self, bank: str) -> int | None:
        with suppress(_InUse):
            return len(await self._do(lambda engine: _listed(engine, {"user_id": bank})))
        return None

    async def aclose(self) -> None:
        """Waits a moment at most; a request that hangs ends by its own time-out, which frees the folder."""
        thread, self._thread = self._thread, None
        if thread is not None:
            closing = thread.submit(self._close)
            thread.shutdown(wait=False)
            await asyncio.wait([asyncio.wrap_future(closing)], timeout=CLOSE_S)

    async def _do(self, work: Callable[[Any], T]) -> T:
        """Runs it in the thread, with the engine. Raises ProviderError."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="mem0")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def _work(self, work: Callable[[Any], T]) -> T:
        with _translated():
            if self._engine is None:
                self._engine = self._open()
            return work(self._engine)

    def _open(self) -> Any:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            lock = FileLock(self._folder / "in-use.lock", blocking=False)
            try:
                lock.acquire()
            except Timeout as error:
                raise _InUse(f"another process has {self._folder}") from error
            opened.callback(lock.release)
            client = openai.OpenAI(
                api_key=self._embedder.key or NO_KEY,
                base_url=self._embedder.base_url,
                timeout=self._timeout_s,
                max_retries=0,
            )
            opened.callback(client.close)
            self._take_only_these_vectors(client)
            engine = self._engine_on(client)
            opened.callback(engine.close)
            opened.callback(engine.vector_store.client.close)
            self._opened = opened.pop_all()
            return engine

    def _engine_on(self, client: openai.OpenAI) -> Any:
        from mem0 import Memory as Engine  # noqa: PLC0415

        embedder = self._embedder
        access = {"api_key": embedder.key or NO_KEY, "openai_base_url": embedder.base_url}
        store = {
            "collection_name": COLLECTION,
            "embedding_model_dims": embedder.dimensions,
            "path": str(self._folder / "qdrant"),
            "on_disk": True,
        }
        engine = Engine.from_config(
            {
                "embedder": {"provider": "openai", "config": {**access, "model": embedder.model}},
                "vector_store": {"provider": "qdrant", "config": store},
                "llm": {"provider": "openai", "config": access},
                "history_db_path": ":memory:",  # on disk it would keep what is deleted
            }
        )
        engine.embedding_model.client = client  # its own has no time-out
        return engine

    def _take_only_these_vectors(self, client: openai.OpenAI) -> None:
        """Refuses a folder that was filled with others; a new one is marked when the embedder was tried."""
        embedder, mark = self._embedder, self._folder / "vectors.txt"
        new = f"{embedder.model}, {embedder.dimensions} dimensions"
        if mark.exists():
            old = mark.read_text(encoding="utf-8").strip()
            if old != new:
                raise ProviderLocked(OTHER_VECTORS.format(folder=self._folder, old=old, new=new))
            return
        tried = client.embeddings.create(input=["hello"], model=embedder.model, encoding_format="float")
        found = len(tried.data[0].embedding)
        if found != embedder.dimensions:
            raise ProviderLocked(WRONG_SIZE.format(found=found))
        mark.write_text(f"{new}\n", encoding="utf-8")

    def _close(self) -> None:
        self._engine = None
        self._opened.close()


class _InUse(ProviderDown):
    """The folder is open elsewhere: by the running assistant, when a command line asks."""


@contextmanager
def _translated() -> Iterator[None]:
    """What the engine and its embedder raise as the providers' own errors."""
    try:
        yield
    except ProviderError:
        raise
    except openai.APIStatusError as error:
        raise failure_of(error.status_code, error.response.headers.get("Retry-After")) from error
    except openai.OpenAIError as error:
        raise ProviderDown(f"the embedder does not answer ({type(error).__name__})") from error
    except (ValueError, OSError) as error:
        raise ProviderDown(f"Mem0's store failed ({type(error).__name__})") from error
    except (AttributeError, TypeError, LookupError) as error:  # the SDK takes a page for an answer, too
        raise ProviderDown("the embedder answered with something unknown") from error


def _listed(engine: Any, filters: dict[str, str]) -> list[Memory]:
    return [_memory(one) for one in engine.get_all(filters=filters, top_k=LISTED)["results"]]


def _memory(one: Any) -> Memory:
    return Memory(str(one["id"]), str(one["memory"]), float(one.get("score") or 0.0))
