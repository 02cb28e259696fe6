"""`/private` and `/private off`: a conversation of which nothing is kept."""

from trunkline.gateway import private_mode
from trunkline.gateway.clock import now_ms
from trunkline.gateway.commands.registry import CommandContext
from trunkline.gateway.sentences import say
from trunkline.gateway.state import private_sessions, sessions


async def run(context: CommandContext) -> str:
    """Begins a private conversation in this direct chat, or ends and erases it."""
    database, language = context.house.database, context.language
    word = context.argument.strip().casefold()
    if word not in ("", "on", "off"):
        return say("private_usage", language)
    current = await database.read(lambda c: sessions.find_open(c, context.key))
    is_private = current is not None and current.private
    if word == "off":
        if not is_private:
            return say("private_not_on", language)
        await private_mode.end(database, context.key, "private off")
        return say("private_off", language)
    if is_private:
        return say("private_already", language)
    await database.write(
        lambda c: private_sessions.begin(c, context.key, context.account, context.house.model, now_ms())
    )
    return say("private_on", language)
