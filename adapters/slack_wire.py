"""What Slack sends, parsed: only the fields that are used, everything else ignored."""

from pydantic import BaseModel, Field, model_validator


class _Wire(BaseModel):
    """Slack writes null as often as it leaves a field out; both mean the same."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: object) -> object:
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if value is not None}
        return fields


class _Authorization(_Wire):
    team_id: str = ""
    is_enterprise_install: bool = False


class WireEnvelope(_Wire):
    """What an event comes in. In a channel that is shared with another organisation `team_id` may be the
    other's; `authorizations` names the workspace of the installation that is told."""

    team_id: str = ""
    event_id: str = ""
    authorizations: list[_Authorization] = Field(default_factory=list)

    @property
    def workspace(self) -> str:
        for one in self.authorizations:
            if one.team_id and not one.is_enterprise_install:
                return one.team_id
        return self.team_id


class WireProfile(_Wire):
    display_name: str = ""
    real_name: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        return self.display_name or self.real_name or self.name


class WireFile(_Wire):
    """A file; from Slack Connect only an id, with `file_access` saying that files.info has the rest."""

    id: str
    name: str = ""
    title: str = ""
    mimetype: str = ""
    subtype: str = ""
    size: int | None = None
    mode: str = ""
    filetype: str = ""
    is_external: bool = False
    file_access: str = ""
    url_private: str = ""
    url_private_download: str = ""


class WireShare(_Wire):
    ts: str


class WireShares(_Wire):
    """Where a file is shown: by channel, the messages that do."""

    public: dict[str, list[WireShare]] = Field(default_factory=dict)
    private: dict[str, list[WireShare]] = Field(default_factory=dict)


class WireEdited(_Wire):
    ts: str


class WireField(_Wire):
    title: str = ""
    value: str = ""


class WireAttachment(_Wire):
    """A card under a message: a forwarded message, a link's preview (it has `from_url`), or an app's own."""

    text: str = ""
    fallback: str = ""
    author_name: str = ""
    is_share: bool = False
    pretext: str = ""
    title: str = ""
    from_url: str = ""
    fields: list[WireField] = Field(default_factory=list)
    blocks: list[object] = Field(default_factory=list)
    files: list[WireFile] = Field(default_factory=list)


class WireMessage(_Wire):
    """A message, an app_mention, or what happened to a message."""

    type: str = "message"
    subtype: str | None = None
    channel: str = ""
    channel_type: str = ""
    user: str | None = None
    bot_id: str | None = None
    username: str = ""
    text: str = ""
    ts: str = ""
    event_ts: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    deleted_ts: str | None = None
    edited: WireEdited | None = None
    files: list[WireFile] = Field(default_factory=list)
    attachments: list[WireAttachment] = Field(default_factory=list)
    blocks: list[object] = Field(default_factory=list)
    user_profile: WireProfile | None = None
    bot_profile: WireProfile | None = None
    message: "WireMessage | None" = None
    previous_message: "WireMessage | None" = None


class WireSaid(_Wire):
    ts: str
    metadata: dict[str, object] | None = None


class WireHistory(_Wire):
    """What conversations.history and .replies answer."""

    messages: list[WireSaid] = Field(default_factory=list)


class WireUser(_Wire):
    name: str = ""
    profile: WireProfile | None = None
    deleted: bool = False

    @property
    def label(self) -> str:
        return (self.profile.label if self.profile is not None else "") or self.name


class WireNext(_Wire):
    next_cursor: str = ""


class WireMembers(_Wire):
    """A page of the people in a channel."""

    members: list[str]
    response_metadata: WireNext = Field(default_factory=WireNext)


class WireMembership(_Wire):
    """Somebody joined or left; channel_left and group_left are about the bot itself and name no user."""

    type: str
    channel: str
    user: str | None = None
    event_ts: str = "0"


class WireMove(_Wire):
    """A private channel got another id, as it is shared with another organisation (channel_id_changed)."""

    old_channel_id: str
    new_channel_id: str
    event_ts: str = "0"


class WireCommand(_Wire):
    team_id: str = ""
    channel_id: str
    channel_name: str = ""
    user_id: str
    user_name: str = ""
    text: str = ""
    response_url: str
    trigger_id: str


class _Named(_Wire):
    id: str
    name: str = ""
    username: str = ""
    team_id: str = ""


class _Container(_Wire):
    message_ts: str | None = None
    thread_ts: str | None = None


class _Action(_Wire):
    action_id: str
    value: str = ""


class WirePress(_Wire):
    """A pressed button (block_actions)."""

    user: _Named
    team: _Named | None = None
    channel: _Named | None = None
    container: _Container = Field(default_factory=_Container)
    actions: list[_Action] = Field(min_length=1)
    response_url: str = ""
    trigger_id: str


class _Item(_Wire):
    type: str = "message"
    channel: str = ""
    ts: str = ""


class WireReaction(_Wire):
    """Somebody put a reaction on something, or took it back."""

    type: str
    user: str
    reaction: str
    item: _Item
    item_user: str | None = None
    event_ts: str


class _Pane(_Wire):
    user_id: str = ""
    channel_id: str
    thread_ts: str


class WirePane(_Wire):
    """Somebody opened the assistant's pane: a thread of the direct chat, empty yet."""

    assistant_thread: _Pane
