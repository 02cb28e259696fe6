"""A tool server as a process of ours, spoken with by lines of JSON: bounded, watched, and ended for certain.

The library's own transport would buffer a line of any length; the protocol itself is the library's.
"""

import asyncio
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

logger = logging.getLogger(__name__)

MOST_LINE_BYTES = 4 * 2**20
END_S = 1.0
"""A server gets so long to end after its input closed, and once more after it was asked to."""

Incoming = SessionMessage | Exception


@asynccontextmanager
async def process_transport(
    command: str, args: Sequence[str], env: Mapping[str, str], lost: Callable[[str], None]
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Starts the server and gives the streams that an MCP client speaks through; ends it with the context.

    `lost` hears why nothing more will come. What the server writes to its standard error is dropped. Raises
    OSError when it can't be started.
    """
    process = await asyncio.create_subprocess_exec(
        command,
        *args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=get_default_environment() | dict(env),
        limit=MOST_LINE_BYTES,
        start_new_session=True,
    )
    to_client, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with asyncio.TaskGroup() as group:
            pipes = [
                group.create_task(_read(process, to_client, lost), name="tool server's output"),
                group.create_task(_write(process, from_client, lost), name="tool server's input"),
            ]
            try:
                yield incoming, outgoing
            finally:
                for task in pipes:
                    task.cancel()
    finally:
        for stream in (to_client, incoming, outgoing, from_client):
            stream.close()
        await _end(process)


async def _read(
    process: Process, to_client: MemoryObjectSendStream[Incoming], lost: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                logger.debug("line of a tool server dropped: no message")
                continue
            await to_client.send(SessionMessage(message))
        lost("it ended")
    except ValueError:
        lost("it wrote more than fits into one message")
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        lost("the connection broke")
    finally:
        to_client.close()


async def _write(
    process: Process, from_client: MemoryObjectReceiveStream[SessionMessage], lost: Callable[[str], None]
) -> None:
    assert process.stdin is not None
    try:
        async for message in from_client:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(line.encode() + b"\n")
            await process.stdin.drain()
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        lost("the connection broke")


async def _end(process: Process) -> None:
    """Closes the server's input, then asks it to end, then kills it with all that it started.

    When this is cancelled, too, nothing is left running.
    """
    assert process.stdin is not None
    process.stdin.close()
    try:
        for number in (None, signal.SIGTERM):
            if number is not None:
                _signal(process, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()
                return
    finally:
        _signal(process, signal.SIGKILL)
        # With output left unread it would stay open; nothing public closes it.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()


def _signal(process: Process, number: signal.Signals) -> None:
    """To the server and to what it started, as far as they live."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
