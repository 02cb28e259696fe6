"""The model clients that the settings name, made once and closed together.

What they are asked is the agent's business; which one answers when another can't is `models`'.
"""

import logging
from typing import Self

from trunkline.agent.model import ModelClient
from trunkline.agent.openai_client import OpenAIModel
from trunkline.agent.openai_client_errors import Failed as ModelFailed
from trunkline.agent.openai_client_sdk import OPENAI_URL, Endpoint
from trunkline.gateway.config import Config, ModelEndpoint
from trunkline.gateway.models import FallbackModel, NoModel
from trunkline.gateway.settings import Purpose
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.tool_support import StoreToolSupport

log = logging.getLogger(__name__)


class Models:
    """The model clients of the settings, closed at the end of the context."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config = config
        self._support = StoreToolSupport(database)
        self._clients: dict[ModelEndpoint, OpenAIModel] = {}
        endpoints = config.model_endpoints()
        self.main: ModelClient = NoModel()
        if endpoints:
            self.main = FallbackModel([self._client(endpoint) for endpoint in endpoints])

    def auxiliary(self, purpose: Purpose) -> ModelClient | None:
        """The model for side work; None when there is none."""
        endpoint = self._config.auxiliary_endpoint(purpose)
        return None if endpoint is None else self._client(endpoint)

    def side(self, purpose: Purpose) -> ModelClient:
        """The model for side work where the settings name one, else the main one with its fallbacks."""
        own = self.auxiliary(purpose) if getattr(self._config.auxiliary, purpose) is not None else None
        return own or self.main

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

    def _client(self, endpoint: ModelEndpoint) -> OpenAIModel:
        if endpoint not in self._clients:
            where = Endpoint(endpoint.base_url or OPENAI_URL, endpoint.api_key)
            self._clients[endpoint] = OpenAIModel(
                endpoint.name, where, tool_calls=endpoint.tool_calls, support=self._support
            )
        return self._clients[endpoint]
