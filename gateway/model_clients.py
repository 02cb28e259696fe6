"""The model clients that the settings name, made once and closed together.

What they are asked is the agent's business; which one answers when another can't is `models`'.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Self

from trunkline.agent.model import ModelClient
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_audio import OpenAIAudio
from trunkline.agent.openai_client_errors import Failed as ModelFailed
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint
from trunkline.agent.sight import PictureSource, Sight
from trunkline.gateway.config import Config, ModelEndpoint
from trunkline.gateway.models import FallbackModel, NoModel
from trunkline.gateway.settings import ModelChoice, Purpose
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.sight import StoreSight
from trunkline.gateway.state.tool_support import StoreToolSupport
from trunkline.gateway.voice import Ear, Mouth
from trunkline.gateway.windows import Windows

log = logging.getLogger(__name__)


class Models:
    """The model clients of the settings, closed at the end of the context."""

    def __init__(self, config: Config, database: Database, pictures: PictureSource | None = None) -> None:
        self._config = config
        self._pictures = pictures
        # A model file is served on another port each time: what is known of it is kept under its path.
        places = {config.model.base_url or "": str(config.model.file)} if config.model.file else {}
        self._sight = StoreSight(database, places)
        self._sounds: list[OpenAIAudio] = []
        hears, speaks = config.auxiliary.transcription, config.auxiliary.speech
        heard, spoken = self._sound(hears), self._sound(speaks, speaks.voice if speaks else "")
        self.ear = None if heard is None else Ear(heard)
        self.mouth = None if spoken is None else Mouth(spoken)
        self._support = StoreToolSupport(database, places)
        self._clients: dict[ModelEndpoint, OpenAIModel] = {}
        endpoints = config.model_endpoints()
        named = (*endpoints, *config.choosable_endpoints())
        self.windows = Windows(
            {one.name: one.context_tokens for one in reversed(named) if one.context_tokens}, self._ask_window
        )
        self.main: ModelClient = NoModel()
        if endpoints:
            self.main = FallbackModel([self._client(endpoint) for endpoint in endpoints])

    @property
    def choices(self) -> Mapping[str, ModelClient]:
        """Every model that may answer, by name, the main one with its fallbacks first."""
        others = {one.name: self._client(one) for one in self._config.choosable_endpoints()}
        return {self.main.name: self.main} | {
            name: client for name, client in others.items() if name != self.main.name
        }

    def auxiliary(self, purpose: Purpose) -> ModelClient | None:
        """The model for side work; None when there is none."""
        endpoint = self._config.auxiliary_endpoint(purpose)
        return None if endpoint is None else self._client(endpoint)

    def side(self, purpose: Purpose) -> ModelClient:
        """The model for side work where the settings name one, else the main one with its fallbacks."""
        own = self.auxiliary(purpose) if getattr(self._config.auxiliary, purpose) is not None else None
        return own or self.main

    async def _ask_window(self, model: str) -> int | None:
        for endpoint, client in self._clients.items():
            if endpoint.name == model:
                return endpoint.context_tokens or await client.context_tokens()
        return None

    def sees(self, model: str) -> bool:
        """False once it is known that the model of this name takes no pictures."""
        return all(client.sees for endpoint, client in self._clients.items() if endpoint.name == model)

    def _sound(self, choice: ModelChoice | None, voice: str = "") -> OpenAIAudio | None:
        endpoint = self._config.sound_endpoint(choice)
        if endpoint is None:
            return None
        where = Endpoint(endpoint.base_url or OPENAI_URL, endpoint.api_key)
        self._sounds.append(OpenAIAudio(endpoint.name, where, voice=voice))
        return self._sounds[-1]

    async def __aenter__(self) -> Self:
        return self

    async def prepare(self) -> None:
        """Loads the SDK while the platforms connect, so that the first answer needn't wait for it."""
        for client in self._clients.values():
            try:
                await client.prepare()
            except ModelFailed as failed:
                log.warning("model not prepared: %s", failed.failure.kind)

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients.values():
            await client.aclose()
        for sound in self._sounds:
            await sound.aclose()

    def _client(self, endpoint: ModelEndpoint) -> OpenAIModel:
        if endpoint not in self._clients:
            where = Endpoint(endpoint.base_url or OPENAI_URL, endpoint.api_key)
            self._clients[endpoint] = OpenAIModel(
                endpoint.name,
                where,
                tool_calls=endpoint.tool_calls,
                support=self._support,
                sight=Sight(endpoint.vision, self._pictures, self._sight),
                window=partial(self.windows.known, endpoint.name),
            )
        return self._clients[endpoint]
