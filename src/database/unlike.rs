//! Near fingerprints none of whose documents is similar enough, which are left out before documents are looked up.
//!
//! Documents of one template can all be near to each other, and hardly any similar. Without this, each search would
//! look up and read the documents of thousands of near fingerprints.

use super::near::SketchFilter;
use super::search::Search;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::NearFingerprint;
use crate::sketch::Sketch;
use crate::store::{KnownSketches, Posted, ReadScopes, Reader};

/// With fewer near fingerprints of each search, it costs more than it spares.
const FEW_OF_ONE: usize = 64;

/// The same if they are looked up for fewer searches.
const FEW_TIMES: usize = 4;

/// The number of fingerprints whose documents are looked up together.
const TOGETHER: usize = 1024;

/// The most documents of a fingerprint whose sketches are read.
const MOST_READ: u64 = 16;

/// Leaves out near fingerprints none of whose documents is similar enough to what their search is for. Nothing is left
/// out where searches have few near fingerprints. `near` has the indexes of the searches, those of one search together.
/// The sketches of a fingerprint are read once for all searches, and kept in `known`.
pub(super) fn leave_out_unlike(
    reader: Reader<'_>,
    searches: &[Search<'_>],
    near: &mut Vec<(usize, NearFingerprint)>,
    known: &mut KnownSketches,
) -> Result<()> {
    let filter_of = |index: usize| searches[index].sketch_filter();
    let count = near.chunk_by(|a, b| a.0 == b.0).count();
    if near.len() < FEW_OF_ONE * count {
        return Ok(());
    }
    let mut unknown = Vec::new();
    for &(index, near) in &*near {
        if filter_of(index).is_some_and(SketchFilter::excludes) && known.lacks(near.fingerprint) {
            unknown.push(near.fingerprint);
        }
    }
    unknown.sort_unstable();
    unknown.dedup();
    if near.len() < FEW_TIMES * unknown.len() {
        return Ok(());
    }
    for fingerprints in unknown.chunks(TOGETHER) {
        add_sketches(reader, fingerprints, known)?;
    }
    near.retain(|&(index, near)| {
        filter_of(index).is_none_or(|filter| filter.may_match(known, near.fingerprint))
    });
    Ok(())
}

/// Adds the sketches of the documents of some fingerprints, of which none is known.
fn add_sketches(
    reader: Reader<'_>,
    fingerprints: &[Fingerprint],
    known: &mut KnownSketches,
) -> Result<()> {
    let mut wanted = Vec::with_capacity(fingerprints.len());
    for &fingerprint in fingerprints {
        wanted.push((fingerprint, ReadScopes::AllDocuments));
    }
    let mut all_posted = reader.posted(&wanted)?;
    // Once room has run out, nothing is known of what comes then. So the lists of one fingerprint have to be whole.
    all_posted.sort_by_key(|posted| posted.index);
    for posted in all_posted.chunk_by(|a, b| a.index == b.index) {
        let fingerprint = fingerprints[posted[0].index];
        if !known.lacks(fingerprint) {
            break;
        }
        match sketches_of(reader, posted)? {
            Some(sketches) => {
                for sketch in &sketches {
                    known.add(fingerprint, sketch.as_ref());
                }
            }
            None => known.add_many(fingerprint),
        }
    }
    Ok(())
}

/// The sketches of all documents of a fingerprint. `None` if they are many, or if one of them is damaged: whoever needs
/// the document gets the error, and others their answers.
fn sketches_of(reader: Reader<'_>, posted: &[Posted]) -> Result<Option<Vec<Option<Sketch>>>> {
    let documents: u64 = posted.iter().map(|posted| posted.total).sum();
    if documents > MOST_READ {
        return Ok(None);
    }
    let mut sketches = Vec::new();
    for posted in posted {
        let Some(numbers) = &posted.numbers else {
            return Ok(None);
        };
        for &number in numbers {
            match reader.linked_sketch(number) {
                Ok(sketch) => sketches.push(sketch),
                Err(Error::Damaged { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Some(sketches))
}

#[cfg(test)]
mod tests {
    use crate::database::{Database, Matches, Near, Query};
    use crate::document::Document;
    use crate::error::{Error, Result};
    use crate::fingerprint::Fingerprint;
    use crate::sketch::{Sketch, SketchSize};
    use crate::store::{Recording, Settings, Sizes, Store};

    fn sketch(byte: u8) -> Result<Sketch> {
        Sketch::new(&[byte; 16], 20)
    }

    /// The sketches are read of documents of all scopes. So a search could meet the damage of a document that it does
    /// not ask for.
    #[test]
    fn a_damaged_document_is_an_error_only_for_those_who_ask_for_it() -> Result<()> {
        let settings = Settings {
            sketch_size: SketchSize::Bytes16,
            ..Settings::for_tests()
        };
        let sizes = Sizes {
            recent_operations: 2,
            document_block_bytes: 512,
            ..Sizes::default()
        };
        let store = Store::on_backend(Recording::default(), Some(&settings), sizes)?;
        let database = Database::of_store(store.into());
        let mut txn = database.begin_write()?;
        for i in 0..160 {
            let scope = if i < 40 { "damaged" } else { "sound" };
            let document = Document::new(i.to_string(), Fingerprint::from_bits(i % 128))
                .with_sketch(sketch(i as u8 % 4)?)
                .with_scope(scope);
            txn.insert(&document)?;
        }
        txn.commit()?;
        database.settle()?;
        let ask = |scope: &str| {
            let mut queries = Vec::new();
            for bits in 0..8 {
                let near = Near::within(8).min_similarity(0.9).scopes([scope]);
                let query = Query::new(Fingerprint::from_bits(bits)).with_sketch(sketch(1)?);
                queries.push(query.near(near));
            }
            let matches = database.snapshot()?.query_batch(&queries)?;
            Ok::<_, Error>(matches.iter().map(Matches::total).collect::<Vec<_>>())
        };
        assert_eq!(ask("damaged")?, [10; 8]);
        let sound = ask("sound")?;
        assert_eq!(sound, [30; 8]);
        // It is the first of the documents.
        database.store.plant_bytes(|bytes| bytes[3] = 17)?;
        assert!(matches!(ask("damaged"), Err(Error::Damaged { .. })));
        assert_eq!(ask("sound")?, sound);
        Ok(())
    }
}
