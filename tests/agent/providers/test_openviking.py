"""What is special to OpenViking: where texts lie, who the client says it is, what the server refuses."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agent.providers.bench_openviking import KEY, OpenVikingBench
from tests.agent.providers.conformance import ANA, BO, DEN, Opened
from tests.emulators.base import Fault
from trunkline.agent.providers.base import ForgetFact, ProviderDown, ProviderLocked, ProviderRefused, bank_of
from trunkline.agent.providers.openviking_wire import OpenVikingWire

TEA = "User drinks jasmine tea at breakfast."
BANK = "trunkline-person-ana-201ab57a53f116bc"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    bench = OpenVikingBench(tmp_path)
    async with bench.running():
        provider = bench.make()
        yield Opened(bench, provider)
        await provider.stop()


def server(opened: Opened) -> "OpenVikingBench":
    assert isinstance(opened.bench, OpenVikingBench)
    return opened.bench


async def test_texts_lie_where_the_server_takes_them_for_memories(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after=TEA)

    assert server(opened).server.files == {f"viking://user/default/peers/{BANK}/memories/{remote}.md": TEA}


async def test_a_turn_says_when_it_was_and_who_spoke(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", "I row\u200b on Sundays.", "Nice.")
    await opened.sync(DEN, "s-1-2", "I row on Sundays.", "Nice.")

    assert await opened.bench.stored(ANA) == ["2026-11-30\n\nuser: I row on Sundays.\n\nassistant: Nice."]
    assert f"account {DEN.asker}: I row" in (await opened.bench.stored(DEN))[0]


async def test_a_text_can_not_set_the_servers_hidden_fields(opened: Opened) -> None:
    await opened.write(ANA, "w-1", after='Tea.\n<!-- MEMORY_FIELDS {"category": "x"} -->')

    assert "<!--" not in (await opened.bench.stored(ANA))[0]


async def test_a_short_wording_takes_no_longer_text_with_it(opened: Opened) -> None:
    remote = await opened.write(ANA, "w-1", after="Tea")
    await opened.write(ANA, "w-2", after="User keeps a teapot collection.")

    assert (await opened.provider.forget(ForgetFact(("Tea",), (remote,), ()), ANA)).removed == 1
    assert await opened.bench.stored(ANA) == ["User keeps a teapot collection."]


async def test_a_fact_in_the_middle_of_a_long_turn_is_found_by_its_words(opened: Opened) -> None:
    await opened.sync(ANA, "s-1-1", f"{'Of the harbour, then. ' * 90}\n{TEA.upper()}\nAnd so on.")

    assert (await opened.provider.forget(ForgetFact((TEA,), (), ()), ANA)).removed == 1


async def test_the_tools_read_browse_and_forget_by_id(opened: Opened) -> None:
    long = f"{TEA} {'It is hot. ' * 100}"
    kept = json.loads((await opened.call("openviking_remember", ANA, content=long)).content)["id"]
    found = json.loads((await opened.call("openviking_search", ANA, query="jasmine")).content)["results"]
    assert (found[0]["id"], len(found[0]["text"])) == (kept, 401)
    assert json.loads((await opened.call("openviking_read", ANA, id=kept)).content)["text"] == long.strip()
    assert json.loads((await opened.call("openviking_browse", ANA)).content)["ids"] == [kept]

    assert (await opened.call("openviking_forget", BO, ids=[kept])).is_error
    assert not (await opened.call("openviking_forget", ANA, ids=[kept])).is_error
    assert (await opened.call("openviking_read", ANA, id=kept)).is_error


async def test_many_texts_are_counted_over_several_pages(opened: Opened) -> None:
    folder = f"viking://user/default/peers/{bank_of(ANA, 'trunkline')}/memories"
    server(opened).server.files.update({f"{folder}/n-{number}.md": "x" for number in range(1_203)})

    assert await opened.provider.count(ANA) == 1_203


async def test_neither_environment_nor_a_file_at_home_changes_who_asks(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ovcli.conf"
    config.write_text('{"url": "http://127.0.0.1:9", "user": "somebody", "account": "else", "timeout": 1}')
    monkeypatch.setenv("OPENVIKING_CLI_CONFIG_FILE", str(config))
    for name in ("URL", "ACCOUNT", "USER", "TIMEOUT", "AUTH_MODE"):
        monkeypatch.setenv(f"OPENVIKING_{name}", "7" if name == "TIMEOUT" else "other")

    await opened.write(ANA, "w-1", after=TEA)
    assert server(opened).server.violations == []
    assert await opened.bench.stored(ANA) == [TEA]


async def test_a_key_of_another_user_is_locked_and_an_unknown_user_refused(opened: Opened) -> None:
    url = server(opened).server.url
    for key, user, error in (("wrong", "default", ProviderLocked), (KEY, "nobody", ProviderRefused)):
        wire = OpenVikingWire(url, key, "default", user, 5)
        with pytest.raises(error):
            await wire.check()
        await wire.aclose()
    server(opened).server.violations.clear()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"status": "error", "error": {"code": "EMBEDDING_FAILED", "message": "no"}}, ProviderDown),
        ({"status": "error", "error": {"code": "INVALID_ARGUMENT", "message": "no"}}, ProviderRefused),
        ({"status": "error", "error": {"code": "PERMISSION_DENIED", "message": "no"}}, ProviderLocked),
        ({"status": "ok", "result": {"memories": [{"score": "much"}]}}, ProviderDown),
        ({"status": "ok", "result": 7}, ProviderDown),
    ],
)
async def test_what_the_server_says_instead_of_an_answer(
    opened: Opened, body: dict[str, object], error: type[Exception]
) -> None:
    server(opened).server.fail_next("find", Fault(status=200, body=body))

    with pytest.raises(error):
        await opened.recall("tea", ANA)


async def test_a_busy_server_says_for_how_long(opened: Opened) -> None:
    server(opened).server.fail_next("find", Fault(status=429, headers={"Retry-After": "7"}))

    with pytest.raises(ProviderDown) as raised:
        await opened.recall("tea", ANA)
    assert raised.value.retry_after_s == 7
