"""Honcho's v3 API through the vendor's SDK: its calls, its errors as ours. Only this module loads it."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from honcho import Honcho
from honcho.api_types import MessageCreateParams, SessionPeerConfig
from honcho.http import AsyncHonchoHTTPClient
from honcho.http.exceptions import APIError, HonchoError, NotFoundError

from trunkline.agent.providers.base import ProviderDown
from trunkline.agent.providers.honcho_values import ASSISTANT, Conclusion, Level, Message, Place, Portrait
from trunkline.agent.providers.http import failure_of

QUERY_CHARS = 2_000
QUESTION_CHARS = 10_000
MESSAGES_IN_A_CALL = 100
PAGE = 100
WORKSPACES_KEPT = 256
OBSERVED = SessionPeerConfig(observe_me=True, observe_others=False)
UNOBSERVED = SessionPeerConfig(observe_me=False, observe_others=False)


@dataclass(frozen=True, slots=True)
class _Room:
    """A workspace's client and peer, as the SDK has them."""

    honcho: Any
    peer: Any


class HonchoWire:
    """`honcho_values.Wire` over HTTP. Connections are made when first asked; all workspaces share them."""

    def __init__(self, base_url: str, key: str, timeout_s: float, ask_timeout_s: float) -> None:
        self._base_url = base_url
        self._key = key
        self._timeout_s = timeout_s
        self._ask_timeout_s = ask_timeout_s
        self._connections: httpx.AsyncClient | None = None
        self._unused = httpx.Client(transport=httpx.BaseTransport())
        self._rooms: OrderedDict[Place, _Room] = OrderedDict()

    async def check(self) -> None:
        with _translated():
            await self._client("default").aio.workspaces(size=1)

    async def sessions(self, place: Place, conversation: str | None = None) -> list[tuple[str, str]]:
        wanted = None if conversation is None else {"metadata": {"conversation": conversation}}
        with _translated():
            room = await self._room(place)
            page = await room.honcho.aio.sessions(filters=wanted, size=PAGE)
            return [
                (str(one.id), str((one.metadata or {}).get("conversation", "")))
                async for one in page
                if one.is_active
            ]

    async def make_session(self, place: Place, session: str, conversation: str) -> None:
        peers = [(place.peer, OBSERVED), (ASSISTANT, UNOBSERVED)]
        with _translated():
            room = await self._room(place)
            metadata = {"conversation": conversation}
            await room.honcho.aio.session(session, metadata=metadata, peers=peers)

    async def delete_session(self, place: Place, session: str) -> None:
        with _translated(), _unless_missing():
            room = await self._room(place)
            handle = await room.honcho.aio.session(session)
            await handle.aio.delete()

    async def messages(self, place: Place, session: str, turns: Sequence[str] | None = None) -> list[Message]:
        wanted = None if turns is None else {"OR": [{"metadata": {"turn": turn}} for turn in turns]}
        with _translated():
            room = await self._room(place)
            handle = await room.honcho.aio.session(session)
            return [_message(one) async for one in await handle.aio.messages(filters=wanted, size=PAGE)]

    async def add_messages(self, place: Place, session: str, messages: Sequence[Message]) -> None:
        with _translated():
            room = await self._room(place)
            handle = await room.honcho.aio.session(session)
            for start in range(0, len(messages), MESSAGES_IN_A_CALL):
                await handle.aio.add_messages(
                    [
                        MessageCreateParams(
                            content=one.text,
                            peer_id=one.peer,
                            metadata={"turn": one.turn, "part": one.part},
                            created_at=one.created,
                        )
                        for one in messages[start : start + MESSAGES_IN_A_CALL]
                    ]
                )

    async def search(self, place: Place, query: str, limit: int) -> list[Message]:
        with _translated():
            room = await self._room(place)
            found = await room.honcho.aio.search(query[:QUERY_CHARS], limit=limit)
            return [_message(one) for one in found]

    async def conclusions(self, place: Place, limit: int) -> list[Conclusion]:
        with _translated():
            page = await (await self._room(place)).peer.conclusions.aio.list(size=limit)
            return [_conclusion(one) for one in page.items]

    async def count_conclusions(self, place: Place) -> int:
        with _translated():
            page = await (await self._room(place)).peer.conclusions.aio.list(size=1)
            return int(page.total or 0)

    async def query(self, place: Place, query: str, limit: int) -> list[Conclusion]:
        with _translated():
            view = (await self._room(place)).peer.conclusions.aio
            return [_conclusion(one) for one in await view.query(query[:QUERY_CHARS], top_k=limit)]

    async def conclude(self, place: Place, text: str) -> str:
        with _translated():
            made = await (await self._room(place)).peer.conclusions.aio.create([{"content": text}])
            return str(made[0].id)

    async def derived_from(self, place: Place, conclusion: str) -> list[Conclusion]:
        with _translated(), _unless_missing():
            page = await (await self._room(place)).peer.conclusions.aio.derived(conclusion, size=PAGE)
            return [_conclusion(one) async for one in page]
        return []

    async def delete_conclusion(self, place: Place, conclusion: str) -> bool:
        with _translated(), _unless_missing():
            await (await self._room(place)).peer.conclusions.aio.delete(conclusion)
            return True
        return False

    async def card(self, place: Place) -> tuple[str, ...]:
        with _translated():
            return tuple(await (await self._room(place)).peer.aio.get_card() or ())

    async def set_card(self, place: Place, lines: Sequence[str]) -> None:
        with _translated():
            await (await self._room(place)).peer.aio.set_card(list(lines))

    async def portrait(self, place: Place, query: str) -> Portrait:
        with _translated():
            peer = (await self._room(place)).peer
            known = await peer.aio.context(search_query=query[:QUERY_CHARS] or None)
            return Portrait(known.representation or "", tuple(known.peer_card or ()))

    async def ask(self, place: Place, question: str, level: Level) -> str:
        with _translated():
            peer = (await self._room(place)).peer
            answer = await peer.aio.chat(
                question[:QUESTION_CHARS], reasoning_level=level, timeout=self._ask_timeout_s
            )
            return str(answer or "").strip()

    async def workspace_exists(self, place: Place) -> bool:
        with _translated():
            page = await self._client("default").aio.workspaces(filters={"id": place.workspace})
            return place.workspace in page.items

    async def delete_workspace(self, place: Place) -> None:
        self._rooms.pop(place, None)
        with _translated(), _unless_missing():
            await self._client("default").aio.delete_workspace(place.workspace)

    async def aclose(self) -> None:
        connections, self._connections = self._connections, None
        self._rooms.clear()
        self._unused.close()
        if connections is not None:
            await connections.aclose()

    async def _room(self, place: Place) -> _Room:
        """The workspace and its peer, made at the vendor's where they are not there."""
        room = self._rooms.get(place)
        if room is None:
            honcho = self._client(place.workspace)
            room = self._rooms[place] = _Room(honcho, await honcho.aio.peer(place.peer))
            if len(self._rooms) > WORKSPACES_KEPT:
                self._rooms.popitem(last=False)
        return room

    def _client(self, workspace: str) -> Any:
        """The SDK has one client for each workspace; it is given connections here, which it can't close."""
        if self._connections is None:
            self._connections = httpx.AsyncClient(timeout=self._timeout_s)
        honcho = Honcho(
            workspace_id=workspace,
            base_url=self._base_url,
            api_key=self._key or None,
            http_client=self._unused,
        )
        honcho._async_http = AsyncHonchoHTTPClient(
            base_url=self._base_url,
            api_key=self._key or None,
            timeout=self._timeout_s,
            max_retries=0,
            http_client=self._connections,
        )
        return honcho


@contextmanager
def _translated() -> Iterator[None]:
    """What the SDK raises as the providers' own errors."""
    try:
        yield
    except APIError as error:
        wait_s = getattr(error, "retry_after", None)
        raise failure_of(error.status, None if wait_s is None else str(wait_s)) from error
    except (HonchoError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ProviderDown(f"Honcho does not answer ({type(error).__name__})") from error
    except ValueError as error:  # pydantic's, where an answer has another shape
        raise ProviderDown("Honcho answered with something unknown") from error


@contextmanager
def _unless_missing() -> Iterator[None]:
    """What is not there ends the block in silence."""
    try:
        yield
    except NotFoundError:
        return


def _conclusion(one: Any) -> Conclusion:
    return Conclusion(str(one.id), str(one.content))


def _message(one: Any) -> Message:
    known = one.metadata or {}
    return Message(
        str(one.peer_id),
        str(one.content),
        str(known.get("turn", "")),
        one.created_at,
        int(known.get("part", 0)),
        str(one.session_id),
    )
