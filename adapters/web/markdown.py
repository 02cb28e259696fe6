"""Answers as HTML for the page: no markup of the model's own, no picture fetched, links without referrer."""

import re
from collections.abc import Sequence
from html import escape

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from trunkline.adapters.markup.grammar import References, new_parser, read_whole, unused_references

_SAFE = ("http://", "https://", "mailto:")
_OWN_FILE = re.compile(r"/c/[A-Za-z0-9_-]{1,64}/files/[0-9a-f]{64}/[^/?#]*\Z")
_ADDRESS = re.compile(r"https?://[^\s<>\"']+[^\s<>\"'.,:;!?)\]，。；：！？）】》]")
_LINK = '<a href="{}" target="_blank" rel="noopener noreferrer nofollow">{}</a>'


class _Renderer(RendererHTML):
    """The library's renderer with our links, tables that scroll, and code with its language on top."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        if env.get("in_link"):
            return escape(tokens[idx].content)
        return _with_addresses(tokens[idx].content)

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        env["in_link"] = True
        address = str(tokens[idx].attrs.get("href", ""))
        return _LINK.format(escape(address if _leads_somewhere(address) else ""), "").removesuffix("</a>")

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        env["in_link"] = False
        return "</a>"

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        address = str(tokens[idx].attrs.get("src", ""))
        text = escape(tokens[idx].content or address)
        return (
            _LINK.format(escape(address), text)
            if address.startswith(_SAFE) and not env.get("in_link")
            else text
        )

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        words = tokens[idx].info.split()
        return _code(tokens[idx].content, words[0] if words else "")

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _code(tokens[idx].content, "")

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return '<div class="table" tabindex="0"><table>'

    def table_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return "</table></div>"

    def _cell(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        align = str(tokens[idx].attrs.get("style", "")).removeprefix("text-align:")
        return f'<{tokens[idx].tag} class="{escape(align or "left")}">'

    th_open = _cell
    td_open = _cell


def _leads_somewhere(address: str) -> bool:
    return address.startswith(_SAFE) or _OWN_FILE.match(address) is not None


def _code(text: str, language: str) -> str:
    return (
        f'<figure class="code"><figcaption>{escape(language[:32])}</figcaption>'
        f'<pre tabindex="0"><code>{escape(text)}</code></pre></figure>\n'
    )


def _with_addresses(text: str) -> str:
    out: list[str] = []
    at = 0
    for match in _ADDRESS.finditer(text):
        out += [escape(text[at : match.start()]), _LINK.format(escape(match[0]), escape(match[0]))]
        at = match.end()
    return "".join(out) + escape(text[at:])


_markdown = new_parser(_Renderer, breaks=True)


def to_html(markdown: str) -> str:
    """Safe HTML of an answer: everything the model wrote is text, in our own elements."""
    env: dict[str, References] = {}
    tokens = read_whole(_markdown, markdown, env)
    if tokens is None:
        return _code(markdown, "")
    html: str = _markdown.renderer.render(tokens, _markdown.options, env)
    return html + "".join(f"<p>{escape(line)}</p>\n" for line in unused_references(markdown, tokens, env))
