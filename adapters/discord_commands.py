"""Slash commands: makes the menu from CommandSpecs, registers it when it changed, defers what is called."""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence

import aiohttp
import discord
from discord import app_commands
from pydantic import BaseModel

from trunkline.adapters.base import AdapterError, CommandSpec
from trunkline.adapters.discord_errors import translated
from trunkline.adapters.discord_inbound import SlashCommand

MAX_COMMANDS = 100
"""Global slash commands of an application (Discord, Application commands)."""
_NAME = re.compile(r"[-_\w]{1,32}")
_DESCRIPTION_CHARS = 100
_DEFER_TIMEOUT_S = 3.0
_ALREADY_ANSWERED = 40060
_OPTION = "argument"

log = logging.getLogger(__name__)

Taken = Callable[[SlashCommand], None]


class _Option(BaseModel):
    value: str | int | float | bool = ""


class _Called(BaseModel):
    """What discord.py leaves unread of a command it doesn't know."""

    options: tuple[_Option, ...] = ()


class CommandMenu(app_commands.CommandTree[discord.Client]):
    """Every call is deferred at once, unseen by others, and handed to `taken`; nothing runs here."""

    def __init__(self, client: discord.Client, specs: Sequence[CommandSpec], taken: Taken) -> None:
        super().__init__(client)
        self._taken = taken
        fitting = [spec for spec in specs if _NAME.fullmatch(spec.name) and spec.name == spec.name.lower()]
        self._specs = tuple(fitting[:MAX_COMMANDS])
        if left_out := len(specs) - len(self._specs):
            log.warning("commands beyond the menu's limits work as text only: left_out=%d", left_out)
        for spec in self._specs:
            self.add_command(self._entry(spec))

    def _entry(self, spec: CommandSpec) -> app_commands.Command[app_commands.Group, ..., None]:
        async def bare(interaction: discord.Interaction) -> None:
            await self._take(interaction, "")

        async def with_argument(interaction: discord.Interaction, argument: str = "") -> None:
            await self._take(interaction, argument)

        description = _described(spec.help or spec.name)
        if not spec.argument:
            return app_commands.Command(name=spec.name, description=description, callback=bare)
        app_commands.describe(argument=_described(spec.argument))(with_argument)
        return app_commands.Command(name=spec.name, description=description, callback=with_argument)

    async def on_error(
        self, interaction: discord.Interaction, error: app_commands.AppCommandError, /
    ) -> None:
        """A menu that a client still shows from before an update: the house says what it thinks of it."""
        if not isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
            raise error
        called = _Called.model_validate(interaction.data)
        await self._take(interaction, " ".join(str(option.value) for option in called.options))

    async def _take(self, interaction: discord.Interaction, argument: str) -> None:
        self._taken(SlashCommand(interaction, argument, deferred=await _deferred(interaction)))

    async def register(self) -> None:
        """Compares with what is registered and changes only what differs; a failure leaves text commands.

        What is obsolete goes first: at the limit there is no room to add before.
        """
        try:
            async with translated(repeatable=True):
                live = {
                    command.name: command
                    for command in await self.fetch_commands()
                    if command.type is discord.AppCommandType.chat_input
                }
                if {_fingerprint(command) for command in live.values()} == set(map(_wanted, self._specs)):
                    return
                names = {spec.name for spec in self._specs}
                for obsolete in [command for name, command in live.items() if name not in names]:
                    await obsolete.delete()
                await self.sync()
        except AdapterError as error:
            log.warning("slash commands not registered, text commands work: error=%s", error)
            return
        log.info("slash commands registered: count=%d", len(self._specs))


Fingerprint = tuple[str, str, tuple[tuple[str, str, bool], ...]]


def _wanted(spec: CommandSpec) -> Fingerprint:
    options = ((_OPTION, _described(spec.argument), False),) if spec.argument else ()
    return spec.name, _described(spec.help or spec.name), options


def _fingerprint(command: app_commands.AppCommand) -> Fingerprint:
    options = tuple(
        (option.name, option.description, bool(getattr(option, "required", False)))
        for option in command.options
    )
    return command.name, command.description, options


def _described(text: str) -> str:
    return text[:_DESCRIPTION_CHARS]


async def _deferred(interaction: discord.Interaction) -> bool:
    """False when Discord refused, so that the answer must go to the chat. The command itself is never lost.

    After a lost answer the interaction is still tried first: if the deferral did arrive, people wait there.
    """
    try:
        async with asyncio.timeout(_DEFER_TIMEOUT_S):
            await interaction.response.defer(ephemeral=True, thinking=True)
    except discord.InteractionResponded:
        return True
    except discord.HTTPException as error:
        if error.code == _ALREADY_ANSWERED:
            return True
        log.warning("slash command not deferred, answered in the chat: code=%d", error.code)
        return False
    except (aiohttp.ClientError, OSError) as error:
        log.warning("deferral of a slash command got lost: error=%r", error)
    return True
