"""Checks on what comes in: normalised, in order, acknowledged only once it is kept."""

import asyncio
from dataclasses import replace

from trunkline.adapters.base import (
    ChatKind,
    ChatRef,
    Hears,
    InboundKind,
    InboundMessage,
    OutboundMessage,
    TooLarge,
    Unauthorized,
)
from trunkline.adapters.conformance.bench import (
    DEADLINE_S,
    AdapterBench,
    House,
    running,
    unsupported,
)


async def a_direct_message_is_normalised(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello there")
        said = await house.one()
        assert said.platform == house.adapter.platform
        assert said.tenant == house.tenants[0] != ""
        assert (said.kind, said.chat_kind, said.text) == (
            InboundKind.MESSAGE,
            ChatKind.DIRECT,
            "hello there",
        )
        assert said.sender.id
        assert (said.sender.is_person, said.sender.is_bot) == (True, False)
        assert said.sent_at.tzinfo is not None
        assert said.chat
        if isinstance(house.adapter, Hears):
            assert house.adapter.heard_ago_s < house.adapter.deaf_after_s


async def any_text_comes_in_as_it_was_written(bench: AdapterBench) -> None:
    texts = ["ünïcödé 中文 👨‍👩‍👧 ﷽", "a <b> & 'c' \"d\" \\ `e` *f*", "x" * 1500]
    async with running(bench) as house:
        for text in texts:
            await bench.write(text)
            await house.until(lambda: texts.index(text) < len(house.received))  # noqa: B023
        assert [said.text for said in house.received] == texts


async def messages_come_in_order_and_each_under_its_own_key(bench: AdapterBench) -> None:
    async with running(bench) as house:
        for number in range(4):
            await bench.write(f"number {number}")
        said = await house.count(4)
        assert [one.text for one in said] == [f"number {number}" for number in range(4)]
        assert len({one.key for one in said}) == 4


async def order_is_kept_while_the_house_is_slow(bench: AdapterBench) -> None:
    async with running(bench) as house:
        house.free.clear()
        async with asyncio.TaskGroup() as writer:
            writer.create_task(_write_numbers(bench, 3))
            await house.until(lambda: house.offered)
            house.free.set()
        said = await house.count(3)
        assert [one.text for one in said] == [f"number {number}" for number in range(3)]


async def _write_numbers(bench: AdapterBench, count: int) -> None:
    for number in range(count):
        await bench.write(f"number {number}")


async def a_mention_in_a_room_is_seen_and_taken_out(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("what time is it?", "room")
        said = await house.one()
        assert (said.mentions_me, said.text) == (True, "what time is it?")
        assert said.chat_kind is not ChatKind.DIRECT


async def room_talk_without_a_mention_says_so(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("nice weather", "room", mention=False)
        said = await house.one()
        assert (said.mentions_me, said.text) == (False, "nice weather")


async def a_thread_is_told_apart_from_its_room(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("in the room", "room", mention=False)
        await bench.write("in the thread", "thread", mention=False)
        room, thread = await house.count(2)
        assert room.thread is None
        assert thread.thread is not None
        assert thread.chat == room.chat or thread.private_thread


async def a_reply_names_the_message_it_answers(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("hello", "room")
        asked = await house.one()
        (chunk,) = house.adapter.render("An answer.")
        sent = await house.adapter.send(OutboundMessage(ChatRef(asked.chat), chunk))
        await bench.write("why?", "room", mention=False, reply_to=sent.message_id)
        _, replied = await house.count(2)
        assert replied.reply_to is not None
        assert (replied.reply_to.message_id, replied.reply_to.is_own) == (sent.message_id, True)


async def an_edit_names_what_it_changes(bench: AdapterBench) -> None:
    async with running(bench) as house:
        written = await bench.write("helo")
        await house.one()
        await bench.edit(written, "hello")
        said, changed = await house.count(2)
        assert changed.kind is InboundKind.EDIT
        assert (changed.edited_of, changed.text) == (said.message_id, "hello")
        assert changed.version > said.version == 0
        assert changed.key != said.key


async def a_deletion_names_what_is_gone(bench: AdapterBench) -> None:
    async with running(bench) as house:
        written = await bench.write("a secret", "room")
        await house.one()
        await bench.delete(written)
        said, gone = await house.count(2)
        assert gone.kind is InboundKind.DELETION
        assert gone.edited_of == said.message_id
        assert "secret" not in gone.text


async def a_command_has_its_name_and_argument(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.call("help", "with this")
        called = await house.one()
        assert (called.kind, called.command, called.text) == (InboundKind.COMMAND, "help", "with this")


async def a_file_comes_with_its_words_and_is_fetched_only_when_asked_for(bench: AdapterBench) -> None:
    """Not beyond the limit it is asked for with, whatever the platform said of its size."""
    content = bytes(range(256)) * 8
    async with running(bench) as house:
        await bench.attach("notes.bin", content, "my notes")
        said = await house.one()
        assert (said.kind, said.text) == (InboundKind.MESSAGE, "my notes")
        (file,) = said.attachments
        assert file.name == "notes.bin"
        assert file.size_bytes in (None, len(content))
        assert await house.adapter.download(file, len(content)) == content
        for stated in (file, replace(file, size_bytes=None)):
            try:
                await house.adapter.download(stated, len(content) - 1)
            except TooLarge:
                continue
            raise AssertionError("a file was fetched beyond the limit")


async def a_bot_is_no_person(bench: AdapterBench) -> None:
    """It may as well not be delivered at all."""
    async with running(bench) as house:
        await bench.write("I am a robot", "room", by="bot")
        await bench.write("the end", "room")
        await house.until(lambda: any(said.text == "the end" for said in house.received))
        robots = [said for said in house.received if said.text != "the end"]
        assert all(said.sender.is_bot or not said.sender.is_person for said in robots)


async def somebody_without_an_account_is_no_person(bench: AdapterBench) -> None:
    """An anonymous administrator, a channel, a hook. It may as well not be delivered at all."""
    async with running(bench) as house:
        await bench.write("guess who", "room", by="nobody")
        await bench.write("the end", "room")
        await house.until(lambda: any(said.text == "the end" for said in house.received))
        nobodies = [said for said in house.received if said.text != "the end"]
        assert not any(said.sender.is_person for said in nobodies)


async def what_the_platform_repeats_has_the_same_key(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("only once")
        await house.one()
        await bench.repeat()
        await bench.write("the end")
        await house.count(2)
        assert [said.text for said in house.received] == ["only once", "the end"]


async def a_message_that_was_not_stored_comes_again(bench: AdapterBench) -> None:
    """The adapter tells the platform that it has a message only after it was delivered."""
    if not bench.repeats_unstored:
        unsupported()
    async with running(bench) as house:
        await bench.write("before")
        await house.one()
        house.fail_next = 1
        await bench.write("keep me")
        before, said = await house.count(2)
        assert said.text == "keep me"
        assert set(house.offered) == {before.key, said.key}


async def a_connection_that_breaks_is_made_again(bench: AdapterBench) -> None:
    async with running(bench) as house:
        await bench.write("before")
        await house.one()
        await bench.cut()
        await bench.write("after")
        said = await house.count(2)
        assert [one.text for one in said] == ["before", "after"]


async def a_cancelled_run_ends(bench: AdapterBench) -> None:
    house = House(bench, bench.adapter())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(house.run())
        await house.connected()
        task.cancel()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.wait([task])
    assert task.cancelled()


async def a_wrong_token_is_a_persons_to_mend(bench: AdapterBench) -> None:
    adapter = bench.adapter_with_bad_token()

    async def deliver(message: InboundMessage) -> None:
        raise AssertionError("nothing can come in")

    refused: Unauthorized | None = None
    try:
        async with asyncio.timeout(DEADLINE_S):
            await adapter.run(deliver, lambda _: None)
    except Unauthorized as error:
        refused = error
    assert refused is not None
    assert str(refused)
