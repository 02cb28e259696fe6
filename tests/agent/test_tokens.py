"""The estimate of tokens is near what a real tokenizer counts, in every script that people write here."""

import pytest

from bench.tokens import MODELS, counting, errors, texts
from trunkline.agent.messages import AssistantMessage, Picture, ToolCall, ToolMessage, UserMessage
from trunkline.agent.model import ToolSpec
from trunkline.agent.tokens import (
    PICTURE_TOKENS,
    estimate_message,
    estimate_messages,
    estimate_text,
    estimate_tools,
)

COUNTS = {tokenizer: counting(tokenizer) for tokenizer in MODELS}
count = COUNTS["o200k_base"]


@pytest.mark.parametrize("tokenizer", MODELS)
def test_the_error_is_under_fifteen_in_a_hundred_for_english_chinese_and_code(tokenizer: str) -> None:
    """Each Chinese text by itself: the conversation is much the shorter, and would not be seen in a sum."""
    given = texts()
    kinds = {
        **{kind: given[kind][::2] for kind in ("english", "code")},
        **{f"chinese {number}": [text] for number, text in enumerate(given["chinese"])},
    }
    figures = errors(kinds, COUNTS[tokenizer], MODELS[tokenizer])
    assert {kind: error for kind, error in figures.items() if abs(error) > 0.15} == {}


def test_a_models_name_tells_how_it_takes_chinese() -> None:
    def cost(model: str) -> int:
        return estimate_text("今天我们去公园" * 100, model)

    most = ["", "gpt-4o", "gpt-4.1-mini", "gpt-5", "llama-3", "deepseek-r1-distill-llama-70b", "a-new-one"]
    older = ["gpt-4", "gpt-4-turbo", "gpt-35-turbo", "gpt-3.5-turbo", "claude-9"]
    least = ["Qwen/Qwen3-8B", "qwen-plus", "deepseek-chat"]
    assert [len({cost(model) for model in models}) for models in (most, older, least)] == [1, 1, 1]
    assert cost("qwen-plus") < cost("gemma-3") < cost("gpt-4o") < cost("gpt-4")
    assert {estimate_text("The park is open.", model) for model in ("", "gpt-4", "qwen")} == {5}


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
