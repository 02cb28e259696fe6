"""What people send on Telegram besides text: files, albums, places, stickers."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.adapters.telegram_house import ANN, Heard, listening
from tests.emulators.telegram import TelegramEmulator
from tests.emulators.telegram_people import Json
from trunkline.adapters.base import AttachmentKind

GROUP = -1002000000001


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramEmulator]:
    async with TelegramEmulator().running() as emulator:
        yield emulator
    assert emulator.violations == []


@pytest.fixture
async def heard(telegram: TelegramEmulator) -> AsyncIterator[Heard]:
    async with listening(telegram) as heard:
        yield heard


async def test_a_photos_caption_is_its_text_and_the_largest_size_its_file(
    telegram: TelegramEmulator, heard: Heard
) -> None:
    await telegram.group_message(GROUP, ANN, "what is this?", media=telegram.photo(b"jpeg"))

    message = await heard.one()

    [picture] = message.attachments
    assert (message.text, message.mentions_me) == ("what is this?", True)
    assert (picture.kind, picture.mime, picture.size_bytes) == (AttachmentKind.IMAGE, "image/jpeg", 4)
    assert picture.ref == "photo-1-1280:u-photo-1-1280"


async def test_the_parts_of_an_album_name_it_and_keep_their_captions(
    telegram: TelegramEmulator, heard: Heard
) -> None:
    items = [(telegram.photo(b"jpeg", f"p{n}"), caption) for n, caption in enumerate(("one", "", "three"))]
    await telegram.album(ANN, ANN, items)

    parts = await heard.all()

    assert [part.text for part in parts] == ["one", "", "three"]
    assert len({part.album for part in parts}) == 1
    assert parts[0].album
    assert [part.attachments[0].ref.split("-")[0] for part in parts] == ["p0", "p1", "p2"]


@pytest.mark.parametrize(
    ("make", "kind", "name", "mime", "text"),
    [
        (lambda t: t.voice(b"x"), AttachmentKind.VOICE, "", "audio/ogg", ""),
        (lambda t: t.audio(b"x", "Shanty"), AttachmentKind.AUDIO, "Shanty", "audio/mpeg", ""),
        (lambda t: t.video(b"x"), AttachmentKind.VIDEO, "", "video/mp4", ""),
        (lambda t: t.video_note(b"x"), AttachmentKind.VIDEO, "", "video/mp4", "[video note]"),
        (lambda t: t.animation(b"x"), AttachmentKind.VIDEO, "", "video/mp4", "[animation]"),
        (
            lambda t: t.document(b"x", "a.pdf", "application/pdf"),
            AttachmentKind.DOCUMENT,
            "a.pdf",
            "application/pdf",
            "",
        ),
        (lambda t: t.document(b"x", "a.png", "image/png"), AttachmentKind.IMAGE, "a.png", "image/png", ""),
    ],
    ids=["voice", "audio", "video", "video note", "animation", "document", "picture as a file"],
)
async def test_a_file_is_an_attachment(
    telegram: TelegramEmulator,
    heard: Heard,
    make: Callable[[TelegramEmulator], Json],
    kind: AttachmentKind,
    name: str,
    mime: str,
    text: str,
) -> None:
    await telegram.direct_message(ANN, media=make(telegram))

    message = await heard.one()

    [file] = message.attachments
    assert (file.kind, file.name, file.mime, message.text) == (kind, name, mime, text)


SPOT = {"latitude": 59.32931, "longitude": 18.06858}
VENUE = {"location": SPOT, "title": "Pier 4", "address": "Quay Road 1"}
OPTION = {"persistent_id": "1", "text": "rum", "voter_count": 0}
POLL = {
    "id": "1",
    "question": "What to drink?",
    "options": [OPTION, {**OPTION, "persistent_id": "2", "text": "tea"}],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": False,
    "members_only": False,
}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"location": SPOT}, "[location: 59.32931, 18.06858]"),
        ({"location": SPOT, "venue": VENUE}, "[place: Pier 4, Quay Road 1, 59.32931, 18.06858]"),
        (
            {"contact": {"phone_number": "+4670", "first_name": "Bo", "last_name": "Ek"}},
            "[contact: Bo Ek, +4670]",
        ),
        ({"poll": POLL}, "[poll: What to drink? (rum; tea)]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[dice 🎲 4]"),
        ({"story": {"chat": {"id": 7, "type": "private"}, "id": 3}}, "[a story: can't be read here]"),
    ],
    ids=["location", "venue", "contact", "poll", "dice", "story"],
)
async def test_what_is_no_text_arrives_as_text_that_says_what_it_is(
    telegram: TelegramEmulator, heard: Heard, content: dict[str, object], text: str
) -> None:
    await telegram.direct_message(ANN, media=content)

    assert (await heard.one()).text == text


async def test_a_sticker_arrives_as_its_emoji(telegram: TelegramEmulator, heard: Heard) -> None:
    await telegram.direct_message(ANN, media=telegram.sticker("🦀"))

    message = await heard.one()

    assert (message.text, message.attachments) == ("[sticker 🦀]", ())


async def test_a_hidden_link_is_spelt_out(telegram: TelegramEmulator, heard: Heard) -> None:
    link = {"type": "text_link", "offset": 6, "length": 4, "url": "https://example.org/a"}
    await telegram.direct_message(ANN, "🚢 see this page", entities=[{**link, "offset": 7}])

    assert (await heard.one()).text == "🚢 see this (https://example.org/a) page"
