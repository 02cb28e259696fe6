"""`/compress [focus]`: puts the older part of this conversation away, and shows before and after."""

from trunkline.gateway import budgets
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext, NotShortened
from trunkline.gateway.sentences import say
from trunkline.gateway.state import sessions

FOCUS_CHARS = 500

_WHY = {"nothing": "compress_nothing", "changed": "compress_changed"}


async def run(context: CommandContext) -> str:
    house, language = context.house, context.language
    current = await house.database.read(lambda c: sessions.find_open(c, context.key))
    if current is None:
        return say("compress_nothing", language)
    today = await house.database.read(
        lambda c: budgets.look(c, context.account, context.room, house.settings, now_ms())
    )
    if today.is_spent:
        return say(budgets.notice_of(today, context.account)[1], language)
    focus = house.mask(context.argument.strip()[:FOCUS_CHARS])
    done = await house.shorten(context.account, context.room, current, focus, language)
    if isinstance(done, NotShortened):
        return say(_WHY.get(done.why, "compress_failed"), language)
    return say(
        "compressed",
        language,
        messages=done.messages,
        before=f"{done.before_tokens:,}",
        after=f"{done.after_tokens:,}",
    )
