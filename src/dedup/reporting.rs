//! What a caller may make of the removed records before a cleaning ends.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::events::DedupTotals;
use super::stop::Stop;
use crate::error::Result;
use crate::ingest::{Fingerprinting, ReadOptions, Record, RecordId, Records, Rejected};

/// A cleaning that is about to end: what was removed, for a report.
#[derive(Debug)]
pub struct Removals<'r> {
    pub(super) inputs: &'r [PathBuf],
    pub(super) options: &'r ReadOptions,
    pub(super) rule: Fingerprinting,
    pub(super) stop: &'r Stop,
    pub(super) list: &'r Path,
    pub(super) totals: &'r DedupTotals,
}

/// Makes a report.
#[derive(Clone)]
pub(super) struct Reporter(Arc<Make>);

type Make = dyn Fn(&Removals<'_>) -> Result<Vec<u8>> + Send + Sync;

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter(..)")
    }
}

impl Reporter {
    pub(super) fn new(
        make: impl Fn(&Removals<'_>) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(make))
    }

    pub(super) fn make(&self, removals: &Removals<'_>) -> Result<Vec<u8>> {
        (self.0)(removals)
    }
}

impl Removals<'_> {
    /// What came of the cleaning, without the time that it took.
    pub fn totals(&self) -> &DedupTotals {
        self.totals
    }

    /// The file that lists the removed records, as [`Dedup::removed`](super::Dedup::removed) tells. It is there only for
    /// now.
    pub fn list(&self) -> &Path {
        self.list
    }

    /// The texts of some records, by their places: the inputs and numbers that the list has. Records without a text
    /// are left out.
    ///
    /// # Errors
    ///
    /// * [`Error::Input`](crate::Error::Input) if an input cannot be read.
    /// * [`Error::Interrupted`](crate::Error::Interrupted) if the caller ended the cleaning.
    ///
    /// # Cost
    ///
    /// The inputs of these records are read once.
    pub fn texts(
        &self,
        places: &HashSet<(Vec<u8>, u64)>,
    ) -> Result<HashMap<(Vec<u8>, u64), String>> {
        let mut texts = HashMap::new();
        if places.is_empty() {
            return Ok(texts);
        }
        let names: HashSet<&[u8]> = places.iter().map(|place| place.0.as_slice()).collect();
        let name_of = |path: &PathBuf| path.as_os_str().as_encoded_bytes().to_vec();
        let is_wanted = |path: &&PathBuf| names.contains(name_of(path).as_slice());
        let inputs: Vec<PathBuf> = self.inputs.iter().filter(is_wanted).cloned().collect();
        let paths: Vec<Vec<u8>> = inputs.iter().map(name_of).collect();
        let mut records = Records::open(inputs, self.options.clone())?;
        let place_of = |RecordId { input, number }| (paths[input as usize].clone(), number);
        loop {
            let chunk = records.next_chunk(|record: Record| {
                let place = record
                    .id()
                    .map(place_of)
                    .filter(|place| places.contains(place));
                let text = place
                    .as_ref()
                    .and_then(|_| record.text(self.rule))
                    .map(Cow::into_owned);
                Ok::<_, Rejected>(place.zip(text))
            })?;
            if chunk.is_empty() {
                return Ok(texts);
            }
            self.stop.ensure_wanted()?;
            // What cannot be read has no text.
            texts.extend(chunk.into_iter().filter_map(Result::ok).flatten());
        }
    }
}
