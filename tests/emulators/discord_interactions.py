"""The REST emulator's slash commands: the registry, and interactions with their deadlines."""

import time
from collections.abc import Awaitable, Callable

from tests.emulators.discord_calls import Answer, ApiError, Asked, Rules, check_content, form_error, pinged
from tests.emulators.discord_world import EPHEMERAL, Interaction, Json, World, now_text

MAX_COMMANDS = 100
MAX_COMMAND_CHARS = 8000
OPTIONS_MOST = 25


class Interactions:
    """Operations of DiscordRest. `announce` tells the gateway of a message all may see."""

    def __init__(self, world: World, rules: Rules, announce: Callable[[str, Json], Awaitable[None]]) -> None:
        self.world = world
        self.rules = rules
        self._announce = announce
        self._created = 0

    async def get_commands(self, asked: Asked) -> Answer:
        return 200, list(self.world.commands.values())

    async def put_commands(self, asked: Asked) -> Answer:
        if len(asked.body) > MAX_COMMANDS:
            raise ApiError(400, 30032, "Maximum number of application commands reached (100)")
        known = {command["name"]: command["id"] for command in self.world.commands.values()}
        self._count(sum(body["name"] not in known for body in asked.body))
        made = [self._registered(body, known.get(body["name"])) for body in asked.body]
        self.world.commands = {command["id"]: command for command in made}
        return 200, made

    async def create_command(self, asked: Asked) -> Answer:
        if len(self.world.commands) >= MAX_COMMANDS:
            raise ApiError(400, 30032, "Maximum number of application commands reached (100)")
        self._count(1)
        command = self._registered(asked.body, None)
        self.world.commands[command["id"]] = command
        return 201, command

    async def delete_command(self, asked: Asked) -> Answer:
        if self.world.commands.pop(asked.path["command_id"], None) is None:
            raise ApiError(404, 10063, "Unknown application command")
        return 204, None

    def _count(self, created: int) -> None:
        self._created += created
        if self._created > self.rules.creations_per_day:
            limit = self.rules.creations_per_day
            raise ApiError(400, 30034, f"Max number of daily application command creates reached ({limit})")

    def _registered(self, body: Json, command_id: str | None) -> Json:
        described = [body, *body.get("options", [])]
        if len(described) > 1 + OPTIONS_MOST or any(
            len(one.get("choices") or ()) > OPTIONS_MOST for one in described
        ):
            raise form_error("options", "BASE_TYPE_BAD_LENGTH", "Must be between 0 and 25 in length.")
        if any(not 1 <= len(one.get("description", "")) <= 100 or len(one["name"]) > 32 for one in described):
            raise form_error("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        if sum(len(one["name"]) + len(one["description"]) for one in described) > MAX_COMMAND_CHARS:
            raise form_error("name", "APPLICATION_COMMAND_TOO_LARGE", "Command exceeds maximum size (8000).")
        return {
            **body,
            "integration_types": body.get("integration_types") or [0],
            "id": command_id or self.world.new_id(),
            "application_id": self.world.application_id,
            "version": self.world.new_id(),
            "type": body.get("type", 1),
            "default_member_permissions": body.get("default_member_permissions"),
        }

    async def callback(self, asked: Asked) -> Answer:
        interaction = self.world.interactions.get(asked.path["interaction_token"])
        if interaction is None or interaction.id != asked.path["interaction_id"]:
            raise ApiError(404, 10062, "Unknown interaction")
        if interaction.answered:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        if time.monotonic() - interaction.made_at > self.rules.ack_deadline_s:
            raise ApiError(404, 10062, "Unknown interaction")
        interaction.answered = True
        content = asked.body.get("data") or {}
        interaction.flags = content.get("flags", 0)
        interaction.loading = asked.body["type"] == 5
        interaction.original = self.world.new_id()
        if asked.body["type"] == 4:
            await self._fill(interaction, content, interaction.original)
        if asked.query.get("with_response") not in ("1", "true", "True"):
            return 204, None
        state = {
            "id": interaction.id,
            "type": 2,
            "response_message_id": interaction.original,
            "response_message_loading": interaction.loading,
            "response_message_ephemeral": bool(interaction.flags & EPHEMERAL),
        }
        return 200, {"interaction": state}

    def _live(self, asked: Asked) -> Interaction:
        interaction = self.world.interactions.get(asked.path["webhook_token"])
        if interaction is None or not interaction.answered:
            raise ApiError(404, 10015, "Unknown Webhook")
        if time.monotonic() - interaction.made_at > self.rules.interaction_life_s:
            raise ApiError(401, 50027, "Invalid Webhook Token")
        return interaction

    async def _fill(self, interaction: Interaction, body: Json, message_id: str) -> Json:
        check_content(body, has_files=False)
        author = self.world.users[self.world.bot_id]
        message = self.world.new_message(
            interaction.channel,
            author,
            body.get("content") or "",
            id=message_id,
            flags=interaction.flags | body.get("flags", 0),
            webhook_id=self.world.application_id,
            application_id=self.world.application_id,
        )
        self.world.pings[message_id] = pinged(body, {})
        if not message["flags"] & EPHEMERAL:
            await self._announce("MESSAGE_CREATE", message)
        return message

    async def followup(self, asked: Asked) -> Answer:
        """The first one takes the place of a 'thinking' answer and its ephemeral mark."""
        interaction = self._live(asked)
        if interaction.loading and interaction.original is not None:
            message = await self._fill(interaction, asked.body, interaction.original)
            interaction.loading = False
        else:
            flags = asked.body.get("flags", 0)
            once = Interaction(interaction.id, interaction.token, interaction.channel, flags=flags)
            message = await self._fill(once, asked.body, self.world.new_id())
        return 200, message

    def _answer_of(self, asked: Asked) -> Json:
        interaction = self._live(asked)
        message_id = asked.path.get("message_id", interaction.original)
        held = self.world.private_answers.get(message_id or "")
        held = held or self.world.messages[interaction.channel].get(message_id or "")
        if held is None:
            raise ApiError(404, 10008, "Unknown Message")
        return held

    async def get_answer(self, asked: Asked) -> Answer:
        return 200, self._answer_of(asked)

    async def edit_answer(self, asked: Asked) -> Answer:
        interaction = self._live(asked)
        if interaction.loading and "message_id" not in asked.path and interaction.original:
            interaction.loading = False
            return 200, await self._fill(interaction, asked.body, interaction.original)
        held = self._answer_of(asked)
        check_content(asked.body, has_files=False)
        held |= {"content": asked.body["content"], "edited_timestamp": now_text()}
        return 200, held

    async def delete_answer(self, asked: Asked) -> Answer:
        interaction = self._live(asked)
        if interaction.loading and "message_id" not in asked.path:
            interaction.loading = False
            return 204, None
        held = self._answer_of(asked)
        self.world.private_answers.pop(held["id"], None)
        self.world.messages[interaction.channel].pop(held["id"], None)
        return 204, None
