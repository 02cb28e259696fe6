"""Words of others inside a line of ours stay inside it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.adapters.inline import inline

PIECES = st.sampled_from(
    ["\n", "\r", "\u2028", "\x85", "]", "[", "⟦", "⟧", "〛", "\u202e", "\u200b", "a", " "]
)


@settings(max_examples=200)
@given(st.lists(PIECES | st.text(max_size=3), max_size=60).map("".join), st.integers(8, 64))
def test_a_name_is_one_short_line_without_brackets(text: str, most: int) -> None:
    line = inline(text, most)

    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    assert not set(line) & set("[]⟦⟧〚〛")


def test_an_ordinary_name_is_unchanged() -> None:
    for name in ("Ana O'Neil-Łuczak 🌿", "王小明", "José (Pepe)", "👩\u200d🚀 Ada", "نور"):
        assert inline(name) == name
