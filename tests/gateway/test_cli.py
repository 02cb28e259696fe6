"""The installed command, as a process of its own."""

import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
import typer

from tests.ports import free_port
from trunkline.gateway.cli import COMMANDS

TRUNKLINE = Path(sys.executable).with_name("trunkline")
DEADLINE_S = 60.0

pytestmark = pytest.mark.blackbox


def environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the caller's: no keys, no proxies."""
    return {
        "TRUNKLINE_HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        **(more or {}),
    }


def trunkline(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (TRUNKLINE, *words),
        env=environment(home, more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that set-up has made, with Alice as its owner."""
    folder = tmp_path_factory.mktemp("home")
    done = trunkline(folder, "setup", "--yes", "--owner", "Alice")
    assert done.returncode == 0, done.stderr
    return folder


def test_help_lists_every_command_and_loads_none_of_their_modules() -> None:
    heavy = "{'openai', 'sqlalchemy', 'alembic', 'pydantic', 'telegram', 'discord', 'slack_bolt', 'aiohttp'}"
    code = f"import sys, trunkline.gateway.cli; sys.exit(', '.join({heavy} & set(sys.modules)))"

    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=False)

    assert done.stderr.strip() == ""
    shown = trunkline(Path("/nowhere"), "--help").stdout
    for name in ("setup", "run", "chat", "sessions", "memory", "people", "model", "doctor", "version"):
        assert f" {name} " in shown


def test_a_command_and_its_line_in_the_list_say_the_same_and_offer_only_what_works() -> None:
    for name, sentence in COMMANDS.items():
        command = typer.main.get_command(import_module(f"trunkline.gateway.cli.{name}").app)
        assert command.help == sentence
        assert "install_completion" not in {parameter.name for parameter in command.params}


def test_a_mistyped_command_is_told_its_nearest_name(tmp_path: Path) -> None:
    done = trunkline(tmp_path, "sesions")

    assert done.returncode == 2
    assert "'sessions'" in done.stderr


def test_set_up_with_nobody_to_ask_makes_a_home_that_works(home: Path) -> None:
    assert "role: owner" in (home / "config.yaml").read_text()
    assert json.loads(trunkline(home, "people", "list", "--json").stdout)[0]["person"] == "alice"


def test_what_is_written_can_be_read_by_its_owner_only(home: Path) -> None:
    trunkline(home, "sessions", "list")

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir() if path.is_file()}
    assert {"config.yaml", "state.db"} <= set(modes)
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


@pytest.mark.parametrize(
    ("words", "empty"),
    [(("sessions", "list"), []), (("sessions", "search", "boiler"), [])],
    ids=["list", "search"],
)
def test_an_empty_store_lists_nothing(home: Path, words: tuple[str, ...], empty: object) -> None:
    done = trunkline(home, *words, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == empty


def test_memory_that_a_person_wrote_by_hand_is_shown(home: Path) -> None:
    folder = home / "memories" / "alice"
    folder.mkdir(parents=True)
    (folder / "USER.md").write_text("Prefers short answers.\n§\n", encoding="utf-8")

    done = trunkline(home, "memory", "show", "--json")

    assert json.loads(done.stdout) == {"person": "alice", "user": ["Prefers short answers."], "memory": []}


@pytest.mark.parametrize(
    "words", [("people", "approve", "ABCD2345"), ("sessions", "show", "nothing")], ids=["code", "session"]
)
def test_what_is_not_there_is_one_sentence_and_exit_code_3(home: Path, words: tuple[str, ...]) -> None:
    done = trunkline(home, *words)

    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "words", [("run",), ("chat",), ("sessions", "list"), ("doctor",), ("setup", "--yes")]
)
def test_faulty_settings_are_listed_with_exit_code_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "config.yaml").write_text("modle: {}\nagent: {max_rounds: many}\n")

    done = trunkline(tmp_path, *words)

    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        "agent.max_rounds: give a whole number",
        "modle: unknown setting; did you mean model?",
    ]


def test_a_home_that_cannot_be_used_is_a_sentence_with_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = trunkline(tmp_path / "file" / "home", "sessions", "list")

    assert done.returncode == 2
    assert "the home folder can't be made" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_says_what_is_missing(home: Path) -> None:
    done = trunkline(home, "doctor", "--json")

    findings = {entry["subject"]: entry for entry in json.loads(done.stdout)}
    assert findings["settings"]["fine"]
    assert not findings["model"]["fine"]
    assert "trunkline setup" in findings["model"]["sentence"]
    assert done.returncode == 1


def test_run_without_tokens_and_model_serves_the_web_chat_and_stops_when_told(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "config.yaml").write_text(
        f"platforms: {{web: {{port: {port}}}}}\nmodel: {{file: {tmp_path / 'gone.gguf'}}}\n"
        "shutdown: {grace: 1}\n"
    )
    with subprocess.Popen(
        (TRUNKLINE, "run"),
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            said = ""
            for line in running.stdout:
                said += line
                if "Web chat:" in line:
                    break
            assert f"http://127.0.0.1:{port}" in said
            assert "There is no model file at" in said
            assert "There is no model yet" in said
            assert can_connect(port)
            second = trunkline(tmp_path, "run")
            assert (second.returncode, second.stdout.count("\n")) == (1, 2)
            assert second.stdout.endswith("It is still running, so this start gives up.\n")
            assert "already running" in second.stdout
            # It found the first one before it looked for the model's file.
            assert second.stderr == ""
            web = {one["subject"]: one for one in json.loads(trunkline(tmp_path, "doctor", "--json").stdout)}[
                "web"
            ]
            assert web == {
                "subject": "web",
                "fine": True,
                "sentence": f"A running Trunkline serves the web chat on port {port}.",
            }
            running.send_signal(signal.SIGTERM)
            assert running.wait(DEADLINE_S) == 0
        finally:
            running.kill()


def test_a_stop_while_it_starts_is_obeyed_also_as_the_first_process_of_a_container(tmp_path: Path) -> None:
    """What has no handler of its own ends by the signal's default, which such a process has not."""
    program = "import signal, trunkline.gateway.cli as cli; cli.app = lambda: signal.pause(); cli.main()"
    with subprocess.Popen(
        (sys.executable, "-c", f"print('up', flush=True); {program}"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
    ) as starting:
        status = Path(f"/proc/{starting.pid}/status")
        handled = 0
        while not handled & 1 << (signal.SIGTERM - 1):
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
            handled = int(facts["SigCgt"], 16)
        starting.send_signal(signal.SIGTERM)
        assert starting.wait(DEADLINE_S) == 143


def test_the_doctor_knows_a_port_that_another_program_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "config.yaml").write_text(f"platforms: {{web: {{port: {port}}}}}\n")
        done = trunkline(tmp_path, "doctor", "--json")

    web = {one["subject"]: one for one in json.loads(done.stdout)}["web"]
    assert not web["fine"]
    assert "by another program" in web["sentence"]


def test_a_taken_port_is_told_without_a_link(tmp_path: Path) -> None:
    trunkline(tmp_path, "setup", "--yes", "--owner", "Alice")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "config.yaml").write_text(
            f"people: {{alice: {{role: owner}}}}\nplatforms: {{web: {{port: {port}}}}}\n"
        )
        with subprocess.Popen(
            (TRUNKLINE, "run"), env=environment(tmp_path), stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            said = ""
            for line in running.stdout:
                said += line
                if "I keep trying." in line:
                    break
            running.kill()

    assert ". I keep trying." in said
    assert "Web chat:" not in said


def test_a_port_that_is_left_to_the_system_is_in_the_link(tmp_path: Path) -> None:
    trunkline(tmp_path, "setup", "--yes", "--owner", "Alice")
    (tmp_path / "config.yaml").write_text("people: {alice: {role: owner}}\nplatforms: {web: {port: 0}}\n")
    with subprocess.Popen(
        (TRUNKLINE, "run"), env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        try:
            link = next(line for line in running.stdout if line.startswith("Web chat:"))
            assert can_connect(int(link.split(":")[3].split("/")[0]))
        finally:
            running.kill()


def test_hints_name_the_command_as_it_was_called(tmp_path: Path) -> None:
    def hint(folder: Path, **more: str) -> str:
        done = subprocess.run(
            (TRUNKLINE, "sessions", "list"),
            env=environment(tmp_path / "home", more),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.stderr

    clone = TRUNKLINE.parent.parent
    assert f"`{TRUNKLINE.relative_to(clone)} setup`" in hint(clone)
    assert f"`{TRUNKLINE} setup`" in hint(tmp_path)
    assert f"`{TRUNKLINE} setup`" in hint(Path("/"))
    assert "`trunkline setup`" in hint(tmp_path, PATH=f"{TRUNKLINE.parent}:/usr/bin:/bin")


def test_the_version_is_an_option_too(tmp_path: Path) -> None:
    done = trunkline(tmp_path, "--version")

    assert done.returncode == 0
    assert done.stdout == trunkline(tmp_path, "version").stdout


def test_people_as_json_have_a_list_of_accounts(home: Path) -> None:
    assert json.loads(trunkline(home, "people", "list", "--json").stdout)[0]["accounts"] == []


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def until(met: object) -> None:
    deadline = time.monotonic() + DEADLINE_S
    assert callable(met)
    while not met():
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)


def test_set_up_asks_a_person_and_takes_the_answers(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(TRUNKLINE, ("trunkline", "setup"), environment(tmp_path))
    answers = [
        ("Your name", "Bo Li"),
        ("Which model", ""),
        ("Connect Telegram", "n"),
        ("Connect Discord", "n"),
    ]
    answers = [*answers, ("Connect Slack", "n")]
    shown = ""
    for question, answer in answers:
        shown = read_until(terminal, question)
        if question == "Which model":
            answer = next(
                line.strip().split(".")[0] for line in shown.splitlines() if line.strip().endswith("Later")
            )
        os.write(terminal, f"{answer}\n".encode())
    read_until(terminal, "trunkline run")
    os.waitpid(pid, 0)
    os.close(terminal)

    assert "bo-li:" in (tmp_path / "config.yaml").read_text()


def read_until(terminal: int, text: str) -> str:
    """Everything shown up to `text`; fails with what was shown when it doesn't come."""
    shown = ""
    deadline = time.monotonic() + DEADLINE_S
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, shown
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
