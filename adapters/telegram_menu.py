"""Telegram's command menus: what fits, for direct chats and for groups, in each language there is."""

import asyncio
import json
import logging
import re
from collections.abc import Sequence

from telegram import (
    Bot,
    BotCommand,
    BotCommandScope,
    BotCommandScopeAllGroupChats,
    BotCommandScopeChat,
    BotCommandScopeDefault,
)
from telegram.error import TelegramError

from trunkline.adapters.base import CommandSpec

logger = logging.getLogger(__name__)

MENU_BYTES = 3500
"""Menus above about 4 KB were seen to be refused with the old menu left in place; no limit is published."""
MENU_HELP_CHARS = 40
MENU_S = 5.0
"""For one call; nobody waits for the menu."""


async def publish_menus(bot: Bot, commands: Sequence[CommandSpec]) -> None:
    """Sets each menu that differs from what Telegram has; one that is refused leaves the text commands."""
    everywhere = [spec for spec in commands if not spec.private]
    scopes: tuple[tuple[BotCommandScope, Sequence[CommandSpec]], ...] = (
        (BotCommandScopeDefault(), commands),
        (BotCommandScopeAllGroupChats(), everywhere),
    )
    try:
        for scope, specs in scopes:
            for language in _languages(commands):
                await _publish(bot, scope, specs, language)
    except (TelegramError, TimeoutError) as exc:
        logger.warning("command menu not updated: %s", exc)


async def publish_own_menu(
    bot: Bot, chat: int, commands: Sequence[CommandSpec], more: Sequence[CommandSpec]
) -> None:
    """Gives a chat a menu of its own, or takes it away where nothing would be added to everybody's.

    A group has a number below zero. Raises TelegramError, TimeoutError.
    """
    scope = BotCommandScopeChat(chat)
    languages = _languages(commands)
    commands = [spec for spec in commands if chat > 0 or not spec.private]
    for language in languages:
        if command_menu((*commands, *more), language) != command_menu(commands, language):
            await _publish(bot, scope, (*commands, *more), language)
            continue
        async with asyncio.timeout(MENU_S):
            if await bot.get_my_commands(scope, language or None):
                await bot.delete_my_commands(scope, language or None)


def _languages(commands: Sequence[CommandSpec]) -> list[str]:
    return ["", *sorted({language for spec in commands for language, _ in spec.translations})]


async def _publish(bot: Bot, scope: BotCommandScope, specs: Sequence[CommandSpec], language: str) -> None:
    menu = command_menu(specs, language)
    if len(menu) < len(specs) and not language:
        logger.warning("command menu shortened: %d of %d fit", len(menu), len(specs))
    if not menu:
        return
    code = language or None
    async with asyncio.timeout(MENU_S):
        if await bot.get_my_commands(scope, code) != menu:
            await bot.set_my_commands(menu, scope, code)


def command_menu(commands: Sequence[CommandSpec], language: str = "") -> tuple[BotCommand, ...]:
    """The native menu: what fits Telegram's names and the budget, in the given order."""
    menu: list[BotCommand] = []
    size_bytes = 2
    for spec in commands:
        name = menu_name(spec)
        entry = BotCommand(name, _cut(spec.help_in(language), MENU_HELP_CHARS))
        size_bytes += len(json.dumps(entry.to_dict(), ensure_ascii=False).encode()) + 2
        if size_bytes > MENU_BYTES:
            break
        if re.fullmatch(r"[a-z0-9_]{1,32}", name) and spec.help:
            menu.append(entry)
    return tuple(menu)


def menu_name(spec: CommandSpec) -> str:
    """Telegram's command names have no hyphen."""
    return spec.name.replace("-", "_").lower()


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"
