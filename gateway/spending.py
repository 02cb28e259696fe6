"""Nothing is asked of a model for somebody whose day's share is used up: looked at when a turn is to begin.

The router looks when a message comes, before anything of it is fetched. What waited meanwhile, what is tried
again, edited or queued is caught here. What tools ask models for a turn is counted here, too.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from trunkline.adapters.base import Chunk, OutboundMessage
from trunkline.agent.tools.base import ToolContext
from trunkline.agent.turn import CallUsage
from trunkline.gateway import budgets
from trunkline.gateway.clock import now_ms
from trunkline.gateway.delivery import Destination
from trunkline.gateway.opening import load_message, who_is
from trunkline.gateway.payloads import dump_outbound
from trunkline.gateway.sentences import say
from trunkline.gateway.settings import FileSettings
from trunkline.gateway.state import inbox, outbox, turns
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.records import InboxRow


def refuse_unpaid(
    connection: Connection,
    rows: Sequence[InboxRow],
    where: Destination,
    settings: FileSettings,
    stamp_ms: int,
    *,
    amend: Callable[[Connection, InboxRow], None],
) -> bool:
    """Ends rows for which nobody pays today, words kept, and says so once a day. Raises NotAdmitted.

    The words of an edit are kept where the others of its question stand: `amend` puts them there.
    """
    who = who_is(connection, rows[0], load_message(rows[0]))
    today = budgets.look(connection, who.account, who.room, settings, stamp_ms)
    if not today.is_spent:
        return False
    if rows[0].kind == "edit":
        amend(connection, rows[0])
    else:
        inbox.set_aside(connection, [row.id for row in rows], "budget", stamp_ms)
    source, key = budgets.notice_of(today, who.account)
    if outbox.find(connection, source, 0) is None:
        told = OutboundMessage(where.to, Chunk(say(key, who.language)))
        outbox.plan(connection, where.plan(source), [dump_outbound(told)], stamp_ms)
    return True


async def count_beside(database: Database, context: ToolContext, call: CallUsage) -> None:
    """A call of a tool's own to a model is paid by whoever pays the turn."""
    spent = turns.Spent(call.purpose, call.model, call.usage)
    await database.write(lambda c: turns.add_usage_beside(c, context.turn, spent, now_ms()))
