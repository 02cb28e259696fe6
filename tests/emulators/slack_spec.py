"""Checks Slack traffic against the JSON Schemas made from the types that Slack publishes.

The schemas are no part of the repository: `TRUNKLINE_API_SPECS` names the folder that holds `schemas/`. Where
it is unset nothing is checked. What to do with a breach is the emulator's affair.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

# Bolt adds `team_id` to what its own clients call; the published types leave it out.
_NOT_IN_THE_TYPES = {"team_id"}

# Known defects of the types: part of the message, and why it is no breach.
_ALLOWED = (
    ("'container_id' was unexpected", "the library sends it before the types know it"),
    ("'channel_type' is a required property", "app_home posts come without it"),
)

_MESSAGE_EVENTS = {
    None: "GenericMessageEvent",
    "bot_message": "BotMessageEvent",
    "message_changed": "MessageChangedEvent",
    "message_deleted": "MessageDeletedEvent",
    "file_share": "FileShareMessageEvent",
    "thread_broadcast": "ThreadBroadcastMessageEvent",
    "me_message": "MeMessageEvent",
}
_OTHER_EVENTS = {
    "app_mention": "AppMentionEvent",
    "member_joined_channel": "MemberJoinedChannelEvent",
    "member_left_channel": "MemberLeftChannelEvent",
    "channel_left": "ChannelLeftEvent",
    "group_left": "GroupLeftEvent",
    "assistant_thread_started": "AssistantThreadStartedEvent",
}


def schema_folder() -> Path | None:
    """The folder with the schemas, or None where the checks are off."""
    named = os.environ.get("TRUNKLINE_API_SPECS")
    folder = Path(named) / "schemas" if named else None
    return folder if folder is not None and folder.is_dir() else None


def check_request(method: str, arguments: dict[str, Any]) -> list[str]:
    """Breaches in the arguments of a Web API call, as sentences."""
    validator = _validator(f"{_type_name(method)}Arguments.json", None)
    # The types know blocks or attachments; to take the ones away and give the others is one call.
    emptied = {"blocks"} if arguments.get("blocks") == [] and "attachments" in arguments else set()
    known = {k: value for k, value in arguments.items() if k not in _NOT_IN_THE_TYPES | emptied}
    return _breaches(validator, known, f"request {method}")


def check_response(method: str, body: dict[str, Any]) -> list[str]:
    """Breaches in what the emulator answers to a Web API call."""
    return _breaches(_validator(f"{_type_name(method)}Response.json", None), body, f"response {method}")


def check_event(event: dict[str, Any]) -> list[str]:
    """Breaches in an event that the emulator sends."""
    kind = str(event.get("type"))
    definition = _MESSAGE_EVENTS.get(event.get("subtype")) if kind == "message" else _OTHER_EVENTS.get(kind)
    if definition is None:
        return []
    # The types do not know the stubs that stand for files of another organisation (Slack Connect).
    files = [file for file in event.get("files", ()) if file.get("file_access") != "check_file_info"]
    shown = event | ({"files": files} if "files" in event else {})
    return _breaches(_validator("SlackEvent.json", definition), shown, f"event {kind}")


def _type_name(method: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in method.split("."))


def _breaches(validator: jsonschema.Draft7Validator | None, value: dict[str, Any], what: str) -> list[str]:
    if validator is None:
        return []
    found = (jsonschema.exceptions.best_match([error]) for error in validator.iter_errors(value))
    texts = [f"{what}: {'/'.join(map(str, error.path))} {error.message}"[:400] for error in found if error]
    return [text for text in texts if not any(part in text for part, _ in _ALLOWED)]


@cache
def _validator(name: str, definition: str | None) -> jsonschema.Draft7Validator | None:
    folder = schema_folder()
    if folder is None or not (folder / name).is_file():
        return None
    schema = json.loads((folder / name).read_text("utf-8"))
    if definition is not None:
        schema = {"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]}
    # The types are closed; Slack itself adds keys to what it sends, so only requests stay closed.
    if not name.endswith("Arguments.json"):
        _open(schema)
    return jsonschema.Draft7Validator(schema)


def _open(node: Any) -> None:
    if isinstance(node, dict):
        if node.get("additionalProperties") is False:
            del node["additionalProperties"]
        for value in node.values():
            _open(value)
    elif isinstance(node, list):
        for value in node:
            _open(value)
