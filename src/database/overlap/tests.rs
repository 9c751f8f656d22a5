//! Passes over all matches give the same answer, however little room they have.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::overlap::{Overlap, OverlapQuery, Wanted};
use super::tally::{Largest, MOST_BYTES, Pass};
use crate::{CreateOptions, Database, Fingerprint, Scheme, Snapshot};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// A sentence of a number, like no other.
fn sentence(number: u64) -> String {
    let mut text = String::new();
    for word in 0..8 {
        let hash = xxhash_rust::xxh3::xxh3_64(&[number.to_le_bytes(), [word; 8]].concat());
        text += &format!("W{hash:x} ");
    }
    text.trim_end().to_owned() + ". "
}

/// 300 documents, each with some of 40 sentences, and these sentences as a text.
fn stored(path: &std::path::Path) -> crate::Result<(Snapshot, String)> {
    let database = Database::create(path, &CreateOptions::new().scheme(Scheme::MinwiseShort1))?;
    let fingerprinter = database.fingerprinter()?;
    let mut txn = database.begin_write()?;
    for document in 0..300u64 {
        for number in 0..40 {
            let lot =
                xxhash_rust::xxh3::xxh3_64(&[document, number].map(u64::to_le_bytes).concat());
            if lot.is_multiple_of(number + 1) {
                let unit =
                    fingerprinter.document(format!("{document}#{}", number + 1), &sentence(number));
                txn.insert(&unit.with_seen((lot >> 40) as i64 % 10))?;
            }
        }
    }
    txn.commit()?;
    Ok((database.snapshot()?, (0..45).map(sentence).collect()))
}

/// The answer in passes of so many bytes, and the number of passes.
fn within(snapshot: &Snapshot, text: &str, most_bytes: usize) -> crate::Result<(Overlap, u64)> {
    let mut passes = 0;
    let query = OverlapQuery::new().limit(7);
    let overlap = snapshot.overlap_within(text, &query, most_bytes, |done, _| {
        passes += u64::from(done == 0);
        ControlFlow::Continue(())
    })?;
    Ok((overlap, passes))
}

#[test]
fn the_answer_does_not_depend_on_the_room_for_documents() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (snapshot, text) = stored(&folder.path().join("d.simdb"))?;
    let (expected, passes) = within(&snapshot, &text, MOST_BYTES)?;
    assert_eq!(passes, 1);
    assert_eq!((expected.found, expected.total_documents), (40, 300));
    for most_bytes in [0, 1, 500, 5_000] {
        let (overlap, passes) = within(&snapshot, &text, most_bytes)?;
        assert_eq!(overlap, expected, "{most_bytes} bytes");
        let most_passes = if most_bytes < 2 { 300..=300 } else { 2..=299 };
        assert!(
            most_passes.contains(&passes),
            "{most_bytes} bytes: {passes} passes"
        );
    }
    Ok(())
}

#[test]
fn units_of_a_document_count_once_in_whatever_order_they_come() {
    let wanted: Vec<Wanted> = (1..=3).map(wanted_of).collect();
    let mut pass = Pass::first(200);
    for round in 0..100 {
        for (document, index) in [("a", 2), ("a", 0), ("b", 1), ("a", 2), ("a", 1)] {
            pass.add(document.as_bytes(), index, 50 - round);
        }
    }
    let mut largest = Largest::new(10);
    let next = pass.end(&wanted, &mut largest).expect("b has no room");
    assert!(next.end(&wanted, &mut largest).is_none());
    let (list, total) = largest.end();
    assert_eq!(total, 1, "b comes in the next pass");
    assert_eq!(
        (list[0].units, list[0].characters, list[0].seen),
        (6, 60, -49)
    );
    assert_eq!(list[0].share, 1.0);
}

fn wanted_of(units: u64) -> Wanted {
    Wanted {
        fingerprint: Fingerprint::from_bits(units),
        sketch: None,
        units,
        characters: 10 * units,
    }
}

#[test]
fn the_largest_are_kept_in_order() {
    let wanted: Vec<Wanted> = (1..=50).map(wanted_of).collect();
    let mut pass = Pass::first(MOST_BYTES);
    let mut expected = BTreeSet::new();
    for number in 0..1_000u32 {
        let hash = number.wrapping_mul(0x9e37_79b9) >> 8;
        let (index, seen) = (hash % 50, i64::from(hash / 50 % 3));
        pass.add(format!("{number}").as_bytes(), index, seen);
        expected.insert((50 - index, seen, format!("{number}").into_bytes()));
    }
    for limit in [0, 1, 10, 999, 1_000, 5_000] {
        let mut largest = Largest::new(limit);
        let mut pass = Pass::first(MOST_BYTES);
        for (left, seen, key) in &expected {
            pass.add(key, 50 - left, *seen);
        }
        assert!(pass.end(&wanted, &mut largest).is_none());
        let (list, total) = largest.end();
        assert_eq!(total, 1_000);
        let listed: Vec<_> = list.into_iter().map(|it| it.key).collect();
        let expected = expected.iter().take(limit).map(|it| it.2.clone());
        assert_eq!(listed, expected.collect::<Vec<_>>());
    }
}
