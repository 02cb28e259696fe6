"""The tool by which the model makes, lists and cancels reminders and scheduled runs.

What a time means in a zone, who may do what, and delivery are the house's work, behind `ReminderDesk`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

TEXT_CHARS = 2_000

DESCRIPTION = (
    "Sends a message to this chat at a later time, once or again and again; lists and cancels what waits. "
    'With do="run" you yourself are asked at that time to do what `text` says, and your answer is sent. '
    "Give exactly one of `at`, `after` and `every`."
)
GUIDANCE = """\
# Reminders
When the person wants to be reminded, or something done at a later time, call `remind`; never just promise \
it. The first line of each message tells the time where they are: work out the exact local time from it. If \
it could mean two times (which Friday? morning or evening?), ask first. A plain reminder is text for the \
person, worded so that it makes sense then. Use do="run" only when something must be worked out at that time \
(a summary, a look at what was said), and write in `text` all that you will need to know. Afterwards tell \
the time that the tool understood."""


class ReminderRefused(Exception):
    """It can't be done; the text tells the model why."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A reminder asked for. Of `at` (ISO local time), `after` (a length) and `every` (cron) one is given.

    `timezone` is a name of the IANA list, empty for the person's own.
    """

    text: str
    runs: bool
    at: str = ""
    after: str = ""
    every: str = ""
    timezone: str = ""


class ReminderDesk(Protocol):
    """Where reminders are kept. The same call of a turn makes its reminder once."""

    async def create(self, context: ToolContext, wish: Wish) -> str:
        """Returns what was understood, in words. Raises ReminderRefused."""
        ...

    async def listed(self, context: ToolContext) -> str:
        """One line for each that waits and may be seen here; empty when none does."""
        ...

    async def cancel(self, context: ToolContext, number: int) -> str:
        """Returns what was cancelled. Raises ReminderRefused."""
        ...


class RemindArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Literal["create", "list", "cancel"] = "create"
    text: str = Field(default="", max_length=TEXT_CHARS, description="What to say, or to do, at that time.")
    at: str = Field(
        default="", max_length=40, description="Local date and time, such as 2026-12-01T09:00. No zone."
    )
    after: str = Field(
        default="", max_length=40, description="A length of time from now: 20m, 1h30m, 2d, 1w."
    )
    every: str = Field(
        default="",
        max_length=100,
        description="A cron rule in local time, five fields: `0 8 * * 1-5` is 8:00 on weekdays.",
    )
    timezone: str = Field(
        default="",
        max_length=60,
        description="IANA name, such as Asia/Tokyo; only if another zone than the person's is meant.",
    )
    do: Literal["tell", "run"] = Field(default="tell", description="tell: send `text`. run: do what it says.")
    number: int | None = Field(default=None, ge=1, description="Which one to cancel, as `list` shows it.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.action == "create":
            if not self.text.strip():
                raise ValueError("say in `text` what to remind of")
            if sum(bool(given.strip()) for given in (self.at, self.after, self.every)) != 1:
                raise ValueError("give exactly one of at, after and every")
        if self.action == "cancel" and self.number is None:
            raise ValueError("give the number that `list` shows")
        return self


def remind_tool(desk: ReminderDesk) -> Tool[RemindArguments]:
    async def run(arguments: RemindArguments, context: ToolContext) -> ToolResult:
        try:
            return ToolResult(await _done(desk, arguments, context))
        except ReminderRefused as refused:
            return ToolResult(str(refused), is_error=True)

    return Tool(
        name="remind",
        description=DESCRIPTION,
        arguments=RemindArguments,
        run=run,
        guidance=GUIDANCE,
        idempotent=True,
        timeout_s=15.0,
        examples=(
            (
                "Remind me in 20 minutes to turn the oven off.",
                '{"text": "Turn the oven off", "after": "20m"}',
            ),
            (
                "Every Monday at 9, sum up what I said about work last week.",
                '{"text": "Sum up what the person said about work in the past week", "every": "0 9 * * 1", '
                '"do": "run"}',
            ),
        ),
    )


async def _done(desk: ReminderDesk, arguments: RemindArguments, context: ToolContext) -> str:
    if arguments.action == "list":
        return await desk.listed(context) or "Nothing waits here."
    if arguments.action == "cancel":
        return await desk.cancel(context, arguments.number or 0)
    return await desk.create(
        context,
        Wish(
            arguments.text.strip(),
            arguments.do == "run",
            arguments.at.strip(),
            arguments.after.strip(),
            arguments.every.strip(),
            arguments.timezone.strip(),
        ),
    )
