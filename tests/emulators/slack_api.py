"""The Web API methods of the emulated Slack, as functions of a workspace.

Tokens, faults and the record of calls are the emulator's.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.emulators.slack_workspace import (
    MAX_FILE_BYTES,
    MAX_MARKDOWN_CHARS,
    Channel,
    Post,
    Refused,
    StoredFile,
    Whisper,
    Workspace,
    check_content,
)

Arguments = dict[str, Any]
Changed = Callable[[str, Channel, Post], Awaitable[None]]
"""Told after the bot's own post, edit or deletion, with which of the three it was."""

NEEDED_SCOPE = {
    "chat": "chat:write",
    "assistant": "chat:write",
    "files.info": "files:read",
    "files": "files:write",
    "reactions": "reactions:write",
    "users": "users:read",
}
_BOOLEANS = {"unfurl_links", "unfurl_media", "include_all_metadata", "inclusive", "return_im", "mrkdwn"}
_NUMBERS = {"limit", "length"}


def parse_arguments(fields: dict[str, str]) -> Arguments:
    """Form fields and query strings back as the values that the caller gave the library."""
    parsed: Arguments = {}
    for name, value in fields.items():
        if name in _BOOLEANS:
            parsed[name] = value in {"1", "true"}
        elif name in _NUMBERS and value.isdigit():
            parsed[name] = int(value)
        elif value[:1] in {"[", "{"} and name not in {"text", "markdown_text"}:
            parsed[name] = json.loads(value)
        else:
            parsed[name] = value
    return parsed


class WebApi:
    """Slack's methods by name in `methods`; each takes the arguments and gives the answer without `ok`."""

    def __init__(
        self, workspace: Workspace, app: str, changed: Changed, public_url: Callable[[], str]
    ) -> None:
        self._workspace = workspace
        self._app = app
        self._changed = changed
        self._public_url = public_url
        self.views: list[Arguments] = []
        self.titles: dict[tuple[str, str], str] = {}
        self.prompts: list[Arguments] = []
        self.status_log: list[tuple[str, str, str]] = []
        self.methods: dict[str, Callable[[Arguments], Awaitable[Arguments]]] = {
            "auth.test": self._auth_test,
            "bots.info": self._bots_info,
            "users.info": self._users_info,
            "chat.postMessage": self._post_message,
            "chat.postEphemeral": self._post_ephemeral,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.startStream": self._start_stream,
            "chat.appendStream": self._append_stream,
            "chat.stopStream": self._stop_stream,
            "assistant.threads.setStatus": self._set_status,
            "assistant.threads.setTitle": self._set_title,
            "assistant.threads.setSuggestedPrompts": self._set_prompts,
            "conversations.open": self._open,
            "conversations.info": self._channel_info,
            "conversations.members": self._channel_members,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "reactions.add": self._add_reaction,
            "reactions.remove": self._remove_reaction,
            "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete_upload,
            "files.info": self._files_info,
            "views.open": self._open_view,
        }

    async def _auth_test(self, _: Arguments) -> Arguments:
        space = self._workspace
        return {
            "url": "https://example.slack.com/",
            "team": "Example",
            "user": "trunkline",
            "team_id": space.team,
            "user_id": space.bot_user,
            "bot_id": space.bot_id,
            "is_enterprise_install": False,
        }

    async def _bots_info(self, arguments: Arguments) -> Arguments:
        if arguments.get("bot", self._workspace.bot_id) != self._workspace.bot_id:
            raise Refused("bot_not_found")
        bot = {"id": self._workspace.bot_id, "name": "trunkline", "app_id": self._app, "deleted": False}
        return {"bot": bot | {"user_id": self._workspace.bot_user, "updated": 0}}

    async def _users_info(self, arguments: Arguments) -> Arguments:
        user = str(arguments.get("user"))
        name = self._workspace.users.get(user)
        if name is None:
            raise Refused("user_not_found")
        profile = {"display_name": name, "real_name": name.title()}
        shown = {"id": user, "team_id": self._workspace.team, "name": name, "profile": profile}
        return {"user": shown | {"deleted": user in self._workspace.deactivated}}

    # Messages

    async def _post_message(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.writable(arguments.get("channel"))
        check_content(arguments, update=False)
        thread = arguments.get("thread_ts")
        if thread is not None and thread not in channel.posts:
            raise Refused("thread_not_found")
        metadata = arguments.get("metadata")
        if metadata is not None and not {"event_type", "event_payload"} <= set(metadata):
            raise Refused("invalid_metadata_format")
        post = self._add(channel, str(arguments.get("text") or arguments.get("markdown_text") or ""), thread)
        post.blocks = arguments.get("blocks") or []
        post.attachments = arguments.get("attachments") or []
        post.metadata = metadata
        post.arguments = arguments
        await self._changed("posted", channel, post)
        return {"channel": channel.id, "ts": post.ts, "message": self._workspace.message(post)}

    def _add(self, channel: Channel, text: str, thread: str | None) -> Post:
        space = self._workspace
        post = Post(space.stamp(), space.bot_user, [text], thread, bot_id=space.bot_id)
        channel.posts[post.ts] = post
        space.statuses.pop((channel.id, thread or ""), None)
        return post

    async def _post_ephemeral(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.writable(arguments.get("channel"))
        user = str(arguments.get("user"))
        if user not in channel.members:
            raise Refused("user_not_in_channel")
        check_content(arguments, update=False)
        text, thread = str(arguments.get("text") or ""), arguments.get("thread_ts")
        self._workspace.whispers.append(Whisper(channel.id, user, text, "postEphemeral", thread))
        return {"message_ts": self._workspace.stamp()}

    async def _update(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.writable(arguments.get("channel"))
        post = self._workspace.own_post(channel.id, arguments.get("ts"), "cant_update_message")
        if post.streaming:
            raise Refused("streaming_state_conflict")
        check_content(arguments, update=True)
        post.texts.append(str(arguments.get("text") or arguments.get("markdown_text") or ""))
        post.blocks = arguments.get("blocks", post.blocks)
        post.attachments = arguments.get("attachments", post.attachments)
        post.edited = self._workspace.stamp()
        await self._changed("edited", channel, post)
        message = self._workspace.message(post)
        return {"channel": channel.id, "ts": post.ts, "text": post.text, "message": message}

    async def _delete(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.channel(arguments.get("channel"))
        post = self._workspace.own_post(channel.id, arguments.get("ts"), "cant_delete_message")
        if post.streaming:
            raise Refused("cant_delete_message")
        del channel.posts[post.ts]
        await self._changed("deleted", channel, post)
        return {"channel": channel.id, "ts": post.ts}

    # Streams

    async def _start_stream(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.writable(arguments.get("channel"))
        thread = str(arguments.get("thread_ts") or "")
        if thread not in channel.posts:
            raise Refused("invalid_thread_ts")
        if channel.kind != "im" and not arguments.get("recipient_user_id"):
            raise Refused("missing_recipient_user_id")
        if channel.kind != "im" and not arguments.get("recipient_team_id"):
            raise Refused("missing_recipient_team_id")
        post = self._add(channel, _streamed(arguments), thread)
        post.streaming = True
        await self._changed("posted", channel, post)
        return {"channel": channel.id, "ts": post.ts}

    async def _append_stream(self, arguments: Arguments) -> Arguments:
        post = self._streaming(arguments)
        added = _streamed(arguments)
        if not added.strip():
            raise Refused("no_text")
        post.texts.append(post.text + added)
        return {"channel": str(arguments["channel"]), "ts": post.ts}

    async def _stop_stream(self, arguments: Arguments) -> Arguments:
        post = self._streaming(arguments)
        post.texts.append(post.text + _streamed(arguments))
        post.streaming = False
        post.metadata = arguments.get("metadata")
        # They stay until an update says something of blocks.
        post.blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": post.text}}]
        await self._changed("edited", self._workspace.channel(arguments["channel"]), post)
        message = self._workspace.message(post)
        return {"channel": str(arguments["channel"]), "ts": post.ts, "message": message}

    def _streaming(self, arguments: Arguments) -> Post:
        error = "message_not_owned_by_app"
        post = self._workspace.own_post(arguments.get("channel"), arguments.get("ts"), error)
        if post.stopped_by_reader:
            raise Refused("stopped_by_user")
        if not post.streaming:
            raise Refused("message_not_in_streaming_state")
        return post

    # Assistant threads

    def _thread(self, arguments: Arguments) -> tuple[str, str]:
        channel = self._workspace.channel(arguments.get("channel_id"))
        thread = str(arguments.get("thread_ts") or "")
        if thread not in channel.posts:
            raise Refused("invalid_thread_ts")
        return channel.id, thread

    async def _set_status(self, arguments: Arguments) -> Arguments:
        if len(arguments.get("loading_messages") or []) > 10:
            raise Refused("invalid_arguments")
        channel, thread = self._thread(arguments)
        status = str(arguments.get("status"))
        self.status_log.append((channel, thread, status))
        if status:
            self._workspace.statuses[channel, thread] = status
        else:
            self._workspace.statuses.pop((channel, thread), None)
        return {}

    async def _set_title(self, arguments: Arguments) -> Arguments:
        self.titles[self._thread(arguments)] = str(arguments.get("title"))
        return {}

    async def _set_prompts(self, arguments: Arguments) -> Arguments:
        self._workspace.channel(arguments.get("channel_id"))
        if not 1 <= len(arguments.get("prompts") or []) <= 4:
            raise Refused("invalid_arguments")
        self.prompts.append(arguments)
        return {}

    # Conversations

    async def _open(self, arguments: Arguments) -> Arguments:
        users = str(arguments.get("users") or "").split(",")
        if arguments.get("channel"):
            return {"channel": {"id": self._workspace.channel(arguments["channel"]).id}}
        if any(user not in self._workspace.users for user in users):
            raise Refused("user_not_found")
        if len(users) == 1:
            return {"channel": {"id": self._workspace.direct_channel(users[0]).id}}
        found = self._workspace.add_channel(f"G{''.join(users)}", "mpim", tuple(users))
        return {"channel": {"id": found.id}}

    async def _channel_info(self, arguments: Arguments) -> Arguments:
        found = self._workspace.channel(arguments.get("channel"))
        kinds = {"is_im": found.kind == "im", "is_mpim": found.kind == "mpim"}
        channel = {"id": found.id, "name": found.id.lower(), "created": 0, "creator": "U0ADMIN"}
        member = self._workspace.bot_user in found.members
        return {"channel": channel | kinds | {"is_archived": found.archived, "is_member": member}}

    async def _channel_members(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.channel(arguments.get("channel"))
        if channel.kind != "channel" and self._workspace.bot_user not in channel.members:
            raise Refused("channel_not_found")
        everybody, limit = sorted(channel.members), int(arguments.get("limit") or 100)
        begins = int(arguments.get("cursor") or 0)
        ends = begins + min(limit, self._workspace.most_members)
        following = str(ends) if ends < len(everybody) else ""
        return {"members": everybody[begins:ends], "response_metadata": {"next_cursor": following}}

    async def _history(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.channel(arguments.get("channel"))
        posts = [post for post in channel.posts.values() if post.thread is None]
        return {"messages": self._page(reversed(posts), arguments), "has_more": False}

    async def _replies(self, arguments: Arguments) -> Arguments:
        channel = self._workspace.channel(arguments.get("channel"))
        root = str(arguments.get("ts"))
        if root not in channel.posts:
            raise Refused("thread_not_found")
        posts = [post for post in channel.posts.values() if root in {post.ts, post.thread}]
        return {"messages": self._page(posts, arguments), "has_more": False}

    def _page(self, posts: Any, arguments: Arguments) -> list[Arguments]:
        oldest = float(arguments.get("oldest") or 0)
        latest = float(arguments.get("latest") or "inf")
        shown = []
        for post in posts:
            if not oldest < float(post.ts) < latest:
                continue
            message = self._workspace.message(post)
            if post.metadata and arguments.get("include_all_metadata"):
                message["metadata"] = post.metadata
            shown.append(message)
        return shown[: int(arguments.get("limit") or 100)]

    # Reactions, files, views

    def _reacted(self, arguments: Arguments) -> set[str]:
        name = str(arguments.get("name"))
        if not name.strip("_+-:").replace("_", "").replace("-", "").isalnum() or not name.isascii():
            raise Refused("invalid_name")
        post = self._workspace.channel(arguments.get("channel")).posts.get(str(arguments.get("timestamp")))
        if post is None:
            raise Refused("message_not_found")
        return post.reactions.setdefault(name, set())

    async def _add_reaction(self, arguments: Arguments) -> Arguments:
        users = self._reacted(arguments)
        if self._workspace.bot_user in users:
            raise Refused("already_reacted")
        users.add(self._workspace.bot_user)
        return {}

    async def _remove_reaction(self, arguments: Arguments) -> Arguments:
        users = self._reacted(arguments)
        if self._workspace.bot_user not in users:
            raise Refused("no_reaction")
        users.discard(self._workspace.bot_user)
        return {}

    async def _upload_url(self, arguments: Arguments) -> Arguments:
        length = int(arguments.get("length") or 0)
        if length <= 0 or not arguments.get("filename"):
            raise Refused("invalid_arguments")
        if length > MAX_FILE_BYTES:
            raise Refused("file_upload_size_restricted")
        file = f"F{len(self._workspace.files):04d}UP"
        stored = StoredFile(file, str(arguments.get("filename")), "", b"", uploaded=False, length=length)
        self._workspace.files[file] = stored
        return {"file_id": file, "upload_url": f"{self._public_url()}/upload/{file}"}

    async def _complete_upload(self, arguments: Arguments) -> Arguments:
        files = [self._stored(entry.get("id")) for entry in arguments.get("files") or []]
        if not files:
            raise Refused("invalid_arguments")
        if any(not file.uploaded or len(file.content) != file.length for file in files):
            raise Refused("file_not_found")
        if any(file.shared_at for file in files):
            raise Refused("file_already_completed")
        if arguments.get("channel_id"):
            channel = self._workspace.writable(arguments["channel_id"])
            thread = arguments.get("thread_ts")
            if thread is not None and thread not in channel.posts:
                raise Refused("thread_not_found")
            post = self._add(channel, str(arguments.get("initial_comment") or ""), thread)
            post.files = [self.file_record(file) for file in files]
            for file in files:
                file.shared_at = (channel.id, post.ts)
        return {"files": [{"id": file.id, "title": file.name} for file in files]}

    def _stored(self, file: object) -> StoredFile:
        stored = self._workspace.files.get(str(file))
        if stored is None:
            raise Refused("file_not_found")
        return stored

    async def _files_info(self, arguments: Arguments) -> Arguments:
        return {"file": self.file_record(self._stored(arguments.get("file"))), "comments": []}

    def file_record(self, file: StoredFile) -> Arguments:
        """A file as an event or files.info shows it in full."""
        where = f"{self._public_url()}/files-pri/{self._workspace.team}-{file.id}"
        external = file.external_url is not None
        record = {
            "id": file.id,
            "created": 0,
            "name": file.name,
            "title": file.name,
            "mimetype": file.mime,
            "filetype": file.name.rpartition(".")[2],
            "pretty_type": file.name.rpartition(".")[2].upper(),
            "editable": False,
            "size": len(file.content),
            "mode": "external" if external else "hosted",
            "is_external": external,
            "external_type": "gdrive" if external else "",
            "is_public": False,
            "public_url_shared": False,
            "display_as_bot": False,
            "username": "",
            "permalink": f"https://example.slack.com/files/{file.id}",
            "channels": [],
            "groups": [],
            "url_private": file.external_url or f"{where}/{file.name}",
        }
        if file.shared_at:
            place, ts = file.shared_at
            record["shares"] = {"private": {place: [{"ts": ts}]}}
        return record if external else record | {"url_private_download": f"{where}/download/{file.name}"}

    async def _open_view(self, arguments: Arguments) -> Arguments:
        if not arguments.get("trigger_id"):
            raise Refused("invalid_arguments")
        self.views.append(arguments)
        return {"view": {"id": f"V{len(self.views):04d}"}}


def _streamed(arguments: Arguments) -> str:
    chunks = arguments.get("chunks") or []
    text = str(arguments.get("markdown_text") or "")
    text += "".join(str(chunk.get("text", "")) for chunk in chunks if chunk.get("type") == "markdown_text")
    if len(text) > MAX_MARKDOWN_CHARS:
        raise Refused("msg_too_long")
    return text
