"""Decides what a memory write makes of a store's entries; pure, the same for every kind of store.

`check_operations` runs before the store is locked, `apply_operations` on the entries read under the lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trunkline.agent.memory import outcomes
from trunkline.agent.memory.entries import (
    MemoryLimits,
    count_chars,
    fold_loosely,
    holds_delimiter,
    normalise,
    tidy,
)
from trunkline.agent.memory.outcomes import Failed, FailureKind
from trunkline.agent.memory.scan import refusal, scan, strip_invisible
from trunkline.agent.ports import Action, Target
from trunkline.agent.scope import RoomScope, Scope

_DONE = {"add": "Entry added.", "replace": "Entry replaced.", "remove": "Entry removed."}


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. `content` is for add and replace, `old_text` for replace and remove."""

    action: Action
    content: str = ""
    old_text: str = ""


@dataclass(frozen=True, slots=True)
class NewEntries:
    """What the store will hold. `duplicates` operations had nothing to do."""

    entries: tuple[str, ...]
    message: str
    duplicates: int


def describe_action(operations: Sequence[Operation]) -> str:
    """The journal's word for a write: the one action, or `batch`."""
    return operations[0].action if len(operations) == 1 else "batch"


def check_operations(
    scope: Scope, target: Target, operations: Sequence[Operation], limits: MemoryLimits
) -> tuple[Operation, ...] | Failed:
    """The operations with stripped texts, or why none of them may run, before anything is read."""
    if target == "user" and isinstance(scope, RoomScope):
        return Failed(target, FailureKind.NOT_HERE, outcomes.ROOM_HAS_NO_USER_STORE)
    if not limits.allows(target):
        return Failed(target, FailureKind.NOT_HERE, outcomes.SWITCHED_OFF)
    if not operations:
        return Failed(target, FailureKind.INVALID, "operations is empty. Give at least one.")
    tidied = tuple(Operation(o.action, tidy(o.content), tidy(o.old_text)) for o in operations)
    for number, operation in enumerate(tidied, start=1):
        failed = _check_content(target, operation)
        if failed is not None:
            return _numbered(failed, number, len(tidied))
    return tidied


def _check_content(target: Target, operation: Operation) -> Failed | None:
    if operation.action == "remove":
        return None
    if not strip_invisible(operation.content).strip():
        return Failed(target, FailureKind.INVALID, outcomes.EMPTY_CONTENT)
    if holds_delimiter(operation.content):
        return Failed(target, FailureKind.INVALID, outcomes.HOLDS_DELIMITER)
    finding = scan(operation.content)
    return None if finding is None else Failed(target, FailureKind.THREAT, refusal(finding))


def apply_operations(
    entries: tuple[str, ...], target: Target, operations: Sequence[Operation], limit_chars: int
) -> NewEntries | Failed:
    """Applies all operations in order to a copy, or none. The limit holds for the end state only.

    A store that is already over its limit (a hand edit) may still be made smaller.
    """
    working = list(entries)
    duplicates = 0
    for number, operation in enumerate(operations, start=1):
        result = _apply_one(working, target, operation)
        if isinstance(result, Failed):
            whole = Failed(target, result.kind, result.error, entries, result.previews)
            return _numbered(whole, number, len(operations))
        duplicates += not result
    final = count_chars(working)
    if final > limit_chars and final >= count_chars(entries) and tuple(working) != entries:
        only = operations[0]
        if len(operations) == 1 and only.action == "add":
            error = outcomes.would_overflow(entries, limit_chars, only.content)
        else:
            error = outcomes.would_end_over(entries, limit_chars, working)
        return Failed(target, FailureKind.OVER_LIMIT, error, entries)
    return NewEntries(tuple(working), _message(operations, duplicates), duplicates)


def _apply_one(working: list[str], target: Target, operation: Operation) -> bool | Failed:
    """Whether the operation changed anything."""
    if operation.action == "add":
        if _position_of(working, operation.content) is not None:
            return False
        working.append(operation.content)
        return True
    position = _find_entry(working, target, operation)
    if isinstance(position, Failed):
        return position
    found = normalise(working[position])
    kept = [entry for entry in working[position + 1 :] if normalise(entry) != found]
    if operation.action == "remove":
        working[position:] = kept
        return True
    changed = working[position] != operation.content
    working[position:] = kept
    if _position_of(working, operation.content) is None:
        working.insert(position, operation.content)
    return changed


def _find_entry(working: list[str], target: Target, operation: Operation) -> int | Failed:
    """The one entry meant: by its whole text, else a part of it, else a part written a little differently."""
    old_text = operation.old_text
    if not old_text:
        return Failed(target, FailureKind.INVALID, outcomes.missing_old_text(operation.action))
    whole = _position_of(working, old_text)
    if whole is not None:
        return whole
    hits = [entry for entry in working if old_text in entry]
    if not hits:
        loose = fold_loosely(old_text)
        hits = [entry for entry in working if loose and loose in fold_loosely(entry)]
    if not hits:
        return Failed(target, FailureKind.NO_MATCH, outcomes.no_match(old_text))
    if len({normalise(entry) for entry in hits}) > 1:
        previews = outcomes.previews_of(hits)
        return Failed(target, FailureKind.AMBIGUOUS, outcomes.ambiguous(old_text), previews=previews)
    return working.index(hits[0])


def _position_of(working: Sequence[str], text: str) -> int | None:
    wanted = normalise(text)
    return next((index for index, entry in enumerate(working) if normalise(entry) == wanted), None)


def _message(operations: Sequence[Operation], duplicates: int) -> str:
    if len(operations) == 1:
        if not duplicates:
            return _DONE[operations[0].action]
        return (
            outcomes.DUPLICATE
            if operations[0].action == "add"
            else "The entry already reads like this; nothing changed."
        )
    note = f" {duplicates} had nothing to change: no duplicate was added." if duplicates else ""
    return f"Applied {len(operations)} operations.{note}"


def _numbered(failed: Failed, number: int, count: int) -> Failed:
    if count == 1:
        return failed
    error = f"Operation {number} of {count}: {failed.error} None of the operations was applied."
    return Failed(failed.target, failed.kind, error, failed.entries, failed.previews)
