"""The bench of summaries: its table is sound, and it counts what a note keeps and loses."""

from bench.summary import fold, lengthened, load_table, lost_of, score
from tests.emulators.openai import OpenAIEmulator, Reply
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_sdk import Endpoint

TABLE = load_table()


def test_everything_that_is_looked_for_was_said_and_stands_in_no_other_talk() -> None:
    for planted in TABLE.conversations:
        assert lost_of(planted, str([told.said for told in planted.told])) == ()
        assert len(planted.told) == 12
        fillers = str(TABLE.fillers[planted.language])
        kept = [told for told in planted.told if told not in lost_of(planted, fillers)]
        assert kept == []


async def test_what_a_note_keeps_is_counted() -> None:
    planted = next(one for one in TABLE.conversations if one.id == "judge-en")
    async with OpenAIEmulator().running() as server:
        server.responder = lambda body: Reply("## Facts\n- vet: Raman\n- chip: 985-141-220")
        model = OpenAIModel("emulated", Endpoint(server.base_url), tool_calls="native")
        verdict = await fold(model, planted, TABLE, between=4, part_tokens=1_000)
        await model.aclose()
        asked = len(server.requests)

    assert asked > 1, "it is folded in parts"
    assert (verdict.turns, verdict.kept, verdict.why) == (60, 2, "")
    assert len(lengthened(planted, TABLE, 4)) == 60
    figures = score([verdict])
    assert (figures["facts"], figures["facts_kept"], figures["kept_share_en"]) == (12, 2, round(2 / 12, 3))
    assert figures["failed"] == 0
