"""Checks Bot API calls, answers and updates against the published description, and text against real TDLib.

The description is read from the folder that TRUNKLINE_API_SPECS names; without it `BotApiSpec.load` gives
None and only TDLib's checks remain.
"""

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tdjson import td_execute

SPECS_VARIABLE = "TRUNKLINE_API_SPECS"
PRIMITIVES: dict[str, tuple[type, ...]] = {
    "Integer": (int,),
    "Float": (int, float),
    "String": (str,),
    "Boolean": (bool,),
}
UPLOADED = "attach://uploaded"
"""Stands in a call's arguments for a file that came as a part of the form."""

TEXT_ENTITY_TYPES = {
    "textEntityTypeMention": "mention",
    "textEntityTypeHashtag": "hashtag",
    "textEntityTypeCashtag": "cashtag",
    "textEntityTypeBotCommand": "bot_command",
    "textEntityTypeUrl": "url",
    "textEntityTypeEmailAddress": "email",
    "textEntityTypePhoneNumber": "phone_number",
}


class BotApiSpec:
    """The methods and types of one Bot API version."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._methods: dict[str, Any] = description["methods"]
        self._types: dict[str, Any] = description["types"]

    @staticmethod
    @functools.cache
    def load() -> "BotApiSpec | None":
        folder = os.environ.get(SPECS_VARIABLE)
        if not folder:
            return None
        return BotApiSpec(json.loads(Path(folder, "telegram-api.json").read_text("utf-8")))

    def call_breaches(self, method: str, arguments: dict[str, Any]) -> list[str]:
        """What is wrong with a call's arguments: unknown or missing ones, wrong types."""
        known = self._methods.get(method)
        if known is None:
            return [f"{method}: no such method"]
        return list(self._field_breaches(method, known.get("fields", []), arguments))

    def answer_breaches(self, method: str, result: Any) -> list[str]:
        return list(self._breaches(f"{method} ->", self._methods[method]["returns"], result))

    def update_breaches(self, update: dict[str, Any]) -> list[str]:
        return list(self._breaches("Update", ["Update"], update))

    def _field_breaches(
        self, where: str, fields: list[dict[str, Any]], value: dict[str, Any]
    ) -> Iterator[str]:
        by_name = {field["name"]: field for field in fields}
        for name in value.keys() - by_name.keys():
            yield f"{where}: unknown field {name}"
        for name, field in by_name.items():
            if name in value:
                yield from self._breaches(f"{where}.{name}", field["types"], value[name])
            elif field["required"]:
                yield f"{where}: {name} is missing"

    def _breaches(self, where: str, types: list[str], value: Any) -> Iterator[str]:
        """Nothing when `value` fits one of `types`, else the complaints of the nearest one."""
        attempts = [list(self._type_breaches(where, name, value)) for name in types]
        yield from min(attempts, key=len)

    def _type_breaches(self, where: str, name: str, value: Any) -> Iterator[str]:
        if name.startswith("Array of "):
            if not isinstance(value, list):
                yield f"{where}: {value!r} is no array"
                return
            for index, item in enumerate(value):
                yield from self._breaches(f"{where}[{index}]", [name.removeprefix("Array of ")], item)
        elif name in PRIMITIVES:
            is_bool = isinstance(value, bool) and name != "Boolean"
            if is_bool or not isinstance(value, PRIMITIVES[name]):
                yield f"{where}: {value!r} is no {name}"
        elif name == "InputFile":
            if value != UPLOADED:
                yield f"{where}: no file was uploaded"
        elif not isinstance(value, dict):
            yield f"{where}: {value!r} is no {name}"
        elif subtypes := self._types[name].get("subtypes"):
            yield from self._breaches(where, subtypes, value)
        else:
            yield from self._field_breaches(f"{where}({name})", self._types[name].get("fields", []), value)


def _ask_tdlib(request: dict[str, Any]) -> dict[str, Any]:
    answer = td_execute(json.dumps(request).encode())
    if answer is None:
        raise ValueError(f"TDLib has no answer to {request['@type']}")
    parsed: dict[str, Any] = json.loads(answer)
    return parsed


_ask_tdlib({"@type": "setLogVerbosityLevel", "new_verbosity_level": 0})


def detected_entities(text: str) -> list[dict[str, Any]]:
    """What Telegram finds in a text by itself (commands, mentions, links), in UTF-16 units."""
    found = _ask_tdlib({"@type": "getTextEntities", "text": text})["entities"]
    return [
        {"type": kind, "offset": entity["offset"], "length": entity["length"]}
        for entity in found
        if (kind := TEXT_ENTITY_TYPES.get(entity["type"]["@type"]))
    ]


def entity_fault(text: str, entities: list[dict[str, Any]]) -> str | None:
    """TDLib's complaint about entities that don't fit the text, or None."""
    spans = [
        {
            "@type": "textEntity",
            "offset": entity["offset"],
            "length": entity["length"],
            "type": {"@type": "textEntityTypeBold"},
        }
        for entity in entities
    ]
    formatted = {"@type": "formattedText", "text": text, "entities": spans}
    answer = _ask_tdlib({"@type": "getMarkdownText", "text": formatted})
    return str(answer["message"]) if answer["@type"] == "error" else None
