"""What config.yaml says of memory providers, checked against what each of them knows."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from trunkline.agent.providers.base import ProviderKind
from trunkline.agent.providers.table import UnknownProvider, kind_of, names
from trunkline.gateway.config_faults import Fault, faults_of


def provider_faults(chosen: Sequence[str], blocks: Mapping[str, Mapping[str, object]]) -> list[Fault]:
    """Faults in `memory.provider` and in `providers`. Loads only the modules that are named there."""
    faults = []
    for path, name in (
        *(("memory.provider", name) for name in chosen),
        *((f"providers.{name}", name) for name in blocks),
    ):
        if known_kind(name) is None:
            faults.append(Fault(path, advice_on_unknown(name)))
    for name, block in blocks.items():
        kind = known_kind(name)
        if kind is None:
            continue
        try:
            kind.options.model_validate(dict(block))
        except ValidationError as error:
            found = faults_of(error, kind.options)
            faults += [Fault(f"providers.{name}.{fault.path}", fault.advice) for fault in found]
    return faults


def secret_names(chosen: Sequence[str], blocks: Mapping[str, Mapping[str, object]]) -> frozenset[str]:
    """The names in the environment that the providers of the settings look at."""
    kinds = filter(None, map(known_kind, (*chosen, *blocks)))
    return frozenset(secret.name for kind in kinds for secret in kind.secrets)


def known_kind(name: str) -> ProviderKind[Any] | None:
    """The provider of that name, None where there is none or its package is broken."""
    try:
        return kind_of(name)
    except (UnknownProvider, ImportError):
        return None


def advice_on_unknown(name: str) -> str:
    """What to say of a name that nobody provides, as part of a sentence."""
    near = get_close_matches(name, names(), n=1)
    if near and near[0] != name:
        return f"there is no memory provider {name}; did you mean {near[0]}?"
    return f"there is no memory provider {name} that can be loaded; there are {', '.join(names())}"
