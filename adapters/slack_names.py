"""People's names as Slack shows them, kept for an hour. Who may be asked about is the caller's decision."""

import time
from collections import OrderedDict

from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.slack_errors import translated
from trunkline.adapters.slack_wire import WireUser

_MOST = 1000
_KEPT_S = 3600.0


class Names:
    """At most 1000 names, the ones longest unused going first. Each is asked of Slack again after an hour."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self._kept: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def known(self, user: str) -> str | None:
        """A name learnt before, without asking."""
        kept = self._kept.get(user)
        if kept is None or time.monotonic() - kept[0] > _KEPT_S:
            return None
        self._kept.move_to_end(user)
        return kept[1]

    async def find(self, user: str) -> str:
        """The name, by users.info when it isn't known; the id where there is none. Raises AdapterError."""
        known = self.known(user)
        if known is not None:
            return known
        with translated("users.info"):
            answer = await self._web.users_info(user=user)
            name = WireUser.model_validate(answer.get("user") or {}).label or user
        self._kept[user] = (time.monotonic(), name)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return name
