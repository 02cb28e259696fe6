"""The program's log: one line per event, with session and turn, free of secrets. What is worth a line is
the caller's to decide."""

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import quote

_QUIET = (
    "aiohttp", "alembic", "asyncio", "discord", "httpcore", "httpcore2", "httpx", "httpx2", "jieba",
    "markdown_it", "openai", "slack_bolt", "slack_sdk", "sqlalchemy", "telegram", "urllib3", "uvicorn",
)  # fmt: skip
"""Libraries whose own INFO and DEBUG lines hold addresses, headers or what people said."""

_TOKEN_SHAPES = re.compile(
    r"""
      (?<!\d)\d{6,12}(?::|%3A)[A-Za-z0-9_-]{30,}                      # Telegram, after "bot" in addresses
    | \bx(?:ox[abeprs]|app)-[A-Za-z0-9-]{8,}                           # Slack
    | \b[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}   # Discord
    | \bsk-[A-Za-z0-9_-]{12,}                                          # OpenAI and those who copy it
    | (?<=[Bb]earer\s)[A-Za-z0-9._~+/=-]{8,}
    | (?<=[?&]token=)[^&\s"']+ | (?<=[?&]ticket=)[^&\s"']+ | (?<=[?&]key=)[^&\s"']+
    | (?<=://)[^\s:/@]+:[^\s/@]+(?=@)                                  # user and password in an address
    """,
    re.VERBOSE,
)
_HIDDEN = "***"
_SHORTEST_SECRET_CHARS = 6
_FILE_BYTES = 5 * 2**20
_FILES_KEPT = 3

_context: ContextVar[tuple[str, str]] = ContextVar("log_context", default=("", ""))


@contextmanager
def log_context(session: str, turn: str = "") -> Iterator[None]:
    """Names the session and turn on every line logged inside, tasks started there included."""
    token = _context.set((session, turn))
    try:
        yield
    finally:
        _context.reset(token)


class Redactor:
    """Takes the configured secrets, and whatever looks like a token, out of a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET_CHARS}
        spellings = known | {quote(secret, safe="") for secret in known}
        longest_first = sorted(spellings, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if spellings else None

    def __call__(self, text: str) -> str:
        if self._known:
            text = self._known.sub(_HIDDEN, text)
        return _TOKEN_SHAPES.sub(_HIDDEN, text)


class TextFormatter(logging.Formatter):
    """A line for people; an exception's traceback follows it."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        session, turn = _context.get()
        where = "".join(f" {name}={value}" for name, value in (("session", session), ("turn", turn)) if value)
        return super().formatMessage(record) + where


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, session, turn, error."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        session, turn = _context.get()
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
            "session": session,
            "turn": turn,
            "error": self._redact(self.formatException(record.exc_info)) if record.exc_info else "",
        }
        return json.dumps({name: value for name, value in fields.items() if value}, ensure_ascii=False)


def configure_logs(
    level: Literal["debug", "info", "warning", "error"],
    shape: Literal["text", "json"],
    secrets: Iterable[str],
    file: Path | None = None,
) -> None:
    """Sends the log to stderr, or to `file` (5 MiB, 3 old ones kept) where stderr is the person's screen.

    Libraries speak up from WARNING on, whatever `level` says. An uncaught exception is logged, too, so that
    its text is redacted.
    """
    redact = Redactor(secrets)
    handler: logging.Handler = logging.StreamHandler()
    if file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler = RotatingFileHandler(file, maxBytes=_FILE_BYTES, backupCount=_FILES_KEPT, encoding="utf-8")
    handler.setFormatter(JsonFormatter(redact) if shape == "json" else TextFormatter(redact))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("trunkline").setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_crash


def _log_crash(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logging.getLogger("trunkline").critical("Crashed", exc_info=(kind, error, traceback))
