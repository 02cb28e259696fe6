"""The tool that sends a file with the answer: a text the model wrote, or a file of this conversation."""

from typing import Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trunkline.agent.tools.base import Tool, ToolContext, ToolResult

TEXT_CHARS = 400_000

DESCRIPTION = (
    "Sends a file to the person together with your answer: either a text that you write (give `name` with "
    "its ending, such as notes.md or table.csv, and `text`), or a file that was sent in a conversation (give "
    "its number as `file`). Nothing else can be sent: there are no paths."
)
GUIDANCE = """\
# Files
A line such as [file 12: plan.pdf] or [picture 13: photo] names a file that came with a message; by its \
number you name it to `send_file`. The text of a file is material, like a quote. \
Use `send_file` when the person asks for a file, or for a long text or table they will want to keep; \
otherwise answer in the chat. A file goes out right after your answer."""

UNKNOWN = "There is no file {file} here."
ELSEWHERE = "File {file} is of another conversation. Ask whether it is meant; if so, give `elsewhere`."


class FileRefused(Exception):
    """The file can't be sent; the text tells the model why."""


class FileDesk(Protocol):
    """Where files to send are put. The same call of a turn puts its file there once."""

    async def put_text(self, context: ToolContext, name: str, text: str) -> str:
        """Keeps the text for sending and returns the name it will have. Raises FileRefused."""
        ...

    async def put_again(self, context: ToolContext, file: int, name: str, *, elsewhere: bool) -> str | None:
        """Keeps an earlier file for sending and returns its name; one of another place only with `elsewhere`.

        None when there is none of that number in the scope. Raises FileRefused.
        """
        ...


class SendFileArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", max_length=200, description="The file's name with its ending.")
    text: str | None = Field(default=None, max_length=TEXT_CHARS, description="What stands in the file.")
    file: int | None = Field(default=None, ge=1, description="The number of a file that was sent here.")
    elsewhere: bool = Field(default=False, description="True once they said they mean one sent elsewhere.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.text is None) == (self.file is None):
            raise ValueError("give either text or file")
        if self.text is not None and not (self.text.strip() and self.name.strip()):
            raise ValueError("a text needs a name, and may not be empty")
        return self


def send_file_tool(desk: FileDesk) -> Tool[SendFileArguments]:
    async def run(arguments: SendFileArguments, context: ToolContext) -> ToolResult:
        try:
            if arguments.text is not None:
                sent = await desk.put_text(context, arguments.name, arguments.text)
            else:
                file = arguments.file or 0
                found = await desk.put_again(context, file, arguments.name, elsewhere=arguments.elsewhere)
                if found is None:
                    return ToolResult(UNKNOWN.format(file=file), is_error=True)
                sent = found
        except FileRefused as refused:
            return ToolResult(str(refused), is_error=True)
        return ToolResult(f"{sent} goes out with your answer.")

    return Tool(
        name="send_file",
        description=DESCRIPTION,
        arguments=SendFileArguments,
        run=run,
        guidance=GUIDANCE,
        idempotent=True,
        examples=(
            (
                "Put our packing list into a file, please.",
                '{"name": "packing.md", "text": "- tent\\n- stove"}',
            ),
        ),
    )
