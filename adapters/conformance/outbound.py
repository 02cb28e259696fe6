"""Checks on what goes out: within the limits, editable, never doubled, refused by kinds, pinging nobody."""

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from trunkline.adapters.base import (
    Adapter,
    AdapterError,
    AttachmentKind,
    Button,
    Chunk,
    InboundKind,
    OutboundFile,
    OutboundMessage,
    Reacts,
    Rejected,
)
from trunkline.adapters.conformance.bench import (
    DEADLINE_S,
    NONCE_CHARS,
    AdapterBench,
    Call,
    Unsupported,
    message_to,
    rendered,
    running,
    unsupported,
)

HARD_TEXTS = (
    "plain",
    "word " * 3000,
    "x" * 9001,
    "👨‍👩‍👧‍👦" * 1200,
    "&<>" * 2500,
    "```python\n" + "    indented = True\n" * 600 + "```",
    "````\n```\nnot the end\n```\n````",
    "| a | b |\n|---|---|\n" + "| one | two |\n" * 200,
    "*" * 3000,
    "> " * 200 + "deep",
    "- " * 100 + "deep",
    "[" * 2000,
    "a " + "`" * 1999,
    "before\n\n" + "https://example.org/" + "a" * 2500,
    "\u202eright to left\u202c and \u0000 nul",
)


async def every_text_is_cut_to_what_the_platform_takes(bench: AdapterBench) -> None:
    adapter = bench.adapter()
    for text in HARD_TEXTS:
        chunks = adapter.render(text)
        assert chunks, text[:40]
        for chunk in chunks:
            assert chunk.text.strip(), text[:40]
            assert bench.length(chunk) <= adapter.limits.message_chars, text[:40]
    assert adapter.render(" \n\t ") == ()


async def what_was_rendered_is_taken_as_it_is(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello")
        asked = await house.one()
        to = message_to(asked, "")
        for chunk in house.adapter.render("# Title\n\n**bold** `code` [a](https://e.example)\n\n- x\n- y"):
            receipt = await house.adapter.send(replace(to, chunk=chunk))
            assert receipt.message_id
        assert "bold" in " ".join(one.text for one in await bench.shown(to.to))


async def an_edit_replaces_and_the_same_again_is_success(bench: AdapterBench) -> None:
    async with running(bench) as house:
        if not house.adapter.limits.can_edit:
            unsupported()
        await bench.write("hello")
        asked = await house.one()
        first, second = rendered(house, asked, "First words"), rendered(house, asked, "Second words")
        sent = await house.adapter.send(first)
        edited = await house.adapter.edit(sent.message_id, second)
        await house.adapter.edit(sent.message_id, second)
        assert edited.message_id == sent.message_id
        texts = [one.text for one in await bench.shown(first.to)]
        assert "Second words" in texts
        assert "First words" not in texts


async def a_deletion_takes_it_away_and_one_that_is_gone_is_success(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello")
        message = rendered(house, await house.one(), "Not for long")
        sent = await house.adapter.send(message)
        try:
            await house.adapter.delete(message.to, sent.message_id)
        except Rejected:
            unsupported()
        await house.adapter.delete(message.to, sent.message_id)
        assert "Not for long" not in [one.text for one in await bench.shown(message.to)]


async def a_name_makes_a_repeated_send_harmless(bench: AdapterBench) -> None:
    """Where `Limits.nonce` claims it."""
    async with running(bench) as house:
        if not house.adapter.limits.nonce:
            unsupported()
        await bench.write("hello")
        message = replace(rendered(house, await house.one(), "Only once"), nonce="n" * NONCE_CHARS)
        first = await house.adapter.send(message)
        second = await house.adapter.send(message)
        assert first == second
        assert [one.text for one in await bench.shown(message.to)].count("Only once") == 1


async def what_may_have_arrived_is_looked_for(bench: AdapterBench) -> None:
    """Where `Limits.looks_back` claims it."""
    async with running(bench) as house:
        if not house.adapter.limits.looks_back:
            unsupported()
        await bench.write("hello")
        message = replace(rendered(house, await house.one(), "Only once"), nonce="tl1-abc")
        began = datetime.now(UTC)
        first = await house.adapter.send(message)
        second = await house.adapter.send(replace(message, tried_since=began))
        assert first == second
        assert [one.text for one in await bench.shown(message.to)].count("Only once") == 1


async def nobody_is_called_by_what_a_model_wrote(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello", "room")
        asked = await house.one()
        words = "@everyone @here <!channel> <!here> <@&1> <!subteam^S1> @harbour_master done"
        for chunk in house.adapter.render(words):
            await house.adapter.send(replace(message_to(asked, ""), chunk=chunk))
        shown = await bench.shown(message_to(asked, "").to)
        assert shown
        assert not any(one.pings_many for one in shown)


async def what_is_private_is_shown_to_nobody_else(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello", "room")
        asked = await house.one()
        secret = replace(rendered(house, asked, "a secret"), ephemeral=True, private=True)
        with suppress(Rejected):
            await house.adapter.send(secret)
        assert not any("secret" in one.text for one in await bench.shown(secret.to))


async def a_file_goes_out_whole(bench: AdapterBench) -> None:
    content = b"first line\nsecond line\n"
    async with running(bench) as house:
        await bench.write("hello")
        to = message_to(await house.one(), "")
        assert not await bench.files(to.to)
        sha256 = hashlib.sha256(content).hexdigest()
        file = OutboundFile(AttachmentKind.DOCUMENT, "list.txt", "text/plain", sha256, content)
        sent = await house.adapter.send(replace(to, chunk=Chunk(""), file=file))
        assert sent.message_id
        assert list(await bench.files(to.to)) == [("list.txt", content)]


async def buttons_come_and_go_and_tell_of_a_press(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello")
        asked = await house.one()
        message = replace(rendered(house, asked, "Shall I?"), buttons=(Button("retry", "Again", "7"),))
        sent = await house.adapter.send(message)
        await bench.press(message.to, sent.message_id, "Again")
        _, pressed = await house.count(2)
        assert (pressed.kind, pressed.text) == (InboundKind.BUTTON, "retry:7")
        assert pressed.sender.id == asked.sender.id
        assert pressed.reply_to is not None
        assert pressed.reply_to.message_id == sent.message_id
        asked_for = [one for one in await bench.shown(message.to) if one.text == "Shall I?"]
        assert [one.buttons for one in asked_for] == [("Again",)]
        await house.adapter.edit(sent.message_id, replace(message, buttons=()))
        assert not any(one.buttons for one in await bench.shown(message.to))


async def reactions_go_both_ways(bench: AdapterBench) -> None:
    async with running(bench) as house:
        written = await bench.write("hello")
        asked = await house.one()
        if not isinstance(house.adapter, Reacts):
            unsupported()
        message = rendered(house, asked, "Hm.")
        sent = await house.adapter.send(message)
        await bench.react(message.to, sent.message_id, "👍")
        _, reacted = await house.count(2)
        assert (reacted.kind, reacted.text) == (InboundKind.REACTION, "👍")
        assert reacted.reply_to is not None
        assert reacted.reply_to.message_id == sent.message_id
        allowed = house.adapter.reactions
        assert allowed is None or "👀" in allowed
        await house.adapter.react(message.to, written, "👀")


async def typing_is_shown_and_ended(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello")
        to = message_to(await house.one(), "").to
        async with asyncio.timeout(DEADLINE_S):
            await house.adapter.typing(to, on=True)
            await house.adapter.typing(to, on=False)


REFUSALS: tuple[tuple[Call, str], ...] = (
    ("send", "RateLimited"),
    ("send", "Unavailable"),
    ("send", "Uncertain"),
    ("send", "Rejected"),
    ("send", "Unreachable"),
    ("edit", "RateLimited"),
    ("edit", "Rejected"),
    ("typing", "RateLimited"),
)


def refusals() -> tuple[tuple[Call, type[AdapterError]], ...]:
    """What a platform may answer, and the kind that must come of it."""
    kinds = {kind.__name__: kind for kind in _all_kinds(AdapterError)}
    return tuple((call, kinds[name]) for call, name in REFUSALS)


async def a_refusal_is_raised_as_its_kind(bench: AdapterBench) -> None:
    tried = 0
    async with running(bench) as house:
        await bench.write("hello")
        message = rendered(house, await house.one(), "Hello to you")
        sent = await house.adapter.send(message)
        for call, kind in refusals():
            try:
                bench.refuse_next(call, kind)
            except Unsupported:
                continue
            tried += 1
            caught = await _caught(house.adapter, call, sent.message_id, message)
            assert type(caught) is kind, f"{call} raised {caught!r}, not {kind.__name__}"
        await house.adapter.send(message)
    if not tried:
        unsupported()


async def _caught(
    adapter: Adapter, call: Call, message_id: str, message: OutboundMessage
) -> AdapterError | None:
    try:
        if call == "send":
            await adapter.send(message)
        elif call == "edit":
            await adapter.edit(message_id, replace(message, chunk=Chunk(f"{message.chunk.text}!")))
        else:
            await adapter.typing(message.to, on=True)
    except AdapterError as error:
        return error
    return None


def _all_kinds(kind: type[AdapterError]) -> list[type[AdapterError]]:
    return [kind, *(deeper for one in kind.__subclasses__() for deeper in _all_kinds(one))]
