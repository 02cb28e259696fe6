"""Hears what people say in recordings, and speaks answers to those who spoke, at the model's endpoint."""

import logging

from trunkline.adapters.markup.plain import render_plain
from trunkline.agent.openai_client_audio import SPOKEN_CHARS, AudioFailed, OpenAIAudio
from trunkline.gateway.attachments import NotHeard

log = logging.getLogger(__name__)


class Ear:
    """The Hearing of attachments."""

    def __init__(self, audio: OpenAIAudio) -> None:
        self._audio = audio

    async def transcribe(self, content: bytes, name: str, mime: str) -> str:
        try:
            return await self._audio.transcribe(content, name, mime)
        except AudioFailed as failed:
            log.warning("recording not transcribed: %s", failed)
            raise NotHeard from failed


class Mouth:
    """Makes voice notes of answers."""

    def __init__(self, audio: OpenAIAudio) -> None:
        self._audio = audio

    async def speak(self, answer: str) -> bytes | None:
        """The answer as Opus in Ogg; None where it is too long to listen to, or can't be spoken."""
        text = render_plain(answer).strip()
        if not text or len(text) > SPOKEN_CHARS:
            return None
        try:
            return await self._audio.speak(text)
        except AudioFailed as failed:
            log.warning("answer not spoken: %s", failed)
            return None
