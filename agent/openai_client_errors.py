"""What went wrong in a model call, told by status, code and words, as a ModelFailure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from trunkline.agent.model import FailureKind, ModelFailure

if TYPE_CHECKING:
    import openai

DETAIL_CHARS = 300
NO_MODEL_API = "this address answers with {what}, not as a model API does"

_SECRET = re.compile(r"\b(?:sk|key|pk|gsk|xai|AIza)[-_]?[\w*.-]{6,}|(?<=Bearer )\S+", re.IGNORECASE)
# Servers that check requests with pydantic say which value was wrong, often the whole request.
_REQUEST_REPEATED = re.compile(r"""(?:['"]input['"]\s*:|\binput_value=).*""")

_TOO_LONG = re.compile(
    r"context[ _-](?:length|size|window|limit)|maximum (?:context|prompt length)|too many (?:input )?tokens"
    r"|prompt (?:is )?too long|input (?:is )?too long|input length should be|string[ _](?:too long|above_max)"
    r"|exceeds? the (?:available|model'?s?) (?:context|maximum)|exceeds? the maximum number of tokens"
    r"|request too large|model token limit|tokens[ _]limit[ _]reached|reduce the length"
    r"|max_new_tokens\W{0,3}must be|(?:prompt|输入|上下文).{0,16}(?:超长|过长|超过|超出)",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient[ _](?:quota|credit|balance|funds)|exceeded your current quota|billing|out of credits?"
    r"|payment required|negative balance|credit balance is|overdue payment|arrearage|欠费|余额不足",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"rate.?limit|too many requests|resource.?exhausted|(?:quota|limit) (?:was |is )?exceeded", re.IGNORECASE
)
_WISH = re.compile(
    r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?\s*(?:ms|milli\w*|min\w*|m|h\w*|s\w*)\s*)+)",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|m|h|s)", re.IGNORECASE)
_UNITS_S = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_REFUSED = re.compile(
    r"content[ _](?:policy|filter|management)|safety system|moderation|flagged|responsible.?ai",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"model[ _]not[ _](?:found|exist)|model\b.{0,80}\b(?:does not exist|not found|isn't loaded|not loaded)"
    r"|(?:invalid|unknown|unsupported|no such) model|not a valid model",
    re.IGNORECASE | re.DOTALL,
)
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|missing|no|wrong)[ _]api[ _]key|api key not valid", re.IGNORECASE
)
_NO_TOOLS = re.compile(
    r"does(?:n't| not) support (?:tools|tool[ _]?(?:use|call)|function)|tools? (?:is|are) not supported"
    r"|tool[ _]choice\W{0,2} requires|support tool use|function calling is not|unknown.{0,20}\btools\b"
    r"|unsupported.{0,30}\btools\b|\btools\b.{0,40}(?:not supported|unsupported|not permitted|not allowed)",
    re.IGNORECASE | re.DOTALL,
)
_MALFORMED_CALL = re.compile(r"does not match the expected .{0,40}format", re.IGNORECASE)


class Failed(Exception):
    """A failure and whether the same request may safely be sent again. `status` is 0 without an answer.

    `partial` is what had been shown when it came.
    """

    def __init__(
        self, failure: ModelFailure, *, repeatable: bool = False, status: int = 0, partial: str = ""
    ) -> None:
        super().__init__(f"{failure.kind}: {failure.detail}")
        self.failure = failure
        self.repeatable = repeatable
        self.status = status
        self.partial = partial

    @property
    def says_no_tools(self) -> bool:
        """The endpoint takes no tools for this model, or not the way it was started."""
        return self.status in (400, 404, 405, 422, 501) and bool(_NO_TOOLS.search(self.failure.detail))

    @property
    def says_malformed_call(self) -> bool:
        """llama-server's 500 for a call that its own parser could not read."""
        return self.status == 500 and bool(_MALFORMED_CALL.search(self.failure.detail))


def refuse_error(answer: object) -> None:
    """Raises Failed for an error that came as a whole answer, or as a piece of one."""
    if isinstance(answer, dict) and answer.get("error"):
        error = answer["error"]
        words = error.get("message") if isinstance(error, dict) else error
        raise Failed(failure(FailureKind.DOWN, f"error instead of an answer: {words}"), repeatable=True)


def failure(kind: FailureKind, detail: str = "", retry_after_s: float | None = None) -> ModelFailure:
    """The detail is for the log: one line, bounded, without what looks like a key or repeats the request."""
    told = _REQUEST_REPEATED.sub("[request]", _SECRET.sub("[key]", " ".join(detail.split())))
    return ModelFailure(kind, told[:DETAIL_CHARS], retry_after_s=retry_after_s)


def from_status(error: "openai.APIStatusError") -> Failed:
    """What an HTTP error answer means."""
    words, status = _words(error), error.status_code
    if 300 <= status < 400:
        return Failed(failure(FailureKind.NOT_CONFIGURED, f"HTTP {status}: sent elsewhere"), status=status)
    if "text/html" in error.response.headers.get("content-type", ""):
        # A gate or a proxy speaks, not a model API: its page's words mean nothing here.
        words = "a web page in place of an answer"
        if status == 403:
            return Failed(failure(FailureKind.DOWN, f"HTTP 403: {words}"), repeatable=True, status=status)
    wished_s = retry_after(error.response.headers)
    return _from_words(status, error.code or "", words, wish_in(words) if wished_s is None else wished_s)


def from_event(error: "openai.APIError") -> Failed:
    """What an error event inside a stream means: some endpoints put the status in its code."""
    code = error.code or ""
    status = int(code) if code.isdecimal() else 0
    failed = _from_words(status, code, _words(error), wish_in(_words(error)))
    if status == 0 and failed.failure.kind is FailureKind.BAD_REQUEST:
        return Failed(failure(FailureKind.BROKEN_STREAM, failed.failure.detail), repeatable=True)
    return failed


def _words(error: "openai.APIError") -> str:
    body = error.body
    if isinstance(body, dict):
        metadata = body.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        words = " ".join(str(part) for part in (body.get("message"), raw) if part)
        return words or error.message
    return body if isinstance(body, str) and body else error.message


def _from_words(status: int, code: str, words: str, retry_after_s: float | None) -> Failed:
    said = f"{code} {words}"
    detail = f"HTTP {status}: {words}" if status else words
    kind = _kind(status, code, said)
    if kind is FailureKind.DOWN or kind is FailureKind.RATE_LIMITED:
        repeatable = not _MALFORMED_CALL.search(words)
        return Failed(failure(kind, detail, retry_after_s), repeatable=repeatable, status=status)
    return Failed(failure(kind, detail), status=status)


def _kind(status: int, code: str, said: str) -> FailureKind:
    if status == 402 or _NO_CREDIT.search(said):
        return FailureKind.NO_CREDIT
    if status == 413 or _TOO_LONG.search(said):
        return FailureKind.CONTEXT_TOO_LONG
    if status == 429 or code.startswith("rate_limit") or (status in (400, 403) and _RATE.search(said)):
        return FailureKind.RATE_LIMITED
    if status == 408 or status >= 500 or code in ("server_error", "overloaded", "overloaded_error"):
        return FailureKind.DOWN
    if status == 401 or _BAD_KEY.search(said):
        return FailureKind.BAD_KEY
    if _UNKNOWN_MODEL.search(said):
        return FailureKind.UNKNOWN_MODEL
    if _REFUSED.search(said):
        return FailureKind.REFUSED
    if status == 403:
        return FailureKind.BAD_KEY
    if status == 404 and not _NO_TOOLS.search(said):
        # Without a word about the model nothing is served at this address.
        return FailureKind.UNKNOWN_MODEL if "model" in said.lower() else FailureKind.NOT_CONFIGURED
    return FailureKind.BAD_REQUEST


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server wants us to wait, as its headers say: a number, or a date."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        said = headers.get(name, "")
        try:
            wished_s = float(said) * unit_s
        except ValueError:
            wished_s = _until(said)
        if 0 <= wished_s < float("inf"):
            return wished_s
    return None


def wish_in(words: str) -> float | None:
    """The same from the words of a refusal, where some endpoints alone say it."""
    found = _WISH.search(words)
    if found is None:
        return None
    return sum(float(count) * _UNITS_S[unit.lower()] for count, unit in _SPAN.findall(found[1]))


def _until(date: str) -> float:
    """Seconds until a date of HTTP; below zero for what is none."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return -1.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
