"""`/export` and `/delete-me`: a person takes a copy of what is theirs, and leaves for good."""

import asyncio
import hmac
import json
import secrets
from pathlib import Path

from sqlalchemy import Connection

from trunkline.adapters.base import AttachmentKind, ChatRef, Chunk, OutboundFile, OutboundMessage
from trunkline.agent.scope import PersonId, PersonScope
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.erasing import erase_person
from trunkline.gateway.exporting import export_person, new_path
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.state import kv, outbox, people
from trunkline.gateway.state.codes import ALPHABET
from trunkline.gateway.state.outbox import Plan

CONFIRM_MS = 600_000
WORD_CHARS = 5
MAX_SENT_BYTES = 8 * 2**20
"""What every platform takes as one file."""


async def export(context: CommandContext) -> str:
    """Sends the copy to the direct chat. One too large for that stays in the home folder, for the owner; what
    is too large for the files' sake alone is sent without them."""
    person, house = context.account.person, context.house
    if person is None:
        return say("private_elsewhere", context.language)
    files = FileStore(house.home / "files")
    target = await _copied(context, person.slug, files)
    if await _send(context, target):
        return say("export_ready", context.language)
    bare = await _copied(context, person.slug, None)
    if await _send(context, bare):
        target.unlink()
        return say("export_no_files", context.language)
    bare.unlink()
    if person.role == "owner":
        return say("export_file", context.language, path=f"`{target}`")
    return say("export_ask", context.language, name=f"`{target.parent.name}/{target.name}`")


async def _copied(context: CommandContext, slug: PersonId, files: FileStore | None) -> Path:
    house = context.house
    target = new_path(house.home, slug)
    await export_person(house.database, house.memory, house.belongings, PersonScope(slug), target, files)
    return target


async def _send(context: CommandContext, target: Path) -> bool:
    """Plans the copy for the direct chat; false when it is too large."""
    house = context.house
    sha256 = await asyncio.to_thread(_keep, house.home, target)
    if sha256 is None:
        return False
    await house.database.write(lambda c: _plan_file(c, context, target.name, sha256))
    house.kick(context.key.platform, context.key.chat)
    return True


def _keep(home: Path, target: Path) -> str | None:
    """Moves the copy to the files that are sent, from where it goes when it was. None: it is too large."""
    if target.stat().st_size > MAX_SENT_BYTES:
        return None
    sha256 = FileStore(home / "files").put(target.read_bytes())
    target.unlink()
    return sha256


def _plan_file(connection: Connection, context: CommandContext, name: str, sha256: str) -> None:
    key = context.key
    file = OutboundFile(AttachmentKind.DOCUMENT, name, "application/zip", sha256)
    message = OutboundMessage(ChatRef(key.chat, key.thread or None), Chunk(""), file=file)
    where = Plan(f"c:{context.inbox_row}", key.platform, key.tenant, key.chat, key.thread)
    outbox.plan(connection, where, [dump_outbound(message)], now_ms(), kind="file")


async def delete_me(context: CommandContext) -> str:
    """Asks first: the word in the question has to come back within ten minutes."""
    person, house, language = context.account.person, context.house, context.language
    if person is None:
        return say("private_elsewhere", language)
    typed = context.argument.strip().upper()
    asked = await house.database.read(lambda c: _word(c, person.slug))
    if not typed or asked is None or not hmac.compare_digest(typed.encode(), asked.encode()):
        word = await house.database.write(lambda c: _ask(c, person.slug))
        return say("delete_ask", language, word=word)
    owners = await house.database.read(people.owners)
    if [one.id for one in owners] == [person.id] and person.source != "config":
        return say("delete_owner", language)
    erased = await erase_person(
        house.database,
        house.memory,
        house.belongings,
        house.home,
        person,
        stop=house.turns.stop,
        command_row=context.inbox_row,
    )
    told = say("deleted_me_fixed" if erased.keeps_entry else "deleted_me", language)
    counts = say(
        "deleted_counts",
        language,
        entries=f"{erased.entries:,}",
        conversations=f"{erased.conversations:,}",
        messages=f"{erased.messages:,}",
    )
    return f"{told}\n\n{counts}"


def _key(slug: PersonId) -> str:
    return f"delete-me.{slug}"


def _word(connection: Connection, slug: PersonId) -> str | None:
    stored = kv.get_value(connection, _key(slug))
    if stored is None:
        return None
    word, until_ms = json.loads(stored)
    return str(word) if until_ms > now_ms() else None


def _ask(connection: Connection, slug: PersonId) -> str:
    word = "".join(secrets.choice(ALPHABET) for _ in range(WORD_CHARS))
    kv.put_value(connection, _key(slug), json.dumps([word, now_ms() + CONFIRM_MS]))
    return word
