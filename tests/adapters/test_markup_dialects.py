"""How each platform's dialect is written, and what the field reported to go wrong in others."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdjson import td_execute

from tests.adapters.markup_model import (
    PLATFORMS,
    ZERO_WIDTH,
    Renderer,
    Shown,
    any_markdown,
    limits,
    sentences,
    squeezed,
    thorough,
    utf16_units,
    visible,
)
from trunkline.adapters.base import Chunk, Entity
from trunkline.adapters.markup.discord import render_discord
from trunkline.adapters.markup.plain import render_plain
from trunkline.adapters.markup.slack import render_slack
from trunkline.adapters.markup.telegram import calling_nobody, render_telegram


def texts(chunks: tuple[Chunk, ...]) -> list[str]:
    return [chunk.text for chunk in chunks]


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@pytest.mark.parametrize(
    "text",
    [
        "Use snake_case_name, 5 > 3 (see [docs]) - done!",
        "restart <unit> in <zone>",
        "a &lt; b &amp;&amp; c",
        "*not closed and _this and ~~that",
    ],
)
def test_stray_signs_arrive_letter_for_letter(
    render: Renderer, size: object, read: Callable[[tuple[Chunk, ...]], Shown], text: str
) -> None:
    shown = read(render(text, 2000)).text

    assert "".join(char for char in shown if char != ZERO_WIDTH) == text


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@pytest.mark.parametrize("blank", ["", " \n\t\n", "\u200b", "```\n\n```", "> \n> ", "\u00a0"])
def test_nothing_to_see_makes_no_chunk(render: Renderer, size: object, read: object, blank: str) -> None:
    assert render(blank, 100) == ()


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_an_info_line_longer_than_a_message_is_shown_whole(
    render: Renderer,
    size: Callable[[str], int],
    read: Callable[[tuple[Chunk, ...]], Shown],
) -> None:
    markdown = f"```{'i' * 3000}\ncode\n```"

    chunks = render(markdown, 2000)

    assert all(size(chunk.text) <= 2000 for chunk in chunks)
    assert squeezed(read(chunks).text) == "i" * 3000 + "code"


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_a_limit_below_one_character_ends_and_loses_nothing(
    render: Renderer, size: Callable[[str], int], read: Callable[[tuple[Chunk, ...]], Shown]
) -> None:
    """TG-03.2: at 10 a family of four has to be cut, and every character still fits; at 1 hardly one does."""
    family = "aaaaaaaaa👨\u200d👩\u200d👧\u200d👦b"
    marked = f"- {family} <&> **bold** `code`\n\n> @everyone\n\n```py\nx = 1\n```"

    cut = render(family, 10)

    assert "".join(texts(cut)) == family
    assert all(size(text) <= 10 for text in texts(cut))
    for limit in range(1, 40):
        assert squeezed(read(render(marked, limit)).text) == squeezed(visible(marked))
    with pytest.raises(ValueError, match="at least 1"):
        render("text", 0)


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_a_text_is_cut_between_paragraphs_then_lines_then_sentences_then_words(
    render: Renderer, size: object, read: object
) -> None:
    paragraphs_fit = render("a" * 60 + "\n\n" + "b" * 60, 100)
    lines_fit = render("a" * 30 + " " + "b" * 30 + "\n" + "c" * 60, 100)
    sentences_fit = render("a" * 40 + ". " + "b" * 20 + ". " + "c " * 60, 100)
    words_fit = render("a" * 70 + " " + "b" * 70, 100)

    assert texts(paragraphs_fit) == ["a" * 60, "b" * 60]
    assert texts(lines_fit) == ["a" * 30 + " " + "b" * 30, "c" * 60]
    assert sentences_fit[0].text == "a" * 40 + ". " + "b" * 20 + "."
    assert texts(words_fit) == ["a" * 70, "b" * 70]


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_a_heading_goes_along_with_what_it_heads(render: Renderer, size: object, read: object) -> None:
    chunks = render("a" * 60 + "\n\n# Head\n\n" + "b" * 60, 100)

    assert ["Head" in text for text in texts(chunks)] == [False, True]


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@pytest.mark.parametrize("cluster", ["👨\u200d👩\u200d👧\u200d👦", "🇨🇭", "e\u0301\u0323", "👍🏽", "각"])
def test_no_cut_falls_inside_a_character_as_readers_see_it(
    render: Renderer, size: object, read: object, cluster: str
) -> None:
    for padding in range(len(cluster.encode())):
        chunks = render("a" * padding + cluster * 60, 60)

        assert all(text.strip("a") == cluster * text.count(cluster) for text in texts(chunks))


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
def test_narrow_tables_are_aligned_and_wide_ones_are_lists(
    render: Renderer, size: object, read: Callable[[tuple[Chunk, ...]], Shown]
) -> None:
    narrow = read(render("| a | price |\n|---|--:|\n| 面包 | 3 |\n| x | **12** |", 1000))
    wide = read(render(f"| what | long |\n|---|---|\n| one | {'word ' * 30} |", 1000))

    assert narrow.code == ("a     price\n────  ─────\n面包      3\nx        12",)
    assert wide.code == ()
    assert "\n• long: word word" in wide.text
    assert "|" not in narrow.text + wide.text


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(cells=st.lists(st.lists(sentences, min_size=3, max_size=3), min_size=1, max_size=5), limit=limits)
def test_no_cell_of_a_table_is_lost(
    render: Renderer,
    size: object,
    read: Callable[[tuple[Chunk, ...]], Shown],
    cells: list[list[str]],
    limit: int,
) -> None:
    # Without what stands for a backtick on Slack, too.
    rows = [[re.sub(r"[^\w ]|[_\u02cb]", "", cell) for cell in row] for row in cells]
    markdown = "| x | y | z |\n|---|---|---|\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)

    shown = squeezed(read(render(markdown, limit)).text)

    for row in rows:
        for cell in row:
            assert squeezed(cell) in shown


def test_an_unused_definition_is_not_swallowed() -> None:
    assert render_telegram("See [1].\n\n[1]: https://e.test/a\n[2]: https://e.test/b")[0].text == (
        "See 1.\n[2]: https://e.test/b"
    )


def test_lone_halves_of_a_character_become_the_replacement_mark() -> None:
    assert render_slack("a\ud83d b \ud83d\ude00")[0].text == "a\ufffd b 😀"


def test_telegram_gets_links_quotes_and_code_as_entities() -> None:
    (chunk,) = render_telegram("😀 **b *i*** `c` [l](https://e.test)\n\n> q\n\n```py\nx\n```")

    assert [(one.kind, one.offset, one.length, one.url, one.language) for one in chunk.entities] == [
        ("bold", 3, 3, None, None),
        ("italic", 5, 1, None, None),
        ("code", 7, 1, None, None),
        ("text_link", 9, 1, "https://e.test", None),
        ("blockquote", 12, 1, None, None),
        ("pre", 15, 1, None, "py"),
    ]


_TELEGRAM_NAME = re.compile(r"(?<!\w)@\w{2,}")


@pytest.mark.parametrize(
    "markdown",
    [
        "ask @bob_smith now",
        "@bob",
        "(@bob)",
        "@**bob**",
        "**@bob**, *@cy*",
        "😀 @bob 😀",
        "> @bob",
        "- @bob\n- @cy",
        "/@bob",
        "@`bob`",
        "`@`bob",
        "e.test/@bob/1",
        "http://localhost/@bob",
        "e.test,https://e_e.test/@bob",
    ],
)
def test_a_name_in_an_answer_on_telegram_notifies_nobody_and_styles_stay_where_they_were(
    markdown: str,
) -> None:
    (chunk,) = render_telegram(markdown)
    (plain,) = render_telegram(markdown.replace("@", "%"))
    assert not _TELEGRAM_NAME.search(chunk.text)
    assert chunk.text.replace("\u200b", "") == plain.text.replace("%", "@")
    styled, unmarked = (
        [_styled(one, entity).replace("\u200b", "").replace("%", "@") for entity in one.entities]
        for one in (chunk, plain)
    )
    assert styled == unmarked


def _styled(chunk: Chunk, entity: Entity) -> str:
    units = chunk.text.encode("utf-16-le")
    return units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


@pytest.mark.parametrize(
    "markdown",
    [
        "ana@example.org",
        "`@bob`",
        "```\n@bob\n```",
        "https://e.test/@bob",
        "see (https://e.test:8443/a?b=c#d/@bob/@cy) there",
        "https://t.me/bob, t.me/bob",
        "a @ b",
        "at 5 @",
    ],
)
def test_what_is_no_name_stays_as_it_is_on_telegram(markdown: str) -> None:
    (chunk,) = render_telegram(markdown)
    assert "\u200b" not in chunk.text


names = st.sampled_from(["bob_smith", "Gif", "b0b", "é", "a b", "", "x.com", "`ana_lee`", "*cy_young*"])
called = st.builds(
    "{}{}@{}{}".format,
    st.sampled_from(["", " ", "(", "/", "x", "é", ".", "-", "/go", "`", "**", "#", "@", "中", "\u200d"]),
    st.sampled_from(
        [
            *("", "", "", "https://e.test/", "http://e.com/a?b=", "HTTPS://e.com/", "https://e.com:80/"),
            *("e.com/", "http://localhost/", "https://e_e.com/", "e.comhttps://e.com/", 'https://e.com/"/'),
            *("tg://", "mailto:", "ana", "https://e.c", "https://e.com/é/", "https://ana@e.com/", "http"),
        ]
    ),
    names,
    st.sampled_from(["", " ", "`", "**", "@", ".", "/", ")", "\n", "\n\n"]),
)
calling = st.one_of(
    st.lists(called, min_size=1, max_size=12).map("".join),
    any_markdown.map(lambda text: text.replace("a", "@bob_smith").replace("1", "@")),
)


@thorough
@given(markdown=calling, limit=limits)
def test_telegrams_own_library_finds_nobody_to_notify_in_any_markdown(markdown: str, limit: int) -> None:
    """Code and addresses keep their signs: what overlaps those is no call."""
    for chunk in render_telegram(markdown, limit):
        request = {"@type": "getTextEntities", "text": chunk.text}
        found = json.loads(td_execute(json.dumps(request).encode()) or b"{}")["entities"]
        code = [one for one in chunk.entities if one.kind in ("code", "pre")]
        called = [
            one
            for one in found
            if one["type"]["@type"] == "textEntityTypeMention"
            and not any(
                one["offset"] < span.offset + span.length and span.offset < one["offset"] + one["length"]
                for span in code
            )
        ]

        assert not [one for one in called if _name(chunk, one["offset"])[1:2].isalpha()], chunk.text
        assert calling_nobody(chunk) == chunk


def _name(chunk: Chunk, offset: int) -> str:
    """What stands from there on; no name of anybody begins with a digit."""
    return chunk.text.encode("utf-16-le")[2 * offset :].decode("utf-16-le")


def test_telegram_messages_hold_at_most_100_entities() -> None:
    chunks = render_telegram("**b** x " * 250)

    assert [len(chunk.entities) for chunk in chunks] == [100, 100, 50]


_TD_KINDS = {
    "bold": "Bold",
    "italic": "Italic",
    "strikethrough": "Strikethrough",
    "code": "Code",
    "pre": "Pre",
    "blockquote": "BlockQuote",
    "text_link": "TextUrl",
}


def styles_of_units(spans: list[tuple[str, int, int]], text: str) -> list[set[str]]:
    """The kinds that cover each UTF-16 unit that can be seen."""
    styles: list[set[str]] = [set() for _ in range(utf16_units(text))]
    for kind, offset, length in spans:
        for unit in range(offset, offset + length):
            styles[unit].add(kind)
    wide = text.encode("utf-16-le")
    return [
        one
        for at, one in enumerate(styles)
        if wide[2 * at : 2 * at + 2].decode("utf-16-le", "replace").strip()
    ]


telegram_words = st.text(alphabet="ab 中😀é\u0301.", max_size=20).map("x{}y".format)
telegram_inlines = st.one_of(
    telegram_words,
    *(telegram_words.map(form.format) for form in ("**{}**", "*{}*", "`{}`", "~~{}~~", "**a *{}* `c`**")),
    telegram_words.map("[a {} **b** `c`](https://e.test)".format),
)
telegram_documents = st.lists(
    st.one_of(
        st.lists(telegram_inlines, min_size=1, max_size=5).map(" ".join),
        telegram_inlines.map("> {}\n>\n> ~~~py\n> x\n> ~~~".format),
        telegram_inlines.map("- {}\n  - b".format),
        telegram_words.map("~~~\n{}\n~~~".format),
    ),
    min_size=1,
    max_size=4,
).map("\n\n".join)


@thorough
@given(markdown=telegram_documents, limit=limits)
def test_telegrams_own_library_keeps_every_style_that_we_send(markdown: str, limit: int) -> None:
    """TDLib repairs entities that cross or nest wrongly; what it returns must look as what we sent."""
    for chunk in render_telegram(markdown, limit):
        entities = []
        for one in chunk.entities:
            kind = {"@type": f"textEntityType{_TD_KINDS[one.kind]}", "url": one.url or ""}
            entities.append({"@type": "textEntity", "offset": one.offset, "length": one.length, "type": kind})
        text = {"@type": "formattedText", "text": chunk.text, "entities": entities}
        request = {"@type": "parseMarkdown", "text": text}
        kept = json.loads(td_execute(json.dumps(request).encode()) or b"{}")

        assert kept["@type"] == "formattedText", kept
        sent_spans = [(_TD_KINDS[one.kind], one.offset, one.length) for one in chunk.entities]
        kept_spans = [
            (one["type"]["@type"].removeprefix("textEntityType"), one["offset"], one["length"])
            for one in kept["entities"]
        ]
        lead = utf16_units(chunk.text) - utf16_units(chunk.text.lstrip()) if kept["text"] != chunk.text else 0
        assert kept["text"].strip() == chunk.text.strip()
        assert styles_of_units(kept_spans, kept["text"]) == styles_of_units(sent_spans, chunk.text) or lead


def test_discord_reopens_a_fence_with_its_marker_and_language() -> None:
    code = "\n".join(f"line {n} ``` end" for n in range(200))

    chunks = render_discord(f"````python\n{code}\n````")

    assert len(chunks) > 1
    assert all(text.startswith("````python\n") and text.endswith("\n````") for text in texts(chunks))


@pytest.mark.parametrize(
    "mention", ["@everyone", "@here", "<@123>", "<@!123>", "<@&456>", "<#789>", "**@everyone**"]
)
def test_nothing_the_model_writes_is_a_mention_on_discord(mention: str) -> None:
    (chunk,) = render_discord(f"hello {mention} and [{mention}](https://e.test/@everyone)")

    assert not re.search(r"@everyone|@here|<@!?&?\d+>|<#\d+>", chunk.text)


@thorough
@given(markdown=any_markdown, limit=limits)
def test_no_mention_of_any_markdown_reaches_discord_outside_code(markdown: str, limit: int) -> None:
    for text in texts(render_discord(markdown.replace("a", "@everyone").replace("b", "<@&1>"), limit)):
        without_code = re.sub(r"\\.|(`+)[^`](?:.*?[^`])??\1(?!`)", "", text, flags=re.DOTALL)

        assert not re.search(r"@everyone|@here|<@!?&?\d+>|<#\d+>", without_code)


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("\\# no heading", "\\# no heading"),
        ("1\\. no list", "1\\. no list"),
        ("\\> no quote", "\\> no quote"),
        ("\\- no list", "\\- no list"),
        ("\\-# small", "\\-# small"),
        ("||no spoiler||", "\\|\\|no spoiler\\|\\|"),
        ("__b__ *i* ~~s~~ `c`", "**b** _i_ ~~s~~ `c`"),
        ("foo*bar*baz", "foo*bar*baz"),
        ("[t](https://e.test/a_(b))", "[t](https://e.test/a_%28b%29)"),
        ("<https://e.test/a_b>", "<https://e.test/a_b>"),
        ("see https://e.test/a_b_c now_", "see https://e.test/a_b_c now\\_"),
        ("![a cat](https://e.test/c.png)", "[a cat](https://e.test/c.png)"),
        ("[local](file.txt)", "local (file.txt)"),
        ("# Title\n\n---", "**Title**\n\n──────────"),
        ("- a\n- b\n  1. c", "- a\n- b\n  1. c"),
        ("> a\n>\n> b", "> a\n> \n> b"),
    ],
)
def test_discord_is_written_in_its_own_dialect(markdown: str, text: str) -> None:
    assert texts(render_discord(markdown)) == [text]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (
            "**b** and *i* [site](https://e.test/?a=1&b=2) ~~s~~",
            "*b* and _i_ <https://e.test/?a=1&amp;b=2|site> ~s~",
        ),
        ("```\n**b** [s](u) <!channel> &&\n```", "```\n**b** [s](u) &lt;!channel&gt; &amp;&amp;\n```"),
        ("`vector<int>` && &lt;", "`vector&lt;int&gt;` &amp;&amp; &amp;lt;"),
        ("<!here|x> <@U123> <#C1>", "&lt;!here|x&gt; &lt;@U123&gt; &lt;#C1&gt;"),
        ("foo**bar**baz", f"foo{ZERO_WIDTH}*bar*{ZERO_WIDTH}baz"),
        ("\\*not bold\\*", f"*{ZERO_WIDTH}not bold*"),
        ("- a\n  - b", "• a\n  • b"),
        ("# Title", "*Title*"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("[mail](mailto:a@e.test)", "<mailto:a@e.test|mail>"),
    ],
)
def test_slack_is_written_in_its_own_dialect(markdown: str, text: str) -> None:
    assert texts(render_slack(markdown)) == [text]


@thorough
@given(markdown=any_markdown)
def test_every_control_sequence_in_slack_text_is_a_link_of_ours(markdown: str) -> None:
    for text in texts(render_slack(markdown, 200)):
        without_links = re.sub(r"<(?:https?://|mailto:)[^<>\n]*>", "", text)

        assert "<" not in without_links
        assert not re.search(r"(?<!&lt;)(?<!&gt;)>", re.sub(r"(?m)^> ?", "", without_links))
        assert not re.search(r"&(?!amp;|lt;|gt;)", without_links)


def test_plain_text_has_no_marks_and_spells_out_addresses() -> None:
    markdown = "# Head\n\n**b** [l](https://e.test)\n\n> q\n\n- a\n\n```py\n  x\n```"

    assert render_plain(markdown) == "Head\n\nb l (https://e.test)\n\n> q\n\n• a\n\n  x"


def test_plain_tables_keep_within_the_width() -> None:
    table = "| name | note |\n|---|---|\n| one | two words |"

    assert render_plain(table, 20) == "name  note\n────  ─────────\none   two words"
    assert render_plain(table, 12) == "one\n• note: two words"


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@pytest.mark.parametrize(
    "text",
    ["[" * 3000, "*a " * 3000, "a " + "`" * 5000, "> " * 3000 + "x", "](" * 3000, "e" + "\u0301" * 9000],
)
def test_hostile_text_ends_and_nothing_of_it_is_too_long(
    render: Renderer, size: Callable[[str], int], read: object, text: str
) -> None:
    chunks = render(text, 500)

    assert chunks
    assert all(size(chunk.text) <= 500 for chunk in chunks)


def test_an_address_is_spelled_out_once_in_a_text_and_cut_where_nobody_reads_on() -> None:
    address = "mailto:" + "y" * 3000

    text = render_plain(f"[a]: {address}\n\n" + "[a] " * 60)

    assert text.count("mailto:") == 1
    assert len(text) < 500


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("https://e.test/a`code`", "<https://e.test/a>`code`"),
        ("see https://e.test/a.**bold**", "see <https://e.test/a>.**bold**"),
        ("https://e.test/a `code`", "https://e.test/a `code`"),
        ("`code`https://e.test/a", "`code`https://e.test/a"),
        ("**see https://e.test/a`code`**", "**see <https://e.test/a>`code`**"),
        ("# see https://e.test/a*b*", "**see <https://e.test/a>*b***"),
    ],
)
def test_an_address_on_discord_ends_before_a_mark_that_touches_it(markdown: str, written: str) -> None:
    assert texts(render_discord(markdown)) == [written]
