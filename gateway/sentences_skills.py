"""The sentences about skills: `/skills`, what a review changed, what the curator did."""

SKILL_SENTENCES: dict[str, tuple[str, str]] = {
    "skills_made": ("New skill: {names}", "新技能：{names}"),
    "skills_mended": ("Skill improved: {names}", "改进了技能：{names}"),
    "skills_undo_hint": ("`/skills undo` takes it back.", "用 `/skills undo` 可以撤销。"),
    "skills_undo_hint_several": (
        "`/skills undo {count}` takes it back.",
        "用 `/skills undo {count}` 可以撤销。",
    ),
    "skills_off": ("Skills are switched off in this house.", "这里没有启用技能。"),
    "skills_none": (
        "There are no skills yet. I make one when a way of working has proved itself; you can ask me to.",
        "还没有技能。当某种做法被证明有用时，我会把它记成技能；你也可以让我记。",
    ),
    "skills_own": ("Yours:", "你的："),
    "skills_shared": ("For everybody:", "大家共用："),
    "skills_line": ("`/{name}` — {description}{marks}", "`/{name}` — {description}{marks}"),
    "skills_pinned_mark": (" (pinned)", "（已固定）"),
    "skills_stale_mark": (" (not used for long)", "（很久没用）"),
    "skills_refused": ("{name} can't be used: {reason}", "{name} 无法使用：{reason}"),
    "skills_archived_list": ("In the archive: {names}", "已归档：{names}"),
    "skills_hint": (
        "`/name words` works by a skill; `/skills show|archive|restore|pin|unpin name` and `/skills undo` "
        "look after them.",
        "`/技能名 内容` 按技能来做；`/skills show|archive|restore|pin|unpin 技能名` "
        "和 `/skills undo` 用来管理。",
    ),
    "skills_usage": (
        "I understand `/skills`, `/skills show name`, `/skills archive name`, `/skills restore name`, "
        "`/skills pin name`, `/skills unpin name` and `/skills undo`.",
        "可以用：`/skills`、`/skills show 技能名`、`/skills archive 技能名`、`/skills restore 技能名`、"
        "`/skills pin 技能名`、`/skills unpin 技能名`、`/skills undo`。",
    ),
    "skills_archived": (
        "{name} is in the archive. `/skills restore {name}` brings it back.",
        "{name} 已归档，用 `/skills restore {name}` 可以恢复。",
    ),
    "skills_restored": ("{name} is back.", "{name} 已恢复。"),
    "skills_pinned": (
        "{name} is pinned: I don't change it, and it isn't archived.",
        "{name} 已固定：我不会改它，也不会归档。",
    ),
    "skills_unpinned": ("{name} is no longer pinned.", "{name} 不再固定。"),
    "skills_undone": ("Taken back: {what} of {name}.", "已撤销对 {name} 的操作：{what}。"),
    "skills_undo_none": ("There is nothing of mine to take back.", "没有可以撤销的改动。"),
    "skills_undo_what": (
        "Write how many changes to take back, at most {most}: `/skills undo 2`.",
        "请写上要撤销几次改动，最多 {most} 次：`/skills undo 2`。",
    ),
    "skills_did_create": ("creation", "新建"),
    "skills_did_edit": ("rewriting", "重写"),
    "skills_did_patch": ("a change", "修改"),
    "skills_did_delete": ("archiving", "归档"),
    "skills_did_archive": ("archiving", "归档"),
    "skills_did_write_file": ("a change of {path}", "修改 {path}"),
    "skills_did_remove_file": ("removal of {path}", "删除 {path}"),
    "skills_unknown": (
        "I find no skill called “{name}” of yours. /skills lists what there is.",
        "没有找到你的技能“{name}”。/skills 会列出所有技能。",
    ),
    "skills_cant": ("Nothing was changed. {reason}", "没有做任何改动。{reason}"),
    "skills_curated": (
        "I put away skills of mine that nobody used for 90 days: {names}. `/skills restore name` brings one "
        "back.",
        "我把 90 天没人用过的自建技能归档了：{names}。用 `/skills restore 技能名` 可以恢复。",
    ),
}
"""`reason` comes from the store, in English, as the operator's log and the model have it."""
