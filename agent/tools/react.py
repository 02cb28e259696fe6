"""The tool by which the model puts an emoji on the message that it is answering."""

from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

DESCRIPTION = (
    "Puts one emoji on the message you are answering, as people do in chats. Use it when a reaction says "
    "it better than words, or when you are asked to; it does not replace an answer."
)


class Reactor(Protocol):
    """Where reactions go."""

    async def react(self, context: ToolContext, emoji: str) -> str | None:
        """None when it is done, else why not and what would work."""
        ...


class ReactArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    emoji: str = Field(min_length=1, max_length=16, description="A single emoji, such as 👍.")


def react_tool(reactor: Reactor) -> Tool[ReactArguments]:
    async def run(arguments: ReactArguments, context: ToolContext) -> ToolResult:
        refusal = await reactor.react(context, arguments.emoji.strip())
        if refusal is not None:
            return ToolResult(refusal, is_error=True)
        return ToolResult("Done: the person sees it on their message.")

    return Tool(
        name="react",
        description=DESCRIPTION,
        arguments=ReactArguments,
        run=run,
        idempotent=True,
        timeout_s=15.0,
    )
