//! The suite can fail: each planted bug (src/planted.rs) that shows only from outside is caught by the tests that stand
//! behind it here. The others are in tests/stand/planted.rs and tests/interleavings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use self::child::{assert_caught, planted_bugs};
use crate::support::TestResult;

#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../stand/child.rs"]
mod child;

planted_bugs! {
    a_dump_that_was_cut_is_caught: "a dump that was cut is taken for whole" =>
        "copy::a_bad_dump_is_refused_with_its_line_and_leaves_nothing";
    a_unit_of_pairs_that_is_passed_over_is_caught: "a search for pairs goes on one unit late" =>
        "pairs::a_search_goes_on_from_every_position_with_what_is_left";
    tables_that_are_sorted_apart_are_caught: "tables are sorted apart" =>
        "verdicts::a_transaction_finds_what_it_has_written_whatever_it_asks_meanwhile";
    an_expiry_of_another_file_is_caught: "an expiry goes on in another file" =>
        "window::an_expiry_begins_anew_when_a_compaction_came_between";
    a_search_for_the_nearest_that_ends_early_is_caught: "a search for the nearest does not go on" =>
        "nearest::the_nearest_are_those_of_a_scan_at_every_number_to_100_under_every_plan";
}

#[cfg(unix)]
planted_bugs! {
    a_forked_process_that_goes_on_is_caught: "a forked process goes on" =>
        "fork::every_call_on_a_database_and_a_snapshot_is_refused_in_a_forked_process";
}

/// The texts in quotes behind `before` in the files of a folder.
fn quoted_behind(before: &str, folder: &Path, found: &mut BTreeSet<String>) -> TestResult {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            quoted_behind(before, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path)?;
            let parts = code.split(before).skip(1);
            found.extend(parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned())));
        }
    }
    Ok(())
}

/// A bug that no test switches on would say nothing of the suite.
#[test]
fn every_planted_bug_has_a_test() -> TestResult {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut bugs = BTreeSet::new();
    quoted_behind("planted(\"", &root.join("src"), &mut bugs)?;
    assert!(bugs.len() >= 25, "only {} bugs are planted", bugs.len());
    let mut tested = fs::read_to_string(root.join("tests/stand/planted.rs"))?;
    tested += &fs::read_to_string(root.join("tests/it/planted.rs"))?;
    tested += &fs::read_to_string(root.join("tests/interleavings/main.rs"))?;
    for bug in bugs {
        assert!(
            tested.contains(&format!("\"{bug}\"")),
            "no test plants {bug:?}"
        );
    }
    Ok(())
}
