"""What people are told of the platforms: which are connected, and since when one has told us nothing."""

from math import inf

from trunkline.adapters.base import Adapter, Hears
from trunkline.gateway.delivery import Delivery
from trunkline.gateway.sentences import say

IN_MINUTES_S = 120


def describe_platforms(delivery: Delivery, language: str) -> str:
    """Each platform that has been connected, and how it is with it now."""
    now = delivery.connected
    told = [
        _of_connected(name, line.adapter, language)
        if name in now
        else say("platform_lost", language, name=name)
        for name, line in delivery.known.items()
    ]
    return say("platforms_join", language).join(told)


def _of_connected(name: str, adapter: Adapter, language: str) -> str:
    if not isinstance(adapter, Hears):
        return name
    ago_s = adapter.heard_ago_s
    if ago_s == inf:
        return say("platform_lost", language, name=name)
    key = "platform_deaf" if ago_s > adapter.deaf_after_s else "platform_heard"
    return say(key, language, name=name, ago=_describe_age(ago_s, language))


def _describe_age(age_s: float, language: str) -> str:
    if age_s < IN_MINUTES_S:
        return say("age_seconds", language, count=round(age_s))
    return say("age_minutes", language, count=round(age_s / 60))
