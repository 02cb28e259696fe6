"""`/skills`: a person sees the skills there are, and takes back, archives, restores and pins their own."""

from collections.abc import Awaitable, Callable

from trunkline.agent.scope import PersonScope
from trunkline.agent.skills.edits import Changed, Origin
from trunkline.agent.skills.format import BadSkill, check_name
from trunkline.agent.skills.store import Skill, SkillStore
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.memory_control import number_in
from trunkline.gateway.sentences import say
from trunkline.gateway.sentences_memory import as_written
from trunkline.gateway.state.records import scope_of

MAX_UNDO = 20
SHOWN_CHARS = 200

Run = Callable[["Desk", str], Awaitable[str]]


class Desk:
    """One use of `/skills`: who asks, and the words for the answer."""

    def __init__(self, context: CommandContext, scope: PersonScope, store: SkillStore) -> None:
        self.scope = scope
        self.store = store
        self._language = context.language

    def say(self, key: str, **fields: object) -> str:
        return say(f"skills_{key}", self._language, **fields)

    @property
    def origin(self) -> Origin:
        return Origin("command", now_ms())


async def run(context: CommandContext) -> str:
    """The command: a word that says what to do, then the skill's name."""
    scope = scope_of(context.account, context.room)
    if not isinstance(scope, PersonScope):
        return say("private_elsewhere", context.language)
    if context.house.skills is None:
        return say("skills_off", context.language)
    word, _, rest = context.argument.strip().partition(" ")
    desk = Desk(context, scope, context.house.skills)
    chosen = ACTIONS.get(word.casefold() or "list")
    if chosen is None:
        return desk.say("usage")
    try:
        return await chosen(desk, rest.strip())
    except BadSkill as error:
        return desk.say("cant", reason=str(error))


async def _list(desk: Desk, _: str) -> str:
    shelf = await desk.store.shelf(desk.scope)
    parts = []
    for place, heading in (("own", "own"), ("shared", "shared")):
        listed = [_line(desk, skill) for skill in shelf.skills if skill.place == place]
        if listed:
            parts.append("\n".join([desk.say(heading), "", *listed]))
    own_refused = [one for one in shelf.refused if one.place == "own"]
    parts += [desk.say("refused", name=as_written(one.name), reason=one.reason) for one in own_refused]
    archived = await desk.store.archived(desk.scope)
    if archived:
        parts.append(desk.say("archived_list", names=", ".join(archived)))
    parts.append(desk.say("hint" if shelf.skills or archived else "none"))
    return "\n\n".join(parts)


def _line(desk: Desk, skill: Skill) -> str:
    marks = desk.say("pinned_mark") if skill.record.pinned else ""
    marks += desk.say("stale_mark") if skill.record.stale else ""
    description = as_written(skill.description)
    if len(description) > SHOWN_CHARS:
        description = description[: SHOWN_CHARS - 1].rstrip("\\") + "…"
    return f"- {desk.say('line', name=skill.name, description=description, marks=marks)}"


async def _show(desk: Desk, name: str) -> str:
    if await _unknown(desk, name, own=False):
        return desk.say("unknown", name=as_written(name[:80]))
    page = await desk.store.open(desk.scope, name, None)
    files = "\n".join(f"- `{file.path}`" for file in page.files)
    fence = "`" * max(4, max(map(len, _runs(page.text)), default=0) + 1)
    return "\n\n".join(filter(None, [f"{fence}markdown\n{page.text.strip()}\n{fence}", files]))


def _runs(text: str) -> list[str]:
    """The runs of backticks in a text: a fence around it has to be longer."""
    return "".join(character if character == "`" else " " for character in text).split()


async def _archive(desk: Desk, name: str) -> str:
    if await _unknown(desk, name):
        return desk.say("unknown", name=as_written(name[:80]))
    done = await desk.store.archive(desk.scope, name, desk.origin)
    return desk.say("archived", name=done.name)


async def _restore(desk: Desk, name: str) -> str:
    if name not in await desk.store.archived(desk.scope):
        return desk.say("unknown", name=as_written(name[:80]))
    done = await desk.store.restore(desk.scope, name, now_ms())
    return desk.say("restored", name=done.name)


async def _pin(desk: Desk, name: str) -> str:
    return await _pinned(desk, name, pinned=True)


async def _unpin(desk: Desk, name: str) -> str:
    return await _pinned(desk, name, pinned=False)


async def _pinned(desk: Desk, name: str, *, pinned: bool) -> str:
    if await _unknown(desk, name):
        return desk.say("unknown", name=as_written(name[:80]))
    await desk.store.pin(desk.scope, name, pinned=pinned)
    return desk.say("pinned" if pinned else "unpinned", name=check_name(name))


async def _undo(desk: Desk, rest: str) -> str:
    if rest and not 1 <= (number_in(rest) or 0) <= MAX_UNDO:
        return desk.say("undo_what", most=MAX_UNDO)
    told: list[str] = []
    for _ in range(int(rest or 1)):
        try:
            undone = await desk.store.undo(desk.scope, now_ms())
        except BadSkill as error:
            told.append(desk.say("cant", reason=str(error)))
            break
        told.append(desk.say("undo_none") if undone is None else _taken_back(desk, undone))
        if undone is None:
            break
    return "\n".join(told)


def _taken_back(desk: Desk, undone: Changed) -> str:
    return desk.say("undone", name=undone.name, what=desk.say(f"did_{undone.action}", path=undone.path))


async def _unknown(desk: Desk, name: str, *, own: bool = True) -> bool:
    """Whether there is no such skill; with `own`, of the person's own."""
    shelf = await desk.store.shelf(desk.scope)
    names = {skill.name for skill in shelf.skills if skill.place == "own" or not own}
    if own:
        names |= {one.name for one in shelf.refused if one.place == "own"}
    return name not in names


ACTIONS: dict[str, Run] = {
    "list": _list,
    "show": _show,
    "undo": _undo,
    "archive": _archive,
    "restore": _restore,
    "pin": _pin,
    "unpin": _unpin,
}
