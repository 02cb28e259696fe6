"""What people are told of how it is with the platforms."""

from tests.adapters.telegram_house import FAST
from trunkline.adapters.telegram import TelegramAdapter
from trunkline.adapters.web.adapter import WebAdapter
from trunkline.gateway.delivery import Delivery, Line
from trunkline.gateway.liveness import describe_platforms
from trunkline.gateway.state.database import Database


class Poller(TelegramAdapter):
    """One whose last poll was answered so long ago."""

    def __init__(self, ago_s: float) -> None:
        super().__init__("1:token", pacing=FAST)
        self._ago_s = ago_s

    @property
    def heard_ago_s(self) -> float:
        return self._ago_s


def test_a_platform_that_told_nothing_for_too_long_may_not_reach_us(sqlite_database: Database) -> None:
    """TG-07.4: what counts is the last poll that was answered."""
    delivery = Delivery(sqlite_database)
    delivery.connect(Line(WebAdapter("127.0.0.1", 0, "ana", "token"), "local"))
    delivery.connect(Line(Poller(12.4), "bot"))
    assert describe_platforms(delivery, "") == "web, telegram (heard from 12 s ago)"

    delivery.connect(Line(Poller(600), "bot"))
    deaf = "telegram (nothing heard from for 10 min: messages may not reach me)"
    assert describe_platforms(delivery, "") == f"web, {deaf}"
    assert describe_platforms(delivery, "zh-CN") == "web、telegram（10 分钟没有任何消息，我可能收不到新消息）"

    delivery.disconnect("telegram")
    assert describe_platforms(delivery, "") == "web, telegram (not connected)"
