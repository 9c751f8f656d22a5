//! Verdicts: which records are removed, and in favour of which. The places of all records that do not get into the
//! output, read in their order.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::Value;

use super::annotation;
use super::dedup::Dedup;
use super::events::{DedupEvent, DedupTotals, Observe};
use super::layout::Layout;
use super::removed_list::{RemovedRow, RemovedRows};
use super::work::{InOrder, REMOVED, Work, cannot_write, write_durably};
use crate::database::{Database, DeletionEvent, Duplicate};
use crate::error::{Error, Result};
use crate::files::{folder_of, open_to_write, sync_directory, sync_file};
use crate::ingest::{NumberedKey, RecordId};

/// The names of the lists of places in the folder of the work.
const IDS: &str = "removed.ids";
const UNJUDGED: &str = "unjudged.ids";

/// Decides which records are removed, and writes their places and the list of them into the folder of the work. Records
/// of the inputs that are left out, by their indexes, are not counted.
pub(super) fn decide(
    dedup: &Dedup,
    work: &Work,
    layout: &Layout,
    left_out: &BTreeSet<usize>,
    database: &Database,
    known: Option<&Database>,
    observe: Observe<'_>,
) -> Result<DedupTotals> {
    let snapshot = database.snapshot()?;
    let known = known.map(Database::snapshot).transpose()?;
    let mut verdicts = RemovedRows::default();
    let mut totals = DedupTotals::default();
    snapshot.duplicates_with_reference(
        known.as_ref(),
        &dedup.clustering_of_records(),
        &mut |event, is_known| {
            match event {
                DeletionEvent::Duplicate(duplicate) => {
                    totals.removed_as_equal += u64::from(duplicate.distance == 0);
                    totals.removed_as_known += u64::from(is_known);
                    add_duplicate(&mut verdicts, &duplicate, is_known);
                }
                DeletionEvent::Progress { done, all } => observe(DedupEvent::comparing(done, all)),
                DeletionEvent::Reported
                | DeletionEvent::Kept(_)
                | DeletionEvent::Committed { .. } => {}
            }
            dedup.stop.ensure_wanted()
        },
    )?;
    totals.removed_as_equal += add_short(&mut verdicts, database)?;
    verdicts.rows.sort_unstable_by_key(|row| row.id);
    totals.removed = verdicts.rows.len() as u64;
    totals.too_short = snapshot.stats()?.too_short;
    for source in snapshot.sources()? {
        if source.failed().is_none() {
            totals.records += source.totals().documents + source.totals().rejected;
            totals.rejected += source.totals().rejected;
        }
    }
    let mut removed: Vec<RecordId> = verdicts.rows.iter().map(|row| row.id).collect();
    if dedup.drops_unjudged {
        let mut unjudged = Unjudged::new(work).all()?;
        unjudged.retain(|id| !left_out.contains(&(id.input as usize)));
        totals.dropped_unjudged = unjudged.len() as u64;
        removed.extend(unjudged);
        removed.sort_unstable();
    }
    if dedup.annotates {
        totals.annotated = annotation::write(work, layout, &snapshot, &verdicts)?;
    }
    write_durably(&work.path(IDS), |out| {
        for id in &removed {
            out.write_all(&<[u8; RecordId::BYTES]>::from(*id))?;
        }
        Ok(())
    })?;
    if dedup.wants_list() {
        write_durably(&work.path(REMOVED), |out| {
            for row in &verdicts.rows {
                writeln!(out, "{}", line_of(row, &verdicts, layout))?;
            }
            Ok(())
        })?;
    }
    Ok(totals)
}

fn add_duplicate(verdicts: &mut RemovedRows, duplicate: &Duplicate, is_known: bool) {
    let Some(own) = NumberedKey::of_bytes(duplicate.document.key()) else {
        return;
    };
    let (survivor, survivor_key) = match NumberedKey::of_bytes(&duplicate.survivor) {
        Some(numbered) if !is_known => (Some(numbered.id), numbered.key),
        _ => (None, Some(&duplicate.survivor[..])),
    };
    verdicts.add(
        own.id,
        own.key,
        survivor,
        survivor_key,
        duplicate.distance,
        duplicate.similarity,
    );
}

/// Adds the records that have the same text as an earlier one, of those that are too short to judge. Returns their
/// number.
fn add_short(verdicts: &mut RemovedRows, database: &Database) -> Result<u64> {
    let before = verdicts.rows.len();
    let short = short_records(database)?;
    for same in short.chunk_by(|a, b| a.text == b.text) {
        let survivor = &same[0];
        for record in &same[1..] {
            verdicts.add(
                record.id,
                record.key.as_deref(),
                Some(survivor.id),
                survivor.key.as_deref(),
                0,
                None,
            );
        }
    }
    Ok((verdicts.rows.len() - before) as u64)
}

fn line_of(row: &RemovedRow, verdicts: &RemovedRows, layout: &Layout) -> Value {
    let mut told = verdicts.told(row, |id| {
        let (path, _) = layout.place_of(id);
        path.as_os_str().as_encoded_bytes().to_vec()
    });
    told.similarity = row.similarity.map(|similarity| rounded(similarity as f32));
    let (_, unit) = layout.place_of(row.id);
    let survivor_unit = row.survivor.map_or("", |id| layout.place_of(id).1);
    told.to_json([unit, survivor_unit])
}

pub(super) struct ShortRecord {
    /// The hash of its text.
    pub(super) text: u128,
    pub(super) id: RecordId,
    pub(super) key: Option<Vec<u8>>,
}

/// The records whose texts are too short to judge. Those of equal texts stand together, in the order of their places.
pub(super) fn short_records(database: &Database) -> Result<Vec<ShortRecord>> {
    let mut short = Vec::new();
    database.snapshot()?.each_too_short(|document| {
        if let Some(NumberedKey {
            id,
            text: Some(text),
            key,
        }) = NumberedKey::of_bytes(document.key())
        {
            let key = key.map(<[u8]>::to_vec);
            short.push(ShortRecord { text, id, key });
        }
    })?;
    short.sort_unstable_by_key(|record| (record.text, record.id));
    Ok(short)
}

/// A similarity with as many digits as the estimate is worth.
pub(super) fn rounded(similarity: f32) -> f64 {
    (f64::from(similarity) * 100.0).round() / 100.0
}

/// The places of the records that could not be judged, kept while the inputs are read.
pub(super) struct Unjudged {
    path: PathBuf,
    /// Those that are not in the file yet.
    new: Vec<u8>,
}

impl Unjudged {
    /// The list of a run. Its file is made when there is something to write.
    pub(super) fn new(work: &Work) -> Self {
        Self {
            path: work.path(UNJUDGED),
            new: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, id: RecordId) {
        self.new.extend(<[u8; RecordId::BYTES]>::from(id));
    }

    /// Writes the new ones durably. It has to be done before it is committed that their records were read. A run
    /// that is killed in between writes them again when it goes on.
    pub(super) fn keep(&mut self) -> Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let written = open_to_write(&self.path)
            .and_then(|mut file| {
                // A run that was killed may have left a part of one at the end.
                let whole =
                    file.metadata()?.len() / RecordId::BYTES as u64 * RecordId::BYTES as u64;
                file.set_len(whole)?;
                file.seek(SeekFrom::End(0))?;
                file.write_all(&self.new)?;
                sync_file(&file)
            })
            // The file may be new.
            .and_then(|()| sync_directory(folder_of(&self.path)));
        self.new.clear();
        written.map_err(cannot_write(&self.path))
    }

    fn all(&self) -> Result<Vec<RecordId>> {
        let bytes = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(Error::io(&self.path))?,
        };
        let (whole, _) = bytes.as_chunks::<{ RecordId::BYTES }>();
        let mut ids: Vec<RecordId> = whole.iter().map(RecordId::from).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

pub(super) fn removed(work: &Work) -> Result<InOrder<()>> {
    InOrder::open(work.path(IDS), |_| Ok(()))
}
