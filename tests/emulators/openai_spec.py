"""Checks the OpenAI emulator's requests and answers against the published description, where there is one."""

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SPECS_VARIABLE = "TRUNKLINE_API_SPECS"
FILE = "openai-openapi.json"

_LOST_NULL = {"finish_reason", "logprobs", "usage", "content", "service_tier", "system_fingerprint"}
"""The description lost these fields' nullability, while OpenAI's SDK types them as optional and the live API
sends null."""


def specs_folder() -> Path | None:
    """The folder of published descriptions, None where it isn't set or hasn't this one."""
    folder = os.environ.get(SPECS_VARIABLE)
    return Path(folder) if folder and (Path(folder) / FILE).is_file() else None


def breaches(schema: str, instance: Mapping[str, Any]) -> list[str]:
    """What is wrong with an instance by the schema of that name; empty without a description."""
    folder = specs_folder()
    if folder is None:
        return []
    found = _validator(folder, schema).iter_errors(instance)
    return [_told(schema, error) for error in found if not _known_defect(error)]


def _known_defect(error: ValidationError) -> bool:
    path = [part for part in error.absolute_path if isinstance(part, str)]
    return error.instance is None and bool(path) and path[-1] in _LOST_NULL


def _told(schema: str, error: ValidationError) -> str:
    where = "/".join(str(part) for part in error.absolute_path)
    return f"{schema} at {where or 'top'}: {error.message[:300]}"


@cache
def _validator(folder: Path, schema: str) -> Draft202012Validator:
    description = json.loads((folder / FILE).read_text(encoding="utf-8"))
    registry: Registry[Any] = Registry().with_resource("urn:openai", DRAFT202012.create_resource(description))
    return Draft202012Validator({"$ref": f"urn:openai#/components/schemas/{schema}"}, registry=registry)
