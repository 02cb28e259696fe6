"""Skill folders for tests: good ones as other assistants make them, and a writer of odd ones."""

from pathlib import Path

REPORT = """\
---
name: weekly-report
description: Writes the weekly report. Use when a report of the week is asked for.
license: Apache-2.0
allowed-tools: Read, Write
metadata:
  author: somebody-else
  category: writing
  version: "1.2"
---

# Weekly report

1. Ask for the figures of the week.
2. Begin with the result, then three points.
3. Keep it under one page; see references/style.md.
"""


def skill_text(name: str, description: str = "Does things. Use for things.", body: str = "1. Do it.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n"


def put_skill(root: Path, name: str, text: str | None = None, **files: str) -> Path:
    """A skill's folder under `root`; a key of `files` has `__` for the slash and `_` before its ending."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(skill_text(name) if text is None else text, encoding="utf-8")
    for key, content in files.items():
        stem, _, ending = key.replace("__", "/").rpartition("_")
        path = folder / f"{stem}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder
