"""OpenViking's API through the vendor's SDK: its calls, its errors as ours. Only this module loads it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
from openviking_sdk import AsyncHTTPClient
from openviking_sdk.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpenVikingError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnimplementedError,
)
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError

from trunkline.agent.providers.base import ProviderDown, ProviderLocked, ProviderRefused
from trunkline.agent.providers.http import LOCKED_STATUSES, RETRIED_STATUSES, failure_of
from trunkline.agent.providers.openviking_values import Note

QUERY_CHARS = 500
"""More costs a small embedding model seconds and finds nothing better."""
PAGE = 500
PAGES = 20
SUFFIX = ".md"
_FIELDS_MARK = re.compile(r"<!--(?=\s*MEMORY_FIELDS)")
"""The server takes what follows for its own fields, and hides it."""

_Text = Annotated[str, BeforeValidator(lambda text: text or "")]


class _Match(BaseModel):
    uri: str
    score: float = 0.0
    abstract: _Text = ""
    content: _Text = ""


class _Found(BaseModel):
    memories: list[_Match] = []


class _Line(BaseModel):
    uri: str


class _Lines(BaseModel):
    matches: list[_Line] = []


class _File(BaseModel):
    uri: str
    isDir: bool = False


_FILES = TypeAdapter(list[_File])


class OpenVikingWire:
    """`openviking_values.Wire` over HTTP. It makes its connections when first asked.

    Each bank is a peer of one user of the server: files below it are of the type memory, which recall needs.
    """

    def __init__(self, base_url: str, key: str, account: str, user: str, timeout_s: float) -> None:
        self._base_url = base_url
        self._key = key
        self._account = account
        self._user = user
        self._timeout_s = timeout_s
        self._client: AsyncHTTPClient | None = None

    async def _api(self) -> AsyncHTTPClient:
        """The client, told everything: what it is not told it looks for in the environment and in a file."""
        if self._client is None:
            client = AsyncHTTPClient(
                url=self._base_url,
                api_key=self._key or None,
                account=self._account,
                user=self._user,
                timeout=self._timeout_s,
                extra_headers={},
                profile_enabled=False,
                auth_mode="api_key",
                event_hooks={"response": [_refuse]},
            )
            await client.initialize()
            if self._client is None:
                self._client = client
        return self._client

    async def check(self) -> None:
        with _translated():
            await (await self._api()).ls(f"viking://user/{self._user}")

    async def write(self, bank: str, name: str, text: str) -> None:
        with _translated():
            await (await self._api()).write(self._uri(bank, name), _FIELDS_MARK.sub("<!-", text), "replace")

    async def find(self, bank: str, query: str, *, limit: int) -> list[Note]:
        with _translated(missing_ok=True):
            answer = await (await self._api()).find(
                query[:QUERY_CHARS].strip() or "?",
                self._folder(bank),
                limit,
                options={"level": 2, "read_content": True, "context_type": "memory"},
            )
            found = _Found.model_validate(answer).memories
            return [
                Note(self._name(bank, one.uri), one.content or one.abstract, one.score)
                for one in found
                if self._holds(bank, one.uri)
            ]
        return []

    async def holding(self, bank: str, words: str) -> list[str]:
        with _translated(missing_ok=True):
            answer = await (await self._api()).grep(
                self._folder(bank), re.escape(words), case_insensitive=True, node_limit=PAGE
            )
            lines = _Lines.model_validate(answer).matches
            return list(
                dict.fromkeys(self._name(bank, one.uri) for one in lines if self._holds(bank, one.uri))
            )
        return []

    async def read(self, bank: str, name: str) -> str | None:
        with _translated(missing_ok=True):
            return str(await (await self._api()).read(self._uri(bank, name)))
        return None

    async def names(self, bank: str) -> list[str]:
        found: list[str] = []
        with _translated(missing_ok=True):
            for page in range(PAGES):
                listed = await (await self._api()).ls_page(
                    self._folder(bank),
                    recursive=True,
                    offset=page * PAGE,
                    limit=PAGE,
                    node_limit=PAGE * PAGES,
                )
                files = _FILES.validate_python(listed["result"])
                found += [
                    self._name(bank, one.uri) for one in files if not one.isDir and self._holds(bank, one.uri)
                ]
                if not listed["has_more"]:
                    break
        return found

    async def delete(self, bank: str, name: str) -> None:
        with _translated(missing_ok=True):
            await (await self._api()).rm(self._uri(bank, name), wait=True)

    async def delete_bank(self, bank: str) -> None:
        with _translated(missing_ok=True):
            await (await self._api()).rm(self._peer(bank), recursive=True, wait=True)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _peer(self, bank: str) -> str:
        return f"viking://user/{self._user}/peers/{bank}"

    def _folder(self, bank: str) -> str:
        return f"{self._peer(bank)}/memories"

    def _uri(self, bank: str, name: str) -> str:
        return f"{self._folder(bank)}/{name}{SUFFIX}"

    def _holds(self, bank: str, uri: str) -> bool:
        """Whether a file is one of the bank's texts, not the server's own summary of a folder."""
        name = uri.removeprefix(f"{self._folder(bank)}/")
        return name != uri and name.endswith(SUFFIX) and "/" not in name and not name.startswith(".")

    def _name(self, bank: str, uri: str) -> str:
        return uri.removeprefix(f"{self._folder(bank)}/").removesuffix(SUFFIX)


async def _refuse(answer: httpx.Response) -> None:
    """What the SDK lets pass: it drops the status of an answer, and takes a page for one."""
    status = answer.status_code
    if status in LOCKED_STATUSES or status in RETRIED_STATUSES or status >= 500:
        raise failure_of(status, answer.headers.get("Retry-After"))
    if "json" not in answer.headers.get("Content-Type", ""):
        raise ProviderDown("OpenViking answered with something that is no JSON")


@contextmanager
def _translated(*, missing_ok: bool = False) -> Iterator[None]:
    """What the SDK raises as the providers' own errors. With `missing_ok` what isn't there ends the block."""
    try:
        yield
    except NotFoundError as error:
        if not missing_ok:
            raise ProviderRefused("OpenViking has no such user or file") from error
    except (UnauthenticatedError, PermissionDeniedError) as error:
        raise ProviderLocked(f"OpenViking: {error.code}") from error
    except (InvalidArgumentError, FailedPreconditionError, UnimplementedError) as error:
        raise ProviderRefused(f"OpenViking: {error.code}") from error
    except OpenVikingError as error:
        raise ProviderDown(f"OpenViking: {error.code}") from error
    except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
        raise ProviderDown(f"OpenViking does not answer ({type(error).__name__})") from error
    except (ValidationError, AttributeError, TypeError, KeyError) as error:
        raise ProviderDown("OpenViking answered with something unknown") from error
