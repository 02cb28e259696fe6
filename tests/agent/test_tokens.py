"""The estimate of tokens is near what a real tokenizer counts, in every script that people write here."""

import bpe_openai
import pytest

from bench.tokens import errors, texts
from trunkline.agent.messages import AssistantMessage, Picture, ToolCall, ToolMessage, UserMessage
from trunkline.agent.model import ToolSpec
from trunkline.agent.tokens import (
    PICTURE_TOKENS,
    estimate_message,
    estimate_messages,
    estimate_text,
    estimate_tools,
)

TOKENIZER = bpe_openai.get_encoding("o200k_base")


def count(text: str) -> int:
    return len(TOKENIZER.encode(text, disallowed_special=()))


def test_the_error_is_under_fifteen_in_a_hundred_for_english_chinese_and_code() -> None:
    figures = errors(texts(), count)
    assert set(figures) == {"english", "chinese", "code"}
    assert {kind: error for kind, error in figures.items() if abs(error) > 0.15} == {}


def test_each_chinese_text_is_within_fifteen_in_a_hundred_by_itself() -> None:
    """The conversation is much the shorter: in a sum with the program's sentences it would not be seen."""
    for text in texts()["chinese"]:
        assert estimate_text(text) == pytest.approx(count(text), rel=0.15)


@pytest.mark.parametrize(
    "text",
    [
        "Ich hätte gerne ein Zimmer für zwei Personen mit Blick auf die Straße, bitte.",
        "今日は天気がいいので、公園へ行きましょう。よろしくお願いします。",
        "안녕하세요, 오늘은 날씨가 좋네요. 공원에 갑시다.",
        "Привет, как дела? Сегодня мы поедем в город и купим продукты.",
        '{"id": 20931, "when": "2026-11-30T16:05:31Z", "ok": true}',
        "👍🎉 see you at 10:45!",
    ],
)
def test_other_scripts_are_within_a_third(text: str) -> None:
    assert estimate_text(text) == pytest.approx(count(text), rel=0.34)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\n", "\x00", "\ud800", "a" * 50_000, "字" * 50_000, "=" * 50_000]
)
def test_every_text_has_an_estimate(text: str) -> None:
    assert 0 <= estimate_text(text) <= 2 * len(text)


def test_what_goes_with_a_message_counts() -> None:
    said = UserMessage("hi", "hi")
    assert estimate_message(UserMessage("hi", "hi", (Picture("0" * 64, "image/png"),))) == (
        estimate_message(said) + PICTURE_TOKENS
    )
    calls = AssistantMessage("", (ToolCall("c1", "search", '{"query": "the long and winding road"}'),))
    assert estimate_message(calls) > estimate_message(AssistantMessage(""))
    result = ToolMessage("c1", "search", "word " * 100)
    assert estimate_messages([said, result]) == estimate_message(said) + estimate_message(result)
    assert estimate_tools([ToolSpec("t", "Does it.", {"type": "object"})]) > 5
