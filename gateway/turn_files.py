"""The files of a turn, from its messages to its answer: fetched before it begins, sent when it ends."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from trunkline.adapters.base import AttachmentKind, Chunk
from trunkline.gateway import albums
from trunkline.gateway.attachments import Attachments
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Delivery, Destination
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.long_answers import NAME, split_long
from trunkline.gateway.opening import Opened
from trunkline.gateway.outcomes import Outcome
from trunkline.gateway.sentences import say
from trunkline.gateway.sessions import RunningTurn
from trunkline.gateway.state import files, kv, outbox
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.files import NewFile
from trunkline.gateway.state.records import InboxRow
from trunkline.gateway.typing_sign import keep_typing
from trunkline.gateway.voice import Mouth

log = logging.getLogger(__name__)

REST, VOICE = "rest", "voice"
"""The call of a file that no tool made."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an answer goes out: its messages, and the files made of it.

    `blind` is the key under which it is kept that the person knows of a model that takes no pictures.
    """

    chunks: tuple[Chunk, ...]
    made: tuple[NewFile, ...] = ()
    blind: str = ""


class TurnFiles:
    """What the turn runner asks of files. `sees` tells whether a model takes pictures, by name."""

    def __init__(
        self,
        database: Database,
        store: FileStore,
        delivery: Delivery,
        attachments: Attachments,
        sees: Callable[[str], bool],
        mouth: Mouth | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self.delivery = delivery
        self._attachments = attachments
        self._sees = sees
        self._mouth = mouth

    def has_any(self, rows: Sequence[InboxRow]) -> bool:
        """Whether there may be files to fetch: a turn that is taken up again has them."""
        return rows[0].turn is None and any('"attachments"' in row.payload for row in rows)

    async def fetch(self, rows: Sequence[InboxRow], running: RunningTurn, where: Destination) -> None:
        """Fetches what came with the messages; a stop ends that, and the turn then says what is missing.

        Raises NotAdmitted.
        """
        wanted = await self._attachments.look_for(rows)
        try:
            async with asyncio.TaskGroup() as group:
                typing = group.create_task(keep_typing(self.delivery, where), name="typing")
                try:
                    async with asyncio.TaskGroup() as inner:
                        running.watch(inner.create_task(self._attachments.fetch(wanted), name="files"))
                finally:
                    typing.cancel()
        finally:
            running.release()

    async def fetch_beside(self, rows: Sequence[InboxRow]) -> None:
        """Fetches what came with messages that wait while a turn runs. Raises NotAdmitted."""
        await self._attachments.fetch(await self._attachments.look_for(rows))

    async def speak(self, opened: Opened, outcome: Outcome) -> bytes | None:
        """The answer as a voice note, for one who spoke; None where it is to be read only."""
        if self._mouth is None or not opened.has_voice or outcome.state != "done":
            return None
        return await self._mouth.speak(outcome.answer)

    async def prepare(
        self, opened: Opened, outcome: Outcome, where: Destination, voice: bytes | None, model: str
    ) -> Answer:
        """The answer of `model` with what is to be said about files, cut where it is too long for a chat."""
        blind = ""
        notes = list(opened.notes)
        if opened.has_pictures and not self._sees(model) and outcome.state != "stopped":
            blind = f"vision.told.{opened.account.id}:{model}"
            if await self._database.read(lambda c: kv.get_value(c, blind)) is None:
                notes.append(say("pictures_unseen", opened.language))
        text = "\n\n".join(filter(None, [outcome.answer, *(notes if outcome.state != "stopped" else ())]))
        chunks, rest = await asyncio.to_thread(self._cut, text, where.platform, opened.language)
        contents = {REST: None if rest is None else rest.encode(), VOICE: voice}
        try:
            made = [await self._keep(opened, one, call) for call, one in contents.items() if one is not None]
        except OSError as error:
            log.warning("file of an answer not kept: %s", error.strerror)
            return Answer(self.delivery.render(where.platform, text, opened.language), (), blind)
        return Answer(chunks, tuple(made), blind)

    def plan(
        self, connection: Connection, opened: Opened, where: Destination, answer: Answer, message: int | None
    ) -> None:
        """Plans the files after the text, in the transaction that ends the turn."""
        turn = opened.row.key.turn
        for new in answer.made:
            files.add(connection, replace(new, created_ms=now_ms()))
        if answer.blind and kv.get_value(connection, answer.blind) is None:
            kv.put_value(connection, answer.blind, "1")
        rows = sorted(files.going_out(connection, turn), key=lambda row: row.name == NAME, reverse=True)
        if not rows:
            return
        if message is not None:
            files.attach_sent(connection, turn, message)
        limits = self.delivery.limits(where.platform)
        planned = albums.payloads_of(rows, where.to, limits, ephemeral=where.ephemeral)
        outbox.plan(connection, where.plan(f"f:{turn}", turn), planned, now_ms(), kind="file")

    def _cut(self, text: str, platform: str, language: str) -> tuple[tuple[Chunk, ...], str | None]:
        def render(markdown: str) -> tuple[Chunk, ...]:
            return self.delivery.render(platform, markdown, language)

        pointer = say("answer_rest", language, name=NAME)
        split = split_long(text, render, pointer)
        if split is None:
            return render(text), None
        return render(f"{split.head}\n\n{pointer}"), split.rest

    async def _keep(self, opened: Opened, content: bytes, call: str) -> NewFile:
        sha256 = await asyncio.to_thread(self._store.put, content)
        is_voice = call == VOICE
        return NewFile(
            stream=opened.row.stream,
            kind=(AttachmentKind.VOICE if is_voice else AttachmentKind.DOCUMENT).value,
            name="answer.ogg" if is_voice else NAME,
            mime="audio/ogg" if is_voice else "text/markdown",
            size_bytes=len(content),
            sha256=sha256,
            created_ms=0,
            turn=opened.row.key.turn,
            call=call,
        )
