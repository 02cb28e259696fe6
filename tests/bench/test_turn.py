"""The command gives every figure it promises."""

from bench.turn import measure


async def test_every_kind_of_turn_is_measured() -> None:
    figures = await measure(3)

    assert set(figures) == {
        "agent_turn_ms_p50",
        "agent_turn_ms_p95",
        "agent_tool_turn_ms_p50",
        "agent_first_turn_ms_p50",
        "gateway_turn_ms_p50",
    }
    assert all(figure > 0 for figure in figures.values())
