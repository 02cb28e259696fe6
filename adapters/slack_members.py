"""Who is in a Slack channel: asked for what Slack didn't tell, as while nobody was connected."""

import time

from slack_sdk.web.async_client import AsyncWebClient

from trunkline.adapters.base import Unreachable
from trunkline.adapters.slack_errors import translated
from trunkline.adapters.slack_wire import WireMembers, WireUser

_PAGE = 999
_KEPT_S = 60.0


class Members:
    """What was learnt is kept for a minute, in which people of one channel are asked about one by one."""

    def __init__(self, web: AsyncWebClient) -> None:
        self._web = web
        self._learnt_s = 0.0
        self._in: dict[str, frozenset[str]] = {}
        self._is_off: dict[str, bool] = {}

    async def is_in(self, channel: str, user: str) -> bool:
        """Whether somebody is in a channel and their account is not deactivated. Raises AdapterError."""
        if time.monotonic() - self._learnt_s > _KEPT_S:
            self._learnt_s = time.monotonic()
            self._in.clear()
            self._is_off.clear()
        if channel not in self._in:
            self._in[channel] = await self._members(channel)
        if user not in self._in[channel]:
            return False
        if user not in self._is_off:
            self._is_off[user] = await self._deactivated(user)
        return not self._is_off[user]

    async def _members(self, channel: str) -> frozenset[str]:
        found: set[str] = set()
        cursor = ""
        with translated("conversations.members"):
            while True:
                answer = await self._web.conversations_members(
                    channel=channel, limit=_PAGE, cursor=cursor or None
                )
                page = WireMembers.model_validate(answer.data)
                found.update(page.members)
                cursor = page.response_metadata.next_cursor
                if not cursor:
                    return frozenset(found)

    async def _deactivated(self, user: str) -> bool:
        try:
            with translated("users.info"):
                answer = await self._web.users_info(user=user)
                return WireUser.model_validate(answer.get("user") or {}).deleted
        except Unreachable:
            return False  # somebody of another organisation, of whom Slack tells only that they are there
