//! The database of what survived in earlier cleanings: what is near to it is removed, and what survives is added to it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::events::{DedupEvent, DedupStep, Observe};
use super::verdicts::removed;
use super::work::Work;
use crate::database::{Database, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::ingest::{NumberedKey, RecordId, Stop, StoredRecords};
use crate::source::{Numbers, Source};

/// The documents that are committed together.
const TOGETHER: usize = 10_000;

pub(super) fn ensure_new(known: &Database, records: &mut StoredRecords) -> Result<()> {
    let snapshot = known.snapshot()?;
    for (index, name) in records.names().iter().enumerate() {
        let Some(source) = snapshot.source(name)? else {
            continue;
        };
        if records.ensure_same(index, &source).is_ok() {
            return Err(Error::input(
                &records.paths()[index],
                format!(
                    "its documents are in {} already, so all of its records would be removed; `--again` does that \
                     nevertheless",
                    known.path().display()
                ),
            ));
        }
    }
    Ok(())
}

/// Stores the documents of the records that survive, and that the inputs were cleaned. Of what a run that was stopped
/// here has stored, nothing is stored again.
pub(super) fn keep(
    work: &mut Work,
    records: &mut StoredRecords,
    database: &Database,
    known: &Database,
    stop: &Stop,
    observe: Observe<'_>,
) -> Result<()> {
    let snapshot = database.snapshot()?;
    let mut own = work.state.is_being_stored.then(HashSet::new);
    work.state.is_being_stored = true;
    work.save()?;
    let mut removed = removed(work)?;
    let names = records.names();
    let mut removed_of = vec![0u64; names.len()];
    let all = snapshot.stats()?.documents;
    // What fails in the database of the work is told by whoever calls.
    let named = Error::of_file(known.path());
    let mut txn = known.begin_write().map_err(&named)?;
    for (done, document) in (1u64..).zip(snapshot.documents()) {
        let document = document?;
        let Some(numbered) = NumberedKey::of_bytes(document.key()) else {
            continue;
        };
        let input = numbered.id.input as usize;
        if removed.of(numbered.id)?.is_some() {
            removed_of[input] += 1;
        } else {
            let path = &records.paths()[input];
            insert(&mut txn, &document, numbered, path, own.as_mut()).map_err(&named)?;
        }
        if done % TOGETHER as u64 == 0 {
            txn.commit().map_err(&named)?;
            observe(DedupEvent::Progress {
                step: DedupStep::Storing,
                done,
                all,
            });
            stop.ensure_wanted()?;
            txn = known.begin_write().map_err(&named)?;
        }
    }
    let mut inputs: HashMap<&[u8], usize> = HashMap::with_capacity(names.len());
    for (input, name) in names.iter().enumerate() {
        inputs.entry(name).or_insert(input);
    }
    for Source { name, mut record } in snapshot.sources()? {
        if record.failed.is_some() || record.totals.documents == 0 && record.totals.rejected > 0 {
            // Nothing of it is known. It is to be read when the command is mended.
            continue;
        }
        // The numbers are those of another database. There, all records were stored.
        record.numbers = Numbers::default();
        record.earlier = Numbers::default();
        let duplicates = inputs.get(&*name).map_or(0, |&input| removed_of[input]);
        record.totals.inserted = record.totals.inserted.saturating_sub(duplicates);
        record.totals.skipped = duplicates;
        record.totals.duplicates = duplicates;
        txn.set_source(&Source { name, record }).map_err(&named)?;
    }
    txn.commit().map_err(&named)
}

/// Stores a document under the key of its record, unless another document has that. If the run goes on, a document that
/// looks the same there is its own, unless it is that of a record before: `own` has the hashes of the keys of these.
fn insert(
    txn: &mut WriteTxn,
    document: &Document,
    numbered: NumberedKey<'_>,
    path: &Path,
    mut own: Option<&mut HashSet<u128>>,
) -> Result<()> {
    for attempt in 0u64.. {
        let key = key_of(numbered, path, attempt);
        let found = txn.find(&key)?;
        let looks_same = found.as_ref().is_none_or(|other| is_same(other, document));
        // What this pass has stored or passed over is of another record.
        let is_free = own
            .as_mut()
            .map(|own| looks_same && own.insert(xxh3_128(&key)));
        match found {
            Some(_) if is_free == Some(true) => return Ok(()),
            Some(_) => {}
            None => {
                let named = Document::new(key, document.fingerprint())
                    .with_sketch(document.sketch().copied())
                    .with_seen(document.seen())
                    .with_repeats(document.repeats())
                    .with_rank(document.rank())
                    .with_scope(document.scope())
                    .with_payload(document.payload());
                return txn.insert(&named).map(drop);
            }
        }
    }
    Ok(())
}

fn is_same(a: &Document, b: &Document) -> bool {
    a.fingerprint() == b.fingerprint() && a.sketch() == b.sketch()
}

/// The key to try: that of the record, then its place, then its place with a number.
fn key_of<'k>(
    NumberedKey { id, key, .. }: NumberedKey<'k>,
    path: &Path,
    attempt: u64,
) -> Cow<'k, [u8]> {
    let RecordId { number, .. } = id;
    match (key, attempt) {
        (Some(key), 0) if !key.is_empty() => Cow::Borrowed(key),
        (_, 0 | 1) => Cow::Owned(placed(path, &format!(":{number}"))),
        _ => Cow::Owned(placed(path, &format!(":{number}#{attempt}"))),
    }
}

/// A path, of which the end is kept if it is too long, and what is behind it.
fn placed(path: &Path, behind: &str) -> Vec<u8> {
    let path = path.as_os_str().as_encoded_bytes();
    let most = Document::MAX_KEY_BYTES - behind.len();
    let path = &path[path.len().saturating_sub(most)..];
    [path, behind.as_bytes()].concat()
}
