import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trunkline.gateway.logs import configure_logs, log_context

SECRETS = ("plain-secret-value", "s3cr/t+with=signs")

SHAPES = {
    "telegram": "123456789:AAF-abcdefghijklmnopqrstuvwxyz01234",
    "telegram_in_url": "https://host/bot123456789%3AAAF-abcdefghijklmnopqrstuvwxyz01234/getMe",
    "slack": "xoxb-123456-abcdef",
    "slack_app": "xapp-1-A0-1234-abcdef",
    "discord": "MTIzNDU2Nzg5MDEyMzQ1Njc4OQ.Gabcde.abcdefghijklmnopqrstuvwxyz0123",
    "openai": "sk-proj-abcdefghijklmnop",
    "bearer": "Authorization: Bearer abcdef123456",
    "link": "http://127.0.0.1/?token=abcdef",
    "password": "postgresql://user:hunter22@host/db",
}
CHATTY = (
    "httpx", "httpx2", "httpcore.http11", "openai._base_client", "discord.gateway", "slack_bolt.App",
    "slack_sdk.web", "telegram.ext", "aiohttp.access", "uvicorn.access", "something.else",
)  # fmt: skip
HIDDEN_PARTS = ("AAF-", "123456-abcdef", "Gabcde", "proj-abc", "abcdef123456", "token=abcdef", "hunter22")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    sys.excepthook = hook
    logging.captureWarnings(capture=False)


def test_a_line_names_its_session_and_turn(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    configure_logs("info", "text", (), log)

    with log_context("s-1", "t-2"):
        logging.getLogger("trunkline.x").info("Turn finished steps=%d", 3)
    logging.getLogger("trunkline.x").info("Ready")

    first, second = log.read_text().splitlines()
    assert first.endswith("trunkline.x: Turn finished steps=3 session=s-1 turn=t-2")
    assert second.endswith("trunkline.x: Ready")


def test_json_lines_hold_the_same(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    configure_logs("info", "json", SECRETS, log)

    with log_context("s-1"):
        logging.getLogger("trunkline.x").warning("Failed key=%s", SECRETS[1])

    line = json.loads(log.read_text())
    assert (line["level"], line["message"], line["session"]) == ("warning", "Failed key=***", "s-1")
    assert "turn" not in line


@pytest.mark.parametrize("shape", ["text", "json"])
@pytest.mark.parametrize("text", [*SECRETS, "s3cr%2Ft%2Bwith%3Dsigns", *SHAPES.values()])
def test_no_secret_is_logged_in_a_message_or_an_exception(tmp_path: Path, shape: str, text: str) -> None:
    log = tmp_path / "x.log"
    configure_logs("info", "json" if shape == "json" else "text", SECRETS, log)

    try:
        raise ConnectionError(f"GET {text} failed")
    except ConnectionError:
        logging.getLogger("trunkline.x").exception("Lost url=%s", text)

    written = log.read_text()
    assert "Lost" in written
    assert "***" in written
    assert not any(part in written for part in (*SECRETS, "s3cr%2Ft", *HIDDEN_PARTS))


def test_libraries_are_quiet_at_every_level(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    configure_logs("debug", "text", (), log)

    for name in CHATTY:
        logging.getLogger(name).info("HTTP Request: GET https://host/secret")
    logging.getLogger("trunkline.x").debug("Ours")

    assert [line.split(": ")[-1] for line in log.read_text().splitlines()] == ["Ours"]


def test_a_crash_is_logged_without_secrets(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    configure_logs("info", "text", SECRETS, log)

    error = RuntimeError(f"bad {SECRETS[0]}")
    sys.excepthook(RuntimeError, error, None)

    assert "RuntimeError: bad ***" in log.read_text()
