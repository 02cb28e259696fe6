"""Checks what the client and the emulator say against Discord's published descriptions, where at hand.

The folder named by TRUNKLINE_API_SPECS holds them; without it nothing is checked. Known defects of the
descriptions are allowed for here, each with its reason.
"""

import json
import os
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SPECS_VARIABLE = "TRUNKLINE_API_SPECS"

# TypeScript's named flags became an enum of single bits, so that 0 and sums are refused.
_FLAG_NAMES = ("flags", "public_flags", "system_channel_flags")

_EVENT_FILES = {
    "READY": "GatewayReadyDispatch",
    "GUILD_CREATE": "GatewayGuildCreateDispatch",
    "INTERACTION_CREATE": "GatewayInteractionCreateDispatch",
}


def checker_from_environment() -> "DiscordSpec | None":
    folder = os.environ.get(SPECS_VARIABLE)
    return DiscordSpec(Path(folder)) if folder else None


class DiscordSpec:
    """Every method returns the breaches found, as sentences; an empty list is a clean bill."""

    def __init__(self, folder: Path) -> None:
        text = (folder / "discord-openapi.json").read_text()
        self._documents = {side: json.loads(text.replace('"#/', f'"urn:{side}#/')) for side in ("in", "out")}
        # discord.py sends ids as numbers, which the live service takes.
        self._documents["in"]["components"]["schemas"]["SnowflakeType"] = {"type": ["string", "integer"]}
        # It knows replies only; forwards point with a 1 (Discord, Message reference types).
        self._documents["out"]["components"]["schemas"]["MessageReferenceType"] = {"enum": [0, 1]}
        self._registry: Registry[Any] = Registry().with_resources(
            (f"urn:{side}", DRAFT202012.create_resource(document))
            for side, document in self._documents.items()
        )
        self._schemas = folder / "schemas"
        self._validators: dict[str, Validator] = {}

    def request(self, verb: str, path: str, body: Any) -> list[str]:
        operation = self._documents["in"]["paths"].get(path, {}).get(verb.lower())
        if operation is None:
            return [f"{verb} {path}: no such operation"]
        content = operation.get("requestBody", {}).get("content", {})
        if body is None or "application/json" not in content:
            return []
        return self._breaches(f"{verb} {path} request", content["application/json"]["schema"], body)

    def response(self, verb: str, path: str, status: int, body: Any) -> list[str]:
        """Only 2xx bodies: nested form errors carry string codes, which the description calls integers."""
        if not 200 <= status < 300:
            return []
        responses = self._documents["out"]["paths"].get(path, {}).get(verb.lower(), {}).get("responses", {})
        if str(status) not in responses:
            return [f"{verb} {path}: status {status} is not described"]
        content = responses[str(status)].get("content", {})
        if "application/json" not in content:
            return [] if body is None else [f"{verb} {path}: {status} has no body"]
        return self._breaches(f"{verb} {path} response {status}", content["application/json"]["schema"], body)

    def event(self, payload: dict[str, Any]) -> list[str]:
        """A frame from the gateway. Messages are judged by REST's schema: their own doesn't generate."""
        name = payload["t"]
        if name == "MESSAGE_CREATE":
            schema = {"$ref": "urn:out#/components/schemas/MessageResponse"}
            return self._breaches("event MESSAGE_CREATE", schema, payload["d"])
        file = _EVENT_FILES.get(name)
        return self._typed(f"event {name}", file, payload, server=True) if file else []

    def hello(self, payload: dict[str, Any]) -> list[str]:
        return self._typed("HELLO", "GatewayHello", payload, server=True)

    def command(self, payload: dict[str, Any]) -> list[str]:
        """A frame from the client."""
        return self._typed("gateway command", "GatewaySendPayload", payload, server=False)

    def _typed(self, title: str, file: str, payload: Any, *, server: bool) -> list[str]:
        if file not in self._validators:
            schema = _mended(json.loads((self._schemas / f"{file}.json").read_text()), server=server)
            self._validators[file] = Draft7Validator(schema)
        return _described(title, self._validators[file], payload)

    def _breaches(self, title: str, schema: dict[str, Any], body: Any) -> list[str]:
        if title not in self._validators:
            self._validators[title] = Draft202012Validator(schema, registry=self._registry)
        return _described(title, self._validators[title], body)


def _described(title: str, validator: Validator, body: Any) -> list[str]:
    error = best_match(validator.iter_errors(body))
    if error is None:
        return []
    where = "/".join(str(step) for step in error.absolute_path)
    return [f"{title}: {where or 'body'}: {error.message[:300]}"]


def _mended(schema: Any, *, server: bool) -> Any:
    """Open objects for what the server sends (it may always add keys), plain integers for flags."""
    if isinstance(schema, list):
        return [_mended(item, server=server) for item in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {key: _mended(value, server=server) for key, value in schema.items()}
    if server:
        mended.pop("additionalProperties", None)
    properties = mended.get("properties")
    if isinstance(properties, dict):
        for name in _FLAG_NAMES:
            if name in properties:
                properties[name] = {"type": "integer"}
    return mended
