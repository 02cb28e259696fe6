"""Messages as the JSON that the inbox and the outbox keep."""

from pydantic import TypeAdapter

from trunkline.adapters.base import InboundMessage, OutboundMessage

_INBOUND = TypeAdapter(InboundMessage)
_OUTBOUND = TypeAdapter(OutboundMessage)


def dump_inbound(message: InboundMessage) -> str:
    return _INBOUND.dump_json(message, exclude_defaults=True).decode()


def load_inbound(text: str) -> InboundMessage:
    return _INBOUND.validate_json(text)


def dump_outbound(message: OutboundMessage) -> str:
    return _OUTBOUND.dump_json(message, exclude_defaults=True).decode()


def load_outbound(text: str) -> OutboundMessage:
    return _OUTBOUND.validate_json(text)
