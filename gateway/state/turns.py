"""Queries on turns and their steps. Every commit of a turn checks its fencing token, the attempt's number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, insert, select, update

from trunkline.agent.calls import SAME_AS_LATER
from trunkline.agent.history import REPEATED_RESULT_CHARS, SAME_RESULT
from trunkline.agent.memory.credentials import mask_credentials
from trunkline.agent.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from trunkline.agent.ports import TurnLost
from trunkline.agent.scope import AccountId
from trunkline.gateway.clock import now_ms
from trunkline.gateway.state import files
from trunkline.gateway.state.analyser import storable
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.messages import NewMessage, add_message, message_of, rewrite_message
from trunkline.gateway.state.schema import message, session, step, stream, turn, usage
from trunkline.gateway.state.usage import cost_micros

RESULTS_LOOKED_AT = 200
"""Of a tool's results that were put away, the newest, among which an equal one is looked for."""


@dataclass(frozen=True, slots=True)
class TurnKey:
    """A running turn and the attempt that may commit for it."""

    turn: int
    attempt: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """What later work needs of a turn: where its messages go and who pays."""

    key: TurnKey
    session: int
    stream: int
    account: AccountId


@dataclass(frozen=True, slots=True)
class Spent:
    """One model call's tokens, under the purpose that the person sees in /usage."""

    purpose: str
    model: str
    usage: Usage


def begin(
    connection: Connection, session_id: int, stream: int, account: AccountId, owner: str, stamp_ms: int
) -> TurnRow:
    """A new running turn."""
    turn_id = connection.execute(
        insert(turn)
        .values(session_id=session_id, account_id=account, owner=owner, started_ms=stamp_ms)
        .returning(turn.c.id)
    ).scalar_one()
    return TurnRow(TurnKey(turn_id, 1), session_id, stream, account)


def resume(connection: Connection, turn_id: int, owner: str) -> TurnRow | None:
    """Takes an interrupted turn over, raising its attempt; None when it has ended meanwhile."""
    row = connection.execute(
        select(turn.c.attempt, turn.c.session_id, turn.c.account_id, session.c.stream_id)
        .join(session, turn.c.session_id == session.c.id)
        .where(turn.c.id == turn_id, turn.c.state == "running")
    ).first()
    if row is None:
        return None
    attempt = row.attempt + 1
    connection.execute(update(turn).where(turn.c.id == turn_id).values(attempt=attempt, owner=owner))
    return TurnRow(TurnKey(turn_id, attempt), row.session_id, row.stream_id, AccountId(row.account_id))


def is_quiet(connection: Connection, since_ms: int) -> bool:
    """Whether no turn runs, and none has begun since."""
    running = select(func.count()).where(turn.c.state == "running")
    latest = select(func.coalesce(func.max(turn.c.started_ms), 0))
    if connection.execute(running).scalar_one():
        return False
    return int(connection.execute(latest).scalar_one()) <= since_ms


def recorded(connection: Connection, turn_id: int) -> tuple[UserMessage, tuple[Message, ...]]:
    """The turn's user message, and what was committed after it: its steps, and what was said meanwhile.

    Of messages that were taken back meanwhile nothing is left.
    """
    rows = connection.execute(
        select(message).where(message.c.turn_id == turn_id, message.c.state == "live").order_by(message.c.seq)
    ).all()
    pictures = files.pictures_of_turn(connection, turn_id)
    said: list[Message] = [message_of(row, pictures.get(row.id, ())) for row in rows]
    if said and isinstance(said[0], UserMessage):
        return said[0], tuple(said[1:])
    return UserMessage("", ""), tuple(said)


def asked(connection: Connection, turn_id: int) -> Sequence[str]:
    """What a turn was asked, in order, as far as it wasn't taken back."""
    query = select(message.c.content).where(
        message.c.turn_id == turn_id, message.c.role == "user", message.c.state == "live"
    )
    return connection.execute(query.order_by(message.c.seq)).scalars().all()


def end(connection: Connection, key: TurnKey, state: str, reason: str, stamp_ms: int) -> None:
    """Ends the turn as done, stopped or failed. Raises TurnLost when another attempt holds it."""
    check(connection, key)
    connection.execute(
        update(turn).where(turn.c.id == key.turn).values(state=state, reason=reason, ended_ms=stamp_ms)
    )


def give_up(connection: Connection, turn_id: int, reason: str, stamp_ms: int) -> None:
    """Ends a turn that nobody will go on with, whatever attempt holds it."""
    connection.execute(
        update(turn)
        .where(turn.c.id == turn_id, turn.c.state == "running")
        .values(state="failed", reason=reason, ended_ms=stamp_ms)
    )


def add_usage(
    connection: Connection, row: TurnRow, spent: Sequence[Spent], room_id: int | None, stamp_ms: int
) -> None:
    """Counts model calls to the account that asked and to the session."""
    costs = [cost_micros(connection, call.model, call.usage) for call in spent]
    for call, cost in zip(spent, costs, strict=True):
        connection.execute(
            insert(usage).values(
                account_id=row.account,
                room_id=room_id,
                session_id=row.session,
                turn_id=row.key.turn,
                purpose=call.purpose,
                model=call.model,
                prompt_tokens=call.usage.prompt_tokens,
                cached_tokens=call.usage.cached_tokens,
                completion_tokens=call.usage.completion_tokens,
                cost_micros=cost,
                created_ms=stamp_ms,
            )
        )
    total = sum((call.usage for call in spent), Usage())
    connection.execute(
        update(session)
        .where(session.c.id == row.session)
        .values(
            prompt_tokens=session.c.prompt_tokens + total.prompt_tokens,
            cached_tokens=session.c.cached_tokens + total.cached_tokens,
            completion_tokens=session.c.completion_tokens + total.completion_tokens,
            cost_micros=session.c.cost_micros + sum(costs),
        )
    )


def add_usage_beside(connection: Connection, turn_id: int, spent: Spent, stamp_ms: int) -> None:
    """Counts a call that a tool made for a turn. One that is gone meanwhile has nobody to pay."""
    row = connection.execute(
        select(turn.c.attempt, turn.c.session_id, turn.c.account_id, session.c.stream_id, stream.c.room_id)
        .join(session, turn.c.session_id == session.c.id)
        .join(stream, stream.c.id == session.c.stream_id)
        .where(turn.c.id == turn_id)
    ).first()
    if row is not None:
        of = TurnRow(TurnKey(turn_id, row.attempt), row.session_id, row.stream_id, AccountId(row.account_id))
        add_usage(connection, of, (spent,), row.room_id, stamp_ms)


TakeIn = Callable[[Connection, int], tuple[UserMessage, ...]]
"""Stores what was said while a step ran as a part of the turn, in the step's own transaction."""


def nobody(connection: Connection, step_n: int) -> tuple[UserMessage, ...]:
    """The TakeIn of a turn that nobody can talk into."""
    return ()


class StoreRecorder:
    """The TurnRecorder of one attempt at a turn. `counted` are the tokens of the steps it has recorded."""

    def __init__(
        self,
        database: Database,
        row: TurnRow,
        room_id: int | None,
        mask: Callable[[str], str],
        take_in: TakeIn = nobody,
    ) -> None:
        self._database = database
        self._row = row
        self._room_id = room_id
        self._mask = mask
        self._take_in = take_in
        self.counted = Usage()
        self.has_begun = False
        """Whether a tool call was recorded, or is about to be."""

    async def record_calls(self, step_n: int, message: AssistantMessage, usage: Usage, *, model: str) -> None:
        self.has_begun = True
        stamp_ms, spent = now_ms(), Spent("turn", model, usage)

        def work(connection: Connection) -> None:
            check(connection, self._row.key)
            connection.execute(
                insert(step).values(
                    turn_id=self._row.key.turn,
                    n=step_n,
                    state="calling",
                    finish_reason=message.finish_reason,
                    started_ms=stamp_ms,
                )
            )
            add_message(connection, said(self._row, message, stamp_ms, step_n=step_n, mask=self._mask))
            add_usage(connection, self._row, [spent], self._room_id, stamp_ms)

        await self._database.write(work)
        self.counted += usage

    async def record_results(
        self, step_n: int, results: Sequence[ToolMessage], *, last: bool = False
    ) -> tuple[UserMessage, ...]:
        stamp_ms = now_ms()

        def work(connection: Connection) -> tuple[UserMessage, ...]:
            check(connection, self._row.key)
            for result in results:
                add_message(connection, self._result(connection, step_n, result, stamp_ms))
            connection.execute(
                update(step)
                .where(step.c.turn_id == self._row.key.turn, step.c.n == step_n)
                .values(state="done", ended_ms=stamp_ms)
            )
            return () if last else self._take_in(connection, step_n)

        return await self._database.write(work)

    def _result(self, connection: Connection, step_n: int, result: ToolMessage, stamp_ms: int) -> NewMessage:
        # The running turn has the true value; what is kept, and read by later turns, has none.
        content = mask_credentials(self._mask(result.content))
        # The loop leaves out what stands above already; of a masked result only the rows can tell.
        is_long = len(content) >= REPEATED_RESULT_CHARS and not result.is_error
        if is_long and content != result.content and _stands_above(connection, self._row.session, content):
            content = SAME_RESULT.format(chars=len(content))
        elif is_long:
            _take_over(connection, self._row.session, result.name, content)
        return NewMessage(
            session_id=self._row.session,
            turn_id=self._row.key.turn,
            step_n=step_n,
            role="tool",
            content=content,
            tool_call_id=result.call_id,
            tool_name=result.name,
            is_error=result.is_error,
            created_ms=stamp_ms,
        )


def _take_over(connection: Connection, session_id: int, tool_name: str, content: str) -> None:
    """Leaves one line of an equal result that compaction has put away: its text stands in the newer one."""
    text = storable(content)
    newest = (
        select(message.c.id)
        .where(
            message.c.session_id == session_id,
            message.c.role == "tool",
            message.c.tool_name == tool_name,
            message.c.state == "compacted",
        )
        .order_by(message.c.seq.desc())
        .limit(RESULTS_LOOKED_AT)
    )
    same = select(message).where(
        message.c.id.in_(newest), func.length(message.c.content) == len(text), message.c.content == text
    )
    line = {"content": SAME_AS_LATER.format(chars=len(text))}
    for row in connection.execute(same).all():
        rewrite_message(connection, row, line, forgets=False)


def _stands_above(connection: Connection, session_id: int, content: str) -> bool:
    """Whether a session's history has this very tool result."""
    same = select(message.c.id).where(
        message.c.session_id == session_id,
        message.c.role == "tool",
        message.c.state == "live",
        message.c.content == content,
    )
    return connection.execute(same.limit(1)).first() is not None


def said(
    row: TurnRow, message: AssistantMessage, stamp_ms: int, *, step_n: int, mask: Callable[[str], str]
) -> NewMessage:
    """An assistant message of a turn as the row to store."""
    return NewMessage(
        session_id=row.session,
        turn_id=row.key.turn,
        step_n=step_n,
        role="assistant",
        content=mask(message.text),
        tool_calls=tuple(replace(call, arguments=mask(call.arguments)) for call in message.tool_calls),
        interrupted=message.interrupted,
        finish_reason=message.finish_reason,
        created_ms=stamp_ms,
    )


def check(connection: Connection, key: TurnKey) -> None:
    """Raises TurnLost unless the turn runs and this attempt holds it."""
    held = connection.execute(
        select(turn.c.id).where(
            turn.c.id == key.turn, turn.c.attempt == key.attempt, turn.c.state == "running"
        )
    ).first()
    if held is None:
        raise TurnLost(f"turn {key.turn} is no longer attempt {key.attempt}'s")
