"""What a session sent once it sends again byte for byte."""

from bench.prefix import measure


async def test_a_memory_saved_elsewhere_changes_no_byte_that_was_sent() -> None:
    figures = await measure(6)

    assert figures["changed_prefix_bytes"] == 0
    assert 0.5 < figures["repeat_share"] < 1
