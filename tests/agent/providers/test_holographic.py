"""What is special to Holographic: names, connections, contradictions, and trust that feedback moves."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.providers.bench_holographic import HolographicBench
from tests.agent.providers.conformance import ANA, BO, Opened
from trunkline.agent.providers.terms import MAX_TERMS, entities_of, terms_of


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = HolographicBench(tmp_path)
    async with bench.running():
        yield Opened(bench, bench.make())


async def add(opened: Opened, *texts: str, **more: object) -> list[int]:
    made = [await opened.call("holographic_store", ANA, content=text, **more) for text in texts]
    return [json.loads(one.content)["fact"]["id"] for one in made]


async def search(opened: Opened, **arguments: object) -> Any:
    reply = json.loads((await opened.call("holographic_search", ANA, **arguments)).content)
    return [fact["text"] for fact in reply["facts"]] if "facts" in reply else reply


async def test_a_probe_gives_all_about_a_name(opened: Opened) -> None:
    await add(opened, "Marta Ruiz leads the Atlas project.", "The Atlas project ships in May.", "Tea is hot.")

    assert await search(opened, mode="probe", entity="marta ruiz") == ["Marta Ruiz leads the Atlas project."]
    assert len(await search(opened, mode="probe", entity="ATLAS")) == 2


async def test_related_facts_are_one_name_away(opened: Opened) -> None:
    await add(opened, "Marta leads Atlas.", "Atlas runs on Postgres16.", "Rex is a dog.")

    assert await search(opened, mode="related", entity="Marta") == ["Atlas runs on Postgres16."]


async def test_reasoning_finds_what_connects_names(opened: Opened) -> None:
    await add(opened, "Marta and Jonas built Atlas.", "Marta likes tea.", "Jonas rows.")

    found = await search(opened, mode="reason", entities=["Marta", "Jonas"])
    assert found == ["Marta and Jonas built Atlas."]


async def test_contradictions_come_with_the_newer_fact_first(opened: Opened) -> None:
    await add(opened, "Marta lives in Berlin now.", "Rex is a dog.", "Marta lives in Lisbon now.")

    pairs = (await search(opened, mode="contradict"))["pairs"]
    assert [(pair["newer"]["text"], pair["older"]["text"]) for pair in pairs] == [
        ("Marta lives in Lisbon now.", "Marta lives in Berlin now.")
    ]


async def test_feedback_moves_trust_and_little_trusted_facts_do_not_come_by_themselves(
    opened: Opened,
) -> None:
    (fact,) = await add(opened, "The heating code is on the fridge.")
    liked = json.loads(
        (await opened.call("holographic_feedback", ANA, fact_id=fact, rating="helpful")).content
    )
    assert liked["fact"]["trust"] == 0.55
    assert await opened.recall("heating code", ANA) == ["The heating code is on the fridge."]

    for _ in range(3):
        await opened.call("holographic_feedback", ANA, fact_id=fact, rating="unhelpful")
    assert await opened.recall("heating code", ANA) == []
    assert await search(opened, query="heating code") == ["The heating code is on the fridge."]
    assert (await opened.call("holographic_feedback", BO, fact_id=fact, rating="helpful")).is_error


async def test_a_fact_is_changed_and_removed_by_its_id_and_by_nobody_else(opened: Opened) -> None:
    (fact,) = await add(opened, "Marta lives in Berlin.")
    stolen = await opened.call("holographic_store", BO, action="update", fact_id=fact, content="x")
    assert stolen.is_error

    await opened.call("holographic_store", ANA, action="update", fact_id=fact, content="Marta lives in Rome.")
    assert await search(opened, query="Where does Marta live?") == ["Marta lives in Rome."]
    assert (await opened.call("holographic_store", BO, action="remove", fact_id=fact)).is_error
    await opened.call("holographic_store", ANA, action="remove", fact_id=fact)
    assert await search(opened, mode="list") == []


async def test_the_same_fact_is_kept_once_and_missing_arguments_are_named(opened: Opened) -> None:
    await add(opened, "Marta lives in Berlin.", "marta lives  in Berlin.")
    assert len(await search(opened, mode="list")) == 1

    for arguments, word in (
        ({"action": "add"}, "content"),
        ({"action": "update", "content": "x"}, "fact_id"),
        ({"action": "remove"}, "fact_id"),
    ):
        reply = await opened.call("holographic_store", ANA, **arguments)
        assert reply.is_error
        assert word in reply.content
    assert (await opened.call("holographic_search", ANA, mode="probe")).is_error


async def test_rare_words_weigh_more_than_common_ones(opened: Opened) -> None:
    await add(opened, *(f"Meeting number {n} was in the big room." for n in range(20)), "Meeting with Ines.")

    assert (await search(opened, query="the meeting in the room with Ines"))[0] == "Meeting with Ines."


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("Running shoes", "run"),
        ("staging_ed25519 key", "ed25519"),
        ("早餐喝茉莉花茶", "茉莉"),
        ("ＷＩＤＥ letters", "wide"),
        ("Café au lait", "café"),
        ("المستخدم يشرب", "يشرب"),
        ("茶", "茶"),
    ],
)
def test_terms_of_every_script(text: str, term: str) -> None:
    assert term in terms_of(text)


def test_long_texts_have_a_bounded_number_of_terms() -> None:
    assert len(terms_of(" ".join(f"word{n}" for n in range(5000)))) == MAX_TERMS
    assert len(terms_of("茶花香" * 5000)) <= MAX_TERMS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We met Marta Ruiz in Lisbon.", {"marta ruiz", "lisbon"}),
        ("The server is db_main3.", {"db_main3"}),
        ("他在读《三体》。", {"三体"}),
        ("nothing of note here", set()),
    ],
)
def test_names_in_a_text(text: str, names: set[str]) -> None:
    assert names <= set(entities_of(text))
    assert names or not entities_of(text)
