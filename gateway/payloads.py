"""Messages as the JSON that the inbox and the outbox keep."""

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from trunkline.adapters.base import InboundMessage, OutboundMessage

T = TypeVar("T")


class BadPayload(ValueError):
    """A stored message can't be read. It tells nothing of what stands there, since it is for the log."""


_INBOUND = TypeAdapter(InboundMessage)
_OUTBOUND = TypeAdapter(OutboundMessage)


def dump_inbound(message: InboundMessage) -> str:
    return _INBOUND.dump_json(message, exclude_defaults=True).decode()


def load_inbound(text: str) -> InboundMessage:
    """Raises BadPayload."""
    return _load(_INBOUND, text)


def words_in(text: str) -> str:
    """What a stored message says; all of it where it can't be read, as it is another version's."""
    try:
        return load_inbound(text).text
    except BadPayload:
        return text


def dump_outbound(message: OutboundMessage) -> str:
    return _OUTBOUND.dump_json(message, exclude_defaults=True).decode()


def load_outbound(text: str) -> OutboundMessage:
    """Raises BadPayload."""
    return _load(_OUTBOUND, text)


def _load(kind: TypeAdapter[T], text: str) -> T:
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        raise BadPayload(f"{error.error_count()} faults of {error.title}") from None
