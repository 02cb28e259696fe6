"""Conclusions that we tell Honcho: each once, and taken back with all that was concluded from them."""

from collections.abc import Iterable

from trunkline.agent.providers.honcho_values import Conclusion, Place, Wire
from trunkline.agent.providers.texts import same, says

LOOK_FOR = 50
"""So many are looked at when something has to be found by its text."""
MOST_ERASED = 500


async def conclude_once(wire: Wire, place: Place, text: str) -> str:
    """Its id: of the one that is there already, else of a new one."""
    found = await with_text(wire, place, text)
    return found[0].id if found else await wire.conclude(place, text)


async def with_text(wire: Wire, place: Place, text: str) -> list[Conclusion]:
    return [one for one in await wire.query(place, text, LOOK_FOR) if same(one.text, text)]


async def saying(wire: Wire, place: Place, wording: str) -> list[Conclusion]:
    """Those that state a fact, in these words or in nearly these."""
    return [one for one in await wire.query(place, wording, LOOK_FOR) if says(one.text, wording)]


async def erase(wire: Wire, place: Place, conclusions: Iterable[str]) -> int:
    """Deletes conclusions and what was concluded from them; how many there were."""
    removed, waiting, seen = 0, list(conclusions), set[str]()
    while waiting and len(seen) < MOST_ERASED:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        waiting += [other.id for other in await wire.derived_from(place, one)]
        removed += await wire.delete_conclusion(place, one)
    return removed
