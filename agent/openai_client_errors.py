"""What went wrong in a model call, told by status, code and words, as a ModelFailure."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trunkline.agent.model import FailureKind, ModelFailure

if TYPE_CHECKING:
    import openai

DETAIL_CHARS = 300

_SECRET = re.compile(r"\b(?:sk|key|pk|gsk|xai|AIza)[-_]?[\w*.-]{6,}|(?<=Bearer )\S+", re.IGNORECASE)

_TOO_LONG = re.compile(
    r"context[ _-](?:length|size|window)|maximum context|too many (?:input )?tokens|prompt is too long"
    r"|input (?:is )?too long|exceeds? the (?:available|model'?s?) (?:context|maximum)|request too large"
    r"|reduce the length",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient[ _](?:quota|credit|balance|funds)|exceeded your current quota|billing|out of credits?"
    r"|payment required|negative balance",
    re.IGNORECASE,
)
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


def failure(kind: FailureKind, detail: str = "", retry_after_s: float | None = None) -> ModelFailure:
    return ModelFailure(kind, safe_detail(detail), retry_after_s=retry_after_s)


def safe_detail(text: str) -> str:
    """For the log: one line, bounded, with anything that looks like a key taken out."""
    return _SECRET.sub("[key]", " ".join(text.split()))[:DETAIL_CHARS]


def from_status(error: "openai.APIStatusError") -> Failed:
    """What an HTTP error answer means."""
    retry_after_s = retry_after(error.response.headers)
    return _from_words(error.status_code, error.code or "", _words(error), retry_after_s)


def from_event(error: "openai.APIError") -> Failed:
    """What an error event inside a stream means: some endpoints put the status in its code."""
    code = error.code or ""
    status = int(code) if code.isdecimal() else 0
    failed = _from_words(status, code, _words(error), None)
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
    return error.message


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
    if status == 429 or code.startswith("rate_limit"):
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
    """Seconds the server wants us to wait; dates, which no model endpoint sends, count as no wish."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wished_s = float(headers.get(name, "")) * unit_s
        except ValueError:
            continue
        if 0 <= wished_s < float("inf"):
            return wished_s
    return None
