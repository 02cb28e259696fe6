"""The section `mcp` of config.yaml: tool servers that the operator adds, and who may use each."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from trunkline.gateway.settings_types import Duration, Section, Texts, Url

_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_names(servers: Mapping[str, "McpServer"]) -> Mapping[str, "McpServer"]:
    for name in servers:
        if not _NAME.fullmatch(name):
            raise ValueError(f"name the server {name!r} with a-z, 0-9 and -, beginning with a letter")
    return servers


def _check_secrets(names: Mapping[str, str]) -> Mapping[str, str]:
    if not all(map(_SECRET.fullmatch, names.values())):
        raise ValueError("give the name of a variable of the environment or .env, never the value itself")
    return names


SecretNames = Annotated[Mapping[str, str], AfterValidator(_check_secrets)]


class McpServer(Section):
    """A server that is started as a `command`, or reached at a `url`.

    `env` and `headers_env` name the secrets that it is given: what it calls them, and what we call them.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: SecretNames = Field(default_factory=dict)
    url: Url | None = None
    headers_env: SecretNames = Field(default_factory=dict)
    allow: Texts = ()
    tools: Texts = ()
    timeout_s: Duration = Field(default=60.0, alias="timeout", le=600)

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("give it either a command or a url")
        return self

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it is given."""
        return (*self.env.values(), *self.headers_env.values())


class Mcp(Section):
    servers: Annotated[Mapping[str, McpServer], AfterValidator(_check_names)] = Field(default_factory=dict)


def secret_names(servers: Iterable[McpServer]) -> tuple[str, ...]:
    return tuple(name for server in servers for name in server.secrets)
