"""The list of conversations beside the chat: shown, and each one renamed or deleted."""

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.templating import Jinja2Templates

from trunkline.adapters.web.conversations import Conversation, Conversations
from trunkline.adapters.web.hub import Hub

_HOUSE_TIMEOUT_S = 10.0
# What is deleted is also taken out of the file and the index, which takes its time where there is much.
_DELETE_TIMEOUT_S = 120.0
_TITLE_CHARS = 60
_BODY_BYTES_MOST = 4096


class Renamed(BaseModel):
    """What the page sends to rename a conversation."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200, pattern=r"\S")


class Side:
    """The conversations of one person: those the house knows, and before it does those of this run."""

    def __init__(
        self, person: str, hub: Hub, house: Conversations | None, templates: Jinja2Templates
    ) -> None:
        self._person = person
        self._hub = hub
        self._house = house
        self._templates = templates

    def routes(self) -> Sequence[Route]:
        return (
            Route("/conversations", self._show),
            Route("/c/{thread}/title", self._rename, methods=["POST"]),
            Route("/c/{thread}/delete", self._delete, methods=["POST"]),
        )

    async def listed(self) -> list[Conversation]:
        """Newest first."""
        listed: list[Conversation] = []
        if self._house is not None:
            async with asyncio.timeout(_HOUSE_TIMEOUT_S):
                listed = list(await self._house.list(self._person))
        known = {conversation.thread for conversation in listed}
        fresh = [
            Conversation(thread, " ".join(first.text.split())[:_TITLE_CHARS], first.at)
            for thread, first in self._hub.threads()
            if thread not in known
        ]
        return sorted([*fresh, *listed], key=lambda conversation: conversation.at, reverse=True)

    async def _show(self, request: Request) -> Response:
        """The list alone, for a page that is open in the conversation `at`."""
        context = {"conversations": await self.listed(), "thread": request.query_params.get("at", "")}
        return self._templates.TemplateResponse(request, "conversations.html", context)

    async def _rename(self, request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _BODY_BYTES_MOST:
                break
        try:
            title = Renamed.model_validate_json(bytes(body)).title
        except ValidationError:
            return _refusal(400, "A title is one line of at most 200 characters.")
        done = False
        if self._house is not None:
            async with asyncio.timeout(_HOUSE_TIMEOUT_S):
                done = await self._house.rename(self._person, request.path_params["thread"], title)
        return JSONResponse({}) if done else _refusal(404, "There is nothing to rename yet.")

    async def _delete(self, request: Request) -> Response:
        thread = request.path_params["thread"]
        if self._hub.is_typing(thread):
            return _refusal(409, "This conversation is being answered. Stop that first.")
        if self._house is not None:
            async with asyncio.timeout(_DELETE_TIMEOUT_S):
                await self._house.delete(self._person, thread)
        self._hub.forget(thread)
        return JSONResponse({})


def _refusal(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)
