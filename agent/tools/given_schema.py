"""Arguments of tools whose JSON schema comes from elsewhere: passed through to the model, and held to.

The schema is text of others. It is bounded, nothing outside of it is fetched, and its patterns are not run.
"""

import json
from collections.abc import Mapping
from typing import Any, Self

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import BaseModel, RootModel, model_validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from trunkline.agent.memory.scan import strip_invisible

MOST_CHARS = 24_000
MOST_DEPTH = 24
FAULT_CHARS = 300
_MAPS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Whose keys are names and not words of the schema."""
_NOT_RUN = frozenset({"pattern", "patternProperties", "format", "propertyNames"})
"""A pattern may take for ever; the server checks them itself."""


class BadSchema(ValueError):
    """The schema can't be used; says why."""


class GivenArguments(RootModel[dict[str, Any]]):
    """Arguments that a schema from elsewhere describes."""


def arguments_of(schema: Mapping[str, Any]) -> type[GivenArguments]:
    """A model that shows this schema and validates by it. Raises BadSchema."""
    shown = _cleaned(schema, 0)
    shown.setdefault("type", "object")
    shown.setdefault("properties", {})
    if shown["type"] != "object":
        raise BadSchema("its arguments are no object")
    if len(json.dumps(shown)) > MOST_CHARS:
        raise BadSchema(f"its schema is longer than {MOST_CHARS:,} characters")
    checked = _without_patterns(shown)
    try:
        Draft202012Validator.check_schema(checked)
    except (SchemaError, RecursionError) as error:
        raise BadSchema("its schema is no JSON schema") from error
    validator = Draft202012Validator(checked, registry=Registry())

    class Arguments(GivenArguments):
        @model_validator(mode="after")
        def _fits(self) -> Self:
            fault = _first_fault(validator, self.root)
            if fault:
                raise ValueError(fault)
            return self

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return dict(shown)

    return Arguments


def values_of(arguments: BaseModel) -> dict[str, Any]:
    assert isinstance(arguments, GivenArguments)
    return arguments.root


def _first_fault(validator: Draft202012Validator, given: Mapping[str, Any]) -> str:
    try:
        fault: ValidationError | None = next(validator.iter_errors(given), None)
    except (Unresolvable, RecursionError):
        return ""  # the schema refers to something that isn't there: its server has to judge
    if fault is None:
        return ""
    where = ".".join(map(str, fault.absolute_path))
    return f"{where}: {fault.message}"[:FAULT_CHARS] if where else fault.message[:FAULT_CHARS]


def _cleaned(value: Any, depth: int) -> Any:
    """The schema without characters that nobody sees, and not nested too deeply."""
    if depth > MOST_DEPTH:
        raise BadSchema("its schema is nested too deeply")
    match value:
        case Mapping():
            return {strip_invisible(str(key)): _cleaned(one, depth + 1) for key, one in value.items()}
        case list() | tuple():
            return [_cleaned(one, depth + 1) for one in value]
        case str():
            return strip_invisible(value)
    return value


def _without_patterns(value: Any, *, names: bool = False) -> Any:
    match value:
        case dict():
            return {
                key: _without_patterns(one, names=not names and key in _MAPS)
                for key, one in value.items()
                if names or key not in _NOT_RUN
            }
        case list():
            return [_without_patterns(one) for one in value]
    return value
