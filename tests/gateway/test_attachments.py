"""Files from the platform to the model and back: fetched once, kept by hash, described, sent, forgotten."""

import asyncio
import io
import os
import re
import zipfile
from typing import Any

import docx
import openpyxl
import pptx
import pypdf
import pytest
from PIL import Image

from tests.emulators.base import Fault
from tests.emulators.openai import Reply, pictures_of
from tests.gateway.small_house import ANA, BO, SmallHouse
from trunkline.gateway.attachment_lines import notes_of
from trunkline.gateway.documents import UNPACKED_BYTES, WORDS_CHARS
from trunkline.gateway.file_store import FileStore
from trunkline.gateway.file_sweep import sweep_dropped, sweep_strays
from trunkline.gateway.state.deletion import delete_session, every_stream
from trunkline.gateway.state.files import FileRow
from trunkline.gateway.state.schema import attachment, dropped_file, message, session, turn
from trunkline.gateway.state.schema import outbox as outbox_table
from trunkline.gateway.state.sight import StoreSight

PNG = b"\x89PNG\r\n\x1a\n" + b"a small picture"


def jpeg(size: tuple[int, int] = (64, 64)) -> bytes:
    made = io.BytesIO()
    Image.effect_noise(size, 90).convert("RGB").save(made, "JPEG", quality=95)
    return made.getvalue()


async def test_a_photo_reaches_the_model_as_it_was_and_again_with_the_next_question(
    sqlite_house: SmallHouse,
) -> None:
    async with sqlite_house.running() as house:
        house.answer("A red square.", "Still red.")
        await house.telegram.direct_message(ANA, "what is this?", media=house.telegram.photo(PNG))
        await house.shows("A red square.")
        await house.say("and now?")
        await house.shows("Still red.")
    first, second = house.model.requests
    assert pictures_of(first) == pictures_of(second) == [("image/png", PNG)]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    [row] = await house.rows(attachment)
    path = house.home / "files" / row.sha256[:2] / row.sha256
    assert path.read_bytes() == PNG
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_model_that_takes_no_pictures_is_told_so_and_the_person_once(
    sqlite_house: SmallHouse,
) -> None:
    sqlite_house.model.sees = False
    async with sqlite_house.running() as house:
        house.answer("I can't see it.", "Nor this one.", "No.")
        for number, answer in enumerate(("I can't see it.", "Nor this one.")):
            photo = house.telegram.photo(PNG + bytes([number]), f"photo-{number}")
            await house.telegram.direct_message(ANA, "what is this?", media=photo)
            await house.shows(answer)
            await house.ended(number + 1)
        first, second = house.telegram.texts(ANA)
    assert "can't see pictures" in first
    assert "can't see pictures" not in second
    refused, *others = house.model.requests
    assert pictures_of(refused)
    assert not any(pictures_of(request) for request in others)
    assert "can't be shown to you" in house.last_user()
    known = StoreSight(house.database)
    assert await known.recall(house.model.base_url, "emulated") is False


async def test_a_picture_that_the_endpoint_refuses_does_not_end_the_conversation(
    sqlite_house: SmallHouse,
) -> None:
    """Its beginning is a picture's, the rest is not; the model takes others."""

    def answer(body: dict[str, Any]) -> Reply:
        if pictures_of(body):
            return Reply(status=400, error="You uploaded an unsupported image. Check its format.")
        return Reply("I can't make it out." if "first" in str(body["messages"][-1]) else "Still here.")

    sqlite_house.model.responder = answer
    async with sqlite_house.running() as house:
        await house.telegram.direct_message(ANA, "first", media=house.telegram.photo(PNG))
        await house.shows("I can't make it out.")
        await house.say("second")
        await house.shows("Still here.")
    known = StoreSight(house.database)
    assert await known.recall(house.model.base_url, "emulated") is None


async def test_a_model_set_to_see_nothing_is_never_sent_a_picture(sqlite_house: SmallHouse) -> None:
    model = {"name": "emulated", "base_url": sqlite_house.model.base_url, "vision": False}
    async with sqlite_house.running(model=model) as house:
        house.answer("What is on it?")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(PNG))
        await house.shows("What is on it?")
    assert [pictures_of(request) for request in house.model.requests] == [[]]


async def test_the_pictures_of_an_album_are_one_question_in_their_order(sqlite_house: SmallHouse) -> None:
    """TG-12.1: each caption stands with its own picture."""
    captions = ("mine", "", "yours")
    items = [
        (sqlite_house.telegram.photo(PNG + bytes([n]), f"p{n}"), caption)
        for n, caption in enumerate(captions)
    ]
    async with sqlite_house.running() as house:
        house.answer("Three of them.")
        await house.telegram.album(ANA, ANA, items)
        await house.shows("Three of them.")
    [request] = house.model.requests
    assert [content[-1] for _, content in pictures_of(request)] == [0, 1, 2]
    said = re.findall(r"mine|yours|\[picture", house.last_user())
    assert said == ["mine", "[picture", "[picture", "yours", "[picture"]


async def test_a_large_picture_is_made_small_for_the_model(sqlite_house: SmallHouse) -> None:
    large = jpeg((3600, 2400))
    async with sqlite_house.running() as house:
        house.answer("Grey.")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(large))
        await house.shows("Grey.")
    [(mime, shown)] = pictures_of(house.model.requests[0])
    with Image.open(io.BytesIO(shown)) as picture:
        assert (mime, max(picture.size)) == ("image/jpeg", 1568)
    assert len(shown) < len(large)


def pdf(text: str) -> bytes:
    """One page with one line, as small as a PDF gets."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(body)
    return body + table + trailer


def word(text: str) -> bytes:
    made, document = io.BytesIO(), docx.Document()
    document.add_paragraph(text)
    document.save(made)
    return made.getvalue()


def sheet(text: str) -> bytes:
    made, book = io.BytesIO(), openpyxl.Workbook()
    book.worksheets[0].append([text, 17])
    book.save(made)
    return made.getvalue()


def slides(text: str) -> bytes:
    made, show = io.BytesIO(), pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = text
    show.save(made)
    return made.getvalue()


WORDS = "The ferry leaves at nine."


DOCUMENTS = {
    "plan.pdf": pdf(WORDS),
    "plan.docx": word(WORDS),
    "plan.xlsx": sheet(WORDS),
    "plan.pptx": slides(WORDS),
    "plan.py": f"print('{WORDS}')".encode(),
    "plan.csv": WORDS.encode("utf-16"),
}


async def test_the_text_of_a_document_reaches_the_model_and_not_the_transcript(
    sqlite_house: SmallHouse,
) -> None:
    async with sqlite_house.running() as house:
        for number, (name, content) in enumerate(DOCUMENTS.items()):
            house.answer(f"Number {number}.")
            media = house.telegram.document(content, name, "application/octet-stream", f"d{number}")
            await house.telegram.direct_message(ANA, "when?", media=media)
            await house.shows(f"Number {number}.")
            assert f'⟦text of the file "{name}"' in house.last_user()
            assert WORDS in house.last_user().partition(f'⟦text of the file "{name}"')[2]
        await house.ended(len(DOCUMENTS))
    stored = await house.rows(message, message.c.role == "user")
    assert [name in row.content for name, row in zip(DOCUMENTS, stored, strict=True)] == [True] * len(stored)
    assert not any(WORDS in row.content for row in stored)


def locked_pdf() -> bytes:
    document, made = pypdf.PdfWriter(), io.BytesIO()
    document.add_blank_page(100, 100)
    document.encrypt("secret", algorithm="RC4-128")
    document.write(made)
    return made.getvalue()


def bomb() -> bytes:
    """A word document of half a megabyte that unpacks to more than anybody should."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("word/document.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(UNPACKED_BYTES // 2**20 + 1):
            part.write(bytes(2**20))
    return made.getvalue()


UNUSABLE = {
    "all.zip": (b"PK\x03\x04" + bytes(40), "I don't open archives"),
    "set-up.exe": (b"MZ" + bytes(200), "I don't read programs"),
    "old.doc": (b"\xd0\xcf\x11\xe0" + bytes(200), "old or locked Office file"),
    "broken.pdf": (b"%PDF-1.4 and then nothing", "damaged"),
    "empty.txt": (b"  \n", "no text in it"),
    "odd.bin": (bytes(range(256)), "files of this kind"),
    "film.mp4": (b"\x00\x00\x00\x18ftypmp42", "can't watch videos"),
    "zero.txt": (b"", "no text in it"),
    "locked.pdf": (locked_pdf(), "locked by a password"),
    "bomb.docx": (bomb(), "unpacks to far too much"),
}


def is_told(house: SmallHouse, name: str, why: str) -> bool:
    return any(name in text and why in text for text in house.telegram.texts(ANA))


async def test_what_can_not_be_used_is_told_to_the_model_and_the_person_and_the_text_is_answered(
    sqlite_house: SmallHouse,
) -> None:
    async with sqlite_house.running() as house:
        for name, (content, why) in UNUSABLE.items():
            house.answer("Noted.")
            mime = "video/mp4" if name.endswith("mp4") else "application/octet-stream"
            media = house.telegram.document(content, name, mime, name)
            await house.telegram.direct_message(ANA, "keep this", media=media)
            await house.telegram.wait_for(lambda said=(name, why): is_told(house, *said))  # type: ignore[misc]
            assert "keep this" in house.last_user()
            assert f"[{name}: can't be used" in house.last_user()


@pytest.mark.parametrize(("kind", "name"), [("image", "照片"), ("voice", "语音"), ("document", "文件")])
def test_a_file_without_a_name_is_called_what_it_is_in_the_persons_language(kind: str, name: str) -> None:
    broken = FileRow(1, kind, "", "", 10, None, "broken")

    assert notes_of([broken], "zh-CN") == (f"我没能使用 {name}：文件损坏，或与名称不符。",)


async def test_a_file_over_the_limit_is_not_fetched(sqlite_house: SmallHouse) -> None:
    async with sqlite_house.running(files={"max_mb": 1}) as house:
        house.answer("I couldn't open it.")
        media = house.telegram.document(bytes(2 * 2**20), "film.mov", "video/quicktime")
        await house.telegram.direct_message(ANA, "what is on it?", media=media)
        await house.shows("film.mov (2 MB): it is larger than 1 MB")
        assert house.telegram.calls_of("getFile") == []


async def test_telegrams_own_limit_is_a_sentence(sqlite_house: SmallHouse) -> None:
    async with sqlite_house.running(files={"max_mb": 50}) as house:
        house.answer("Too big.")
        media = house.telegram.document(b"x", "disk.img", "application/x", size_bytes=30 * 2**20)
        await house.telegram.direct_message(ANA, "read it", media=media)
        await house.shows("it is larger than")


def failing() -> Fault:
    return Fault(status=502)


async def test_a_download_that_fails_once_is_tried_again(sqlite_house: SmallHouse) -> None:
    sqlite_house.telegram.fail_next("file", failing())
    async with sqlite_house.running() as house:
        house.answer("A square.")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(PNG))
        await house.shows("A square.")
    assert pictures_of(house.model.requests[0]) == [("image/png", PNG)]


async def test_a_download_that_fails_again_is_told_and_the_text_is_answered(sqlite_house: SmallHouse) -> None:
    sqlite_house.telegram.fail_next("file", failing(), times=2)
    async with sqlite_house.running() as house:
        house.answer("I could not see it.")
        await house.telegram.direct_message(ANA, "nice?", media=house.telegram.photo(PNG))
        await house.shows("it could not be fetched; send it again")
    assert "can't be used" in house.last_user()


async def test_stop_ends_a_download_at_once_and_delays_nobody_else(sqlite_house: SmallHouse) -> None:
    sqlite_house.telegram.fail_next("file", Fault(delay_s=60.0, serve=True))
    async with sqlite_house.running() as house:
        await house.telegram.direct_message(ANA, "look", media=house.telegram.photo(PNG))
        await house.telegram.wait_for(lambda: house.telegram.calls_of("file"))
        house.answer("Hello Bo.")
        await house.say("hello", user=BO)
        await house.shows("Hello Bo.", chat=BO)
        await house.say("/stop")
        await house.telegram.wait_for(lambda: "Stopped." in house.telegram.texts(ANA))
        await house.ended(2)
    assert len(house.model.requests) == 1
    stopped = await house.rows(turn, turn.c.state == "stopped")
    assert len(stopped) == 1
    [asked] = await house.rows(message, message.c.turn_id == stopped[0].id)
    assert "not fetched, since I was stopped" in asked.content


async def test_a_download_cut_off_by_the_end_of_the_program_is_made_by_the_next(
    sqlite_house: SmallHouse,
) -> None:
    sqlite_house.telegram.fail_next("file", Fault(delay_s=60.0, serve=True))
    async with sqlite_house.running() as house:
        await house.telegram.direct_message(ANA, "what is this?", media=house.telegram.photo(PNG))
        await house.telegram.wait_for(lambda: house.telegram.calls_of("file"))
    assert sqlite_house.model.requests == []
    async with sqlite_house.running() as house:
        house.answer("A square.")
        await house.shows("A square.")
        await house.ended(1)
    assert [pictures_of(request) for request in house.model.requests] == [[("image/png", PNG)]]
    assert len(await house.rows(attachment)) == 1


async def test_a_download_beside_a_turn_that_ends_first_is_made_for_the_next_turn(
    sqlite_house: SmallHouse,
) -> None:
    sqlite_house.telegram.fail_next("file", Fault(delay_s=60.0, serve=True))
    async with sqlite_house.running(agent={"burst_window": 0.001}) as house:
        go_on = asyncio.Event()
        house.model.then(Reply("One.", held=go_on), Reply("A square."))
        await house.say("first")
        await house.asked(1)
        await house.telegram.direct_message(ANA, "what is this?", media=house.telegram.photo(PNG))
        await house.telegram.wait_for(lambda: house.telegram.calls_of("file"))
        go_on.set()
        await house.shows("A square.")
        await house.ended(2)
    assert [len(pictures_of(request)) for request in house.model.requests] == [0, 1]
    assert len(await house.rows(attachment)) == 1


async def test_a_turn_taken_up_after_a_crash_fetches_nothing_again(sqlite_house: SmallHouse) -> None:
    sqlite_house.model.responder = lambda _: Reply("late", delay_s=60.0)
    async with sqlite_house.running() as house:
        await house.telegram.direct_message(ANA, "what is this?", media=house.telegram.photo(PNG))
        await house.asked(1)
    sqlite_house.model.responder = lambda _: Reply("A square.")
    async with sqlite_house.running() as house:
        await house.shows("A square.")
    assert len(house.telegram.calls_of("file")) == 1
    assert pictures_of(house.model.requests[-1]) == [("image/png", PNG)]


SOUND = {"transcription": "listener", "speech": {"name": "speaker", "voice": "verse"}}


async def test_a_voice_note_is_put_into_words_and_answered_by_voice(sqlite_house: SmallHouse) -> None:
    sqlite_house.model.sounds.heard.append("When does the ferry leave?")
    sound = {**sqlite_house.config().auxiliary.model_dump(exclude_none=True), **SOUND}
    async with sqlite_house.running(auxiliary=sound) as house:
        house.answer("At **nine**.")
        await house.telegram.direct_message(ANA, media=house.telegram.voice(b"OggS a voice"))
        await house.telegram.wait_for(lambda: len(house.telegram.sent(ANA)) == 2)
    assert house.model.sounds.recordings == [("recording.ogg", b"OggS a voice")]
    assert "[spoken in a recording] When does the ferry leave?" in house.last_user()
    assert house.telegram.texts(ANA)[0] == "At nine."
    assert len(house.telegram.calls_of("sendVoice")) == 1
    spoken = [content for content in house.telegram.files.values() if content.startswith(b"OggSAt")]
    assert spoken == [b"OggSAt nine."]


async def test_the_transcript_of_a_long_recording_is_cut_and_says_so(sqlite_house: SmallHouse) -> None:
    sqlite_house.model.sounds.heard.append("word " * 10_000)
    sound = {**sqlite_house.config().auxiliary.model_dump(exclude_none=True), **SOUND}
    async with sqlite_house.running(auxiliary=sound) as house:
        house.answer("A long one.")
        await house.telegram.direct_message(ANA, media=house.telegram.voice(b"OggS an hour"))
        await house.shows("A long one.")
    heard = house.last_user().partition("[spoken in a recording] ")[2]
    assert heard.startswith("word " * 7_990)
    assert len(heard) < WORDS_CHARS + 100
    assert "cut here: the file goes on" in heard


async def test_who_writes_is_answered_in_writing(sqlite_house: SmallHouse) -> None:
    sound = {**sqlite_house.config().auxiliary.model_dump(exclude_none=True), **SOUND}
    async with sqlite_house.running(auxiliary=sound) as house:
        house.answer("At nine.")
        await house.say("when?")
        await house.shows("At nine.")
        await house.ended(1)
    assert house.model.calls_of("audio.speech") == []


async def test_where_nothing_listens_a_voice_note_gets_a_sentence(sqlite_house: SmallHouse) -> None:
    async with sqlite_house.running() as house:
        house.answer("Please write it.")
        await house.telegram.direct_message(ANA, media=house.telegram.voice(b"OggS"))
        await house.shows("I can't listen to recordings here")
    assert house.model.calls_of("audio.transcriptions") == []


async def test_an_endpoint_without_transcription_or_speech_costs_no_answer(sqlite_house: SmallHouse) -> None:
    sqlite_house.model.sounds.speaks = False
    sound = {**sqlite_house.config().auxiliary.model_dump(exclude_none=True), **SOUND}
    async with sqlite_house.running(auxiliary=sound) as house:
        house.answer("Please write it.", "At nine.")
        await house.telegram.direct_message(ANA, media=house.telegram.voice(b"OggS", "v1"))
        await house.shows("it could not be put into words")
        house.model.sounds.heard.append("When?")
        await house.telegram.direct_message(ANA, media=house.telegram.voice(b"OggS2", "v2"))
        await house.shows("At nine.")
        await house.ended(2)
    assert house.telegram.calls_of("sendVoice") == []


def documents_sent(house: SmallHouse, chat: int = ANA) -> dict[str, bytes]:
    """The files the bot sent, by name."""
    held = house.telegram.chats[chat].messages.values()
    sent = [one["document"] for one in held if house.telegram.is_own(one) and "document" in one]
    return {one["file_name"]: house.telegram.files[one["file_id"]] for one in sent}


async def test_a_text_the_model_writes_goes_out_as_a_file_after_the_answer(sqlite_house: SmallHouse) -> None:
    async with sqlite_house.running() as house:
        house.call("send_file", {"name": "../../etc/list.md", "text": "- tent"})
        house.answer("Here is the list.")
        await house.say("our list as a file, please")
        sent = outbox_table.select().where(outbox_table.c.kind == "file", outbox_table.c.state == "sent")
        await house.comes_true(lambda c: c.execute(sent).first())
    assert documents_sent(house) == {"list.md": b"- tent"}
    text, file = house.telegram.sent(ANA)
    assert (text.text, file.file_name) == ("Here is the list.", "list.md")


async def test_a_file_of_the_conversation_can_be_sent_again_but_nobody_elses(
    sqlite_house: SmallHouse,
) -> None:
    async with sqlite_house.running() as house:
        house.answer("Kept.")
        media = house.telegram.document(b"mine alone", "secret.txt", "text/plain")
        await house.telegram.direct_message(ANA, "keep it", media=media)
        await house.shows("Kept.")
        await house.ended(1)
        [row] = await house.rows(attachment)

        house.call("send_file", {"file": row.id})
        house.call("send_file", {"file": 9999})
        house.answer("There is none.")
        await house.say("send me the first file", user=BO)
        await house.shows("There is none.", chat=BO)
        await house.ended(2)
        mine, absent = [m["content"] for m in house.model.requests[-1]["messages"] if m["role"] == "tool"]
        assert mine.replace(str(row.id), "9999") == absent
        assert documents_sent(house, BO) == {}

        house.call("send_file", {"file": row.id, "name": "again.txt"})
        house.answer("There it is.")
        await house.say("send it again")
        await house.telegram.wait_for(lambda: documents_sent(house))
    assert documents_sent(house) == {"again.txt": b"mine alone"}


async def test_the_end_of_a_very_long_answer_comes_as_a_file(sqlite_house: SmallHouse) -> None:
    paragraphs = [f"Paragraph {n}: {'word ' * 150}".strip() for n in range(60)]
    async with sqlite_house.running() as house:
        house.model.then(Reply("\n\n".join(paragraphs), chunk_chars=4000))
        await house.say("everything, please")
        await house.telegram.wait_for(lambda: documents_sent(house))
    shown = [one.text for one in house.telegram.sent(ANA) if one.text]
    rest = documents_sent(house)["answer.md"].decode()
    assert len(shown) <= 5
    assert "The rest is in the file answer.md." in shown[-1]
    together = "\n\n".join(shown).replace("The rest is in the file answer.md.", "") + "\n\n" + rest
    assert [one for one in together.split("\n\n") if one.strip()] == paragraphs


async def test_a_file_telegram_may_have_got_is_not_sent_twice(sqlite_house: SmallHouse) -> None:
    sqlite_house.telegram.fail_next("sendDocument", Fault(accept_then_drop=True))
    async with sqlite_house.running() as house:
        house.call("send_file", {"name": "list.md", "text": "- tent"})
        house.answer("Here it is.")
        await house.say("as a file, please")
        await house.shows("may not have arrived")
    assert len(house.telegram.calls_of("sendDocument")) == 1


async def test_a_file_the_platform_refuses_is_told(sqlite_house: SmallHouse) -> None:
    refused = Fault(status=400, body={"ok": False, "error_code": 400, "description": "Bad Request: no"})
    sqlite_house.telegram.fail_next("sendDocument", refused)
    async with sqlite_house.running() as house:
        house.call("send_file", {"name": "list.md", "text": "- tent"})
        house.answer("Here it is.")
        await house.say("as a file, please")
        await house.shows("The file list.md could not be sent here.")


async def gone(house: SmallHouse, sha256: str) -> None:
    store = FileStore(house.home / "files")
    await sweep_dropped(house.database, store, fresh_ms=0)
    assert store.read(sha256) is None


async def test_the_files_of_a_private_conversation_go_with_it(sqlite_house: SmallHouse) -> None:
    async with sqlite_house.running() as house:
        house.answer("A square.")
        await house.say("/private")
        await house.shows("private")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(PNG))
        await house.shows("A square.")
        await house.ended(1)
        [row] = await house.rows(attachment)
        await house.say("/private off")
        await house.comes_true(lambda c: not c.execute(attachment.select()).all())
        await gone(house, row.sha256)


async def test_a_deleted_session_takes_its_files_along_unless_others_have_them(
    sqlite_house: SmallHouse,
) -> None:
    async with sqlite_house.running() as house:
        house.answer("One.", "Two.", "Three.")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(PNG, "p1"))
        await house.shows("One.")
        await house.telegram.direct_message(ANA, media=house.telegram.photo(PNG + b"2", "p2"))
        await house.shows("Two.")
        await house.telegram.direct_message(BO, media=house.telegram.photo(PNG, "p3"))
        await house.shows("Three.", chat=BO)
        await house.ended(3)
    shared, own, _ = await house.rows(attachment)
    [kept] = await house.rows(session, session.c.id == 1)
    await house.database.write(lambda c: delete_session(c, every_stream(c), kept.public_id))
    await gone(house, own.sha256)
    assert FileStore(house.home / "files").read(shared.sha256) == PNG


async def test_what_was_never_part_of_a_conversation_goes_after_a_day(sqlite_house: SmallHouse) -> None:
    store = FileStore(sqlite_house.home / "files")
    old, fresh = store.put(b"old"), store.put(b"fresh")
    os.utime(store.path(old), (1, 1))
    await sweep_strays(sqlite_house.database, store)
    assert (store.read(old), store.read(fresh)) == (None, b"fresh")


async def test_a_content_that_loses_its_last_row_as_it_comes_again_stays(sqlite_house: SmallHouse) -> None:
    store = FileStore(sqlite_house.home / "files")
    sha256 = store.put(b"again")
    await sqlite_house.database.write(lambda c: c.execute(dropped_file.insert().values(sha256=sha256)))
    await sweep_dropped(sqlite_house.database, store)
    assert store.read(sha256) == b"again"


async def test_a_file_on_its_way_when_the_program_dies_is_not_sent_blindly_again(
    sqlite_house: SmallHouse,
) -> None:
    sqlite_house.telegram.fail_next("sendDocument", Fault(delay_s=60.0, serve=True))
    async with sqlite_house.running() as house:
        house.call("send_file", {"name": "list.md", "text": "- tent"})
        house.answer("Here it is.")
        await house.say("as a file, please")
        await house.telegram.wait_for(lambda: house.telegram.calls_of("sendDocument"))
    async with sqlite_house.running() as house:
        house.answer("Yes?")
        await house.say("hello?")
        await house.shows("Yes?")
    states = [row.state for row in await house.rows(outbox_table, outbox_table.c.kind == "file")]
    assert states == ["unknown"]
    assert len(house.telegram.calls_of("sendDocument")) == 1
