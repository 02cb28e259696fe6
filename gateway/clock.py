"""The time, as the house counts it, and the zone of a person's clock."""

import time
from zoneinfo import ZoneInfo

from tzlocal import get_localzone_name

from trunkline.gateway.state.records import Person


def now_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def zone_of(person: Person | None) -> ZoneInfo:
    """The person's own, else this machine's."""
    return ZoneInfo(person.timezone if person is not None and person.timezone else get_localzone_name())
