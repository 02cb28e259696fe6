"""What is known of the skills beside their texts: who made them, how often they were used, what was changed.

One small file per shelf, `.skills.json`; the skills themselves stay plain folders that people may edit.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

RECORDS_FILE = ".skills.json"
MAX_STEPS = 200
MAX_RECORDS_BYTES = 4_000_000

Maker = Literal["person", "agent"]
Actor = Literal["tool", "review", "command", "curator"]
Action = Literal["create", "edit", "patch", "delete", "write_file", "remove_file", "archive", "restore"]


class RecordsUnreadable(Exception):
    """The file exists but can't be understood; nothing is written over it."""


class SkillRecord(BaseModel):
    """One skill. A folder without a record was put there by a person. Times are Unix milliseconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    made_by: Maker = "person"
    created_ms: int = 0
    used_ms: int = 0
    uses: int = 0
    pinned: bool = False
    stale: bool = False


class SkillStep(BaseModel):
    """One change, written down before it is made. `path` is the file that changed, empty for the whole
    folder; `record` is what was known of the skill.

    `before` and `after` are digests of that file, None where there is no such file; `number` names the
    version that the archive keeps.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    name: str
    action: Action
    by: Actor
    at_ms: int
    path: str = ""
    before: str | None = None
    after: str | None = None
    record: SkillRecord | None = None


class Records(BaseModel):
    """`overlaps` are pairs of skills that a review found to do the same; `joined` are names that came with
    another person's slug when two were found to be one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    skills: Mapping[str, SkillRecord] = Field(default_factory=dict)
    steps: tuple[SkillStep, ...] = ()
    next: int = 1
    overlaps: tuple[tuple[str, str], ...] = ()
    joined: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)

    def of(self, name: str) -> SkillRecord:
        return self.skills.get(name, SkillRecord())

    def with_skill(self, name: str, record: SkillRecord) -> "Records":
        return self.model_copy(update={"skills": {**self.skills, name: record}})

    def without_skill(self, name: str) -> "Records":
        return self.model_copy(
            update={"skills": {known: record for known, record in self.skills.items() if known != name}}
        )

    def with_step(self, step: SkillStep) -> "Records":
        return self.model_copy(
            update={"steps": (*self.steps, step)[-MAX_STEPS:], "next": max(self.next, step.number + 1)}
        )

    def without_step(self, step: SkillStep) -> "Records":
        return self.model_copy(
            update={"steps": tuple(one for one in self.steps if one.number != step.number)}
        )


def read_records(root: Path) -> Records:
    """Raises RecordsUnreadable; where there is no file there is nothing to know."""
    try:
        with (root / RECORDS_FILE).open("rb") as file:
            raw = file.read(MAX_RECORDS_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Records()
    except OSError as error:
        raise RecordsUnreadable(f"{RECORDS_FILE} can't be read") from error
    try:
        return Records.model_validate_json(raw)
    except ValidationError as error:
        raise RecordsUnreadable(f"{RECORDS_FILE} is damaged") from error


def dump_records(records: Records) -> bytes:
    return (json.dumps(records.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n").encode()
