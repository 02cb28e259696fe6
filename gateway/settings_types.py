"""What the sections of config.yaml are made of: a block that knows its keys, times, addresses, lists."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|)")
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def one_or_many(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else (value,)


def _parse_duration(value: object) -> object:
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, str) and not found:
        raise ValueError("give a time such as 25s, 10m, 12h or 2d")
    return float(found[1]) * _UNIT_S[found[2]] if found else value


def _parse_url(value: object) -> object:
    if isinstance(value, str) and not re.match(r"https?://[^\s/]+", value):
        raise ValueError("give a whole address that begins with http:// or https://")
    return value.rstrip("/") if isinstance(value, str) else value


Url = Annotated[str, BeforeValidator(_parse_url)]
Duration = Annotated[float, BeforeValidator(_parse_duration), Field(gt=0)]
Texts = Annotated[tuple[str, ...], BeforeValidator(one_or_many)]


class Section(BaseModel):
    """One block of the file. Unknown keys are errors; values can't be changed afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)
