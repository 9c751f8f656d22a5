//! Reader: the questions that can be asked of what is committed, and of a transaction, which sees its own writes too.

use std::ops::Range;
use std::sync::Arc;

use super::postings::{self, Posted, WantedPostings, listed};
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::metrics::Tally;
use crate::plan::{Candidates, CostModel, Probe};
use crate::sketch::Sketch;
use crate::source::Numbers;
use crate::store::file::{
    Counters, KEYS, KnownScopes, POSTINGS, Set, SetRow, Settings, View, Written, key_row,
    missing_scope, number_of, permuted,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{Marks, SetReader, read_ranges};

/// The most scopes of a fingerprint whose postings are read by ranges of their own.
const FEW_SCOPES: usize = 4;

/// Reads a file as a snapshot or a transaction sees it.
///
/// Errors are those of the engine, and [`Error::Damaged`](crate::Error::Damaged) if a value does not have
/// its checksum or rows contradict each other. A panic of the engine is an error too.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// What is committed.
    view: &'a View,
    /// The rows and documents that a transaction sees besides the view. A snapshot has none.
    written: Option<&'a Written>,
}

impl<'a> Reader<'a> {
    /// Reads what is committed.
    pub(crate) fn new(view: &'a View) -> Self {
        Self {
            view,
            written: None,
        }
    }

    /// Reads what is committed and what a transaction has written.
    pub(super) fn with_written(view: &'a View, written: &'a Written) -> Self {
        Self {
            view,
            written: Some(written),
        }
    }

    /// What a transaction has written, if it is one that reads.
    pub(super) fn written(self) -> Option<&'a Written> {
        self.written
    }

    pub(crate) fn counters(self) -> Counters {
        match self.written {
            Some(written) => written.counters,
            None => self.view.state().counters,
        }
    }

    pub(crate) fn settings(self) -> &'a Settings {
        self.view.settings()
    }

    /// A reader of a set.
    pub(super) fn set<R: SetRow>(self, set: Set<R>) -> SetReader<'a, R> {
        let overlay = self.written.map(|written| &written.overlays[set]);
        SetReader {
            overlay,
            ..self.view.set(set)
        }
    }

    /// Calls `each` with the candidates of each probe, and returns the number of blocks that they were in.
    ///
    /// The candidates are all rows in the range of the probe, and perhaps some of their neighbours. Some
    /// may have a fingerprint that has no documents any more, and some may come more than once.
    pub(crate) fn candidates(
        self,
        probes: &[Probe],
        mut each: impl FnMut(&Probe, Candidates<'_>),
    ) -> Result<u64> {
        let ranges = probes.iter().map(|probe| {
            let reader = self.set(permuted(probe.table));
            (reader, probe.first..=probe.last)
        });
        let mut candidates = 0;
        let read = read_ranges(ranges, Marks::Ignored, usize::MAX, |index, puts, _| {
            candidates += puts.len() as u64;
            each(&probes[index], Candidates::new(puts));
        })?;
        self.view
            .blocks()
            .cache
            .tallies
            .add(Tally::Candidates, candidates);
        Ok(read.blocks)
    }

    /// Whether every row of the permuted tables is known to have a document. It is if nothing was deleted,
    /// or if the marks were merged away.
    pub(crate) fn all_rows_have_documents(self) -> bool {
        self.view.is_unmarked() && self.written.is_none()
    }

    /// The number of levels, and of runs in memory, that are searched for each fingerprint.
    pub(crate) fn sources(self) -> (usize, usize) {
        let table = self.set(permuted(0));
        (table.set.levels.len(), table.set.runs().count())
    }

    /// What the cost of a query depends on. With `read`, blocks are read to measure the part of the skew
    /// that the directory does not tell.
    pub(crate) fn cost_model(self, read: bool) -> Result<CostModel> {
        let tables = self.settings().plan.tables().len();
        let first = self.set(permuted(0));
        let rows = self.fingerprints() as f64;
        let mut all_shares = Vec::with_capacity(tables);
        for table in 0..tables {
            all_shares.push(self.set(permuted(table)).shares(read)?);
        }
        let levels = first.set.levels.len();
        let runs = first.set.runs().map(|run| run.len() as f64).collect();
        let cache_bytes = self.view.blocks().cache.capacity() as f64;
        Ok(CostModel::stored(
            rows,
            all_shares,
            levels,
            runs,
            cache_bytes,
        ))
    }

    /// The documents of each wanted fingerprint, in each of its scopes.
    pub(crate) fn posted(self, wanted: &[WantedPostings]) -> Result<Vec<Posted>> {
        postings::posted(self.set(POSTINGS), wanted)
    }

    /// The newest documents of a fingerprint in a scope: at most `limit`, the newest first. All their
    /// numbers are in `numbers`.
    pub(crate) fn newest(
        self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        numbers: Range<DocumentNumber>,
        limit: usize,
    ) -> Result<Vec<DocumentNumber>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let Some(last) = numbers.end.previous() else {
            return Ok(Vec::new());
        };
        let range = listed(fingerprint, scope, numbers.start..=last);
        let rows = self.set(POSTINGS).last(&range, limit)?;
        Ok(rows.into_iter().map(number_of).collect())
    }

    /// The document of a number, if it is the transaction that has put it.
    fn written_document(self, number: DocumentNumber) -> Option<Result<Document>> {
        self.written?.documents.document(number)
    }

    /// The document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn linked_document(self, number: DocumentNumber) -> Result<Document> {
        match self.written_document(number) {
            Some(document) => document,
            None => self.view.document(number),
        }
    }

    /// The key of the document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn linked_key(self, number: DocumentNumber) -> Result<Vec<u8>> {
        match self.written_document(number) {
            Some(document) => Ok(document?.key().to_vec()),
            None => self.view.key(number),
        }
    }

    /// As [`linked_document`](Self::linked_document), if the document was seen at `since` or later and its sketch
    /// is wanted.
    pub(crate) fn linked_if(
        self,
        number: DocumentNumber,
        since: i64,
        is_wanted: impl Fn(Option<&Sketch>) -> bool,
    ) -> Result<Option<Document>> {
        match self.written_document(number) {
            Some(document) => {
                let document = document?;
                let is_wanted = document.seen() >= since && is_wanted(document.sketch());
                Ok(is_wanted.then_some(document))
            }
            None => self.view.document_if(number, |stored| {
                Ok(stored.seen >= since && is_wanted(stored.sketch()?.as_ref()))
            }),
        }
    }

    /// The document of a key, with its number.
    pub(crate) fn find(self, key: &[u8]) -> Result<Option<(DocumentNumber, Document)>> {
        let hash = self.settings().key_hash(key);
        // Most keys that are searched are new.
        if self.set(KEYS).may_have(hash)? {
            self.find_hashed(key, hash)
        } else {
            Ok(None)
        }
    }

    /// The documents of some keys, with their numbers.
    pub(crate) fn find_each<'k>(
        self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
    ) -> Result<Vec<Option<(DocumentNumber, Document)>>> {
        let settings = self.settings();
        let hashes: Vec<u64> = keys.clone().map(|key| settings.key_hash(key)).collect();
        let set = self.set(KEYS);
        // In a loop that does nothing else, the processor waits for the memory of several filters at a time.
        let mut may_have = Vec::with_capacity(hashes.len());
        for &hash in &hashes {
            may_have.push(set.may_have(hash)?);
        }
        let mut found = Vec::with_capacity(hashes.len());
        for (index, key) in keys.enumerate() {
            found.push(match may_have[index] {
                true => self.find_hashed(key, hashes[index])?,
                false => None,
            });
        }
        Ok(found)
    }

    /// The document of a key that has this hash, with its number.
    fn find_hashed(self, key: &[u8], hash: u64) -> Result<Option<(DocumentNumber, Document)>> {
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
    pub(super) fn known_scopes(self) -> &'a Arc<KnownScopes> {
        &self.view.state().known_scopes
    }

    /// The number of a scope, or `None` if no document ever had it.
    pub(crate) fn scope_number(self, name: &str) -> Result<Option<ScopeNumber>> {
        if name.is_empty() {
            return Ok(Some(ScopeNumber::EMPTY));
        }
        if let Some(written) = self.written
            && let Some(&number) = written.scopes.get(name)
        {
            return Ok(Some(number));
        }
        self.view.scope_number(name)
    }

    /// The number of the scope of a stored document. It is an error if the row of the scope is not there.
    pub(crate) fn scope_number_of(self, document: &Document) -> Result<ScopeNumber> {
        self.scope_number(document.scope())?
            .ok_or_else(|| missing_scope(document.scope()))
    }

    /// An estimate of the number of distinct fingerprints. Repetitions and deletions that are not merged
    /// are miscounted.
    pub(crate) fn fingerprints(self) -> u64 {
        let (puts, marks) = self.view.state().sets[permuted(0)].rows();
        puts.saturating_sub(marks)
    }

    /// The first number that a document may have that was seen at `since` or later. `None` if there is no such
    /// document.
    pub(crate) fn first_since(self, since: i64) -> Result<Option<DocumentNumber>> {
        let view = self.view;
        let stored = view
            .state()
            .documents
            .first_since(since, view.document_blocks())?;
        let first = match (stored, self.written) {
            (None, Some(written)) => written.documents.first_since(since),
            (stored, _) => stored,
        };
        Ok(first.map(DocumentNumber))
    }

    /// The last number up to `last` that a document may have that was seen at `since` or later. If it is not
    /// waiting outside memory, there is or was such a document.
    pub(crate) fn last_since(
        self,
        last: DocumentNumber,
        since: i64,
    ) -> Result<Option<DocumentNumber>> {
        let documents = self.written.map(|written| &written.documents);
        if let Some(number) = documents.and_then(|documents| documents.last_since(last.0, since)) {
            return Ok(Some(DocumentNumber(number)));
        }
        let documents = &self.view.state().documents;
        let of = self.view.document_blocks();
        let mut last = last.0;
        while let Some(number) = documents.last_since(last, since, of)? {
            let position = documents.find(number, of)?;
            let Some(entry) = documents.entry(position, of)? else {
                break;
            };
            let block = of.documents(entry)?;
            let recent = (0..block.before(number + 1))
                .rev()
                .find(|&index| block.get(index).seen >= since);
            if let Some(index) = recent {
                return Ok(Some(DocumentNumber(block.get(index).number)));
            }
            // The number lies before all that are recent enough, and perhaps between two blocks.
            let Some(before) = documents.entry_before(position, of)? else {
                break;
            };
            last = before.high;
        }
        Ok(None)
    }

    /// The documents of each wanted fingerprint in each of its scopes, without those whose numbers are below
    /// the number that stands beside it. If a fingerprint has many scopes, some of those are there too.
    pub(crate) fn posted_from(
        self,
        wanted: &[(WantedPostings, DocumentNumber)],
    ) -> Result<Vec<Posted>> {
        let mut ranges = Vec::new();
        let mut of_ranges = Vec::new();
        let mut many = Vec::new();
        let mut of_many = Vec::new();
        for (index, ((fingerprint, scopes), from)) in wanted.iter().enumerate() {
            if scopes.len() > FEW_SCOPES {
                many.push((*fingerprint, scopes.clone()));
                of_many.push(index);
                continue;
            }
            for &scope in &**scopes {
                ranges.push(listed(*fingerprint, scope, *from..=DocumentNumber::MAX));
                of_ranges.push((index, scope));
            }
        }
        let mut all = postings::posted_in(self.set(POSTINGS), &ranges)?;
        for posted in &mut all {
            (posted.index, posted.scope) = of_ranges[posted.index];
        }
        if !many.is_empty() {
            for mut posted in self.posted(&many)? {
                posted.index = of_many[posted.index];
                all.push(posted);
            }
        }
        Ok(all)
    }

    /// The documents of a fingerprint that are not among these numbers.
    pub(crate) fn leave_out(
        self,
        fingerprint: Fingerprint,
        mut posted: Posted,
        ignored: &Numbers,
    ) -> Result<Posted> {
        if let Some(numbers) = &mut posted.numbers {
            numbers.retain(|number| !number.is_among(ignored));
            posted.total = numbers.len() as u64;
            return Ok(posted);
        }
        let mut ranges = Vec::new();
        for range in ignored.ranges() {
            let first = DocumentNumber(range.start);
            let last = DocumentNumber(range.end - 1).min(DocumentNumber::MAX);
            ranges.push(listed(fingerprint, posted.scope, first..=last));
        }
        for left_out in postings::posted_in(self.set(POSTINGS), &ranges)? {
            posted.total = posted.total.saturating_sub(left_out.total);
        }
        Ok(posted)
    }
}
