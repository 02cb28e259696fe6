"""What people see of an answer on each platform: all of it, in order, within the limits, code untouched.

The readers below are small models of what the platforms do with text: they share nothing with the renderers.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from tdjson import td_execute

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.discord import render_discord
from trunkline.adapters.markup.plain import render_plain
from trunkline.adapters.markup.slack import render_slack
from trunkline.adapters.markup.telegram import render_telegram

ZERO_WIDTH = "\u200b"


def utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def utf8_bytes(text: str) -> int:
    return len(text.encode())


# --- readers: what a platform would show -----------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """The visible text of all chunks, and the code blocks of each in order."""

    text: str
    code: tuple[str, ...]


def read_telegram(chunks: tuple[Chunk, ...]) -> Shown:
    code: list[str] = []
    for chunk in chunks:
        units = chunk.text.encode("utf-16-le")
        for entity in chunk.entities:
            piece = units[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")
            if entity.kind == "pre":
                code.append(piece)
    return Shown("\n".join(chunk.text for chunk in chunks), tuple(code))


_FENCE = re.compile(r"^(`{3,})([^`\n]*)\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)


def read_fences(
    text: str, prose: Callable[[str], str], code_text: Callable[[str], str] = str
) -> tuple[str, list[str]]:
    shown: list[str] = []
    code: list[str] = []
    at = 0
    for match in _FENCE.finditer(text):
        code.append(code_text(match[3]))
        shown += [prose(text[at : match.start()]), code[-1]]
        at = match.end()
    shown.append(prose(text[at:]))
    return "".join(shown), code


_DISCORD_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("escape", re.compile(r"\\([^0-9A-Za-z\s])")),
    ("autolink", re.compile(r"<(https?://[^\s>]+)>")),
    ("address", re.compile(r"(https?://[^\s<]+[^<.,:;\"')\]\s])")),
    ("code", re.compile(r"(`+)([^\n]*?[^`\n])\1(?!`)")),
    ("link", re.compile(r"\[((?:\\.|[^\]\\])*)\]\((https?://[^\s()]+)\)")),
    ("strong", re.compile(r"\*\*((?:\\.|[^\\])+?)\*\*(?!\*)")),
    ("strike", re.compile(r"~~((?:\\.|[^\\])+?)~~(?!_)")),
    ("em", re.compile(r"(?a:\b)_((?:__|\\.|[^\\_])+?)_(?a:\b)")),
    ("em", re.compile(r"\*(?=\S)((?:\*\*|\\.|\s+(?:\\.|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)")),
)


def read_discord_line(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        for name, rule in _DISCORD_RULES:
            match = rule.match(text[at:])
            if match is None:
                continue
            if name == "code":
                out.append(re.sub(r"^ (?= *`)|(` *) $", r"\1", match[2]))
            elif name in ("escape", "autolink", "address"):
                out.append(match[1])
            else:
                out.append(read_discord_line(match[1]))
            at += match.end()
            break
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def read_discord(chunks: tuple[Chunk, ...]) -> Shown:
    texts: list[str] = []
    code: list[str] = []

    def prose(text: str) -> str:
        lines = (re.sub(r"^> ?", "", line) for line in text.split("\n"))
        return "\n".join(read_discord_line(re.sub(r"^(\s*)- ", r"\1• ", line)) for line in lines)

    for chunk in chunks:
        text, pieces = read_fences(chunk.text, prose)
        texts.append(text)
        code += pieces
    return Shown("\n".join(texts), tuple(code))


_SLACK_MARK = re.compile(r"(?<![^\W_])([*_~])(?=[^\s\u200b])([^\n]*?[^\s])\1(?![^\W_])")
_SLACK_TOKEN = re.compile(r"`([^`\n]+)`|<([^<>|\n]+)(?:\|([^<>\n]+))?>")


def read_slack_line(text: str) -> str:
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[1] or match[3] or match[2])
        return f"\ue000{len(kept) - 1}\ue001"

    text = _SLACK_TOKEN.sub(keep, text)
    while True:
        unmarked = _SLACK_MARK.sub(r"\2", text)
        if unmarked == text:
            break
        text = unmarked
    text = re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], text)
    return unescape(text)


def unescape(text: str) -> str:
    return text.replace("\u02cb", "`").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def read_slack(chunks: tuple[Chunk, ...]) -> Shown:
    texts: list[str] = []
    code: list[str] = []

    def prose(text: str) -> str:
        return "\n".join(read_slack_line(re.sub(r"^> ?", "", line)) for line in text.split("\n"))

    for chunk in chunks:
        text, pieces = read_fences(chunk.text, prose, unescape)
        texts.append(text)
        code += pieces
    return Shown("\n".join(texts), tuple(code))


# --- what the source says --------------------------------------------------------------------------------

_commonmark = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 60})
    .enable(["table", "strikethrough"])
    .disable(["entity"])
)


def tokens_of(markdown: str) -> list[Token]:
    return _commonmark.parse(markdown)


def visible(markdown: str) -> str:
    """The text a reader of the source's rendering sees, with list marks and rules as we draw them."""
    out: list[str] = []
    numbers: list[int | None] = []
    for token in tokens_of(markdown):
        if token.type in ("fence", "code_block"):
            language, _, caption = token.info.strip().partition(" ")
            simple = re.fullmatch(r"[A-Za-z0-9_+\-.#]{1,32}", language)
            out += [caption if simple else token.info, token.content]
        elif token.type == "bullet_list_open":
            numbers.append(None)
        elif token.type == "ordered_list_open":
            numbers.append(int(token.attrs.get("start", 1)))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
        elif token.type == "list_item_open":
            number = numbers[-1]
            out.append("•" if number is None else f"{number}.")
            numbers[-1] = None if number is None else number + 1
        elif token.type == "hr":
            out.append("─" * 10)
        elif token.type == "inline":
            out += inline_text(token.children or [])
    return "".join(out)


def inline_text(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "image":
            yield "".join(inline_text(token.children or [])) or str(token.attrs["src"])
        elif token.type in ("text", "text_special", "code_inline"):
            yield token.content


def squeezed(text: str) -> str:
    """The text without what layout may change: spaces and invisible marks."""
    return "".join(
        char for char in text if not char.isspace() and unicodedata.category(char) not in ("Cc", "Cf")
    )


def code_of(markdown: str) -> list[str]:
    return [
        token.content.removesuffix("\n")
        for token in tokens_of(markdown)
        if token.type in ("fence", "code_block") and squeezed(token.content)
    ]


def assert_code_is_whole(pieces: tuple[str, ...], blocks: list[str]) -> None:
    """Each block is its pieces in order, with at most the line end at a cut left out."""
    rest = list(pieces)
    for block in blocks:
        at = 0
        while at < len(block):
            assert rest, f"code ends early: {block[at:]!r} is missing"
            piece = rest.pop(0)
            assert block.startswith(piece, at)
            at += len(piece)
            at += block[at : at + 1] == "\n"
    assert rest == []


# --- any Markdown ----------------------------------------------------------------------------------------

words = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co"]), min_size=1, max_size=12),
    st.sampled_from(
        ["word", "snake_case_name", "你好", "世界。", "👨\u200d👩\u200d👧", "e\u0301", "🇨🇭", "5 > 3"]
    ),
    st.sampled_from(["@everyone", "<@123>", "<!channel>", "&lt;", "a & b", "2*3*4", "\\*", "`", "```"]),
    st.just("https://e.test/a_b"),
)
sentences = st.lists(words, min_size=1, max_size=12).map(" ".join)
inlines = st.one_of(
    sentences,
    sentences.map("**{}**".format),
    sentences.map("*{}*".format),
    sentences.map("~~{}~~".format),
    sentences.map("`{}`".format),
    sentences.map("**a *{}* b**".format),
    sentences.map("[{}](https://e.test)".format),
)
paragraphs = st.lists(inlines, min_size=1, max_size=6).map(" ".join)
code_line = st.text(alphabet="ab{}()<>&`\\ \t*_", max_size=60)
code_lines = st.lists(code_line, min_size=1, max_size=12).map("\n".join)
blocks = st.one_of(
    paragraphs,
    paragraphs.map("## {}".format),
    paragraphs.map("> {}".format),
    st.lists(paragraphs, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    st.lists(paragraphs, min_size=1, max_size=4).map(lambda items: "\n".join(f"7. {item}" for item in items)),
    st.lists(paragraphs, min_size=2, max_size=3).map(lambda items: f"- {items[0]}\n  - {items[1]}"),
    code_lines.map("~~~~~python\n{}\n~~~~~".format),
    st.just("---"),
)
documents = st.lists(blocks, min_size=1, max_size=6).map("\n\n".join)
signs = st.text(alphabet="*_~`[]()<>#-+>|\\ \n\tab1.&!@:é中😀\u200d", max_size=300)
noise = st.one_of(st.text(max_size=300), signs)
any_markdown = st.one_of(documents, noise)
limits = st.integers(min_value=40, max_value=400)

Renderer = Callable[[str, int], tuple[Chunk, ...]]
PLATFORMS = [
    pytest.param(render_telegram, utf16_units, read_telegram, id="telegram"),
    pytest.param(render_discord, len, read_discord, id="discord"),
    pytest.param(render_slack, utf8_bytes, read_slack, id="slack"),
]
thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(markdown=any_markdown, limit=limits)
@example(markdown="a" * 500 + "👨\u200d👩\u200d👧" * 60, limit=40)
@example(markdown="e" + "\u0301" * 500, limit=40)
@example(markdown="`" * 300, limit=41)
@example(markdown="[a](https://e.test/" + "x" * 500 + ")", limit=40)
@example(markdown="- " * 40 + "deep", limit=40)
@example(markdown=">" * 80 + " deep", limit=40)
def test_no_chunk_is_blank_or_over_the_limit(
    render: Renderer, size: Callable[[str], int], read: object, markdown: str, limit: int
) -> None:
    chunks = render(markdown, limit)

    assert all(size(chunk.text) <= limit and squeezed(chunk.text) for chunk in chunks)
    assert bool(chunks) or not squeezed(visible(markdown))


def has_what_is_laid_out_anew(markdown: str) -> bool:
    """Tables, addresses that are spelled out or shortened, and definitions: they have tests of their own."""
    tokens = tokens_of(markdown)
    env: dict[str, object] = {}
    _commonmark.parse(markdown, env)
    inner = [child for token in tokens for child in token.children or ()]
    links = [child for child in inner if child.type in ("image", "link_open")]
    spelled = any(link.attrs.get("href") != "https://e.test" for link in links) or (
        links and any("://" in child.content for child in inner)
    )
    too_deep = any(token.level >= 59 for token in tokens)
    return bool(spelled or too_deep or env) or any(token.type == "table_open" for token in tokens)


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(markdown=any_markdown, limit=limits)
@example(markdown="**a\\* b** c*", limit=100)
@example(markdown="***a** b*", limit=100)
@example(markdown="- - a\n\n      code", limit=100)
def test_everything_visible_in_the_source_is_shown_in_order(
    render: Renderer, size: object, read: Callable[[tuple[Chunk, ...]], Shown], markdown: str, limit: int
) -> None:
    if has_what_is_laid_out_anew(markdown):
        return

    shown = read(render(markdown, limit)).text

    assert squeezed(shown) == squeezed(visible(markdown))


@pytest.mark.parametrize(("render", "size", "read"), PLATFORMS)
@thorough
@given(code=code_lines, limit=limits, before=paragraphs)
def test_code_keeps_every_byte_over_any_number_of_parts(
    render: Renderer,
    size: object,
    read: Callable[[tuple[Chunk, ...]], Shown],
    code: str,
    limit: int,
    before: str,
) -> None:
    if render is not render_telegram:
        code = code.replace("`", "'")
    markdown = f"before\n\n~~~~~py\n{code}\n~~~~~\n\nafter"

    shown = read(render(markdown, limit))

    pieces = tuple(piece.replace(ZERO_WIDTH, "") for piece in shown.code)
    assert_code_is_whole(pieces, code_of(markdown))


# --- what the field reported -----------------------------------------------------------------------------


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
def test_a_limit_too_small_for_anything_is_refused(render: Renderer, size: object, read: object) -> None:
    with pytest.raises(ValueError, match="at least 40"):
        render("text", 39)


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
    rows = [[re.sub(r"[^\w ]|_", "", cell) for cell in row] for row in cells]
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
