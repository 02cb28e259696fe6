"""What became of a memory write, as data, with the sentences that the model reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trunkline.agent.memory.entries import count_chars, preview
from trunkline.agent.ports import Target


class FailureKind(StrEnum):
    """Why a write did not happen. Nothing has changed in any of these cases."""

    INVALID = "invalid"
    THREAT = "threat"
    NO_MATCH = "no_match"
    AMBIGUOUS = "ambiguous"
    OVER_LIMIT = "over_limit"
    NOT_HERE = "not_here"
    UNREADABLE = "unreadable"
    LOCKED = "locked"
    WRITE_FAILED = "write_failed"


@dataclass(frozen=True, slots=True)
class Written:
    """The store changed from `before` to `after`, both whole. `journal_id` is its undo record."""

    target: Target
    message: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    journal_id: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The store already said so; nothing was written."""

    target: Target
    message: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """The write waits for the person's yes (`memory.write_approval`); nothing was written yet."""

    target: Target
    message: str
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing was written. `entries` are the store's if it was read; `previews` what matched."""

    target: Target
    kind: FailureKind
    error: str
    entries: tuple[str, ...] | None = None
    previews: tuple[str, ...] = ()


Outcome = Written | Unchanged | Held | Failed

DUPLICATE = "No duplicate added: this entry already exists."
ROOM_HAS_NO_USER_STORE = (
    "A room has no user profile: what a person tells about themselves stays in their direct chat and is "
    "neither shown nor changed in a shared room, whoever asks. Save what concerns the whole room as target "
    "'memory', or ask the person to say it in a direct chat."
)
SWITCHED_OFF = "This store is switched off in the configuration, so nothing can be saved there."
EMPTY_CONTENT = "content is empty. Give the text to store."
HOLDS_DELIMITER = (
    "content has a line that is only '§', the mark between entries. Write it as one entry without that line."
)


def no_match(old_text: str) -> str:
    return f"No entry matched '{old_text}'."


def ambiguous(old_text: str) -> str:
    return f"Multiple entries matched '{old_text}'. Be more specific."


def missing_old_text(action: str) -> str:
    return f"{action} needs old_text: a short text that only the entry in question contains; see the entries."


def would_overflow(current: Sequence[str], limit_chars: int, added: str) -> str:
    return (
        f"Memory at {count_chars(current):,}/{limit_chars:,} chars. Adding this entry ({len(added):,} chars) "
        "would exceed the limit. Replace or remove existing entries first."
    )


def would_end_over(current: Sequence[str], limit_chars: int, final: Sequence[str]) -> str:
    return (
        f"Memory at {count_chars(current):,}/{limit_chars:,} chars. This change would bring it to "
        f"{count_chars(final):,} chars, over the limit. Shorten, merge or remove entries in the same call."
    )


def unreadable(file_name: str, cause: str) -> str:
    return (
        f"{file_name} can't be read ({cause}), so nothing was written and the file stays as it is. Tell the "
        "user that this memory file needs to be repaired; don't try again."
    )


def locked(file_name: str, waited_s: float) -> str:
    return f"{file_name} was locked by another writer for {waited_s:g} s. Nothing was written; try once more."


def write_failed(file_name: str, cause: str) -> str:
    return (
        f"{file_name} could not be written ({cause}). The old content is intact and nothing new was saved; "
        "tell the user."
    )


def previews_of(entries: Sequence[str]) -> tuple[str, ...]:
    """80 characters of each."""
    return tuple(preview(entry) for entry in entries)
