"""The rules of the house that no linter knows: sizes, links, names, and what no tracked file may hold."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "adapters", "gateway")
FILE_LINES = 500
FUNCTION_LINES = 60

PRODUCT = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# As patterns that don't match themselves.
REGISTRIES = ("pypi[.]org", "python[h]osted", "registry[.]npmjs", "deb[.]debian", "anaconda[.]org")
MACHINE_PATHS = ("/[w]ork/main", "/[w]ork/shared", "/[w]ork/[.]", "/[f]arm/", "/[r]oot/")
UNFINISHED = ("TOD[O]", "FIXM[E]", "XX[X]", "NotImplemented[E]rror")
VAGUE = re.compile(r"(Manager|Helper|Helpers|Util|Utils|Impl|Base)$")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> Iterator[Path]:
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            yield path


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("package", PACKAGES)
def test_the_namespace_consists_of_links(package: str) -> None:
    link = ROOT / "trunkline" / package

    assert link.is_symlink()
    assert link.readlink() == Path("..") / package


def test_every_folder_of_code_is_a_typed_package() -> None:
    folders = {path.parent for path in PRODUCT}

    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def test_files_are_short_enough_to_read() -> None:
    sizes = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PRODUCT}

    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_functions_are_short_enough_to_read() -> None:
    long = {
        f"{name_of(path)}:{name}": lines
        for path in PRODUCT
        for name, lines in functions(path)
        if lines > FUNCTION_LINES
    }

    assert long == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) for path in PRODUCT if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]

    assert silent == []


def test_names_say_what_a_thing_is() -> None:
    classes = {
        f"{name_of(path)}:{node.name}"
        for path in PRODUCT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and VAGUE.search(node.name)
    }

    assert classes == set()


HAND_ON = {"agent/providers/mem0_sdk.py"}
"""These set or pass on the environment for somebody else's program, which listens to nothing else."""


def test_only_the_configuration_reads_the_environment() -> None:
    readers = {
        name_of(path) for path in PRODUCT if re.search(r"\bos\.(environ|getenv)\b", path.read_text("utf-8"))
    }

    assert readers - HAND_ON == {"gateway/config.py"}


@pytest.mark.parametrize("pattern", [*REGISTRIES, *MACHINE_PATHS])
def test_no_registry_and_no_path_of_a_machine_is_written_down(pattern: str) -> None:
    assert [name_of(path) for path in tracked() if re.search(pattern, text_of(path))] == []


@pytest.mark.parametrize("word", UNFINISHED)
def test_nothing_is_left_unfinished(word: str) -> None:
    assert [name_of(path) for path in PRODUCT if re.search(rf"\b{word}\b", text_of(path))] == []
