"""What the house says about reminders, in English and Chinese."""

REMINDER_SENTENCES: dict[str, tuple[str, str]] = {
    "remind_set": (
        "I'll remind you {when} ({zone}): {text}\n\nThat is number {number}; `/reminders` lists what waits.",
        "我会在{when}（{zone}）提醒你：{text}\n\n编号 {number}；`/reminders` 会列出等待中的提醒。",
    ),
    "remind_set_room": (
        "I'll remind everybody here {when} ({zone}): {text}\n\nThat is number {number}; `/reminders` lists "
        "what waits here.",
        "我会在{when}（{zone}）提醒这里的所有人：{text}\n\n"
        "编号 {number}；`/reminders` 会列出这里等待中的提醒。",
    ),
    "remind_repeats": ("{rule}, first {when}", "{rule}，首次在{when}"),
    "remind_moment": ("{weekday} {day} at {time}", "{day}{weekday} {time}"),
    "remind_today": ("today,", "（今天）"),
    "remind_tomorrow": ("tomorrow,", "（明天）"),
    "remind_skipped": (
        " That time doesn't exist on that day, since clocks are put forward, so it is {time}.",
        "那天要拨快时钟，没有这个时间，所以定在 {time}。",
    ),
    "remind_twice": (
        " That time comes twice on that day, since clocks are put back; I take the first.",
        "那天要拨慢时钟，这个时间会出现两次，我取第一次。",
    ),
    "remind_what_when": (
        "Write when and what: `/remind tomorrow at 9am call Mum`, `/remind in 20 minutes tea`, "
        "`/remind every weekday at 8:00 stand-up`, `/remind 2027-03-01 18:30 renew the passport`, or a cron "
        "rule: `/remind 0 9 1 * * pay the rent`.",
        "请写明时间和内容：`/remind 明天上午9点 给妈妈打电话`、`/remind 20分钟后 关火`、"
        "`/remind 每个工作日8:00 晨会`、`/remind 2027-03-01 18:30 续签护照`，"
        "或 cron 规则：`/remind 0 9 1 * * 交房租`。",
    ),
    "remind_what": (
        "And what shall I remind you of? Write it after the time: `/remind tomorrow at 9am call Mum`.",
        "要提醒什么呢？请写在时间后面：`/remind 明天上午9点 给妈妈打电话`。",
    ),
    "remind_what_time": (
        "At what time? For example `/remind today at 18:30 …`.",
        "几点提醒呢？例如 `/remind 今天18:30 …`。",
    ),
    "remind_which_half": (
        "Do you mean {first} or {second}? Write it so, please.",
        "是 {first} 还是 {second}？请写明上午还是下午，例如“上午9点”。",
    ),
    "remind_which_week": (
        "Do you mean {first} or {second}? Write the date, please.",
        "是 {first} 还是 {second}？请写日期。",
    ),
    "remind_midnight": (
        "Do you mean midnight at the beginning or at the end of that day? Write a date and 00:00, please.",
        "是那天开始还是结束的零点？请写日期和 00:00。",
    ),
    "remind_no_such_day": ("There is no such day.", "没有这一天。"),
    "remind_no_such_time": ("There is no such time of day.", "没有这个时间。"),
    "remind_past": (
        "That time is over already. Write one that is still to come.",
        "这个时间已经过去了，请写一个将来的时间。",
    ),
    "remind_far": ("That is too far away: at most 20 years.", "太远了：最多 20 年。"),
    "remind_never": ("That rule never comes true.", "这个规则永远不会到点。"),
    "remind_uneven": (
        "For repeats I can take minutes that divide an hour (15, 20, 30) and hours that divide a day.",
        "重复间隔只能是能整除一小时的分钟数（15、20、30）或能整除一天的小时数。",
    ),
    "remind_too_often": (
        "That is too often: at most every 15 minutes.",
        "太频繁了：最多每 15 分钟一次。",
    ),
    "remind_bad_cron": (
        "That is no rule I can read. It has five fields: minute, hour, day, month, weekday; "
        "`30 8 * * 1-5` is 8:30 on weekdays.",
        "这个规则我看不懂。要有五项：分、时、日、月、星期；`30 8 * * 1-5` 是工作日 8:30。",
    ),
    "remind_bad_zone": (
        "I don't know that time zone. Names are like Europe/Berlin or Asia/Shanghai.",
        "没有这个时区。名称类似 Europe/Berlin 或 Asia/Shanghai。",
    ),
    "remind_too_many": (
        "There are {most} reminders of yours waiting already. `/reminders cancel 12` ends one.",
        "你已经有 {most} 个等待中的提醒。`/reminders cancel 12` 可以取消一个。",
    ),
    "remind_too_long": (
        "That is too long for a reminder: at most {most} characters.",
        "提醒内容太长：最多 {most} 个字符。",
    ),
    "reminders": ("What waits ({zone}):", "等待中的提醒（{zone}）："),
    "reminders_none": (
        "Nothing waits. `/remind tomorrow at 9am call Mum` makes a reminder.",
        "没有等待中的提醒。用 `/remind 明天上午9点 给妈妈打电话` 可以设一个。",
    ),
    "reminders_line": ("**{number}** · {when}: {text}", "**{number}** · {when}：{text}"),
    "reminders_more": ("… and {count} more", "……另有 {count} 个"),
    "reminders_rule": ("{rule}, next {when}", "{rule}，下次{when}"),
    "reminders_run": ("(I'll do that then) {text}", "（届时由我执行）{text}"),
    "reminders_by": ("{text} (by {name})", "{text}（{name} 设置）"),
    "reminders_in": ("{text} (in {room})", "{text}（在 {room}）"),
    "reminders_cancel": (
        "`/reminders cancel {number}` ends one.",
        "用 `/reminders cancel {number}` 可以取消。",
    ),
    "reminders_cancelled": ("Cancelled: {text}", "已取消：{text}"),
    "reminders_unknown": (
        "There is no reminder {number} here. `/reminders` lists what waits.",
        "这里没有编号 {number} 的提醒。`/reminders` 会列出等待中的提醒。",
    ),
    "reminders_not_yours": (
        "Only the one who made it, an admin or the owner can cancel that.",
        "只有设置的人、管理员或主人可以取消。",
    ),
    "reminder": ("⏰ {text}", "⏰ {text}"),
    "reminder_room": ("⏰ For everybody here, from {name}: {text}", "⏰ 提醒大家（{name} 设置）：{text}"),
    "reminder_somebody": ("somebody", "某人"),
    "reminder_late": (
        "(This is late: it was due {when}, when I couldn't deliver it.)",
        "（来晚了：原定{when}，当时我没能送达。）",
    ),
    "reminder_late_repeats": (
        "(This is late: it was due {when}, when I couldn't deliver it; what was due since then is left out.)",
        "（来晚了：原定{when}，当时我没能送达；之后错过的不再补发。）",
    ),
    "reminder_in_doubt": (
        "A reminder of mine may not have arrived, so here it is again:",
        "我的一条提醒可能没有送到，所以再发一次：",
    ),
    "reminder_elsewhere": (
        "(Here, since I can't reach the chat where you asked for it.)",
        "（你设置提醒的聊天现在联系不上，所以发到这里。）",
    ),
    "reminder_unpaid": (
        "⏰ I was to do this now, but today's share of the model is used up: {text}",
        "⏰ 现在该做这件事，但今天的模型用量已经用完：{text}",
    ),
    "reminder_room_closed": (
        "⏰ I can't write in the group where you asked for this any more, so it ends: {text}",
        "⏰ 你设置这个提醒的群我不能再发言了，所以它到此为止：{text}",
    ),
    "home_set": (
        "This chat is your home now: what I can't deliver elsewhere, and what I say of my own accord, comes "
        "here. `/sethome off` ends that.",
        "这里现在是你的主聊天：送不到别处的提醒，以及我主动说的话，都会发到这里。`/sethome off` 可以取消。",
    ),
    "home_off": (
        "You have no chosen home any more: I write where we last talked directly.",
        "已取消主聊天：我会发到最近一次私聊的地方。",
    ),
    "repeat_daily": ("every day at {time}", "每天 {time}"),
    "repeat_weekdays": ("every weekday at {time}", "每个工作日 {time}"),
    "repeat_on": ("every {days} at {time}", "每逢{days} {time}"),
    "repeat_monthly": ("on day {day} of every month at {time}", "每月 {day} 日 {time}"),
    "repeat_minutes": ("every {count} minutes", "每 {count} 分钟"),
    "repeat_hourly": ("every hour", "每小时"),
    "repeat_hours": ("every {count} hours", "每 {count} 小时"),
    "repeat_cron": ("by the rule `{cron}`", "按规则 `{cron}`"),
    "weekday_1": ("Monday", "星期一"),
    "weekday_2": ("Tuesday", "星期二"),
    "weekday_3": ("Wednesday", "星期三"),
    "weekday_4": ("Thursday", "星期四"),
    "weekday_5": ("Friday", "星期五"),
    "weekday_6": ("Saturday", "星期六"),
    "weekday_7": ("Sunday", "星期日"),
}

REMINDER_HELP: dict[str, tuple[str, str]] = {
    "remind": ("remind you of something later", "稍后提醒你某件事"),
    "reminders": ("what waits to be reminded of; cancel it", "查看或取消等待中的提醒"),
    "sethome": ("what I say of my own accord comes here", "我主动说的话发到这里"),
}
