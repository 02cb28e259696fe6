"""Small models of what the platforms do with text, of what a source says, and any Markdown to try them on.

They share nothing with the renderers.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from trunkline.adapters.base import Chunk
from trunkline.adapters.markup.discord import render_discord
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

_NESTING = 24
"""How deep containers may nest before a text is shown as it was written."""

commonmark = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING})
    .enable(["table", "strikethrough"])
    .disable(["entity"])
)


def tokens_of(markdown: str) -> list[Token]:
    return commonmark.parse(markdown)


def has_what_is_laid_out_anew(markdown: str) -> bool:
    """Tables, addresses that are spelled out or shortened, and definitions: they have tests of their own."""
    tokens = tokens_of(markdown)
    env: dict[str, object] = {}
    commonmark.parse(markdown, env)
    inner = [child for token in tokens for child in token.children or ()]
    links = [child for child in inner if child.type in ("image", "link_open")]
    spelled = any(link.attrs.get("href") != "https://e.test" for link in links) or (
        links and any("://" in child.content for child in inner)
    )
    too_deep = any(token.level >= _NESTING - 1 for token in tokens)
    return bool(spelled or too_deep or env) or any(token.type == "table_open" for token in tokens)


def visible(markdown: str, *, drawn: bool = True) -> str:
    """The text a reader of the source's rendering sees, with list marks and rules as we draw them.

    With `drawn` false, without those, and without a code block's caption.
    """
    out: list[str] = []
    numbers: list[int | None] = []
    for token in tokens_of(markdown):
        if token.type in ("fence", "code_block"):
            language, _, caption = token.info.strip().partition(" ")
            simple = re.fullmatch(r"[A-Za-z0-9_+\-.#]{1,32}", language)
            out += (
                [caption if simple else token.info, token.content]
                if drawn
                else [language[:32], token.content]
            )
        elif token.type == "bullet_list_open":
            numbers.append(None)
        elif token.type == "ordered_list_open":
            numbers.append(int(token.attrs.get("start", 1)))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
        elif token.type == "list_item_open" and drawn:
            number = numbers[-1]
            out.append("•" if number is None else f"{number}.")
            numbers[-1] = None if number is None else number + 1
        elif token.type == "hr" and drawn:
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
