//! The work on all cores, and the hand-over of what it finds.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::parallel;
use crate::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn all() -> Vec<(&'static str, usize, fn())> {
    vec![
        (
            "parallel::results_come_in_order_and_each_part_is_done_once",
            1_500,
            results_in_order,
        ),
        (
            "parallel::what_parts_find_comes_in_order_while_they_are_under_way",
            1_000,
            stream_in_order,
        ),
        (
            "parallel::a_failure_ends_the_work_and_nobody_waits_for_ever",
            1_500,
            failures,
        ),
    ]
}

fn results_in_order() {
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let results = parallel::map(7, move |part| {
        count.fetch_add(1, Ordering::SeqCst);
        part * part
    });
    assert_eq!(results, [0, 1, 4, 9, 16, 25, 36]);
    assert_eq!(done.load(Ordering::SeqCst), 7);
}

/// So many that a part waits until somebody takes.
const FOUND: usize = 80;

fn stream_in_order() {
    let mut taken = Vec::new();
    let streamed = parallel::stream(
        4,
        |part, find| (0..FOUND).try_for_each(|number| find((part, number))),
        |part, (from, number)| {
            assert_eq!(part, from);
            taken.push((part, number));
            Ok(())
        },
    );
    streamed.expect("nothing fails");
    let right = (0..4).flat_map(|part| (0..FOUND).map(move |number| (part, number)));
    assert!(taken.into_iter().eq(right));
}

/// Fails at this part.
fn fails_at(bad: usize, part: usize) -> Result<usize> {
    if part == bad {
        Err(Error::Input {
            source_name: part.to_string(),
            line: None,
            reason: "bad".to_owned(),
        })
    } else {
        Ok(part)
    }
}

fn failures() {
    let mut taken = 0;
    let failed = parallel::in_order(
        6,
        |part| fails_at(3, part),
        |part, result| {
            assert_eq!(part, result);
            taken += 1;
            Ok(())
        },
    );
    assert!(matches!(failed, Err(Error::Input { source_name, .. }) if source_name == "3"));
    assert_eq!(taken, 3);
    let stopped = parallel::stream(
        6,
        |part, find| (0..FOUND).try_for_each(|_| find(part)),
        |part, _| fails_at(1, part).map(drop),
    );
    assert!(matches!(stopped, Err(Error::Input { source_name, .. }) if source_name == "1"));
    let failed = parallel::stream(
        6,
        |part, find| {
            find(part)?;
            fails_at(2, part).map(drop)
        },
        |_, _| Ok(()),
    );
    assert!(matches!(failed, Err(Error::Input { source_name, .. }) if source_name == "2"));
}
