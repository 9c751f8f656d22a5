//! Read: reading, the same for a snapshot and for a transaction, which sees its own writes too.

use std::ops::Range;
use std::sync::Arc;

use super::postings::{self, Posted, WantedPostings, listed};
use super::scan::Scan;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::metrics::Tally;
use crate::plan::{Candidates, CostModel, Probe, Work};
use crate::sketch::Sketch;
use crate::store::file::{
    Counters, KEYS, KnownScopes, POSTINGS, Set, SetRow, Settings, View, Written, key_row,
    missing_scope, number_of, permuted,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{SetReader, Wanted, read_puts, shares};

/// Everything that can be asked of a file.
///
/// Errors are those of the engine, and [`Error::Damaged`](crate::Error::Damaged) if a value does not have
/// its checksum or rows contradict each other. A panic of the engine is an error too.
pub(crate) trait Read: Sync {
    /// What is committed.
    fn view(&self) -> &View;

    /// The rows and documents that a transaction sees besides the view. A snapshot has none.
    fn written(&self) -> Option<&Written>;

    fn counters(&self) -> Counters;

    fn settings(&self) -> &Settings {
        self.view().settings()
    }

    /// A reader of a set.
    fn set<R: SetRow>(&self, set: Set<R>) -> SetReader<'_, R> {
        let overlay = self.written().map(|written| &written.overlays[set]);
        SetReader {
            overlay,
            ..self.view().set(set)
        }
    }

    /// Calls `each` with the candidates of each probe, and returns the number of blocks that they were in.
    ///
    /// The candidates are all rows in the range of the probe, and perhaps some of their neighbours. Some
    /// may have a fingerprint that has no documents any more, and some may come more than once.
    fn candidates(
        &self,
        probes: &[Probe],
        mut each: impl FnMut(&Probe, Candidates<'_>),
    ) -> Result<u64> {
        let ranges = probes.iter().map(|probe| Wanted {
            reader: self.set(permuted(probe.table)),
            first: probe.first,
            last: probe.last,
        });
        let mut met = 0;
        let read = read_puts(ranges, usize::MAX, |index, puts| {
            met += puts.len() as u64;
            each(&probes[index], Candidates::new(puts));
        })?;
        self.view()
            .blocks()
            .cache
            .tallies
            .add(Tally::Candidates, met);
        Ok(read.blocks)
    }

    /// All fingerprints, in parts.
    fn scan(&self) -> Result<Scan<'_>> {
        Scan::new(self.set(permuted(0)))
    }

    /// Whether every row of the permuted tables is known to have a document. It is if nothing was deleted,
    /// or if the marks were merged away.
    fn all_rows_have_documents(&self) -> bool {
        self.view().is_unmarked() && self.written().is_none()
    }

    /// The number of levels, and of runs in memory, that are searched for each fingerprint.
    fn sources(&self) -> (usize, usize) {
        let table = self.set(permuted(0));
        (table.set.levels.len(), table.memory_runs().count())
    }

    /// What the cost of a query depends on. With `read`, blocks are read to measure the part of the skew
    /// that the directory does not tell.
    fn cost_model(&self, read: bool) -> Result<CostModel> {
        let tables = self.settings().plan.tables().len();
        let first = self.set(permuted(0));
        let rows = self.fingerprints() as f64;
        let shares = (0..tables)
            .map(|table| shares(&self.set(permuted(table)), read))
            .collect::<Result<_>>()?;
        let cache = self.view().blocks().cache.capacity() as f64;
        let cached = (cache / (rows * 8.0 * tables as f64)).min(1.0);
        let levels = first.set.levels.len() as f64;
        let runs = first.memory_runs().map(|run| run.len() as f64).collect();
        Ok(CostModel {
            work: Work::Query,
            rows,
            tables: tables as f64,
            levels,
            runs,
            cached,
            shares,
        })
    }

    /// The documents of each wanted fingerprint, in each of its scopes.
    fn posted(&self, wanted: &[WantedPostings]) -> Result<Vec<Posted>> {
        postings::posted(|| self.set(POSTINGS), wanted)
    }

    /// The newest documents of a fingerprint in a scope: at most `limit`, the newest first. All their
    /// numbers are in `numbers`.
    fn newest(
        &self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        numbers: Range<DocumentNumber>,
        limit: usize,
    ) -> Result<Vec<DocumentNumber>> {
        let last = numbers.end.previous().filter(|_| !numbers.is_empty());
        let Some(last) = last else {
            return Ok(Vec::new());
        };
        let range = listed(fingerprint, scope, numbers.start..=last);
        let rows = self.set(POSTINGS).last(&range, limit)?;
        Ok(rows.into_iter().map(number_of).collect())
    }

    /// The document of a number that a row has. It is an error if the document is not there.
    fn linked_document(&self, number: DocumentNumber) -> Result<Document> {
        match self
            .written()
            .and_then(|written| written.documents.document(number))
        {
            Some(document) => document,
            None => self.view().document(number),
        }
    }

    /// The key of the document of a number that a row has. It is an error if the document is not there.
    fn linked_key(&self, number: DocumentNumber) -> Result<Vec<u8>> {
        match self
            .written()
            .and_then(|written| written.documents.document(number))
        {
            Some(document) => Ok(document?.key().to_vec()),
            None => self.view().key(number),
        }
    }

    /// As [`linked_document`](Self::linked_document), if the document was seen at `since` or later and its sketch
    /// is wanted.
    fn linked_if(
        &self,
        number: DocumentNumber,
        since: i64,
        is_wanted: impl Fn(Option<&Sketch>) -> bool,
    ) -> Result<Option<Document>> {
        match self
            .written()
            .and_then(|written| written.documents.document(number))
        {
            Some(document) => {
                Ok(Some(document?).filter(|it| it.seen() >= since && is_wanted(it.sketch())))
            }
            None => self.view().document_if(number, |stored| {
                Ok(stored.seen >= since && is_wanted(stored.sketch()?.as_ref()))
            }),
        }
    }

    /// The document of a key, with its number.
    fn find(&self, key: &[u8]) -> Result<Option<(DocumentNumber, Document)>> {
        let hash = self.settings().key_hash(key);
        // Most keys that are searched are new.
        if self.set(KEYS).may_have(hash)? {
            self.find_hashed(key, hash)
        } else {
            Ok(None)
        }
    }

    /// The documents of some keys, with their numbers.
    fn find_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<(DocumentNumber, Document)>>> {
        let hashes: Vec<u64> = keys
            .clone()
            .map(|key| self.settings().key_hash(key))
            .collect();
        let set = self.set(KEYS);
        // In a loop that does nothing else, the processor waits for the memory of several filters at a time.
        let may_have = hashes
            .iter()
            .map(|&hash| set.may_have(hash))
            .collect::<Result<Vec<bool>>>()?;
        let find = |((key, &hash), &may_have)| {
            if may_have {
                self.find_hashed(key, hash)
            } else {
                Ok(None)
            }
        };
        keys.zip(&hashes).zip(&may_have).map(find).collect()
    }

    /// The document of a key that has this hash, with its number.
    fn find_hashed(&self, key: &[u8], hash: u64) -> Result<Option<(DocumentNumber, Document)>> {
        let keys = self.set(KEYS);
        let range = key_row(hash, DocumentNumber::MIN)..=key_row(hash, DocumentNumber::MAX);
        for row in keys.last(&range, usize::MAX)? {
            let document = self.linked_document(number_of(row))?;
            if document.key() == key {
                return Ok(Some((number_of(row), document)));
            }
        }
        Ok(None)
    }

    /// Scopes whose numbers were looked up since the file was opened.
    fn known_scopes(&self) -> &Arc<KnownScopes> {
        &self.view().state().known_scopes
    }

    /// The number of a scope, or `None` if no document ever had it.
    fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        if name.is_empty() {
            return Ok(Some(ScopeNumber::EMPTY));
        }
        match self.written().and_then(|written| written.scopes.get(name)) {
            Some(&number) => Ok(Some(number)),
            None => self.view().scope_number(name),
        }
    }

    /// The number of the scope of a stored document. It is an error if the row of the scope is not there.
    fn scope_number_of(&self, document: &Document) -> Result<ScopeNumber> {
        self.scope_number(document.scope())?
            .ok_or_else(|| missing_scope(document.scope()))
    }

    /// An estimate of the number of distinct fingerprints. Repetitions and deletions that are not merged
    /// are miscounted.
    fn fingerprints(&self) -> u64 {
        let (puts, marks) = self.view().state().sets[permuted(0)].rows();
        puts.saturating_sub(marks)
    }
}

impl Read for View {
    fn view(&self) -> &View {
        self
    }

    fn written(&self) -> Option<&Written> {
        None
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }
}
