"""What every adapter must do, as checks that run against a stand-in for its platform.

Somebody who writes an adapter writes an `AdapterBench` for it (how to make things happen on the platform, and
what people there see), and runs each of `CHECKS`; docs/adapters.md shows one from end to end. A check that
needs what the platform doesn't have raises `Unsupported`, which is a skip and no failure. Needs no test
framework.
"""

from collections.abc import Awaitable, Callable

from trunkline.adapters.conformance import inbound, outbound
from trunkline.adapters.conformance.bench import (
    AdapterBench,
    Author,
    Call,
    House,
    Shown,
    Unsupported,
    Where,
    running,
    unsupported,
)

__all__ = [
    "CHECKS",
    "AdapterBench",
    "Author",
    "Call",
    "Check",
    "House",
    "Shown",
    "Unsupported",
    "Where",
    "running",
    "unsupported",
]

Check = Callable[[AdapterBench], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    inbound.a_direct_message_is_normalised,
    inbound.any_text_comes_in_as_it_was_written,
    inbound.messages_come_in_order_and_each_under_its_own_key,
    inbound.order_is_kept_while_the_house_is_slow,
    inbound.a_mention_in_a_room_is_seen_and_taken_out,
    inbound.room_talk_without_a_mention_says_so,
    inbound.a_thread_is_told_apart_from_its_room,
    inbound.a_reply_names_the_message_it_answers,
    inbound.an_edit_names_what_it_changes,
    inbound.a_deletion_names_what_is_gone,
    inbound.a_command_has_its_name_and_argument,
    inbound.a_file_comes_with_its_words_and_is_fetched_only_when_asked_for,
    inbound.a_bot_is_no_person,
    inbound.somebody_without_an_account_is_no_person,
    inbound.what_the_platform_repeats_has_the_same_key,
    inbound.a_message_that_was_not_stored_comes_again,
    inbound.a_connection_that_breaks_is_made_again,
    inbound.a_cancelled_run_ends,
    inbound.a_wrong_token_is_a_persons_to_mend,
    outbound.every_text_is_cut_to_what_the_platform_takes,
    outbound.what_was_rendered_is_taken_as_it_is,
    outbound.an_edit_replaces_and_the_same_again_is_success,
    outbound.a_deletion_takes_it_away_and_one_that_is_gone_is_success,
    outbound.a_name_makes_a_repeated_send_harmless,
    outbound.what_may_have_arrived_is_looked_for,
    outbound.nobody_is_called_by_what_a_model_wrote,
    outbound.what_is_private_is_shown_to_nobody_else,
    outbound.a_file_goes_out_whole,
    outbound.buttons_come_and_go_and_tell_of_a_press,
    outbound.reactions_go_both_ways,
    outbound.typing_is_shown_and_ended,
    outbound.a_refusal_is_raised_as_its_kind,
)
