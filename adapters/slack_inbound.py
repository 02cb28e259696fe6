"""Turns what Slack sends into `InboundMessage`s, without asking Slack anything.

Nothing is looked up here, because who wrote has not been authorised yet: a sender's label is the name that
the event carries or one learnt earlier, else the id, and a mention of an unknown person stays `@U123`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from trunkline.adapters.base import (
    Attachment,
    AttachmentKind,
    ChatKind,
    InboundKind,
    InboundMessage,
    ReplyTo,
    Sender,
)
from trunkline.adapters.inline import inline
from trunkline.adapters.slack_blocks import is_readable, notes_of, text_of_blocks, text_of_card
from trunkline.adapters.slack_buttons import emoji_of
from trunkline.adapters.slack_text import NameOf, command_in, mentions, mentions_anybody, plain_text
from trunkline.adapters.slack_wire import (
    WireCommand,
    WireEnvelope,
    WireFile,
    WireMembership,
    WireMessage,
    WireMove,
    WirePane,
    WirePress,
    WireReaction,
)

_log = logging.getLogger(__name__)

PLATFORM = "slack"
# A response URL takes answers for 30 minutes (Slack: handling user interaction).
INTERACTION_LIFE = timedelta(minutes=30)

# Subtypes in which somebody says something; all others tell of joins, topics, pins and the like.
_SAYING = {None, "file_share", "me_message", "thread_broadcast", "bot_message"}
_MEMBERSHIP = {"member_joined_channel", "member_left_channel", "channel_left", "group_left"}
_SLACKBOT = "USLACKBOT"
# What a slash command says in place of the name of a direct chat and of a private channel.
_NO_NAMES = {"directmessage", "privategroup"}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is: its user id (the tenant), its bot id, and the workspace it is installed in."""

    user: str
    bot: str
    team: str


@dataclass(frozen=True, slots=True)
class _Envelope:
    realm: str
    event_id: str


class InboundReader:
    """Reads Bolt request bodies. `commands` are the names that `!name` and '@bot name' may mean."""

    def __init__(self, identity: Identity, commands: frozenset[str], name_of: NameOf) -> None:
        self._me = identity
        self._commands = commands
        self._name_of = name_of

    def read(self, body: Mapping[str, object]) -> InboundMessage | None:
        """The message in a body, or None when there is nothing for us in it.

        A body that can't be understood is logged and dropped: Slack would only send the same again.
        """
        try:
            return self._read(body)
        except (ValidationError, ValueError) as exc:
            fields = (error["loc"] for error in exc.errors()) if isinstance(exc, ValidationError) else ()
            _log.warning("slack event not understood type=%s fields=%s", body.get("type"), list(fields))
            return None

    def _read(self, body: Mapping[str, object]) -> InboundMessage | None:
        event = body.get("event")
        if not isinstance(event, Mapping):
            if "command" in body:
                return self._command(WireCommand.model_validate(body))
            return (
                self._press(WirePress.model_validate(body)) if body.get("type") == "block_actions" else None
            )
        outer = WireEnvelope.model_validate(body)
        envelope = _Envelope(outer.workspace or self._me.team, outer.event_id)
        kind = event.get("type")
        if kind in {"message", "app_mention"}:
            return self._message(WireMessage.model_validate(event), envelope)
        if kind in _MEMBERSHIP:
            return self._membership(WireMembership.model_validate(event), envelope)
        if kind == "channel_id_changed":
            return self._move(WireMove.model_validate(event), envelope)
        if kind in {"reaction_added", "reaction_removed"}:
            return self._reaction(WireReaction.model_validate(event), envelope)
        return None

    # Messages

    def read_again(self, said: Mapping[str, object], channel: str) -> InboundMessage | None:
        """A message of a channel's history as if it came now, in its present words."""
        # Of an app that a whole organisation has installed only the message tells the workspace.
        team = said.get("team") if self._me.team.startswith("E") else None
        return self.read({"team_id": team, "event": {**said, "channel": channel, "edited": None}})

    def _message(self, event: WireMessage, envelope: _Envelope) -> InboundMessage | None:
        if event.subtype == "message_changed":
            return self._change(event, envelope)
        if event.subtype == "message_deleted":
            return self._deletion(event, event.previous_message, event.deleted_ts or "", envelope)
        if event.subtype not in _SAYING or self._is_own(event):
            return None
        said = self._said(event, event, envelope, event.text)
        if event.edited is not None:
            # A mention added by an edit comes as an app_mention with the stamp of that edit.
            return _as_edit(said, event.edited.ts)
        found = self._command_of(said)
        if found is None:
            return said
        return replace(said, kind=InboundKind.COMMAND, command=found[0], text=found[1])

    def _change(self, event: WireMessage, envelope: _Envelope) -> InboundMessage | None:
        now, before = event.message, event.previous_message
        if now is None or self._is_own(now):
            return None
        if now.subtype == "tombstone":
            # A thread's first message is not taken away when deleted, its place is kept.
            return self._deletion(event, before, now.ts, envelope)
        if now.subtype not in _SAYING or (before is not None and before.text == now.text):
            return None
        if before is None and now.edited is None:
            return None
        said = self._said(event, now, envelope, now.text + (before.text if before else ""))
        return _as_edit(said, now.edited.ts if now.edited else event.event_ts)

    def _deletion(
        self, event: WireMessage, gone: WireMessage | None, ts: str, envelope: _Envelope
    ) -> InboundMessage | None:
        gone = gone or WireMessage(ts=ts)
        if self._is_own(gone):
            return None
        said = self._said(event, gone.model_copy(update={"ts": ts}), envelope, gone.text)
        stamp = _micros(event.event_ts or event.ts)
        return replace(
            said,
            kind=InboundKind.DELETION,
            version=stamp,
            edited_of=ts,
            text="",
            attachments=(),
            mentions_me=False,
        )

    def _said(
        self, event: WireMessage, said: WireMessage, envelope: _Envelope, addressing: str
    ) -> InboundMessage:
        """`addressing` is every text the message had, so that an edit stays in the thread of its original."""
        kind = _chat_kind(event.channel, event.channel_type)
        in_thread = said.thread_ts is not None and said.thread_ts != said.ts
        mentioned = event.type == "app_mention" or mentions(said.text, self._me.user)
        thread = said.thread_ts if in_thread else None
        if kind is ChatKind.GROUP and not in_thread and (mentioned or mentions(addressing, self._me.user)):
            thread = said.ts
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.MESSAGE,
            chat=event.channel,
            chat_kind=ChatKind.THREAD if in_thread and kind is ChatKind.GROUP else kind,
            sender=self._sender(said),
            sent_at=_time(said.ts),
            text=self._text(said),
            realm=envelope.realm,
            thread=thread,
            message_id=said.ts,
            event_id=envelope.event_id,
            attachments=tuple(_attachment(file) for file in _files(said) if is_readable(file)),
            reply_to=self._reply_to(said) if in_thread else None,
            mentions_me=mentioned,
            mentions_others=not mentioned and mentions_anybody(said.text),
        )

    def _text(self, said: WireMessage) -> str:
        """The words, then what else is shown: blocks where there are no words, cards, what is shared.

        A link's preview is nobody's words.
        """
        parts = [self._plain(said.text) or self._plain(text_of_blocks(said.blocks))]
        for card in said.attachments:
            if card.is_share:
                author = inline(card.author_name) or "somebody"
                parts.append(f"[forwarded, {author} wrote: {self._plain(card.text or card.fallback)}]")
            elif said.bot_id is not None and not card.from_url:
                parts.append(self._plain(text_of_card(card)))
        return "\n".join(filter(None, [*parts, *notes_of(_files(said))]))

    def _plain(self, text: str) -> str:
        return plain_text(text, self._me.user, self._name_of)

    def _sender(self, said: WireMessage) -> Sender:
        profile = said.user_profile or said.bot_profile
        named = said.username or (profile.label if profile is not None else "")
        user = said.user or said.bot_id or ""
        is_bot = said.bot_id is not None or said.subtype == "bot_message" or user == _SLACKBOT
        return Sender(
            id=user,
            label=named or self._name_of(user) or user,
            is_bot=is_bot,
            is_person=said.user is not None and not is_bot,
        )

    def _reply_to(self, said: WireMessage) -> ReplyTo:
        author = said.parent_user_id
        return ReplyTo(said.thread_ts or "", author, is_own=author == self._me.user)

    def _command_of(self, said: InboundMessage) -> tuple[str, str] | None:
        if said.sender.is_bot:
            return None
        # Other bots listen to `!name` in a channel too; in a thread or a direct chat it is meant for us.
        marked = said.chat_kind is not ChatKind.GROUP
        return command_in(said.text, self._commands, marked=marked, addressed=said.mentions_me)

    def _is_own(self, said: WireMessage) -> bool:
        return said.user == self._me.user or (said.bot_id is not None and said.bot_id == self._me.bot)

    # All else

    def _membership(self, event: WireMembership, envelope: _Envelope) -> InboundMessage | None:
        """The bot's own comings and goings (its id is the sender's), and people who leave."""
        joined = event.type == "member_joined_channel"
        about_me = event.type in {"channel_left", "group_left"} or event.user == self._me.user
        if joined and not about_me:
            return None
        who = self._me.user if about_me else event.user or ""
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.MEMBERSHIP,
            chat=event.channel,
            chat_kind=_chat_kind(event.channel, ""),
            sender=Sender(who, self._name_of(who) or who, is_bot=about_me, is_person=not about_me),
            sent_at=_time(event.event_ts),
            text="joined" if joined else "left",
            realm=envelope.realm,
            event_id=envelope.event_id,
            mentions_me=about_me,
        )

    def _move(self, event: WireMove, envelope: _Envelope) -> InboundMessage:
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.MEMBERSHIP,
            chat=event.new_channel_id,
            chat_kind=ChatKind.GROUP,
            sender=Sender(self._me.user, "", is_bot=True, is_person=False),
            sent_at=_time(event.event_ts),
            text="moved",
            realm=envelope.realm,
            event_id=envelope.event_id,
            moved_from=event.old_channel_id,
        )

    def _reaction(self, event: WireReaction, envelope: _Envelope) -> InboundMessage | None:
        """Slack doesn't say in which thread the message stands; `reply_to` names it."""
        if event.item.type != "message" or event.user == self._me.user:
            return None
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.REACTION,
            chat=event.item.channel,
            chat_kind=_chat_kind(event.item.channel, ""),
            sender=Sender(event.user, self._name_of(event.user) or event.user),
            sent_at=_time(event.event_ts),
            text=emoji_of(event.reaction) if event.type == "reaction_added" else "",
            realm=envelope.realm,
            event_id=envelope.event_id,
            reply_to=ReplyTo(event.item.ts, event.item_user, is_own=event.item_user == self._me.user),
        )

    def _command(self, wire: WireCommand) -> InboundMessage:
        words = plain_text(wire.text, self._me.user, self._name_of).split(maxsplit=1)
        name = words[0].lstrip("/!").casefold() if words else ""
        now = datetime.now(UTC)
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.COMMAND,
            chat=wire.channel_id,
            chat_kind=_chat_kind(wire.channel_id, ""),
            sender=Sender(wire.user_id, wire.user_name or wire.user_id),
            sent_at=now,
            text=words[1].strip() if len(words) > 1 else "",
            realm=wire.team_id or self._me.team,
            chat_title="" if wire.channel_name in _NO_NAMES else wire.channel_name,
            event_id=f"trigger:{wire.trigger_id}",
            command=name or "help",
            mentions_me=True,
            interaction=interaction_token(wire.user_id, wire.response_url),
            interaction_expires=now + INTERACTION_LIFE,
        )

    def _press(self, wire: WirePress) -> InboundMessage | None:
        if wire.channel is None:
            return None
        now = datetime.now(UTC)
        pressed = wire.container.message_ts
        thread = wire.container.thread_ts
        return InboundMessage(
            platform=PLATFORM,
            tenant=self._me.user,
            kind=InboundKind.BUTTON,
            chat=wire.channel.id,
            chat_kind=_chat_kind(wire.channel.id, ""),
            sender=Sender(wire.user.id, wire.user.username or wire.user.name or wire.user.id),
            sent_at=now,
            text=wire.actions[0].value or wire.actions[0].action_id,
            # Of an app that a whole organisation has installed, only the person tells the workspace.
            realm=(wire.team.id if wire.team is not None else wire.user.team_id) or self._me.team,
            thread=thread if thread != pressed else None,
            event_id=f"trigger:{wire.trigger_id}",
            reply_to=ReplyTo(pressed, self._me.user, is_own=True) if pressed else None,
            mentions_me=True,
            interaction=interaction_token(wire.user.id, wire.response_url),
            interaction_expires=now + INTERACTION_LIFE,
        )


def opened_pane(body: Mapping[str, object]) -> tuple[str, str, str] | None:
    """Who has just opened the assistant's pane, its channel and its thread."""
    event = body.get("event")
    if not isinstance(event, Mapping) or event.get("type") != "assistant_thread_started":
        return None
    try:
        pane = WirePane.model_validate(event).assistant_thread
    except ValidationError:
        return None
    return pane.user_id, pane.channel_id, pane.thread_ts


def interaction_token(user: str, response_url: str) -> str:
    """The asker and the URL, so that a private answer still finds the asker when the URL has expired."""
    return f"{user} {response_url}"


def parse_interaction(token: str) -> tuple[str, str]:
    user, _, response_url = token.partition(" ")
    return user, response_url


def _as_edit(said: InboundMessage, stamp: str) -> InboundMessage:
    return replace(said, kind=InboundKind.EDIT, version=_micros(stamp), edited_of=said.message_id)


def _chat_kind(channel: str, channel_type: str) -> ChatKind:
    """By channel_type; app_mention, commands and buttons lack it, there the id tells (D is direct)."""
    if channel_type:
        return ChatKind.DIRECT if channel_type in {"im", "app_home"} else ChatKind.GROUP
    return ChatKind.DIRECT if channel.startswith("D") else ChatKind.GROUP


def _files(said: WireMessage) -> list[WireFile]:
    return [*said.files, *(file for card in said.attachments if card.is_share for file in card.files)]


def _attachment(file: WireFile) -> Attachment:
    # Elsewhere than at Slack the bot's token must not be sent, and a stub has no address yet.
    direct = "" if file.is_external or file.file_access else file.url_private_download or file.url_private
    return Attachment(
        kind=_attachment_kind(file),
        ref=direct or file.id,
        name=file.name or file.title,
        mime=file.mimetype,
        size_bytes=file.size,
    )


def _attachment_kind(file: WireFile) -> AttachmentKind:
    if file.subtype == "slack_audio":
        return AttachmentKind.VOICE
    major = file.mimetype.partition("/")[0]
    kinds = {"image": AttachmentKind.IMAGE, "audio": AttachmentKind.AUDIO, "video": AttachmentKind.VIDEO}
    return kinds.get(major, AttachmentKind.DOCUMENT)


def _micros(ts: str) -> int:
    seconds, _, micros = ts.partition(".")
    return int(seconds) * 1_000_000 + int(micros.ljust(6, "0")[:6])


def _time(ts: str) -> datetime:
    return datetime.fromtimestamp(_micros(ts) / 1_000_000, UTC)
