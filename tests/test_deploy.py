"""What deploy/ says fits the program: the files that the image copies start, answer, and end when told."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.ports import free_port
from trunkline.gateway.cli.failure import ExitCode
from trunkline.gateway.config import SECRET_NAMES
from trunkline.gateway.settings import FileSettings

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
DEADLINE_S = 60.0
DEFAULTS = FileSettings()


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The last stage's settings, and what all stages copy from the checkout."""

    instructions: tuple[tuple[str, str], ...]

    def said(self, name: str) -> list[str]:
        return [words for instruction, words in self.instructions if instruction == name]

    @property
    def environment(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for line in self.said("ENV") for pair in shlex.split(line))

    @property
    def health_check(self) -> list[str]:
        (line,) = self.said("HEALTHCHECK")
        return list(json.loads(line.partition("CMD ")[2]))

    @property
    def command(self) -> list[str]:
        return list(json.loads(self.said("CMD")[-1]))

    @property
    def copied(self) -> list[str]:
        return [shlex.split(line)[0] for line in self.said("COPY") if "--from" not in line]


@pytest.fixture(scope="module")
def dockerfile() -> Dockerfile:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return Dockerfile(
        tuple((name, words.strip()) for name, _, words in (one.partition(" ") for one in lines))
    )


@pytest.fixture(scope="module")
def image(dockerfile: Dockerfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, installed as the Dockerfile does from what it copies; the dependencies are this
    environment's own."""
    context, installed = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("installed")
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    ignored = [line.strip("/") for line in (ROOT / ".dockerignore").read_text().split()]
    for name in listed.stdout.splitlines():
        parts = Path(name).parts
        if not any(fnmatch(parts[0], one) for one in ignored) and (ROOT / name).exists():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, context / name, follow_symlinks=False)
    assert [source for source in dockerfile.copied if not (context / source).exists()] == []
    build = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
    made = subprocess.run(
        (sys.executable, "-W", "ignore", "-c", build, str(installed)),
        cwd=context,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = installed.glob("*.whl")
    shutil.unpack_archive(wheel, installed, "zip")
    return installed


@contextmanager
def started(
    image: Path, dockerfile: Dockerfile, home: Path, log: Path
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The image's command with the image's environment and an empty terminal; and the link it printed."""
    environment = {**dockerfile.environment, "TRUNKLINE_HOME": str(home), "PYTHONPATH": str(image)}
    environment["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    program = "import sys; from trunkline.gateway.cli import main; sys.exit(main())"
    assert dockerfile.command[0] == "trunkline"
    with log.open("wb") as out:
        process = subprocess.Popen(
            (sys.executable, "-c", program, *dockerfile.command[1:]),
            env=environment,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + DEADLINE_S
        while not (link := re.search(r"http://\S+token=\S+", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield process, link[0]
    finally:
        process.kill()
        process.wait()


def is_healthy(dockerfile: Dockerfile, port: int) -> bool:
    exposed = dockerfile.said("EXPOSE")[0]
    command = [word.replace(exposed, str(port)) for word in dockerfile.health_check]
    assert command[0] == "python"
    done = subprocess.run((sys.executable, *command[1:]), capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.blackbox
def test_what_the_image_copies_starts_is_healthy_ends_when_told_and_keeps_its_home(
    image: Path, dockerfile: Dockerfile, tmp_path: Path
) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(f"platforms: {{web: {{port: {port}}}}}\n")
    stop = getattr(signal, dockerfile.said("STOPSIGNAL")[0])
    links = []
    assert not is_healthy(dockerfile, port)

    for start in ("first", "second"):
        log = tmp_path / f"{start}.log"
        with started(image, dockerfile, home, log) as (process, link):
            assert is_healthy(dockerfile, port)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            with browser.open(link, timeout=10) as page:
                assert b"Message Trunkline" in page.read()
            process.send_signal(stop)
            assert process.wait(DEADLINE_S) == 0, log.read_text()
        links.append(link)

    assert (home / "state.db").stat().st_size > 0
    # The link's secret is kept in the home folder, so the second start had the first one's state.
    assert links[0] == links[1]


def test_the_image_runs_as_a_user_without_rights_who_owns_the_home_folder(dockerfile: Dockerfile) -> None:
    (user,) = dockerfile.said("USER")
    home = dockerfile.environment["TRUNKLINE_HOME"]

    assert re.search(rf"useradd [^&]*\b{user}\b", " ".join(dockerfile.said("RUN")))
    assert re.search(rf"install -d -o {user} -g {user} -m 0700 {home}\b", " ".join(dockerfile.said("RUN")))
    assert dockerfile.said("VOLUME") == [home]
    assert dockerfile.said("EXPOSE") == [str(DEFAULTS.platforms.web.port)]


def test_the_compose_file_fits_the_image_and_the_settings(dockerfile: Dockerfile) -> None:
    composed = YAML(typ="safe").load(DEPLOY / "compose.yaml")
    service = composed["services"]["trunkline"]
    build = service["build"]
    volume, target = service["volumes"][0].split(":")

    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert target == dockerfile.environment["TRUNKLINE_HOME"]
    assert volume in composed["volumes"]
    # Without one, what runs as the first process doesn't hear a stop until it listens to it.
    assert service["init"] is True
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in dockerfile.said("EXPOSE")]
    assert dockerfile.command[2:] == ["--web-host", "0.0.0.0"]
    assert set(service["environment"]) <= set(SECRET_NAMES)
    assert {name: f"${{{name}:-}}" for name in service["environment"]} == service["environment"]
    assert seconds(service["stop_grace_period"]) > DEFAULTS.shutdown.grace_s


@pytest.fixture
def unit() -> Mapping[str, Mapping[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "trunkline.service")
    return {name: dict(parser[name]) for name in parser.sections()}


def test_the_unit_fits_the_steps_of_its_page_and_the_settings(unit: Mapping[str, Mapping[str, str]]) -> None:
    service, page = unit["Service"], (DEPLOY / "README.md").read_text()
    place = re.search(r"git clone \. (\S+)", page)
    home = f"/var/lib/{service['StateDirectory']}"

    assert place
    assert service["ExecStart"] == f"{place[1]}/.venv/bin/trunkline run"
    assert service["Environment"] == f"TRUNKLINE_HOME={home}"
    assert f"TRUNKLINE_HOME={home} {place[1]}/.venv/bin/trunkline setup" in page
    assert re.search(rf"useradd --system --home-dir {home} .*{service['User']}$", page, re.MULTILINE)
    assert int(service["RestartPreventExitStatus"]) == ExitCode.CONFIG
    assert seconds(service["TimeoutStopSec"]) > DEFAULTS.shutdown.grace_s


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze isn't installed here")
def test_systemd_knows_every_line_of_the_unit(unit: Mapping[str, Mapping[str, str]], tmp_path: Path) -> None:
    text = (DEPLOY / "trunkline.service").read_text()
    copy = tmp_path / "trunkline.service"
    copy.write_text(text.replace(unit["Service"]["ExecStart"].split()[0], sys.executable))

    done = subprocess.run(
        ("systemd-analyze", "verify", "--man=no", copy),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )

    assert [line for line in done.stderr.splitlines() if "trunkline.service" in line] == []
    assert done.returncode == 0, done.stderr


def seconds(written: str) -> float:
    return float(written.removesuffix("s"))
