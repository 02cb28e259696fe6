"""Reading config.yaml, and changing it without losing what a person wrote into it."""

from collections.abc import Mapping
from importlib.resources import files
from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from trunkline.gateway.config_faults import ConfigError, Fault


def read_yaml(path: Path) -> Mapping[str, object]:
    """The file's settings without the empty ones; an empty or missing file has none.

    Raises ConfigError when it can't be read or isn't YAML of named settings.
    """
    if not path.exists():
        return {}
    return _settings_of(_parse(path, _read_text(path)))


def render_changed(path: Path, changes: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """The file's text with dotted paths set, and the settings that this text holds."""
    document = _parse(path, _read_text(path) if path.exists() else template())
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        block = document
        for parent in parents:
            if not isinstance(block.get(parent), CommentedMap):
                block[parent] = CommentedMap()
            block = block[parent]
        block[last] = _round_trip(value)
    out = StringIO()
    _yaml().dump(document, out)
    return out.getvalue(), _settings_of(document)


def template() -> str:
    """The commented file that a new home begins with."""
    return files("trunkline.gateway").joinpath("config_template.yaml").read_text(encoding="utf-8")


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 110
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([Fault(str(path), "can't be read; it must be UTF-8 text of yours")]) from error


def _parse(path: Path, text: str) -> CommentedMap:
    try:
        document = _yaml().load(text)
    except DuplicateKeyError as error:
        raise ConfigError([Fault(_place(path, error), "a setting is there twice; keep one")]) from error
    except MarkedYAMLError as error:
        advice = f"this is not YAML ({error.problem}); look at the spaces and colons around it"
        raise ConfigError([Fault(_place(path, error), advice)]) from error
    except YAMLError as error:
        raise ConfigError([Fault(str(path), "this is not YAML")]) from error
    if document is None:
        return CommentedMap()
    if not isinstance(document, CommentedMap):
        raise ConfigError([Fault(str(path), "the file must consist of named settings, such as `model:`")])
    return document


def _place(path: Path, error: MarkedYAMLError) -> str:
    mark = error.problem_mark
    return f"{path}, line {mark.line + 1}" if mark else str(path)


def _settings_of(document: CommentedMap) -> Mapping[str, object]:
    """An empty setting means its default, so it is left out."""
    return {
        str(key): _settings_of(value) if isinstance(value, CommentedMap) else value
        for key, value in document.items()
        if value is not None
    }


def _round_trip(value: object) -> object:
    if isinstance(value, Mapping):
        block = CommentedMap()
        for key, inner in value.items():
            block[key] = _round_trip(inner)
        return block
    if isinstance(value, (list, tuple)):
        row = CommentedSeq(_round_trip(inner) for inner in value)
        row.fa.set_flow_style()
        return row
    return value
