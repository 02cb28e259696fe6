"""Session search: finds what was said, for the person who asks and for nobody else."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select, text, update

from tests.gateway.rows import (
    MINUTE_MS,
    START_MS,
    add_person,
    add_room,
    add_session,
    direct_stream,
    leave,
    link_account,
    person_scope,
    room_scope,
    say,
)
from trunkline.agent.messages import ToolCall
from trunkline.agent.ports import SearchFailed, SearchOutcome, SearchQuery
from trunkline.agent.scope import Scope
from trunkline.gateway.state.database import Database
from trunkline.gateway.state.fulltext import Reach, share_by
from trunkline.gateway.state.kv import put_value
from trunkline.gateway.state.messages import (
    INDEX_DEGRADED,
    MessageState,
    NewMessage,
    add_message,
    add_messages,
    index_is_degraded,
    reindex,
    set_message_state,
    streams_of,
)
from trunkline.gateway.state.resuming import BRANCHED, RESUMED
from trunkline.gateway.state.schema import account, compaction, session
from trunkline.gateway.state.search import StoreSearch

ANA, BO = person_scope("ana"), person_scope("bo")
WITHDRAWN: tuple[MessageState, ...] = ("undone", "redacted")
DAY_MS = 24 * 60 * MINUTE_MS


class House:
    """One database with people in it, and searches as they make them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.search = StoreSearch(database)
        self._accounts: dict[str, int] = {}

    def account(self, slug: str) -> int:
        if slug not in self._accounts:
            self._accounts[slug] = self.database.write_now(lambda connection: add_person(connection, slug))
        return self._accounts[slug]

    def said(self, slug: str, public_id: str, *texts: str, **values: object) -> list[int]:
        """A direct session of a person with these messages, alternately theirs and the assistant's."""
        owner = self.account(slug)

        def work(connection: Connection) -> list[int]:
            made = add_session(connection, direct_stream(connection, owner), public_id, **values)
            at = int(str(values.get("started_ms", START_MS)))
            return [
                add_message(
                    connection,
                    NewMessage(
                        made,
                        "assistant" if place % 2 else "user",
                        said,
                        at + place * MINUTE_MS,
                        account_id=None if place % 2 else owner,
                    ),
                )
                for place, said in enumerate(texts)
            ]

        return self.database.write_now(work)

    async def outcome(self, asked: str, scope: Scope = ANA, **options: object) -> SearchOutcome:
        return await self.search.search(scope, SearchQuery(asked, **{"limit": 10, **options}))  # type: ignore[arg-type]

    async def found(self, asked: str, scope: Scope = ANA, **options: object) -> list[str]:
        return [hit.card.id for hit in (await self.outcome(asked, scope, **options)).hits]

    async def lines(self, asked: str, scope: Scope = ANA, **options: object) -> list[str]:
        """The matching lines of every hit."""
        outcome = await self.outcome(asked, scope, **options)
        return [line.text for hit in outcome.hits for line in hit.excerpt if line.matched]


@pytest.fixture
def house(database: Database) -> House:
    return House(database)


ODD = {
    "s1": "rollback of blue-green deploy",
    "s2": "ticket #8841 for lib/cache.py",
    "s3": "write to kit@example.org",
    "s4": "don't raise it by 15%",
    "s5": "port the C++ part of user_id",
}


@pytest.mark.parametrize(
    ("asked", "session_id"),
    [
        ("blue-green", "s1"),
        ("deployed?", "s1"),
        ("#8841", "s2"),
        ("lib/cache.py", "s2"),
        ("cache.py", "s2"),
        ("kit@example.org", "s3"),
        ("example.org", "s3"),
        ("don't", "s4"),
        ("15%", "s4"),
        ("C++", "s5"),
        ("user_id", "s5"),
        ("USER_ID!", "s5"),
    ],
)
async def test_odd_tokens_find_the_one_right_message(house: House, asked: str, session_id: str) -> None:
    for one, said in ODD.items():
        house.said("ana", one, said)

    assert await house.found(asked) == [session_id]


@pytest.mark.parametrize(
    "asked",
    [
        "AND",
        "OR OR",
        "tea AND",
        "(tea",
        '"tea',
        "*",
        "v2:",
        " ",
        "\0",
        "NOT tea",
        "a" * 50_000,
        "''",
        "\\",
        "🎉",
        ":*",
        "tea*",
        pytest.param('"' + "苏" * 4000 + '"', id="a phrase of thousands"),
        pytest.param("a-" * 2000, id="an identifier of thousands"),
        pytest.param('"a b" ' * 600, id="hundreds of phrases"),
        pytest.param(" OR ".join(f"w{n}" for n in range(1000)), id="hundreds of alternatives"),
        pytest.param(" NOT ".join(f"w{n}" for n in range(1000)), id="hundreds of exclusions"),
        "' OR 1=1 --",
        "NEAR(a b, 5)",
        "message_fts:a",
        "\ud800",
        "\u202e\u2066",
    ],
)
async def test_no_query_fails_because_of_its_syntax(house: House, asked: str) -> None:
    house.said("ana", "s1", "a cup of tea")

    assert await house.found(asked) == (["s1"] if "tea" in asked and "NOT" not in asked else [])


@pytest.mark.parametrize(
    ("asked", "sessions"),
    [
        ('"green tea"', {"s1"}),
        ("tea OR coffee", {"s1", "s2", "s3"}),
        ("tea NOT green", {"s2"}),
        ("tea AND blue", {"s2"}),
        ("cof*", {"s3"}),
        ("green tea", {"s1", "s2"}),
        ('"tea green"', set()),
    ],
)
async def test_phrases_and_operators_mean_what_they_say(house: House, asked: str, sessions: set[str]) -> None:
    house.said("ana", "s1", "I drink green tea")
    house.said("ana", "s2", "the tea is blue")
    house.said("ana", "s3", "coffee for me")

    assert set(await house.found(asked)) == sessions


@pytest.mark.parametrize("odd", ["\0", "\ud800", "' OR 1=1", "x" * 100_000, ""])
async def test_odd_names_of_sessions_and_platforms_are_only_unknown(house: House, odd: str) -> None:
    (mine,) = house.said("ana", "s1", "a cup of tea")

    assert await house.search.read(ANA, odd, 1000) is None
    assert await house.search.around(ANA, odd, mine, 5) is None
    assert await house.search.context_of(ANA, odd, [mine], 1000) == ""
    assert await house.found("tea", platform=odd) == []


@pytest.mark.parametrize("number", [0, -1, 1 << 62, 1 << 63, -(1 << 70)])
async def test_odd_numbers_of_messages_are_only_unknown(house: House, number: int) -> None:
    house.said("ana", "s1", "a cup of tea")

    assert await house.search.around(ANA, "s1", number, 5) is None


async def test_a_question_for_a_kind_finds_things_of_it_after_the_word_itself(house: House) -> None:
    house.said("ana", "s1", "my dog sleeps in the kitchen")
    house.said("ana", "s2", "which pet sleeps all day?")
    house.said("ana", "s3", "我家的猫很可爱")

    assert await house.found("which pets sleep where?") == ["s2", "s1"]
    assert await house.found("pet") == ["s2"]
    assert await house.found("宠物") == ["s3"]
    assert await house.found('"pets" sleep') == ["s2"]


async def test_a_word_nobody_said_is_tried_by_its_beginning_beside_others(house: House) -> None:
    house.said("ana", "s1", "photographs of the roof")
    house.said("ana", "s2", "the roof is red")

    outcome = await house.outcome("photography roof")

    assert ([hit.card.id for hit in outcome.hits], outcome.relaxed) == (["s1", "s2"], True)
    assert await house.found("photography") == []


async def test_a_relaxed_query_says_so(house: House) -> None:
    house.said("ana", "s1", "I drink green tea")

    assert not (await house.outcome("green tea")).relaxed
    assert (await house.outcome("green coffee")).relaxed
    assert not (await house.outcome("nothing")).relaxed


@pytest.mark.parametrize("asked", ["苏州", "州", "去苏", "苏州出差", "下周去苏州出差开会", "出差 苏州"])
async def test_any_part_of_a_chinese_text_finds_it(house: House, asked: str) -> None:
    house.said("ana", "s1", "下周去苏州出差开会")
    house.said("ana", "s2", "明天在北京见")

    assert (await house.found(asked))[0] == "s1"


async def test_a_latin_word_inside_chinese_is_found(house: House) -> None:
    house.said("ana", "s1", "修复zephyr登录页面的问题")

    assert await house.found("zephyr") == ["s1"]


async def test_every_message_with_a_two_character_word_is_found(house: House) -> None:
    for n in range(20):
        house.said("ana", f"s{n}", f"第{n}次去 苏 州 玩" if n < 3 else f"第{n}次去苏州玩")

    assert len(await house.found("苏州", limit=30)) == 20


@pytest.mark.parametrize(
    ("said", "asked"), [("東京に行きました", "東京"), ("서울에서 만나요", "서울"), ("สวัสดีครับ", "สวัสดี")]
)
async def test_other_scripts_without_spaces_are_found(house: House, said: str, asked: str) -> None:
    house.said("ana", "s1", said)

    assert await house.found(asked) == ["s1"]


async def test_a_missing_index_is_a_failure_and_not_an_empty_answer(house: House) -> None:
    house.said("ana", "s1", "hello there")
    house.database.write_now(lambda connection: connection.execute(text("DROP TABLE message_fts")))

    with pytest.raises(SearchFailed):
        await house.found("hello")


async def test_a_degraded_index_is_said(house: House) -> None:
    house.said("ana", "s1", "zephyr")
    house.database.write_now(lambda connection: put_value(connection, INDEX_DEGRADED, "broken"))

    outcome = await house.outcome("zephyr")

    assert (outcome.degraded, len(outcome.hits)) == (True, 1)


async def test_a_search_that_meets_a_broken_index_fails_and_marks_it(sqlite_database: Database) -> None:
    house = House(sqlite_database)
    house.said("ana", "s1", "zephyr before")
    house.database.write_now(
        lambda connection: connection.execute(text("UPDATE message_fts_data SET block = x'00ff00ff00ff'"))
    )

    with pytest.raises(SearchFailed, match="reindex"):
        await house.found("zephyr")

    assert house.database.read_now(index_is_degraded)
    reindex(house.database, lambda done, total: None)
    outcome = await house.outcome("zephyr")
    assert (outcome.degraded, len(outcome.hits)) == (False, 1)


async def said_of(house: House, asked: str) -> str:
    """What a person hears of a search."""
    try:
        outcome = await house.outcome(asked)
    except SearchFailed:
        return "failed"
    return "degraded" if outcome.degraded else "found" if outcome.hits else "nothing"


ROW = "(SELECT max(id) FROM message_fts_data)"


@pytest.mark.parametrize("row", ["10", ROW], ids=["structure", "words"])
@pytest.mark.parametrize(
    "block", ["x''", "x'00ff00ff00ff'", "zeroblob(length(block))"], ids=["empty", "wrong", "zero"]
)
async def test_after_damage_to_one_row_of_the_index_nothing_found_is_never_all_that_is_said(
    sqlite_database: Database, row: str, block: str
) -> None:
    house = House(sqlite_database)
    house.said("ana", "s1", "zephyr before")
    damage = f"UPDATE message_fts_data SET block = {block} WHERE id = {row}"
    house.database.write_now(lambda connection: connection.execute(text(damage)))

    assert await said_of(house, "zephyr") in ("degraded", "failed")

    house.said("ana", "s2", "zephyr after")
    assert reindex(house.database, lambda done, total: None) == 2
    outcome = await house.outcome("zephyr")
    assert (outcome.degraded, len(outcome.hits)) == (False, 2)


async def test_a_word_that_nobody_said_is_no_damage(house: House) -> None:
    house.said("ana", "s1", "a cup of tea", "…", "", "x" * 50_000, "一 " + "word " * 10_000)

    outcome = await house.outcome("zephyr")

    assert (outcome.hits, outcome.degraded) == ((), False)


@pytest.mark.parametrize("asked", ["1.2", "v1.2", "1.2.3", "V1.2.3", "2.3", "1.2*", "v1.2.*"])
@pytest.mark.parametrize("said", ["we run v1.2.3 now", "we run 1.2.3 now"])
async def test_a_version_is_found_with_and_without_its_v(house: House, said: str, asked: str) -> None:
    house.said("ana", "s1", said)
    house.said("ana", "s2", "we run v2.1.3 and 1.3.2, not 12.3")

    assert (await house.found(asked))[0] == "s1"
    assert await house.found(f"{asked} NOT now") in ([], ["s2"])


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("the dep\u200bloy went well", "deploy"),
        ("the deploy went well", "dep\u200bloy"),
        ("a soft\u00adware update", "software"),
        ("see lib/\u200bcache.py", "lib/cache.py"),
        ("去苏\u2060州", "苏州"),
        ("\ufeffhello there", "hello"),
    ],
)
async def test_a_character_without_a_width_parts_no_word(house: House, said: str, asked: str) -> None:
    house.said("ana", "s1", said)

    assert await house.lines(asked) == [said]
    assert await house.lines(f'"{asked}"') == [said]


async def test_the_session_one_is_in_is_left_out_but_for_what_was_compacted(house: House) -> None:
    ids = house.said("ana", "s1", "zephyr one", "well", "zephyr two", "yes")
    house.said("ana", "s2", "zephyr elsewhere")
    assert await house.found("zephyr", exclude_session="s1") == ["s2"]

    house.database.write_now(lambda connection: set_message_state(connection, ANA, ids[:2], "compacted"))
    outcome = await house.outcome("zephyr", exclude_session="s1")

    current = next(hit for hit in outcome.hits if hit.card.id == "s1")
    assert {line.text for line in current.excerpt} == {"zephyr one", "well"}
    assert (current.opening, current.closing) == ((), ())


@pytest.mark.parametrize("origin", [BRANCHED, RESUMED])
async def test_what_is_shown_of_an_earlier_session_is_left_out_until_it_is_put_away(
    house: House, origin: str
) -> None:
    house.said("ana", "s1", "the zephyr is down", "well", title="Zephyr is down")
    row = house.database.read_now(lambda connection: connection.execute(select(session.c.id)).scalar_one())
    later = {"parent_id": row, "origin": origin, "started_ms": START_MS + 9 * MINUTE_MS}
    house.said("ana", "s2", "and the zephyr now?", "up", title="Zephyr is up", **later)
    assert await house.found("zephyr", exclude_session="s2") == []

    noted = insert(compaction).values(session_id=row + 1, state="in use", note="A zephyr was down.")
    house.database.write_now(lambda connection: connection.execute(noted))
    assert await house.lines("zephyr", exclude_session="s2") == ["the zephyr is down"]
    assert await house.found("zephyr", exclude_session="s1") == ["s2"]


@pytest.mark.parametrize("state", WITHDRAWN)
async def test_what_was_taken_back_is_found_by_no_path(house: House, state: MessageState) -> None:
    ids = house.said("ana", "s1", "zanzibar first", "ok", "keep this", "fine")
    house.database.write_now(
        lambda connection: set_message_state(
            connection, ANA, ids[:1], "undone" if state == "undone" else "redacted"
        )
    )

    assert await house.found("zanzibar") == []
    hit = (await house.outcome("keep")).hits[0]
    (card,) = await house.search.browse(ANA, 10)
    view = await house.search.read(ANA, "s1", 10_000)
    near = await house.search.around(ANA, "s1", ids[1], 5)
    context = await house.search.context_of(ANA, "s1", ids, 10_000)
    assert await house.search.around(ANA, "s1", ids[0], 5) is None
    assert "zanzibar" not in f"{hit} {card} {view} {near} {context}"


async def test_tool_output_is_searched_only_when_asked_for(house: House) -> None:
    house.said("ana", "s1", "please run it")

    def work(connection: Connection) -> None:
        made = connection.execute(select(session.c.id)).scalar_one()
        call = ToolCall("c1", "terminal", '{"command": "make"}')
        add_message(connection, NewMessage(made, "assistant", "", START_MS, tool_calls=(call,)))
        add_message(
            connection,
            NewMessage(made, "tool", "zephyr built", START_MS, tool_call_id="c1", tool_name="terminal"),
        )

    house.database.write_now(work)

    assert await house.found("zephyr") == []
    assert await house.lines("zephyr", roles=("tool",)) == ["zephyr built"]
    assert await house.found("zephyr please", roles=("user", "assistant", "tool")) == ["s1"]


async def test_a_role_can_be_chosen(house: House) -> None:
    house.said("ana", "s1", "zephyr asked", "ok")
    house.said("ana", "s2", "hm", "zephyr answered")

    assert await house.found("zephyr", roles=("user",)) == ["s1"]
    assert await house.found("zephyr", roles=("assistant",)) == ["s2"]


async def test_platform_and_time_narrow_a_search(house: House) -> None:
    house.said("ana", "s1", "zephyr old", started_ms=START_MS)
    house.said("ana", "s2", "zephyr new", started_ms=START_MS + 10 * DAY_MS)
    house.database.write_now(lambda connection: link_account(connection, "ana", "slack"))
    middle = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=5)

    assert await house.found("zephyr", since=middle) == ["s2"]
    assert await house.found("zephyr", until=middle) == ["s1"]
    assert await house.found("zephyr", platform="slack") == []
    assert set(await house.found("zephyr", platform="telegram")) == {"s1", "s2"}
    assert await house.found("zephyr", sort="newest") == ["s2", "s1"]
    assert await house.found("zephyr", sort="oldest") == ["s1", "s2"]


async def test_a_day_in_the_question_leads_to_what_was_said_then(house: House) -> None:
    for day in range(10):
        house.said("ana", f"s{day}", "we went for a walk", started_ms=START_MS + day * DAY_MS)
    on = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=4)

    assert (await house.found(f"where did we walk on {on:%B} {on.day}?"))[0] == "s4"
    assert (await house.found(f"{on.month}月{on.day}日我们聊了什么？"))[0] == "s4"


async def test_a_question_for_the_latest_prefers_the_recent(house: House) -> None:
    for week in range(5):
        house.said("ana", f"s{week}", "the zephyr report", started_ms=START_MS + week * 7 * DAY_MS)
    house.said("ana", "old", "zephyr report", started_ms=START_MS - 400 * DAY_MS)

    assert await house.found("latest zephyr report") == ["s4", "s3", "s2", "s1", "s0", "old"]
    assert (await house.found("zephyr report"))[0] == "old"
    assert (await house.found("最近的 zephyr report"))[0] == "s4"


async def test_beside_a_word_of_thousands_of_messages_the_rare_one_decides(house: House) -> None:
    owner = house.account("ana")

    def work(connection: Connection) -> None:
        stream = direct_stream(connection, owner)
        say(connection, add_session(connection, stream, "rare"), "tea with zephyr")
        for n in range(4):
            made = add_session(connection, stream, f"s{n}")
            say(connection, made, *(f"tea and talk {place} and more words" for place in range(1000)))

    house.database.write_now(work)

    assert await house.found("zephyr tea", limit=1) == ["rare"]
    assert await house.found("tea talk", limit=1) == ["s3"]


async def test_a_title_counts(house: House) -> None:
    house.said("ana", "s1", "about the boat", title="Holiday plans")
    house.said("ana", "s2", "about the car", title="Repairs 100%")

    assert await house.found("holiday") == ["s1"]
    assert await house.found("repairs") == ["s2"]
    assert await house.found("repairs", since=datetime.now(UTC)) == []


@pytest.mark.parametrize(
    ("asked", "title", "is_found"),
    [
        ("art", "Party plans", False),
        ("tea", "Team plans", False),
        ("stories", "A story", True),
        ("bought", "What to buy", True),
        ("te*", "Team plans", True),
        ("blue-green", "Blue-green deploy", True),
        ("苏州", "下周去苏州", True),
        ("Ärger", "kein arger Tag", True),
    ],
)
async def test_a_title_is_found_by_its_words_not_by_parts_of_them(
    house: House, asked: str, title: str, is_found: bool
) -> None:
    house.said("ana", "s1", "something else", title=title)

    assert await house.found(asked) == (["s1"] if is_found else [])


async def test_scheduled_runs_rank_below_people(house: House) -> None:
    house.said("ana", "s1", "zephyr report", origin="scheduled")
    house.said("ana", "s2", "zephyr report and a good many other words around it")

    assert await house.found("zephyr report") == ["s2", "s1"]


async def test_a_hit_shows_neighbours_marks_and_both_ends(house: House) -> None:
    texts = [f"line {n}" for n in range(20)]
    texts[10] = "the zephyr is here"
    house.said("ana", "s1", *texts)

    (hit,) = (await house.outcome("zephyr")).hits

    assert [line.text for line in hit.excerpt] == ["line 9", "the zephyr is here", "line 11"]
    assert [line.matched for line in hit.excerpt] == [False, True, False]
    assert [line.text for line in hit.opening] == ["line 0", "line 1"]
    assert [line.text for line in hit.closing] == ["line 18", "line 19"]
    assert hit.card.preview == "line 0"


async def test_a_session_of_thousands_of_matches_gives_a_bounded_answer(house: House) -> None:
    house.said("ana", "s1", "start")

    def work(connection: Connection) -> None:
        made = connection.execute(select(session.c.id)).scalar_one()
        say(connection, made, *(f"zephyr number {n} " + "x" * 2000 for n in range(5000)))

    house.database.write_now(work)

    (hit,) = (await house.outcome("zephyr")).hits
    view = await house.search.read(ANA, "s1", 10_000)
    context = await house.search.context_of(ANA, "s1", [line.id for line in hit.excerpt], 20_000)

    assert sum(len(line.text) for line in hit.excerpt) < 6000
    assert view is not None
    assert sum(len(line.text) for line in view.lines) <= 10_000
    assert view.lines[0].text == "start"
    assert view.omitted == 5001 - len(view.lines)
    assert len(context) <= 20_000
    assert "zephyr number" in context


async def test_reading_around_a_message_is_bounded_by_the_window(house: House) -> None:
    ids = house.said("ana", "s1", *(f"line {n}" for n in range(20)))

    view = await house.search.around(ANA, "s1", ids[10], 2)

    assert view is not None
    assert [line.text for line in view.lines] == [f"line {n}" for n in (8, 9, 10, 11, 12)]
    assert view.omitted == 15


async def test_browsing_lists_the_newest_first(house: House) -> None:
    house.said("ana", "s1", "older", started_ms=START_MS)
    house.said("ana", "s2", "newer", started_ms=START_MS + DAY_MS, title="New")

    cards = await house.search.browse(ANA, 10)

    assert [(card.id, card.title, card.preview) for card in cards] == [
        ("s2", "New", "newer"),
        ("s1", "", "older"),
    ]
    noon = datetime.fromtimestamp((START_MS + DAY_MS // 2) / 1000, UTC)
    assert [card.id for card in await house.search.browse(ANA, 10, since=noon)] == ["s2"]
    assert [card.id for card in await house.search.browse(ANA, 10, until=noon)] == ["s1"]
    assert await house.search.browse(ANA, 10, platform="nowhere") == ()
    assert len(await house.search.browse(ANA, 10, platform=cards[0].platform)) == 2


async def test_private_sessions_are_shown_nowhere(house: House) -> None:
    house.said("ana", "s1", "zephyr secret", title="zephyr", private=True)

    assert await house.found("zephyr") == []
    assert await house.search.browse(ANA, 10) == ()
    assert await house.search.read(ANA, "s1", 1000) is None


async def test_rooms_are_found_by_those_who_take_part_and_only_by_them(house: House) -> None:
    ana, bo = house.account("ana"), house.account("bo")
    house.said("ana", "s1", "zephyr in private")

    def work(connection: Connection) -> None:
        made = add_session(connection, add_room(connection, "lab", ana, bo), "r1")
        add_messages(connection, [NewMessage(made, "user", "zephyr in the room", START_MS, account_id=bo)])

    house.database.write_now(work)

    assert (await house.found("what did bo say of the zephyr"))[0] == "r1"
    both = Reach(house.database.read_now(lambda connection: streams_of(connection, ANA)), (0, 1))
    assert house.database.read_now(lambda connection: share_by(connection, {bo}, both, 100)) == 0.5
    assert set(await house.found("zephyr")) == {"s1", "r1"}
    assert await house.found("zephyr", BO) == ["r1"]
    assert await house.found("zephyr", room_scope("lab", ana)) == ["r1"]
    assert await house.found("what did bo say", ANA) == ["r1"]

    house.database.write_now(lambda connection: leave(connection, ana))

    assert await house.found("zephyr") == ["s1"]


async def test_somebody_in_hundreds_of_rooms_is_served(house: House) -> None:
    ana = house.account("ana")

    def work(connection: Connection) -> None:
        for n in range(450):
            made = add_session(connection, add_room(connection, f"room{n}", ana), f"r{n}")
            if n % 150 == 149:
                say(connection, made, f"zephyr in room {n}")

    house.database.write_now(work)

    assert set(await house.found("zephyr")) == {"r149", "r299", "r449"}


async def test_linked_accounts_are_one_person(house: House) -> None:
    house.said("ana", "s1", "zephyr on telegram")
    house.said("other", "s2", "zephyr on slack")

    def link(connection: Connection) -> None:
        owner = select(account.c.person_id).where(account.c.id == house.account("ana")).scalar_subquery()
        connection.execute(
            update(account).where(account.c.id == house.account("other")).values(person_id=owner)
        )

    house.database.write_now(link)

    assert set(await house.found("zephyr")) == {"s1", "s2"}


async def test_nothing_out_of_scope_is_ever_shown(house: House) -> None:
    chance = random.Random(7)
    words = ["zephyr", "苏州", "blue-green", "tea", "deploy", "May 5", "holiday", "ana"]
    owners: dict[str, str] = {}
    ids: dict[str, list[int]] = {}
    people = [f"p{letter}" for letter in "abcdefghijkl"]
    for slug in people:
        for n in range(3):
            name = f"{slug}-{n}"
            texts = [" ".join(chance.choices(words, k=4)) + f" mark-{slug}" for _ in range(4)]
            ids[name] = house.said(slug, name, *texts, title=chance.choice(words))
            owners[name] = slug

    for _ in range(60):
        slug = chance.choice(people)
        asked = " ".join(chance.choices([*words, "OR", "NOT", '"', "*", "mark"], k=3))
        sort = chance.choice(["relevance", "newest", "oldest"])
        outcome = await house.outcome(asked, person_scope(slug), sort=sort)
        assert {owners[hit.card.id] for hit in outcome.hits} <= {slug}
        assert all(f"mark-{other}" not in str(outcome) for other in people if other != slug)
    for name, slug in owners.items():
        stranger = person_scope(chance.choice([one for one in people if one != slug]))
        assert await house.search.read(stranger, name, 1000) is None
        assert await house.search.around(stranger, name, ids[name][0], 5) is None
        assert await house.search.context_of(stranger, name, ids[name], 1000) == ""
    assert await house.found("zephyr", person_scope("nobody")) == []
    assert await house.found("zephyr", room_scope("nowhere", 1)) == []


async def test_a_message_id_of_another_session_shows_nothing(house: House) -> None:
    house.said("ana", "s1", "mine")
    (other,) = house.said("bo", "s2", "zephyr theirs")

    assert await house.search.around(ANA, "s1", other, 5) is None
    assert "theirs" not in await house.search.context_of(ANA, "s1", [other], 1000)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.text(max_size=80))
async def test_any_text_may_be_asked(house: House, asked: str) -> None:
    await house.outcome(asked)
    if not await house.search.browse(ANA, 1):
        house.said("ana", "s1", "a cup of tea")


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我下週要去蘇州開會", "苏州"),
        ("我下周要去苏州开会", "蘇州"),
        ("我下周要去苏州开会", "蘇州開會"),
        ("她在學習鋼琴", "学习钢琴"),
    ],
)
async def test_traditional_and_simplified_chinese_find_each_other(
    house: House, said: str, asked: str
) -> None:
    house.said("ana", "s1", said)
    house.said("ana", "s2", "完全是别的事", title=said)

    assert sorted(await house.found(asked)) == ["s1", "s2"]
    assert await house.lines(asked) == [said]
    assert sorted(await house.found(f'"{asked}"')) == ["s1", "s2"]
