"""The sound endpoints of the OpenAI emulator: what it hears and says is scripted by the test."""

from collections import deque

from aiohttp import web
from aiohttp.web_request import FileField

from tests.emulators.base import Emulator

TRANSCRIPTIONS, SPEECH = "audio.transcriptions", "audio.speech"
HEARD_BYTES = 25 * 2**20
ENDINGS = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm")
SPOKEN_CHARS = 4096


class Sounds:
    """Adds the routes. `heard` are the transcripts of the next recordings; without one it is refused.

    `speaks` is false for an endpoint that has no speech.
    """

    def __init__(self, emulator: Emulator) -> None:
        self.heard: deque[str] = deque()
        self.recordings: list[tuple[str, bytes]] = []
        self.speaks = True
        self._emulator = emulator
        emulator.app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        emulator.app.router.add_post("/v1/audio/speech", self._speak)

    async def _transcribe(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form.get("file")
        if not isinstance(file, FileField) or not form.get("model"):
            return _refused("you must provide a file and a model")
        content = file.file.read()
        await self._emulator.record(TRANSCRIPTIONS, {"model": form["model"], "name": file.filename})
        if file.filename.rpartition(".")[2] not in ENDINGS:
            return _refused(f"Invalid file format. Supported formats: {list(ENDINGS)}")
        if not content or len(content) > HEARD_BYTES:
            return _refused("Audio file is empty or too large", 413)
        if not self.heard:
            return _refused("Not Found", 404)
        self.recordings.append((file.filename, content))
        return web.json_response({"text": self.heard.popleft()})

    async def _speak(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        await self._emulator.record(SPEECH, body)
        if not self.speaks:
            return _refused("Not Found", 404)
        if (
            not body.get("model")
            or not body.get("voice")
            or not 0 < len(body.get("input", "")) <= SPOKEN_CHARS
        ):
            return _refused("Invalid input")
        return web.Response(body=b"OggS" + body["input"].encode(), content_type="audio/ogg")


def _refused(message: str, status: int = 400) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)
