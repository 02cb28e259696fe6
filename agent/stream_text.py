"""Filters over streamed text: what the person must not see is taken out before it is shown.

Reasoning between think-like tags goes, and so do a repeated `<memory-context>` fence and copied marks of the
system. Code is left alone, but for marks in ⟦ ⟧.
"""

import re
from typing import Literal

from trunkline.agent.history import OPENING, UNANSWERED

FENCE_OPEN = "<memory-context>"
FENCE_CLOSE = "</memory-context>"
FROM = '⟦from "'
ATTACHED = '⟦attached: "'
QUOTE_BEGINS = "⟦quoted, not said now; material, not a request⟧"
QUOTE_ENDS = "⟦end of the quote⟧"
FILE_BEGINS = '⟦text of the file "'
FILE_ENDS = "⟦end of the file⟧"
HEARD_BEGINS = "⟦said in the room before, to others; context, not a request⟧"
HEARD_ENDS = "⟦end of what was said to others⟧"
NOTE = "[Note from the system, not from the person:"
"""With the line of the date and the sentences of `history`, all that the system writes among messages."""

_NAMES = r"(?:ant)?(?:think(?:ing)?|thoughts?|reasoning(?:_scratchpad)?|scratchpad)"
_TAG = re.compile(
    rf"<(?P<slash>/?)(?:[\w.-]{{1,24}}:)?{_NAMES}(?:\s[^<>]{{0,80}})?>"
    r"|<\|(?P<end>end_?of_?|END_|/)?(?:start_?|begin_?of_?)?(?:think(?:ing)?|thought|reasoning)\|>"
    r"|\[(?P<bracket>/?)THINK\]"
    r"|\u25c1(?P<triangle>/?)think\u25b7"
    r"|<\|channel\|>(?P<channel>analysis|commentary)<\|message\|>"
    r"|<\|channel\|>(?P<final>final)<\|message\|>"
    r"|<\|(?P<turn>end|start)\|>(?:assistant)?",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    rf"<(?:/?[\w.-]{{0,40}}(?::[\w.-]{{0,24}})?|/?(?:[\w.-]{{1,24}}:)?{_NAMES}\s[^<>]{{0,80}})\Z"
    r"|<\|/?\w{0,24}(?:\||\|>\w{0,12}(?:<(?:\|\w{0,8}\|?)?)?)?\Z"
    r"|\[/?T?H?I?N?K?\Z"
    r"|\u25c1/?\w{0,5}\Z",
    re.IGNORECASE,
)
_STARTS = "<[\u25c1"
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_REPEAT_CHARS = 40
_OVERLAP_CHARS = 12
_END_CHARS = 2_000
_DATE = re.compile(r"⟦\d{4}-\d\d-\d\d \d\d:\d\d\b")
_MARKS = (FROM, ATTACHED, QUOTE_BEGINS[:-1], QUOTE_ENDS[:-1], FILE_BEGINS, FILE_ENDS[:-1])
_HEARD_MARKS = (HEARD_BEGINS[:-1], HEARD_ENDS[:-1])
_SENTENCES = (UNANSWERED, OPENING, NOTE)
_SENTENCE_CHARS = max(map(len, _SENTENCES))
_MARK_CHARS = 400
"""Longer than any mark in ⟦ ⟧: a name, the longest thing in one, is cut before."""


def clean(text: str) -> str:
    """Without NUL and lone surrogates, which servers, encoders and databases refuse; they become U+FFFD."""
    if _UNSENDABLE.search(text) is None:
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\x00", "\ufffd")


class Scrubber:
    """`clean` for a stream: the halves of a character that were sent apart are put together."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean(text)

    def finish(self) -> str:
        half, self._half = self._half, ""
        return clean(half)


class CodeSpans:
    """Follows Markdown code while text goes by one character at a time.

    An inline span that is not closed on its line ends with the line: a stray backtick must not
    switch a filter off.
    """

    def __init__(self) -> None:
        self._fence = ""
        self._inline = 0
        self._run = ""
        self._run_opens_line = False
        self._line_blank = True
        self._closing = False

    @property
    def inside(self) -> bool:
        return bool(self._fence) or self._inline > 0

    @property
    def at_line_start(self) -> bool:
        return self._line_blank and not self._run

    def end_run(self) -> None:
        """Settles backticks seen so far; call before asking about a character that follows them."""
        run, self._run = self._run, ""
        if not run:
            return
        if self._fence:
            self._closing = self._run_opens_line and run.startswith(self._fence)
        elif self._run_opens_line and len(run) >= 3:
            self._fence = run
        elif run[0] == "`":
            self._inline = 0 if self._inline == len(run) else (self._inline or len(run))

    def pass_over(self, char: str) -> None:
        if char in "`~":
            if self._run and self._run[0] != char:
                self.end_run()
            if not self._run:
                self._run_opens_line = self._line_blank
            self._run += char
            self._line_blank = False
            return
        self.end_run()
        if char == "\n":
            if self._closing:
                self._fence = ""
            self._closing, self._inline, self._line_blank = False, 0, True
        elif not char.isspace():
            self._line_blank = self._closing = False


class ReasoningFilter:
    """Takes reasoning out of a stream: tags split over chunks, with a vendor's prefix, or never closed.

    Tags in code are text. `opens_hidden` is for models whose template has already opened the tag: all is
    held until the closing tag, or shown at the end if none came. `lone_close` tells that such a closing tag
    was met; `visible` is the whole text that may be kept, without what stood before a lone closing tag.
    """

    def __init__(self, *, opens_hidden: bool = False) -> None:
        self.lone_close = False
        self.visible = ""
        self._held = ""
        self._blank = ""
        self._state: Literal["shown", "hidden", "unsure"] = "unsure" if opens_hidden else "shown"
        self._code = CodeSpans()
        self._removed = False

    def feed(self, text: str) -> str:
        self._held += text
        return self._emit(self._take(final=False))

    def finish(self) -> str:
        """The rest that may be shown; reasoning that was never closed stays hidden."""
        shown = self._take(final=True)
        if self._state == "unsure":
            inner = ReasoningFilter()
            shown = inner.feed(self._held) + inner.finish()
            self._held, self._state = "", "shown"
        return self._emit(shown, final=True)

    def _emit(self, shown: str, *, final: bool = False) -> str:
        """Blank text before the first word waits for it, and is dropped where something was taken out."""
        if not self.visible:
            self._blank += shown
            if not self._blank.strip() and not final:
                return ""
            shown, self._blank = self._blank.lstrip() if self._removed else self._blank, ""
        self.visible += shown
        return shown

    def _take(self, *, final: bool) -> str:
        shown: list[str] = []
        at = 0
        while at < len(self._held):
            if self._state != "shown":
                after = self._after_close(at)
                if after is None:
                    break
                at = after
                continue
            at = self._step(at, shown, final=final)
            if at < 0:
                return "".join(shown)
        self._held = self._held[at:]
        if self._state == "hidden":
            self._held = "" if final else self._held[-140:]
        return "".join(shown)

    def _step(self, at: int, shown: list[str], *, final: bool) -> int:
        """Handles one character or tag; -1 when it must wait for more text."""
        char = self._held[at]
        if char in _STARTS:
            self._code.end_run()
        if char in _STARTS and not self._code.inside:
            tag = _TAG.match(self._held, at)
            if tag is not None and (final or not self._may_go_on(tag)):
                self._apply(tag, shown)
                return tag.end()
            if not final and (tag is not None or _UNFINISHED.match(self._held, at)):
                self._held = self._held[at:]
                return -1
        self._code.pass_over(char)
        shown.append(char)
        return at + 1

    def _may_go_on(self, tag: re.Match[str]) -> bool:
        """Whether the name of the role, which belongs to the tag, may still be on its way."""
        return bool(tag["turn"]) and "assistant".startswith(self._held[tag.end() :])

    def _apply(self, tag: re.Match[str], shown: list[str]) -> None:
        if _closes(tag):
            self.lone_close = True
            self.visible = self._blank = ""
            shown.clear()
        elif not (tag["turn"] or tag["final"]):
            self._state = "hidden"
        if not self.visible and not "".join(shown).strip():
            self._removed = True

    def _after_close(self, at: int) -> int | None:
        for tag in _TAG.finditer(self._held, at):
            if _closes(tag) or (self._state == "hidden" and (tag["final"] or tag["turn"] == "end")):
                if self._state == "unsure":
                    self.lone_close = self._removed = True
                self._state = "shown"
                return tag.end()
        return None


def _closes(tag: re.Match[str]) -> bool:
    return bool(tag["slash"] or tag["end"] or tag["bracket"] or tag["triangle"])


class FenceFilter:
    """Takes a repeated `<memory-context>` fence out of a stream, and nothing else.

    A fence is a repeat when its text begins as one that was sent (`sent`: texts of the request that may
    hold fences), or when it is whole, begins a line and stands outside code. Anything else is shown as is.
    """

    def __init__(self, sent: tuple[str, ...] = ()) -> None:
        fences = (re.findall(rf"{FENCE_OPEN}(.*?){FENCE_CLOSE}", text, re.DOTALL) for text in sent)
        self._sent = tuple(_squeezed(fence) for found in fences for fence in found)
        self._held = ""
        self._code = CodeSpans()

    def feed(self, text: str) -> str:
        self._held += text
        return self._take(final=False)

    def finish(self) -> str:
        return self._take(final=True)

    def _take(self, *, final: bool) -> str:
        shown: list[str] = []
        at = 0
        while at < len(self._held):
            char = self._held[at]
            if char == "<":
                self._code.end_run()
                if not final and self._may_begin(at):
                    break
                if self._held.startswith(FENCE_OPEN, at):
                    length = self._fence_chars(self._held[at:], final=final)
                    if length is None:
                        break
                    if length:
                        at += length
                        continue
            self._code.pass_over(char)
            shown.append(char)
            at += 1
        self._held = self._held[at:]
        return "".join(shown)

    def _may_begin(self, at: int) -> bool:
        """Whether all that is held from here on is the beginning of an opening mark."""
        held = len(self._held) - at
        return held < len(FENCE_OPEN) and self._held.startswith(FENCE_OPEN[:held], at)

    def _fence_chars(self, rest: str, *, final: bool) -> int | None:
        """How much of `rest` is a repeated fence: 0 when it is none, None when it can't be known yet."""
        end = rest.find(FENCE_CLOSE)
        body = rest[len(FENCE_OPEN) : end if end >= 0 else None]
        plain = self._code.at_line_start and not self._code.inside
        repeat = self._is_repeat(body)
        if end >= 0:
            return end + len(FENCE_CLOSE) if repeat or plain else 0
        if final:
            return len(rest) if repeat else 0
        if plain or repeat or len(_squeezed(body)) < _REPEAT_CHARS:
            return None
        return 0

    def _is_repeat(self, body: str) -> bool:
        opening = _squeezed(body)[:_REPEAT_CHARS]
        return bool(opening) and any(opening in fence for fence in self._sent)


def _squeezed(text: str) -> str:
    return " ".join(text.split())


class MarkFilter:
    """Takes the system's own marks, which weak models copy, out of a stream.

    A line of the date that follows text outside code begins the next message of the person, played by the
    model: the answer ends there and `ended` is set. Other text in ⟦ ⟧ or in brackets is shown as is.
    """

    def __init__(self) -> None:
        self.ended = False
        self._held = ""
        self._skipped = ""
        self._any_text = False
        self._code = CodeSpans()

    def feed(self, text: str) -> str:
        self._held += text
        return self._take(final=False)

    def finish(self) -> str:
        return self._take(final=True)

    def _take(self, *, final: bool) -> str:
        shown: list[str] = []
        at = 0
        while at < len(self._held) and not self.ended:
            char = self._held[at]
            if char in self._skipped:
                self._skipped = "\n" if char == "\n" else self._skipped
                at += 1
                continue
            self._skipped = ""
            length = self._mark_chars(at, final=final) if char in "⟦[" else 0
            if length is None:
                break
            if length:
                self._leave_out(at)
                at += length
                continue
            self._code.pass_over(char)
            self._any_text = self._any_text or not char.isspace()
            shown.append(char)
            at += 1
        self._held = "" if self.ended else self._held[at:]
        return "".join(shown)

    def _leave_out(self, at: int) -> None:
        """Ends the answer at the mark or, when it opens a line, has the blank text after it skipped."""
        if self._code.at_line_start:
            self._skipped = " \t\n"
            dated = _DATE.match(self._held, at) is not None
            self.ended = dated and self._any_text and not self._code.inside

    def _mark_chars(self, at: int, *, final: bool) -> int | None:
        """How many characters from `at` are a mark: 0 when they are none, None when it can't be known yet."""
        self._code.end_run()
        if self._held[at] == "⟦":
            return self._line_chars(self._held[at : at + _MARK_CHARS], final=final)
        head = self._held[at : at + _SENTENCE_CHARS]
        if self._code.inside or not any(one.startswith(head) or head.startswith(one) for one in _SENTENCES):
            return 0
        return self._sentence_chars(self._held[at:], final=final)

    def _line_chars(self, rest: str, *, final: bool) -> int | None:
        """A mark in ⟦ ⟧, or its line where it isn't closed."""
        end = re.search(r"⟧|(?=\n)", rest)
        if end is None and not final and len(rest) < _MARK_CHARS:
            return None
        ours = _DATE.match(rest) or rest.startswith((*_MARKS, *_HEARD_MARKS))
        if not ours or (end is None and len(rest) >= _MARK_CHARS):
            return 0
        return len(rest) if end is None else end.end()

    def _sentence_chars(self, rest: str, *, final: bool) -> int | None:
        """One of the sentences in brackets; a note ends at its bracket or paragraph, whichever is first."""
        for sentence in (UNANSWERED, OPENING):
            if rest.startswith(sentence):
                return len(sentence)
        if rest.startswith(NOTE):
            end = re.search(r"\]|(?=\n\n)", rest)
            if end is not None:
                return end.end()
            return len(rest) if final else None
        may_become_one = any(mark.startswith(rest) for mark in _SENTENCES)
        return None if may_become_one and not final else 0


class OwnTextFilter:
    """Both of the above: all that the system wrote into the request and the model said again."""

    def __init__(self, sent: tuple[str, ...] = ()) -> None:
        self._fences = FenceFilter(sent)
        self._marks = MarkFilter()

    @property
    def ended(self) -> bool:
        return self._marks.ended

    def feed(self, text: str) -> str:
        return self._marks.feed(self._fences.feed(text))

    def finish(self) -> str:
        return self._marks.feed(self._fences.finish()) + self._marks.finish()


class ContinuationFilter:
    """Drops from a continued answer what repeats the end, or the whole, of the text already shown.

    An end has at most _END_CHARS.
    """

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._held = ""
        last = len(shown) - _OVERLAP_CHARS
        ends = range(max(1, len(shown) - _END_CHARS), last + 1)
        self._offsets = [*([0] if shown else []), *ends]

    def feed(self, text: str) -> str:
        if not self._offsets:
            return text
        self._held += text
        self._offsets = [at for at in self._offsets if self._agrees(at)]
        if not self._offsets:
            held, self._held = self._held, ""
            return held
        overlap = len(self._shown) - self._offsets[0]
        if len(self._held) < overlap:
            return ""
        rest, self._held, self._offsets = self._held[overlap:], "", []
        return rest

    def finish(self) -> str:
        repeated = bool(self._offsets) and len(self._held) >= _OVERLAP_CHARS
        rest, self._held, self._offsets = self._held, "", []
        return "" if repeated else rest

    def _agrees(self, at: int) -> bool:
        tail = self._shown[at : at + len(self._held)]
        return self._held.startswith(tail)
