"""Speech to text and text to speech over the openai SDK, at any endpoint that has them."""

import asyncio
from typing import TYPE_CHECKING

from trunkline.agent.openai_client_errors import Failed
from trunkline.agent.openai_client_sdk import Endpoint, Timeouts, open_client, translated

if TYPE_CHECKING:
    import openai

TRANSCRIBE_S = 120.0
SPEAK_S = 60.0
SPOKEN_CHARS = 4_000
"""The API takes 4096 characters at once."""


class AudioFailed(Exception):
    """The endpoint gave no transcript or no speech; the text is for the log."""


class OpenAIAudio:
    """One model for hearing or for speaking. `aclose` when it is no longer needed."""

    def __init__(self, model: str, endpoint: Endpoint, *, voice: str = "alloy") -> None:
        self._model = model
        self._endpoint = endpoint
        self._voice = voice
        self._client: openai.AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    async def transcribe(self, content: bytes, name: str, mime: str) -> str:
        """What is said in a recording. Raises AudioFailed."""
        try:
            client = await self._opened()
            with translated():
                async with asyncio.timeout(TRANSCRIBE_S):
                    heard = await client.audio.transcriptions.create(
                        model=self._model, file=(name, content, mime), response_format="json"
                    )
        except Failed as failed:
            raise AudioFailed(str(failed)) from failed
        return str(getattr(heard, "text", "") or "").strip()

    async def speak(self, text: str) -> bytes:
        """The text as Opus in an Ogg file. Raises AudioFailed."""
        try:
            client = await self._opened()
            with translated():
                async with asyncio.timeout(SPEAK_S):
                    spoken = await client.audio.speech.create(
                        model=self._model, voice=self._voice, input=text, response_format="opus"
                    )
                    content: bytes = spoken.content
        except Failed as failed:
            raise AudioFailed(str(failed)) from failed
        if not content:
            raise AudioFailed("the endpoint sent no sound")
        return content

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _opened(self) -> "openai.AsyncOpenAI":
        async with self._opening:
            if self._client is None:
                self._client = await open_client(self._endpoint, Timeouts())
            return self._client
