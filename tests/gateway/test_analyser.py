"""The analyser: the same tokens for a text and for whoever looks for it, in every script and at any size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.gateway.state.analyser import MAX_COMPOUND_CHARS, analyse, storable, units
from trunkline.gateway.state.query import Query, parse


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("We deployed it", ["we", "deploy", "it"]),
        ("She bought it for the children", ["she", "buy", "it", "for", "the", "child"]),
        ("He left, the leaves fell", ["he", "left", "the", "leav", "fall"]),
        ("Ärger im CAFÉ", ["arger", "im", "cafe"]),
        ("ＡＢＣ ﬁne", ["abc", "fine"]),
        ("下周去苏州", ["下", "周", "去", "苏", "州"]),
        ("修复zephyr登录", ["修", "复", "zephyr", "登", "录"]),
        ("user_id blue-green", ["user", "id", "blue", "green"]),
        ("getUserName", ["get", "user", "name"]),
        ("don't Caroline's", ["dont", "carolin"]),
        ("#8841 15%", ["8841", "15"]),
        ("ひらがな 한국", ["ひ", "ら", "が", "な", "한", "국"]),
        ("हिन्दी Привет", ["हिन्दी", "привет"]),
        ("ok 🎉", ["ok", "🎉"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ("dep\u200bloy soft\u00adware", ["deploy", "softwar"]),
        ("می\u200cخواهم", ["می", "خواهم"]),
        ("…", []),
    ],
)
def test_a_text_becomes_words(text: str, words: list[str]) -> None:
    assert list(analyse(text).words) == words


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("see lib/cache.py now", "lib/cache.py"),
        ("user_id", "user_id"),
        ("blue-green", "blue-green"),
        ("C++ and", "c++"),
        ("iPhone", "iphon"),
        ("kit@example.org", "kit@example.org"),
    ],
)
def test_identifiers_are_kept_whole_as_well(text: str, whole: str) -> None:
    assert whole in analyse(text).wholes


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "a_" * 500_000,
        "苏州" * 500_000,
        "\u0315\u0300" * 500_000,
        "a'" * 500_000,
        "aB" * 500_000,
        "++" * 500_000,
        "\ufdfa" * 50_000,
        " " * 1_000_000,
    ],
    ids=["word", "compound", "chinese", "marks", "quotes", "camel", "signs", "ligatures", "blank"],
)
@pytest.mark.timeout(20)
def test_a_megabyte_of_anything_is_read_in_linear_time(text: str) -> None:
    assert all(len(token) <= MAX_COMPOUND_CHARS for token in analyse(text).words)


@given(st.text(max_size=200))
def test_tokens_hold_no_space_and_no_quote(text: str) -> None:
    found = analyse(text)

    for token in (*found.words, *found.wholes):
        assert token == "".join(token.split())
        assert '"' not in token
        assert token == storable(token)


@given(st.text(max_size=200))
def test_a_query_reads_the_same_words_as_the_index(text: str) -> None:
    assert tuple(word for unit in units(text) for word in unit.words) == analyse(text).words


@given(st.text(alphabet=st.sampled_from("abAND OR NOT\"*()-苏州\0\ud800🎉'#+"), max_size=60))
def test_every_query_is_legal(text: str) -> None:
    assert isinstance(parse(text), Query)


@pytest.mark.parametrize("text", ["", " ", "*", "AND", "OR OR", "NOT", '"', '""', "\0", "()", "-"])
def test_a_query_without_a_word_asks_for_nothing(text: str) -> None:
    assert parse(text).terms == ()


def test_stop_words_are_dropped_unless_there_is_nothing_else() -> None:
    assert [term.surfaces for term in parse("what did the zephyr do").terms] == [("zephyr",)]
    assert [term.surfaces for term in parse("what is it").terms] == [("what",), ("is",), ("it",)]


def test_operators_are_read_and_lone_ones_are_not() -> None:
    query = parse('"exact phrase" tea OR coffee NOT milk AND')

    assert [(term.surfaces[0], term.exact) for term in query.terms] == [
        ("exact phrase", True),
        ("tea", False),
        ("coffee", False),
    ]
    assert query.terms[1].group == query.terms[2].group
    assert [term.surfaces[0] for term in query.excluded] == ["milk"]


def test_chinese_is_cut_into_words_on_the_query_side() -> None:
    assert [term.surfaces[0] for term in parse("张曼婷喜欢什么博物馆").terms] == ["张曼婷", "喜欢", "博物馆"]
