"""`/memory`: a person sees, changes, takes back, approves and forgets what is remembered of them.

What the words mean is read here; doing it is memory_control's. Only in direct chats, always the person's own.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from trunkline.agent.memory.entries import preview, usage_text
from trunkline.agent.memory.operations import Operation
from trunkline.agent.memory.outcomes import Failed, FailureKind, Outcome, Unchanged
from trunkline.agent.memory.scan import scan
from trunkline.agent.ports import Target
from trunkline.agent.scope import PersonScope
from trunkline.gateway import memory_approval
from trunkline.gateway.clock import now_ms, zone_of
from trunkline.gateway.commands.registry import CommandContext, Erased
from trunkline.gateway.exporting import fenced
from trunkline.gateway.memory_control import (
    MAX_UNDO,
    ORDER,
    Fact,
    Facts,
    Forgotten,
    MemoryControl,
    find,
    number_in,
    search,
)
from trunkline.gateway.sentences import describe_day, describe_place, say
from trunkline.gateway.sentences_memory import as_written
from trunkline.gateway.skills import skills_that_tell
from trunkline.gateway.state import forgetting
from trunkline.gateway.state.held import HeldWrite
from trunkline.gateway.state.records import scope_of

SHOWN_CHARS = 160
TARGETS: dict[str, Target] = {"user": "user", "notes": "memory", "memory": "memory"}
TRANSCRIPT = "transcript"

Run = Callable[["Desk", str], Awaitable[str]]


class Desk:
    """One use of `/memory`: who asks, and the words for the answer."""

    def __init__(self, context: CommandContext, scope: PersonScope) -> None:
        self.context = context
        self.scope = scope
        self.control = MemoryControl(
            context.house.memory,
            context.house.database,
            scope,
            context.account.platform,
            context.account.id,
        )

    def say(self, key: str, **fields: object) -> str:
        return say(f"memory_{key}", self.context.language, **fields)

    def describe_source(self, fact: Fact) -> str:
        """For example `Discord, 3 May`."""
        if fact.source is None:
            return self.say("by_hand")
        language, zone = self.context.language, zone_of(self.context.account.person)
        shown = describe_day(fact.source.created.astimezone(zone), datetime.now(zone), language)
        if fact.source.origin.actor == "import":
            return self.say("imported", day=shown)
        return f"{describe_place(fact.source.origin.platform, language)}, {shown}"

    def line(self, fact: Fact) -> str:
        return f"{fact.number}. {as_written(fact.text)} ({self.describe_source(fact)})"

    def listed(self, facts: Sequence[Fact]) -> str:
        return "\n".join(self.line(fact) for fact in facts)

    def outcome(self, outcome: Outcome, done: str, text: str) -> str:
        """`done` is the key of the sentence for a store that changed."""
        if isinstance(outcome, Failed):
            return self.failure(outcome, text)
        if isinstance(outcome, Unchanged):
            return self.say("unchanged")
        return self.say(done, text=as_written(preview(text, SHOWN_CHARS)))

    def failure(self, failed: Failed, text: str = "") -> str:
        """Why nothing changed, in the person's words and with what to do."""
        if failed.kind is FailureKind.THREAT:
            finding = scan(text)
            return self.say(f"threat_{finding.category.name.lower()}" if finding else "threat")
        if failed.kind is FailureKind.OVER_LIMIT:
            limit = self.context.house.memory.limits.chars_of(failed.target)
            return self.say("full", usage=usage_text(failed.entries or (), limit))
        return self.say(f"failed_{failed.kind}")


async def run(context: CommandContext) -> str:
    """The command: a word that says what to do, then what it is done to."""
    scope = scope_of(context.account, context.room)
    if not isinstance(scope, PersonScope):
        return say("private_elsewhere", context.language)
    word, rest = _split(context.argument)
    chosen = ACTIONS.get(word.casefold() or "list")
    desk = Desk(context, scope)
    return desk.say("usage") if chosen is None else await chosen(desk, rest)


def _split(text: str) -> tuple[str, str]:
    """The first word, and what follows it on whatever line."""
    word, *rest = text.split(maxsplit=1) or [""]
    return word, "".join(rest).strip()


async def _list(desk: Desk, _: str) -> str:
    facts = await desk.control.facts(renumber=True)
    parts = await _remarks(desk, facts)
    for target, heading in zip(ORDER, ("user", "notes"), strict=True):
        listed = [fact for fact in facts.known if fact.target == target]
        if listed:
            parts.append(f"{desk.say(heading)}\n\n{desk.listed(listed)}")
    if not facts.known and not facts.unreadable:
        parts.append(desk.say("empty"))
    if facts.known:
        parts.append(desk.say("hint"))
    return "\n\n".join(parts)


async def _remarks(desk: Desk, facts: Facts) -> list[str]:
    """What else there is to know before the list: a file that can't be read, a pause, waiting changes."""
    slug = desk.scope.person
    parts = [desk.say("unreadable")] if facts.unreadable else []
    if await desk.context.house.database.read(lambda c: memory_approval.is_paused(c, slug)):
        parts.append(desk.say("is_paused"))
    waiting = await desk.control.waiting()
    if waiting:
        parts.append(_waiting(desk, waiting))
    return parts


def _waiting(desk: Desk, waiting: Sequence[HeldWrite]) -> str:
    listed = (
        f"{write.number}. {memory_approval.describe(write.operations, desk.context.language)}"
        for write in waiting
    )
    return "\n".join([desk.say("waiting"), "", *listed])


async def _search(desk: Desk, words: str) -> str:
    if not words:
        return desk.say("search_what")
    found = search((await desk.control.facts()).known, words)
    return desk.listed(found) or desk.say("search_none", words=as_written(words))


async def _add(desk: Desk, rest: str) -> str:
    word, text = _split(rest)
    target = TARGETS.get(word)  # in lower case only: an entry may well begin with the word User
    if target is None:
        target, text = "user" if desk.context.house.memory.limits.allows("user") else "memory", rest
    if not text:
        return desk.say("add_what")
    text = desk.context.house.mask(text)
    outcome = await desk.control.write(target, Operation("add", content=text))
    return desk.outcome(outcome, "added", text)


async def _edit(desk: Desk, rest: str) -> str:
    number, text = _split(rest)
    if number_in(number) is None or not text:
        return desk.say("edit_what")
    found = find((await desk.control.facts()).known, number)
    if not found:
        return desk.say("no_number", number=as_written(number))
    (fact,) = found
    text = desk.context.house.mask(text)
    outcome = await desk.control.write(fact.target, Operation("replace", content=text, old_text=fact.text))
    return desk.outcome(outcome, "edited", text)


async def _forget(desk: Desk, rest: str) -> str:
    words, transcript = rest, False
    first, _, last = rest.rpartition(" ")
    if last.casefold() == TRANSCRIPT and number_in(first.strip()) is not None:
        words, transcript = first.strip(), True
    if not words:
        return desk.say("forget_what")
    facts = await desk.control.facts()
    found = find(facts.known, words)
    if len(found) > 1:
        return f"{desk.say('forget_which')}\n\n{desk.listed(found)}"
    if not found:
        redacted = await desk.control.forget_lines(int(words)) if transcript else None
        if redacted is not None:
            return desk.say("redacted", count=redacted)
        return desk.say("unreadable") if facts.unreadable else desk.say("forget_none")
    since_ms = now_ms()
    done = await desk.control.forget(found[0], transcript=transcript, inbox_row=desk.context.inbox_row)
    if done.failed is not None:
        return desk.failure(done.failed)
    parts = [desk.say("forgotten")]  # without its words: they would stand in the chat and the outbox again
    parts += await _still_said(desk, found[0], done)
    erased = await desk.context.house.erased(desk.scope, since_ms)
    parts += describe_erased(erased, desk.context.language)
    return " ".join(parts)


async def _still_said(desk: Desk, fact: Fact, done: Forgotten) -> list[str]:
    """What was taken out of conversations, and where the fact stays, a sentence each."""
    parts = [desk.say("redacted", count=done.redacted)] if done.redacted else []
    if done.lines:
        parts.append(desk.say("forget_offer", count=done.lines, number=fact.number))
    if done.reminders:
        numbers = ", ".join(map(str, done.reminders))
        parts.append(desk.say("forget_reminders", numbers=numbers, first=done.reminders[0]))
    if done.left_accounts:
        parts.append(desk.say("forget_left_accounts"))
    skills = desk.context.house.skills
    gone = forgetting.Fact((fact.text,))
    if skills is not None and (named := await skills_that_tell(skills, desk.scope, gone)):
        parts.append(desk.say("forget_skills", names=", ".join(f"`{name}`" for name in named)))
    return parts


def describe_erased(erased: Erased, language: str) -> list[str]:
    """What became of it at the memory providers, a sentence each; nothing where there are none."""
    told = [say("provider_gone", language, names=", ".join(erased.gone))] if erased.gone else []
    told += [say("provider_waits", language, name=name) for name in erased.waiting]
    return told + [say("provider_left", language, name=name, left=left) for name, left in erased.left.items()]


async def _undo(desk: Desk, rest: str) -> str:
    if rest and not 1 <= (number_in(rest) or 0) <= MAX_UNDO:
        return desk.say("undo_what", most=MAX_UNDO)
    told: list[str] = []
    for _ in range(int(rest or 1)):
        undone = await desk.control.undo()
        if undone is None:
            told.append(desk.say("undo_none"))
            break
        if undone.failed is not None:
            told.append(desk.failure(undone.failed))
            break
        told += [
            desk.say("restored", text=as_written(preview(entry, SHOWN_CHARS))) for entry in undone.restored
        ]
        told += [
            desk.say("removed", text=as_written(preview(entry, SHOWN_CHARS))) for entry in undone.removed
        ]
        told += [
            desk.say("conflict", text=as_written(preview(entry, SHOWN_CHARS))) for entry in undone.conflicts
        ]
        if not (undone.restored or undone.removed or undone.conflicts):
            told.append(desk.say("undo_as_before"))
    return "\n".join(f"- {line}" for line in told) if len(told) > 1 else told[0]


async def _export(desk: Desk, _: str) -> str:
    snapshot = await desk.context.house.memory.read(desk.scope)
    parts = [desk.say("unreadable")] if snapshot.unreadable else []
    for target, heading in zip(ORDER, ("USER.md", "MEMORY.md"), strict=True):
        entries = snapshot.entries_of(target)
        if entries:
            text = "\n§\n".join(entries)
            parts.append(f"{heading}\n\n{fenced(text)}")
    return "\n\n".join(parts) or desk.say("empty")


async def _pause(desk: Desk, _: str) -> str:
    slug = desk.scope.person
    await desk.context.house.database.write(lambda c: memory_approval.pause(c, slug, now_ms()))
    return desk.say("paused")


async def _resume(desk: Desk, _: str) -> str:
    slug = desk.scope.person
    await desk.context.house.database.write(lambda c: memory_approval.resume(c, slug))
    return desk.say("resumed")


async def _approve(desk: Desk, rest: str) -> str:
    waiting = await desk.control.waiting()
    chosen = _chosen(waiting, rest)
    if not chosen:
        return _undecided(desk, waiting, rest, "approve")
    told = []
    for write in chosen:
        change = memory_approval.describe(write.operations, desk.context.language)
        outcome = await desk.control.approve(write)
        if isinstance(outcome, Failed):
            why = desk.failure(outcome, "\n".join(operation.content for operation in write.operations))
            told.append(desk.say("approve_failed", change=change, why=why))
        else:
            told.append(desk.say("approved", change=change))
    return "\n".join(told)


async def _reject(desk: Desk, rest: str) -> str:
    waiting = await desk.control.waiting()
    chosen = _chosen(waiting, rest)
    if not chosen:
        return _undecided(desk, waiting, rest, "reject")
    for write in chosen:
        await desk.control.reject(write)
    return desk.say("rejected", count=len(chosen))


def _chosen(waiting: Sequence[HeldWrite], rest: str) -> Sequence[HeldWrite]:
    """The writes meant by a number or `all`; without either the one there is."""
    if rest.casefold() == "all":
        return waiting
    if not rest:
        return waiting if len(waiting) == 1 else ()
    return [write for write in waiting if write.number == number_in(rest)]


def _undecided(desk: Desk, waiting: Sequence[HeldWrite], rest: str, word: str) -> str:
    if not waiting:
        return desk.say("nothing_waits")
    listed = _waiting(desk, waiting)
    return listed if not rest else f"{desk.say('which_waiting', word=word)}\n\n{listed}"


ACTIONS: dict[str, Run] = {
    "list": _list,
    "search": _search,
    "add": _add,
    "edit": _edit,
    "forget": _forget,
    "undo": _undo,
    "export": _export,
    "pause": _pause,
    "resume": _resume,
    "approve": _approve,
    "reject": _reject,
}
