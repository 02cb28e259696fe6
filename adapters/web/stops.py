"""A stop is told once: in the answer that it cut short, or where nothing of that was shown in a message."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trunkline.adapters.base import OutboundMessage


@dataclass(slots=True)
class _Stop:
    texts: Mapping[str, str]
    """The messages of the conversation as they were when it was asked for."""
    cut_short: bool
    """Whether the answer's beginning was among them: it will say by itself that it was stopped."""
    shows: bool = False
    """Whether one of them has changed since."""
    is_over: bool = False
    held: list[tuple[str, OutboundMessage]] = field(default_factory=list)


class Stops:
    """Per conversation, from a stop of a running answer until its end is told."""

    def __init__(self) -> None:
        self._stops: dict[str, _Stop] = {}

    def asked(self, thread: str, texts: Mapping[str, str], *, cut_short: bool) -> None:
        self._stops[thread] = _Stop(texts, cut_short)

    def holds(self, thread: str, id: str, message: OutboundMessage) -> bool:
        """Whether a new message is kept back: it says that the stop was done, and comes once."""
        stop = self._stops.get(thread)
        if stop is None:
            return False
        if stop.shows:
            del self._stops[thread]
        else:
            stop.held.append((id, message))
        return True

    def edited(self, thread: str, id: str, text: str) -> None:
        stop = self._stops.get(thread)
        if stop is not None and stop.texts.get(id, text) != text:
            stop.shows = True
            if stop.held:
                del self._stops[thread]

    def ended(self, thread: str) -> list[tuple[str, OutboundMessage]]:
        """The messages to show after all, once the answer has ended."""
        stop = self._stops.get(thread)
        if stop is None:
            return []
        if stop.cut_short or (stop.shows and not stop.held):
            stop.is_over = True
            return []
        del self._stops[thread]
        return stop.held

    def begun(self, thread: str) -> None:
        """Another answer begins: nothing of it may be taken for the word on the stop before it."""
        stop = self._stops.get(thread)
        if stop is not None and stop.is_over:
            del self._stops[thread]
