//! The suite can fail: each planted bug (src/planted.rs) is caught by the unit tests that stand behind it here. Those
//! that only show from outside are in tests/it/planted.rs.

use super::child::{assert_caught, assert_sound, planted_bugs};

planted_bugs! {
    an_answer_before_the_commit_is_caught: "an answer comes before the commit" =>
        "database::writer::tests::a_failed_disk_reaches_everybody_who_waits_and_the_writer_goes_on_after_it";
    a_commit_that_is_not_synced_is_caught: "a commit is not synced" =>
        "database::stand::crashes::every_file_that_a_power_cut_could_leave_opens_to_one_committed_prefix";
    a_table_that_is_forgotten_is_caught: "a table is forgotten" =>
        "store::file::operation::tests::an_operation_changes_the_sets_that_the_format_says",
        "database::stand::history::histories_leave_what_the_model_says";
    a_log_without_its_tail_is_caught: "the log loses its tail" =>
        "database::stand::crashes::every_file_that_a_power_cut_could_leave_opens_to_one_committed_prefix";
    a_log_that_is_dropped_early_is_caught: "the log is dropped before it is merged" =>
        "database::stand::crashes::every_file_that_a_power_cut_could_leave_opens_to_one_committed_prefix";
    a_position_before_its_documents_is_caught:
        "a position of a source is committed before its documents" =>
        "database::stand::seeded_crashes::a_power_cut_within_a_history_or_a_recovery_leaves_one_committed_prefix";
    a_position_that_comes_late_is_caught: "a position of a source is committed late" =>
        "database::stand::seeded_crashes::a_power_cut_within_a_history_or_a_recovery_leaves_one_committed_prefix";
    a_removal_that_is_not_counted_is_caught: "a removal is not counted" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_number_that_is_given_twice_is_caught: "a number is given twice" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_wrong_scope_is_caught: "a document is listed in the wrong scope" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_scope_that_is_left_out_is_caught: "a scope of a question is left out" =>
        "database::stand::history::histories_leave_what_the_model_says";
    marks_that_are_dropped_early_are_caught: "a merge drops marks that older rows need" =>
        "store::merging::tests::merges_move_rows_and_lose_none";
    a_last_row_that_a_merge_drops_is_caught: "a merge drops its last row" =>
        "store::merging::tests::merges_move_rows_and_lose_none";
    rows_that_a_merge_does_not_replace_are_caught:
        "a merge leaves its rows in the level that they come from" =>
        "store::merging::tests::merges_move_rows_and_lose_none";
    a_number_that_is_forgotten_early_is_caught:
        "a number is forgotten before its mark has come" =>
        "store::merging::tests::numbers_of_a_block_that_an_expiry_took_out_stay_until_their_marks_have_come";
    a_block_that_is_not_compared_is_caught: "the checksum of a block is not compared" =>
        "store::sorted_set::tests::a_damaged_or_missing_block_is_an_error_that_names_the_set";
    a_record_that_is_not_compared_is_caught: "the checksum of a record is not compared" =>
        "store::blocks::envelope::tests::a_flip_of_any_bit_another_row_and_another_file_are_found";
    an_old_directory_is_caught: "an old directory is taken" =>
        "store::sorted_set::summary::splice_tests::a_lost_or_old_chunk_is_an_error_where_it_is_needed";
    an_edge_of_a_block_that_is_missed_is_caught:
        "the last row of a block is looked for in the next" =>
        "store::sorted_set::tests::rows_that_live_again_and_again_are_read_as_the_newest_source_says";
    a_waiting_block_that_is_not_compared_is_caught: "what waited in a file is not compared" =>
        "store::engine::spill::tests::bytes_that_were_changed_are_refused";
    an_expiry_that_is_late_is_caught: "an expiry is late by a second" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_step_that_is_not_compared_is_caught:
        "a step of an expiry is not compared with what was committed" =>
        "database::stand::expiring::a_step_of_an_expiry_sees_what_was_committed_since_it_was_prepared";
    new_documents_that_an_expiry_misses_are_caught:
        "an expiry does not look at new documents" =>
        "database::stand::expiring::an_expiry_leaves_the_fingerprints_of_documents_that_come_between_its_steps";
    lost_commits_are_caught: "lost commits are not noticed at reopening" =>
        "database::stand::reopening::a_handle_does_not_go_on_where_acknowledged_commits_are_lost";
    a_pin_that_is_kept_is_caught: "a pin is kept at reopening" =>
        "database::stand::reopening::a_reopened_file_is_not_kept_by_snapshots_of_before";
    a_block_that_stays_in_the_cache_is_caught: "a block that was replaced stays in the cache" =>
        "database::stand::crashes::what_is_cached_of_a_commit_that_damage_took_back_is_not_taken_for_what_comes_after";
    a_sum_of_the_log_that_is_not_compared_is_caught: "the sum of the log is not compared" =>
        "store::file::state::tests::a_whole_page_of_the_log_that_is_not_of_the_last_commit_is_refused";
    a_scan_of_a_killed_file_is_caught: "a killed file is scanned when it is opened" =>
        "store::engine::reliance_tests::a_file_that_is_killed_behind_any_commit_opens_without_a_repair";
    a_scope_of_a_later_commit_is_caught: "a snapshot knows a scope of a later commit" =>
        "store::read::tests::a_snapshot_does_not_know_a_scope_that_came_later";
    a_probe_that_is_left_out_is_caught: "a probe is left out" =>
        "database::near_search::tests::queries_that_share_ranges_find_what_each_finds_alone";
    a_row_that_stands_for_others_is_caught: "a known row stands for others too" =>
        "store::sorted_set::segment_tests::a_known_row_stands_for_no_other";
    a_query_that_a_range_loses_is_caught: "a range that is shared loses a query" =>
        "database::near_search::tests::queries_that_share_ranges_find_what_each_finds_alone";
    a_batch_that_finds_what_it_removed_is_caught: "a batch finds what it has removed" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_batch_that_misses_its_own_documents_is_caught:
        "a batch does not find its own documents" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_repeat_that_is_not_counted_is_caught: "a repeat is not counted" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_replaced_document_that_stays_is_caught: "a replaced document stays" =>
        "database::stand::history::histories_leave_what_the_model_says";
    a_byte_of_a_sketch_that_is_not_compared_is_caught:
        "the last byte of each eight of a sketch is not compared" =>
        "sketch::tests::similarity_falls_with_the_bits_that_differ";
}

#[cfg(unix)]
planted_bugs! {
    a_copy_that_is_not_read_back_is_caught: "a copy is not read back" =>
        "database::stand::names::a_copy_that_the_disk_has_changed_does_not_replace_the_file";
    a_rename_that_is_not_synced_is_caught: "a compaction syncs nothing after its rename" =>
        "database::stand::names::what_gives_a_file_its_name_makes_it_durable_before_it_returns";
    a_name_that_is_not_synced_is_caught: "the name of a new file is not synced" =>
        "database::stand::names::what_gives_a_file_its_name_makes_it_durable_before_it_returns",
        "database::durability_tests::a_new_database_whose_name_is_not_durable_is_not_there";
}

/// In a child these do less than usual. It is not that for which they fail.
#[test]
fn tests_that_do_less_in_a_child_pass_there_without_a_bug() {
    assert_sound(&[
        "database::stand::seeded_crashes::a_power_cut_within_a_history_or_a_recovery_leaves_one_committed_prefix",
    ]);
}
