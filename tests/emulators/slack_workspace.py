"""What the emulated Slack workspace holds (people, channels, messages, files) and the rules for texts."""

import time
from dataclasses import dataclass, field
from typing import Any

MAX_POST_CHARS = 40_000
MAX_UPDATE_BYTES = 4_000
MAX_BLOCKS = 50
MAX_FILE_BYTES = 1024**3
MAX_SECTION_CHARS = 3_000
MAX_HEADER_CHARS = 150
MAX_MARKDOWN_CHARS = 12_000
MAX_BLOCK_TEXT_CHARS = 13_200


class Refused(Exception):
    """Slack's own name for why a call is refused; `more` joins the answer."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


@dataclass(slots=True)
class Post:
    """One message of a channel. `texts` are all it ever said, the last one being shown."""

    ts: str
    user: str
    texts: list[str]
    thread: str | None = None
    bot_id: str | None = None
    blocks: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] | None = None
    edited: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    reactions: dict[str, set[str]] = field(default_factory=dict)
    streaming: bool = False
    stopped_by_reader: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    attachments: list[dict[str, Any]] = field(default_factory=list)

    @property
    def buttons(self) -> list[dict[str, Any]]:
        """The buttons shown under it."""
        blocks = [*self.blocks, *(block for one in self.attachments for block in one.get("blocks", []))]
        return [button for block in blocks for button in block.get("elements", [])]

    def stop_stream(self) -> None:
        """Its reader presses Slack's own button."""
        self.streaming, self.stopped_by_reader = False, True

    @property
    def text(self) -> str:
        return self.texts[-1]


@dataclass(slots=True)
class Channel:
    """A conversation; `kind` is Slack's channel_type: im, mpim, channel or group."""

    id: str
    kind: str
    members: set[str]
    archived: bool = False
    posts: dict[str, Post] = field(default_factory=dict)


@dataclass(slots=True)
class StoredFile:
    id: str
    name: str
    mime: str
    content: bytes
    stub: bool = False
    external_url: str | None = None
    uploaded: bool = True
    length: int = 0
    shared_at: tuple[str, str] | None = None
    """Channel and ts of the post that showed it."""


@dataclass(frozen=True, slots=True)
class Whisper:
    """A message that only one person sees. `via` is response_url or postEphemeral."""

    channel: str
    user: str
    text: str
    via: str
    thread: str | None = None


class Workspace:
    """People and channels by id, and one clock that never gives a time stamp twice."""

    def __init__(self, *, team: str, bot_user: str, bot_id: str) -> None:
        self.team = team
        self.bot_user = bot_user
        self.bot_id = bot_id
        self.users: dict[str, str] = {bot_user: "trunkline"}
        self.deactivated: set[str] = set()
        self.most_members = 999
        """Of one page, however many were asked for."""
        self.channels: dict[str, Channel] = {}
        self.files: dict[str, StoredFile] = {}
        self.whispers: list[Whisper] = []
        self.statuses: dict[tuple[str, str], str] = {}
        self._micros = 0

    def stamp(self) -> str:
        self._micros = max(self._micros + 1, int(time.time() * 1_000_000))
        seconds, micros = divmod(self._micros, 1_000_000)
        return f"{seconds}.{micros:06d}"

    def add_channel(self, channel: str, kind: str = "channel", members: tuple[str, ...] = ()) -> Channel:
        found = self.channels.get(channel)
        if found is None:
            found = self.channels[channel] = Channel(channel, kind, {self.bot_user})
        found.members.update(members)
        for user in members:
            self.users.setdefault(user, user.lower())
        return found

    def direct_channel(self, user: str) -> Channel:
        return self.add_channel(f"D{user[1:]}", "im", (user,))

    def channel(self, channel: object) -> Channel:
        found = self.channels.get(str(channel))
        if found is None and str(channel) in self.users:
            found = self.direct_channel(str(channel))
        if found is None:
            raise Refused("channel_not_found")
        return found

    def writable(self, channel: object) -> Channel:
        found = self.channel(channel)
        if found.archived:
            raise Refused("is_archived")
        if self.bot_user not in found.members:
            raise Refused("not_in_channel" if found.kind == "channel" else "channel_not_found")
        return found

    def own_post(self, channel: object, ts: object, error: str) -> Post:
        post = self.channel(channel).posts.get(str(ts))
        if post is None:
            raise Refused("message_not_found")
        if post.bot_id != self.bot_id:
            raise Refused(error)
        return post

    def message(self, post: Post) -> dict[str, Any]:
        """A post as the Web API and events show it."""
        shown: dict[str, Any] = {"type": "message", "user": post.user, "ts": post.ts, "text": post.text}
        if post.bot_id:
            shown["bot_id"] = post.bot_id
        if post.thread:
            shown["thread_ts"] = post.thread
        if post.blocks:
            shown["blocks"] = post.blocks
        if post.files:
            shown["files"] = post.files
        if post.edited:
            shown["edited"] = {"user": post.user, "ts": post.edited}
        return shown


def check_content(arguments: dict[str, Any], *, update: bool) -> None:
    """Refuses what Slack refuses in a message: nothing to say, too much, or bad blocks."""
    text = str(arguments.get("text") or "")
    markdown = str(arguments.get("markdown_text") or "")
    if markdown and (text or arguments.get("blocks")):
        raise Refused("markdown_text_conflict")
    if not (text or markdown or arguments.get("blocks") or arguments.get("attachments")):
        raise Refused("no_text")
    if len(markdown) > MAX_MARKDOWN_CHARS:
        raise Refused("msg_too_long")
    if update and len(text.encode()) > MAX_UPDATE_BYTES:
        raise Refused("msg_too_long")
    if len(text) > MAX_POST_CHARS:
        raise Refused("msg_too_long")
    check_blocks(arguments.get("blocks") or [])
    for attachment in arguments.get("attachments") or []:
        check_blocks(attachment.get("blocks") or [])


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    faults = []
    if len(blocks) > MAX_BLOCKS:
        faults.append(f"no more than {MAX_BLOCKS} items allowed [json-pointer:/blocks]")
    total = markdown = 0
    for n, block in enumerate(blocks):
        inner = block.get("text")
        size = len(str(inner.get("text", "") if isinstance(inner, dict) else inner or ""))
        total += size
        markdown += size if block.get("type") == "markdown" else 0
        buttons = block.get("elements", []) if block.get("type") == "actions" else []
        if len(buttons) > 25 or any(
            len(button["text"]["text"]) > 75 or len(button["action_id"]) > 255 or len(button["value"]) > 2000
            for button in buttons
        ):
            faults.append(f"invalid actions [json-pointer:/blocks/{n}/elements]")
        limit = {"section": MAX_SECTION_CHARS, "header": MAX_HEADER_CHARS}.get(str(block.get("type")))
        if limit is not None and size > limit:
            faults.append(f"must be less than {limit + 1} characters [json-pointer:/blocks/{n}/text/text]")
    if faults:
        raise Refused("invalid_blocks", response_metadata={"messages": [f"[ERROR] {x}" for x in faults]})
    if markdown > MAX_MARKDOWN_CHARS or total > MAX_BLOCK_TEXT_CHARS:
        raise Refused("msg_blocks_too_long")
