//! Sketches that cannot be are found by a check, and named, also if the checksums are right.

use super::Database;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::store::{Recording, Settings, Sizes, Store};

/// Every third document has no sketch.
fn document(i: u64, size: SketchSize) -> Result<Document> {
    let bytes = vec![i as u8 | 1; size.bytes()];
    let sketch = (!i.is_multiple_of(3))
        .then(|| Sketch::new(&bytes, 9))
        .transpose()?;
    Ok(Document::new(format!("key {i}"), Fingerprint::from_bits(i))
        .with_seen(0)
        .with_sketch(sketch))
}

/// Three documents in one block.
fn sound(size: SketchSize) -> Result<Database> {
    let settings = Settings {
        sketch_size: size,
        ..Settings::for_tests()
    };
    let sizes = Sizes {
        recent_operations: 2,
        ..Sizes::default()
    };
    let store = Store::on_backend(Recording::default(), Some(&settings), sizes)?;
    let database = Database::of_store(store.into());
    let mut txn = database.begin_write()?;
    for i in 1..=3 {
        txn.insert(&document(i, size)?)?;
    }
    txn.commit()?;
    database.settle()?;
    assert!(database.check()?.is_sound());
    Ok(database)
}

fn problems(database: &Database) -> Result<Vec<String>> {
    Ok(database
        .check()?
        .problems
        .iter()
        .map(ToString::to_string)
        .collect())
}

/// A change of the bytes of a block.
type Change = fn(&mut Vec<u8>);

#[test]
fn a_sketch_without_shingles_or_of_no_size_is_named_by_its_block() -> Result<()> {
    for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
        // The sketch of the last document, which has none, stands last.
        let changes: [(Change, &str); 2] = [
            (
                |bytes| *bytes.last_mut().expect("there are sketches") = 1,
                "it has a sketch without shingles",
            ),
            (
                |bytes| bytes[3] = 17,
                "its sketches have an impossible size",
            ),
        ];
        for (change, problem) in changes {
            let database = sound(size)?;
            database.store.plant_bytes(|_| {})?;
            assert!(problems(&database)?.is_empty());
            database.store.plant_bytes(change)?;
            let found = problems(&database)?;
            assert_eq!(
                found,
                [format!(
                    "table documents, key documents, level 0, block up to 3: {problem}"
                )],
                "{size:?}"
            );
            assert!(
                matches!(
                    database.snapshot()?.get("key 1"),
                    Err(Error::Damaged { .. })
                ),
                "{problem}"
            );
        }
    }
    Ok(())
}

/// It could not be compared, so its document would be missing wherever a similarity is asked for.
#[test]
fn a_sketch_of_another_size_is_named_by_its_document() -> Result<()> {
    for [size, other] in [
        [SketchSize::Bytes16, SketchSize::Bytes32],
        [SketchSize::Bytes32, SketchSize::Bytes16],
    ] {
        let database = sound(size)?;
        database
            .store
            .plant_documents(&[(4, document(4, other)?)])?;
        let found = problems(&database)?;
        let expected = "its sketch does not have the size of those of the file";
        assert!(
            found.len() == 1 && found[0].ends_with(expected),
            "{found:?}"
        );
    }
    Ok(())
}
