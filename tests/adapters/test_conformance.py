"""Every adapter of ours against the suite that others run against theirs."""

import pytest

from tests.adapters.conformance_benches import BENCHES
from trunkline.adapters.conformance import CHECKS, Check, Unsupported

ROOMS = {
    "a_mention_in_a_room_is_seen_and_taken_out",
    "room_talk_without_a_mention_says_so",
    "a_thread_is_told_apart_from_its_room",
    "a_reply_names_the_message_it_answers",
    "a_deletion_names_what_is_gone",
    "a_bot_is_no_person",
    "somebody_without_an_account_is_no_person",
    "nobody_is_called_by_what_a_model_wrote",
    "what_is_private_is_shown_to_nobody_else",
}
HERE = ROOMS | {
    "an_edit_names_what_it_changes",
    "a_connection_that_breaks_is_made_again",
    "a_wrong_token_is_a_persons_to_mend",
    "what_may_have_arrived_is_looked_for",
    "reactions_go_both_ways",
    "a_refusal_is_raised_as_its_kind",
    "a_file_comes_with_its_words_and_is_fetched_only_when_asked_for",
    "a_file_goes_out_whole",
}
"""What a page or a pipe on this machine has no counterpart of."""

HAS_NOT: dict[str, set[str]] = {
    "telegram": {
        "a_deletion_names_what_is_gone",
        "a_name_makes_a_repeated_send_harmless",
        "what_may_have_arrived_is_looked_for",
    },
    "discord": set(),
    "slack": {"a_name_makes_a_repeated_send_harmless"},
    "web": HERE,
    "terminal": HERE
    | {
        "a_deletion_takes_it_away_and_one_that_is_gone_is_success",
        "what_the_platform_repeats_has_the_same_key",
        "a_message_that_was_not_stored_comes_again",
        "a_name_makes_a_repeated_send_harmless",
        "buttons_come_and_go_and_tell_of_a_press",
    },
}
"""What a platform may skip: a bench that forgets something is found out."""


@pytest.mark.parametrize("platform", BENCHES)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_an_adapter_conforms(platform: str, check: Check) -> None:
    async with BENCHES[platform]() as bench:
        if check.__name__ not in HAS_NOT[platform]:
            await check(bench)
            return
        with pytest.raises(Unsupported):
            await check(bench)
