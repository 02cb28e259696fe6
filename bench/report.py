"""How a bench tells its figures: one JSON object as the last line, or a small table."""

import json
from collections.abc import Mapping


def report(figures: Mapping[str, float], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dict(figures)))
        return
    for name, figure in figures.items():
        print(f"{name:28} {figure:>14,}")
