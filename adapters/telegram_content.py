"""What a Telegram message carries beside its words: files to fetch, and lines that say what the rest is."""

from telegram import (
    Animation,
    Audio,
    Document,
    Location,
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
    PhotoSize,
    Video,
    VideoNote,
    Voice,
)

from trunkline.adapters.base import Attachment, AttachmentKind
from trunkline.adapters.inline import TEXT_CHARS, inline

_File = PhotoSize | Voice | Audio | VideoNote | Video | Animation | Document

_UNREADABLE = {
    "story": "a story",
    "game": "a game",
    "invoice": "an invoice",
    "paid_media": "paid media",
    "giveaway": "a giveaway",
    "live_photo": "a live photo",
}

EXTERNAL = (
    "photo",
    "video",
    "document",
    "audio",
    "voice",
    "video_note",
    "animation",
    "sticker",
    "poll",
    "contact",
    "location",
    "venue",
    "story",
)
"""What a message in another chat may carry."""


def origin_name(origin: MessageOrigin) -> str:
    match origin:
        case MessageOriginUser():
            return origin.sender_user.full_name
        case MessageOriginHiddenUser():
            return origin.sender_user_name
        case MessageOriginChat():
            return origin.sender_chat.title or "a group"
        case MessageOriginChannel():
            return origin.chat.title or "a channel"
    return "somebody"


def notes_of(message: Message) -> list[str]:
    """A line for each part that is neither text nor a file a model could take."""
    notes = [f"[{what}: can't be read here]" for name, what in _UNREADABLE.items() if getattr(message, name)]
    if message.sticker is not None:
        notes.append(f"[sticker {message.sticker.emoji or 'without emoji'}]")
    if message.venue is not None:
        place = message.venue
        where = f"{inline(place.title)}, {inline(place.address, TEXT_CHARS)}"
        notes.append(f"[place: {where}, {_coordinates(place.location)}]")
    elif message.location is not None:
        notes.append(f"[location: {_coordinates(message.location)}]")
    if message.contact is not None:
        who = " ".join(filter(None, (message.contact.first_name, message.contact.last_name)))
        notes.append(f"[contact: {inline(who)}, {inline(message.contact.phone_number)}]")
    if message.poll is not None:
        options = "; ".join(inline(option.text, TEXT_CHARS) for option in message.poll.options)
        notes.append(f"[poll: {inline(message.poll.question, TEXT_CHARS)} ({options})]")
    if message.dice is not None:
        notes.append(f"[dice {message.dice.emoji} {message.dice.value}]")
    if message.checklist is not None:
        tasks = "; ".join(inline(task.text, TEXT_CHARS) for task in message.checklist.tasks)
        notes.append(f"[checklist: {inline(message.checklist.title, TEXT_CHARS)} ({tasks})]")
    if message.video_note is not None:
        notes.append("[video note]")
    if message.animation is not None:
        notes.append("[animation]")
    return notes


def _coordinates(location: Location) -> str:
    return f"{location.latitude:.5f}, {location.longitude:.5f}"


def files_of(message: Message) -> tuple[Attachment, ...]:
    """The one file a message can carry (an album is several messages)."""
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        return (_file(AttachmentKind.IMAGE, largest, mime="image/jpeg"),)
    if message.voice is not None:
        return (_file(AttachmentKind.VOICE, message.voice, mime=message.voice.mime_type or "audio/ogg"),)
    if message.audio is not None:
        audio = message.audio
        name = audio.file_name or audio.title or ""
        return (_file(AttachmentKind.AUDIO, audio, name, audio.mime_type or "audio/mpeg"),)
    if message.video_note is not None:
        return (_file(AttachmentKind.VIDEO, message.video_note, mime="video/mp4"),)
    film = message.video or message.animation
    if film is not None:
        return (_file(AttachmentKind.VIDEO, film, film.file_name or "", film.mime_type or "video/mp4"),)
    if message.document is not None:
        document = message.document
        mime = document.mime_type or ""
        is_picture = mime.startswith("image/") and mime != "image/svg+xml"
        kind = AttachmentKind.IMAGE if is_picture else AttachmentKind.DOCUMENT
        return (_file(kind, document, document.file_name or "", mime),)
    return ()


def carried_by(message: Message) -> list[str]:
    """A line for each part of a message that is no text."""
    files = (
        f"[{one.kind.value}: {inline(one.name)}]" if one.name else f"[{one.kind.value}]"
        for one in files_of(message)
    )
    return [*notes_of(message), *files]


def _file(kind: AttachmentKind, file: _File, name: str = "", mime: str = "") -> Attachment:
    """The reference is the id to fetch by, a colon, and the id that stays the same for the same file."""
    return Attachment(kind, f"{file.file_id}:{file.file_unique_id}", name, mime, file.file_size)
