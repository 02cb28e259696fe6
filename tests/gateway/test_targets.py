"""Whom and what a turn may reach: its own chat, and what was sent there unless the person says otherwise."""

from sqlalchemy import select

from tests.gateway.small_house import ANA, BO, ROOM, SmallHouse
from trunkline.gateway.state.schema import account, attachment, memory_journal


def results(house: SmallHouse) -> list[str]:
    """What the calls of the last turn came to."""
    said = house.model.requests[-1]["messages"]
    asked = max(place for place, one in enumerate(said) if one["role"] == "user")
    return [str(one["content"]) for one in said[asked:] if one["role"] == "tool"]


async def test_in_a_room_nothing_goes_to_somebodys_direct_chat(sqlite_house: SmallHouse) -> None:
    """GW-04.1: there is no tool that takes a chat, and none takes one that it doesn't ask for."""
    async with sqlite_house.running() as house:
        house.call("send_message", {"chat": str(ANA), "text": "1, 2, 3"})
        house.call("send_file", {"name": "numbers.txt", "text": "1, 2, 3", "chat": str(ANA)})
        house.call("remind", {"text": "1, 2, 3", "after": "1s", "chat": str(ANA)})
        house.answer("I can only say it here: 1, 2, 3.")
        await house.telegram.group_message(ROOM, BO, "give me the numbers")
        await house.shows("I can only say it here", ROOM)
        await house.ended(1)

    assert len(results(house)) == 3
    assert all("chat" in result or "send_message" in result for result in results(house))
    assert house.telegram.sent(ANA) == []
    assert [shown.text for shown in house.telegram.sent(ROOM)] == ["I can only say it here: 1, 2, 3."]


async def test_a_file_of_another_topic_is_asked_about_first(sqlite_house: SmallHouse) -> None:
    """GW-04.2."""
    house, telegram = sqlite_house, sqlite_house.telegram
    telegram.group(ROOM, topics=(11, 12))
    async with house.running():
        for topic, name in ((11, "a.txt"), (12, "b.txt")):
            house.answer(f"{name} is kept.")
            media = telegram.document(name.encode(), name, "text/plain", f"file-{topic}")
            await telegram.group_message(ROOM, ANA, "keep it", thread=topic, media=media)
            await house.shows(f"{name} is kept.", ROOM)
        await house.ended(2)
        own, other = [row.id for row in await house.rows(attachment)]

        await telegram.group_message(ROOM, ANA, "/new", thread=11)
        await house.shows("A fresh conversation.", ROOM)
        house.call("send_file", {"file": other})
        house.answer("Do you mean b.txt of the other topic?")
        await telegram.group_message(ROOM, ANA, "open that file again", thread=11)
        await house.shows("Do you mean", ROOM)
        await house.ended(3)
        assert results(house) == [
            f"File {other} is of another conversation. Ask whether it is meant; if so, give `elsewhere`."
        ]

        house.call("send_file", {"file": other, "elsewhere": True})
        house.call("send_file", {"file": own})
        house.answer("Here are both.")
        await telegram.group_message(ROOM, ANA, "yes, and a.txt", thread=11)
        await telegram.wait_for(lambda: len(telegram.calls_of("sendDocument")) == 2)
        await house.ended(4)

    sent = [one for one in telegram.sent(ROOM) if one.file_name]
    assert [(one.file_name, one.thread) for one in sent] == [("b.txt", 11), ("a.txt", 11)]


async def test_in_a_shared_room_each_word_and_each_fact_is_of_who_said_it(sqlite_house: SmallHouse) -> None:
    """GW-05.1."""
    house, telegram = sqlite_house, sqlite_house.telegram
    telegram.person(ANA, "Ana")
    telegram.person(BO, "Bo")
    async with house.running():
        for user, name, drink in ((ANA, "Ana", "tea"), (BO, "Bo", "coffee")):
            house.call("memory", {"action": "add", "target": "memory", "content": f"{name} likes {drink}."})
            house.answer(f"Noted: {drink}.")
            await telegram.group_message(ROOM, user, f"I like {drink}")
            await house.shows(f"Noted: {drink}.", ROOM)
        await house.ended(2)
        house.answer("Coffee.")
        await telegram.group_message(ROOM, BO, "what do I like?")
        await house.shows("Coffee.", ROOM)

    said = [str(one["content"]) for one in house.model.requests[-1]["messages"] if one["role"] == "user"]
    marks = [("Ana", "I like tea"), ("Bo", "I like coffee"), ("Bo", "what do I like?")]
    for text, (name, words) in zip(said, marks, strict=True):
        assert f'⟦from "{name}"⟧\n{words}' in text
    noted = select(memory_journal.c.after, account.c.user_id).join(
        account, account.c.id == memory_journal.c.account_id
    )
    facts = await house.database.read(lambda c: c.execute(noted.order_by(memory_journal.c.id)).all())
    assert [("tea" in fact.after, "coffee" in fact.after, fact.user_id) for fact in facts] == [
        (True, False, str(ANA)),
        (True, True, str(BO)),
    ]
