"""Rooms whose chat got a new id: what config.yaml says of the old id goes on to count for the new one."""

from sqlalchemy import Connection

from trunkline.gateway.settings import FileSettings, RoomEntry
from trunkline.gateway.state import people


def entry_of(
    connection: Connection, settings: FileSettings, platform: str, realm: str, chat: str
) -> RoomEntry:
    """What the operator set for a room, under the id that it has now or the one that it had before."""
    entry = settings.room_entry(platform, realm, chat)
    if entry != RoomEntry():
        return entry
    return settings.room_entry(platform, realm, people.chat_before(connection, platform, realm, chat))
