//! Power cuts: every file that one could leave opens to exactly one committed prefix, and all sets
//! agree.

use super::cuts::{Moment, Unsynced};
use super::history::{Model, Operation, Recorded, Runner, Write};
use crate::database::Database;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::{Event, Image, Recording, Settings, Sizes, Store};

/// The changes of one transaction.
fn writes(number: u64) -> Vec<Write> {
    let key = |i: u64| format!("key {}", i % 40).into_bytes();
    let mut writes = Vec::new();
    // Every third transaction is too long for the log. It replaces and deletes documents of others.
    let documents = if is_large(number) { 8 } else { 2 };
    for i in number * 5..number * 5 + documents {
        // Some fingerprints return, and some are shared.
        let bits = (i % 23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fingerprint = (i % 11 != 0).then(|| Fingerprint::from_bits(bits));
        let scope = if i % 3 == 0 { "en" } else { "" };
        let sketch = Sketch::new(&[i as u8; 16], 1 + i as u32)
            .ok()
            .filter(|_| i % 4 != 0);
        let document = Document::new(key(i * 7), fingerprint).with_sketch(sketch);
        writes.push(Write::Put(document.with_seen(i as i64).with_scope(scope)));
    }
    writes.push(Write::Delete(key(number * 13)));
    writes.push(Write::Delete(key(number * 29 + 1)));
    writes
}

fn is_large(number: u64) -> bool {
    number % 3 == 2
}

/// Every file that a power cut between two syncs could leave: the synced file with some of the unsynced
/// writes, one of them perhaps torn.
fn images(file: &Unsynced) -> Vec<(String, Image)> {
    let (synced, unsynced) = (&file.synced, &file.changes);
    let all_but = |index: usize, torn: Option<bool>| {
        let mut image = synced.clone();
        for (i, event) in unsynced.iter().enumerate() {
            match torn {
                _ if i != index => image.apply(event),
                Some(first_half) => image.apply_torn(event, first_half),
                None => {}
            }
        }
        image
    };
    let only = |index: usize| {
        let mut image = synced.clone();
        image.apply(&unsynced[index]);
        image
    };
    let mut images = vec![
        ("nothing".to_owned(), synced.clone()),
        ("all".to_owned(), all_but(usize::MAX, None)),
    ];
    for (index, event) in unsynced.iter().enumerate() {
        if matches!(event, Event::Write { .. }) {
            let end = all_but(index, Some(true));
            let beginning = all_but(index, Some(false));
            images.extend([
                (format!("all but write {index}"), all_but(index, None)),
                (format!("all, write {index} torn"), end),
                (
                    format!("all, write {index} torn at its beginning"),
                    beginning,
                ),
                (format!("only write {index}"), only(index)),
            ]);
        }
    }
    images
}

/// Opens every file that a power cut could leave of a history, and counts them.
fn cut(commits: u64) -> Result<usize> {
    let recording = Recording::default();
    let mut runner = Runner::new(Recorded(recording.clone()), &Settings::for_tests())?;
    // A new file gets its name only when it is whole. So a power cut during its creation loses nothing.
    let created = recording.events().len();
    let mut levels = 0;
    let mut large = 0;
    for number in 0..commits {
        runner.run(&Operation::Commit(writes(number)))?;
        large += usize::from(is_large(number) && runner.database().store.is_log_empty()?);
        if number % 4 == 3 {
            runner.run(&Operation::Settle)?;
        }
        if number % 5 == 4 {
            // Closed in order, which folds the log. A power cut may come within that too.
            runner.run(&Operation::Drop)?;
            assert!(runner.database().store.is_log_empty()?);
        }
        levels = levels.max(runner.database().snapshot()?.stats()?.levels);
    }
    assert!(levels > 1, "the history is too short for levels");
    assert_eq!(
        large,
        commits as usize / 3,
        "large transactions went through the log"
    );
    let models = runner.end();
    Ok(examine_all(&recording, created, &models))
}

/// Opens every file that a power cut could leave of what was recorded after the creation, and counts them.
fn examine_all(recording: &Recording, created: usize, models: &[Model]) -> usize {
    let events = recording.events();
    let (creation, events) = events.split_at(created);
    let mut file = Image::default();
    creation.iter().for_each(|event| file.apply(event));
    let mut moment = Moment::new(file, events);
    let mut examined = 0;
    for (at, event) in events.iter().enumerate() {
        if !matches!(event, Event::Sync) {
            continue;
        }
        // A power cut before the sync ends. The commits that the sync makes durable may be there or not.
        moment.go_to(at);
        let commits = moment.commits();
        for (what, image) in images(moment.file()) {
            let what = format!("event {}, {what}, {commits:?} commits", created + at);
            Runner::recovered(image, &models[commits.clone()], &what)
                .and_then(|runner| runner.ensure_sound(&what))
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            examined += 1;
        }
    }
    examined
}

#[test]
fn every_file_that_a_power_cut_could_leave_opens_to_one_committed_prefix() -> Result<()> {
    let examined = cut(16)?;
    assert!(examined >= 1_000, "{examined} images");
    Ok(())
}

#[test]
fn an_expiry_that_a_power_cut_ends_leaves_what_its_steps_have_left() -> Result<()> {
    let recording = Recording::default();
    let mut runner = Runner::new(Recorded(recording.clone()), &Settings::for_tests())?;
    let created = recording.events().len();
    for first in (0..60).step_by(3) {
        let mut writes = Vec::new();
        for i in first..first + 3 {
            // Some fingerprints are shared, some documents of a block stay, and some were removed before.
            let bits = (i % 13u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let seen = if i % 9 == 5 { 100 } else { i as i64 };
            let document = Document::new(format!("{i}"), Fingerprint::from_bits(bits));
            writes.push(Write::Put(document.with_seen(seen)));
        }
        writes.push(Write::Delete(format!("{}", (first * 7) % 50).into_bytes()));
        runner.run(&Operation::Commit(writes))?;
    }
    let before = runner.models.len();
    runner.run(&Operation::Expire {
        before: Some(50),
        scopes: None,
    })?;
    let steps = runner.models.len() - before;
    assert!(steps > 8, "{steps} steps");
    runner.run(&Operation::Settle)?;
    let models = runner.end();
    let examined = examine_all(&recording, created, &models);
    assert!(examined >= 500, "{examined} images");
    Ok(())
}

#[test]
fn what_is_cached_of_a_commit_that_damage_took_back_is_not_taken_for_what_comes_after() -> Result<()>
{
    let recording = Recording::default();
    let settings = Settings::for_tests();
    let store = Store::on_backend(recording.clone(), Some(&settings), Sizes::default())?;
    let database = Database::of_store(store.into());
    let insert = |key: &str, bits: u64| {
        let mut txn = database.begin_write()?;
        txn.insert(&Document::new(key, Fingerprint::from_bits(bits)).with_seen(0))?;
        txn.commit()
    };
    for (key, bits) in [("a", 1), ("b0", 1 << 20), ("b1", 1 << 30), ("b", 1 << 40)] {
        insert(key, bits)?;
    }
    assert!(database.snapshot()?.get("b")?.is_some());
    // The byte that says which of two commits is the last.
    recording.flip(9, 1);
    assert!(
        !database.check()?.is_sound(),
        "a commit that was acknowledged is gone"
    );
    assert_eq!(database.snapshot()?.get("b")?, None);
    insert("c", u64::MAX)?;
    let found = database.snapshot()?.get("c")?;
    assert!(found.is_some_and(|document| document.key() == b"c"));
    assert!(database.check()?.is_sound());
    Ok(())
}
