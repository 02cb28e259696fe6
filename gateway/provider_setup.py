"""Set-up of a memory provider: which one, what to install, its keys, a test of it, the settings."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trunkline.agent.providers.base import ProviderKind
from trunkline.agent.providers.table import install_hint, missing_modules, names
from trunkline.gateway.config import Config, parse_config, read_secret
from trunkline.gateway.config_faults import ConfigError
from trunkline.gateway.config_yaml import read_yaml, render_changed
from trunkline.gateway.memory_providers import make_provider
from trunkline.gateway.provider_settings import advice_on_unknown, known_kind
from trunkline.gateway.provider_status import check_provider
from trunkline.gateway.setup_interview import Interview
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.facts import StoreFacts


def set_up_provider(
    interview: Interview, name: str, keys: Mapping[str, str], options: Mapping[str, object]
) -> bool:
    """Sets up one provider, asked for where no `name` is given; whether it is saved.

    `keys` are secrets by their names in the environment, `options` the provider's own settings. What does not
    work is said, and saved only if the person wants so.
    """
    kind = _choose(interview, name)
    if kind is None:
        return False
    if missing_modules(kind):
        interview.refuse(f"{kind.title} needs software that is not installed yet: {install_hint(kind)}")
        return False
    secrets = _ask_secrets(interview, kind, keys)
    try:
        config = _config_with(interview, kind, secrets, options)
    except ConfigError as error:
        interview.refuse(f"These settings can't be used:\n{error}")
        return False
    problem = asyncio.run(_try(config, kind))
    if problem:
        interview.refuse(f"{kind.title} does not work yet: {problem}")
        if not interview.confirm("Save it all the same?", default=False):
            return False
    interview.save_secrets({secret: value for secret, value in secrets.items() if value})
    interview.save(_changes(interview.config.memory.provider, kind, options))
    interview.say(f"{kind.title} is set up. It takes part from the next start of the assistant on.")
    return True


def _choose(interview: Interview, name: str) -> ProviderKind[Any] | None:
    if name:
        kind = known_kind(name)
        if kind is None:
            interview.refuse(f"{advice_on_unknown(name).capitalize()}.")
        return kind
    if not interview.may_ask:
        interview.refuse(f"Name a memory provider: {', '.join(names())}.")
        return None
    kinds = [kind for kind in map(known_kind, names()) if kind is not None]
    needs = [f" (needs {install_hint(kind)})" if missing_modules(kind) else "" for kind in kinds]
    titles = [kind.title + missing for kind, missing in zip(kinds, needs, strict=True)]
    return kinds[interview.choose("Which memory provider", titles) - 1]


def _ask_secrets(interview: Interview, kind: ProviderKind[Any], keys: Mapping[str, str]) -> dict[str, str]:
    """The secrets as given, else as they are set already, else as the person answers."""
    found = {}
    for secret in kind.secrets:
        known = keys.get(secret.name) or read_secret(interview.folder, secret.name)
        optional = "" if secret.required else " (empty: none)"
        found[secret.name] = known or interview.ask(f"{secret.ask}{optional}", secret=True)
    return found


def _config_with(
    interview: Interview, kind: ProviderKind[Any], secrets: Mapping[str, str], options: Mapping[str, object]
) -> Config:
    """The settings as they would be, not yet saved. Raises ConfigError."""
    path = interview.folder / "config.yaml"
    current = parse_config(interview.folder, read_yaml(path))
    _, settings = render_changed(path, _changes(current.memory.provider, kind, options))
    config = parse_config(interview.folder, settings)
    keys = {**config.secrets.provider_keys, **secrets}
    return config.model_copy(update={"secrets": replace(config.secrets, provider_keys=keys)})


def _changes(
    active: Sequence[str], kind: ProviderKind[Any], options: Mapping[str, object]
) -> dict[str, object]:
    names = dict.fromkeys((*active, kind.name))
    settings = {f"providers.{kind.name}.{name}": value for name, value in options.items()}
    return {"memory.provider": list(names), **settings}


async def _try(config: Config, kind: ProviderKind[Any]) -> str:
    """Why the provider does not work, empty when it does."""
    with Database(config.database_url) as database:
        provider = make_provider(config, kind.name, StoreFacts(database))
        if isinstance(provider, str):
            return provider
        try:
            return await check_provider(provider, kind.check_s)
        finally:
            await provider.stop()
