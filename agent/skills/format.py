"""The open Agent Skills format: the front matter of SKILL.md, names of skills, paths within a skill's folder.

Reads and makes texts only; folders are folder.py's. The limits of name and description are the format's own.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

SKILL_FILE = "SKILL.md"
WRITABLE_FOLDERS = ("references", "templates", "scripts")
"""Where a model may put files beside SKILL.md; `assets` is for what people bring."""

MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
MAX_HEAD_CHARS = 16_000
MAX_PATH_CHARS = 200
MAX_PATH_PARTS = 6

_FENCE = re.compile(r"---[ \t]*\n")
_END = re.compile(r"^---[ \t]*$", re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s\"'\[{|>&*!#%@`].*)$")
_PATH_PART = re.compile(r"\w[\w .()+,@-]*")


class BadSkill(Exception):
    """Why a skill, a name or a path is refused: a sentence for a person or the model."""


@dataclass(frozen=True, slots=True)
class SkillHead:
    """What the front matter says. `description` is one line; what is empty was not there."""

    name: str
    description: str
    category: str = ""
    compatibility: str = ""
    license: str = ""


class _FrontMatter(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: StrictStr
    description: StrictStr
    license: object = None
    compatibility: object = None
    metadata: Mapping[str, object] | None = None
    category: object = None
    allowed_tools: object = Field(default=None, alias="allowed-tools")


def parse_skill(text: str) -> tuple[SkillHead, str]:
    """The front matter of a SKILL.md and the text after it. Raises BadSkill."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    opened = _FENCE.match(text)
    if opened is None:
        raise BadSkill(f"{SKILL_FILE} has no front matter: its first line must be ---.")
    end = _END.search(text, opened.end())
    if end is None:
        raise BadSkill(f"The front matter of {SKILL_FILE} has no closing ---.")
    raw = text[opened.end() : end.start()]
    if len(raw) > MAX_HEAD_CHARS:
        raise BadSkill(f"The front matter of {SKILL_FILE} is longer than {MAX_HEAD_CHARS:,} characters.")
    return _head(_load(raw)), text[end.end() :].lstrip("\n")


def compose_skill(name: str, description: str, body: str) -> str:
    """A SKILL.md of these parts."""
    one_line = " ".join(description.split())
    return (
        f"---\nname: {name}\ndescription: {json.dumps(one_line, ensure_ascii=False)}\n---\n\n{body.strip()}\n"
    )


def has_front_matter(text: str) -> bool:
    return _FENCE.match(text.removeprefix("\ufeff").replace("\r\n", "\n")) is not None


def check_name(name: str) -> str:
    """The name in its one form (NFC). Raises BadSkill.

    Letters and digits of any script, in lower case where a script has cases, and single hyphens or
    underscores between them: what can be a folder and a command.
    """
    name = unicodedata.normalize("NFC", name)
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise BadSkill(f"A skill's name has 1 to {MAX_NAME_CHARS} characters.")
    words = re.split("[-_]", name)
    fits = all(words) and all(
        character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")
        for word in words
        for character in word
    )
    if not fits or name != name.lower():
        raise BadSkill(
            f"“{name}” is no name for a skill: use letters and digits in lower case with single hyphens "
            "between words, such as weekly-report."
        )
    return name


def check_path(path: str, folders: tuple[str, ...] | None = None) -> PurePosixPath:
    """A path of a file within a skill's folder; with `folders` only beneath one of them. Raises BadSkill."""
    parts = path.split("/")
    bad = (
        len(path) > MAX_PATH_CHARS
        or len(parts) > MAX_PATH_PARTS
        or any(_PATH_PART.fullmatch(part) is None or part.endswith((".", " ")) for part in parts)
    )
    if bad:
        raise BadSkill(
            f"“{path[:80]}” is no path of a file in a skill: write it from the skill's folder, such as "
            "references/style.md, without dots before names."
        )
    if folders is not None and (len(parts) < 2 or parts[0] not in folders):
        raise BadSkill(f"Files of a skill go beneath {', '.join(f'{one}/' for one in folders)} only.")
    return PurePosixPath(*parts)


def _head(found: object) -> SkillHead:
    try:
        matter = _FrontMatter.model_validate(found)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"])) or "the block"
        wrong = "is missing" if fault["type"] == "missing" else "must be text"
        raise BadSkill(f"In the front matter of {SKILL_FILE}, {field} {wrong}.") from error
    description = " ".join(matter.description.split())
    if not 0 < len(description) <= MAX_DESCRIPTION_CHARS:
        raise BadSkill(f"A skill's description has 1 to {MAX_DESCRIPTION_CHARS:,} characters.")
    category = matter.category or (matter.metadata or {}).get("category")
    return SkillHead(
        name=check_name(matter.name.strip()),
        description=description,
        category=_short(category),
        compatibility=_short(matter.compatibility),
        license=_short(matter.license),
    )


def _short(value: object) -> str:
    return " ".join(value.split())[:100] if isinstance(value, str) else ""


def _load(raw: str) -> object:
    try:
        return _yaml(raw)
    except BadSkill:
        # Many skills have a description with a colon in it and no quotes: not YAML, but plain enough.
        mended = "\n".join(_quoted(line) for line in raw.split("\n"))
        if mended == raw:
            raise
        return _yaml(mended)


def _yaml(raw: str) -> object:
    try:
        return YAML(typ="safe", pure=True).load(raw)
    except MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 2}"
        raise BadSkill(f"The front matter of {SKILL_FILE} is not YAML{line}: {error.problem}.") from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadSkill(f"The front matter of {SKILL_FILE} is not YAML.") from error


def _quoted(line: str) -> str:
    found = _PLAIN_VALUE.match(line)
    return line if found is None else f"{found[1]}: {json.dumps(found[2].strip(), ensure_ascii=False)}"
