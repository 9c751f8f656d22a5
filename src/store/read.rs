//! Reader: the questions that can be asked of what is committed, and of a transaction, which sees its own writes too.
//! Of a snapshot also its documents can be asked, block by block.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::write::{Transaction, Written};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::metrics::Tally;
use crate::plan::{Candidates, CostModel, Part};
use crate::sketch::Sketch;
use crate::store::blocks::Lists;
use crate::store::file::{
    Counters, KEYS, KnownNames, POSTINGS, ProbeSets, Set, SetRow, Settings, StoredSnapshot, View,
    all_listed, decoded, fingerprint_of, key_row, number_of, permuted, scope_of,
};
use crate::store::numbers::{DocumentNumber, ReadScopes, ScopeNumber};
use crate::store::sorted_set::{Marks, Receiver, Searched, SetReader, read_ranges};

/// Adds ranges of a permuted table, in order.
pub(crate) type AddRanges<'a, T> = &'a mut dyn FnMut(usize, &[Searched<u64, T>]);

/// Reads a file as a snapshot or a transaction sees it.
///
/// Errors are those of the engine, and [`Error::Damaged`](crate::Error::Damaged) if a value does not have
/// its checksum or rows contradict each other. A panic of the engine is an error too.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// What is committed.
    view: &'a View,
    /// The rows and documents that a transaction sees besides the view. A snapshot has none.
    pub(super) written: Option<&'a Written>,
}

impl Transaction {
    /// Reads what is committed and what this transaction has written.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader {
            view: &self.view,
            written: Some(&self.written),
        }
    }
}

impl<'a> Reader<'a> {
    /// Reads what is committed.
    pub(crate) fn new(view: &'a View) -> Self {
        Self {
            view,
            written: None,
        }
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

    pub(super) fn set<R: SetRow>(self, set: Set<R>) -> SetReader<'a, R> {
        let overlay = self.written.map(|written| &written.overlays[set]);
        SetReader {
            overlay,
            ..self.view.set(set)
        }
    }

    /// Gives a receiver the candidates of each probe, and returns the number of segments and blocks that they were in.
    /// `probes` adds ranges of a table, those of one call in order. Who gets the candidates
    /// [counts](Self::count_candidates) them.
    ///
    /// The candidates are all rows in the range that the receiver may need, and perhaps some of their neighbours. They
    /// come in no order. Some may have a fingerprint that has no documents any more, and some may come more than once.
    pub(crate) fn read_probes<T: Copy>(
        self,
        probes: impl FnOnce(AddRanges<'_, T>),
        receiver: impl Receiver<u64, T>,
    ) -> Result<u64> {
        let read = read_ranges(
            Marks::Ignored,
            usize::MAX,
            |ranges| {
                probes(&mut |table, of_table| ranges.add(&self.set(permuted(table)), of_table));
            },
            receiver,
        )?;
        Ok(read.parts)
    }

    pub(crate) fn count_candidates(self, candidates: u64) {
        let cache = &self.view.blocks().cache;
        cache.tallies.add(Tally::Candidates, candidates);
    }

    /// Whether every row of the permuted tables is known to have a document. It is if nothing was deleted,
    /// or if the marks were merged away.
    pub(crate) fn all_rows_have_documents(self) -> bool {
        self.view.is_unmarked() && self.written.is_none()
    }

    /// The probe sets that are known for what is committed. `None` if a transaction reads.
    pub(crate) fn probe_sets(self) -> Option<&'a ProbeSets> {
        match self.written {
            Some(_) => None,
            None => Some(self.view.probe_sets()),
        }
    }

    /// The number of levels, and of runs in memory, that are searched for each fingerprint.
    pub(crate) fn sources(self) -> (usize, usize) {
        let table = self.set(permuted(0));
        (table.set.levels.len(), table.sorted_runs().count())
    }

    /// The bytes of the cache for rows and documents.
    pub(crate) fn cache_bytes(self) -> u64 {
        self.view.blocks().cache.capacity()
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
        let runs = first.sorted_runs().map(|run| run.len() as f64).collect();
        let cache_bytes = self.cache_bytes() as f64;
        Ok(CostModel::stored(
            rows,
            all_shares,
            levels,
            runs,
            cache_bytes,
        ))
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
            None => self
                .view
                .stored_document(number, |stored| Ok(stored.key.to_vec())),
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
            None => self.view.stored_document(number, |stored| {
                let is_wanted = stored.seen >= since && is_wanted(stored.sketch()?.as_ref());
                is_wanted.then(|| stored.to_document()).transpose()
            }),
        }
    }

    /// The sketch of the document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn linked_sketch(self, number: DocumentNumber) -> Result<Option<Sketch>> {
        match self.written_document(number) {
            Some(document) => Ok(document?.sketch().copied()),
            None => self.view.stored_document(number, |stored| stored.sketch()),
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

    /// What was found of scopes and sources since the file was opened.
    pub(super) fn known_names(self) -> &'a Arc<KnownNames> {
        &self.view.state().known
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

    /// The number of the scope of this name, which a stored document has. It is an error if the row of the scope is not
    /// there.
    pub(crate) fn scope_number_of(self, name: &str) -> Result<ScopeNumber> {
        let number = self.scope_number(name)?;
        number.ok_or_else(|| {
            let problem = "it is missing, but a document has this scope";
            Error::damaged("scopes", name, problem)
        })
    }

    /// An estimate of the number of distinct fingerprints. Repetitions and deletions that are not merged
    /// are miscounted, and so are those of a transaction.
    pub(crate) fn fingerprints(self) -> u64 {
        let written = self
            .written
            .map_or(0, |written| written.overlays[permuted(0)].rows());
        self.view.state().sets[permuted(0)].rows_left() + written as u64
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
        if let Some(written) = self.written
            && let Some(number) = written.documents.last_since(last.0, since)
        {
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
}

/// Whole tables and all postings, in parts that fit into memory: for a scan, and for a join of all fingerprints.
impl<'a> Reader<'a> {
    /// All fingerprints, in parts.
    pub(crate) fn scan(self) -> Result<Scan<'a>> {
        let table = self.set(permuted(0));
        Ok(Scan {
            parts: table.parts()?.into_iter(),
            table,
            rows: Lists::default(),
        })
    }

    /// The parts of a table, in order, each of no more than `most` rows. The part `kept` is one of them, if it has
    /// rows.
    pub(crate) fn table_parts(
        self,
        table: usize,
        most: u64,
        kept: Option<Part>,
    ) -> Result<Vec<Part>> {
        cut(
            &self.set(permuted(table)),
            Part::ALL,
            most,
            kept,
            |part: Part| part.first..=part.last(),
        )
    }

    /// The rows of a part of a table, in order.
    pub(crate) fn table_rows(self, table: usize, part: Part) -> Result<Vec<u64>> {
        self.set(permuted(table)).rows(&(part.first..=part.last()))
    }

    /// The parts of all fingerprints, in order, each of no more than `most` postings, unless one fingerprint has more.
    /// The part `kept` is one of them, if it has postings.
    pub(crate) fn posted_parts(self, most: u64, kept: Option<Part>) -> Result<Vec<Part>> {
        cut(&self.set(POSTINGS), Part::ALL, most, kept, postings_of)
    }

    /// The number of different fingerprints of the documents of a part.
    pub(crate) fn posted_fingerprints(self, part: Part) -> Result<u64> {
        if part.bits == 64 {
            // It may be a large group.
            let (puts, marks) = self.set(POSTINGS).puts_and_marks(&postings_of(part))?;
            return Ok(u64::from(puts > marks));
        }
        let rows = self.set(POSTINGS).rows(&postings_of(part))?;
        Ok(rows
            .chunk_by(|&a, &b| fingerprint_of(a) == fingerprint_of(b))
            .count() as u64)
    }

    /// Those fingerprints of a part that several documents of some scopes have, in order.
    pub(crate) fn posted_often(self, part: Part, scopes: &ReadScopes) -> Result<Vec<Fingerprint>> {
        if part.bits == 64 {
            // It may be a large group.
            let fingerprint = Fingerprint::from_bits(part.first);
            let posted = self.posted(&[(fingerprint, scopes.clone())])?;
            let documents: u64 = posted.iter().map(|posted| posted.total).sum();
            return Ok(match documents {
                0 | 1 => Vec::new(),
                _ => vec![fingerprint],
            });
        }
        let rows = self.set(POSTINGS).rows(&postings_of(part))?;
        let listed: Vec<u128> = rows
            .into_iter()
            .filter(|&row| scopes.contains(&scope_of(row)))
            .collect();
        let mut often = Vec::new();
        for group in listed.chunk_by(|&a, &b| fingerprint_of(a) == fingerprint_of(b)) {
            if group.len() > 1 {
                often.push(fingerprint_of(group[0]));
            }
        }
        Ok(often)
    }
}

/// All rows of the first permuted table, in parts.
pub(crate) struct Scan<'a> {
    table: SetReader<'a, u64>,
    parts: std::vec::IntoIter<RangeInclusive<u64>>,
    rows: Lists<u64>,
}

impl Scan<'_> {
    /// Goes on to the next part. False if there is none.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(range) = self.parts.next() else {
            return Ok(false);
        };
        self.table.puts(&range, &mut self.rows)?;
        Ok(true)
    }

    /// The rows of the current part, as candidates.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::new(&self.rows.puts)
    }

    /// The number of blocks of all parts.
    pub(crate) fn blocks(&self) -> u64 {
        let levels = &self.table.set.levels;
        levels.iter().map(|set| set.level.blocks() as u64).sum()
    }
}

fn postings_of(part: Part) -> RangeInclusive<u128> {
    let first = all_listed(Fingerprint::from_bits(part.first));
    let last = all_listed(Fingerprint::from_bits(part.last()));
    *first.start()..=*last.end()
}

/// Halves a part until each has at most `most` rows. `range` has the rows of a part. The part `kept` is cut no further.
/// Parts without rows are left out.
fn cut<R: SetRow>(
    set: &SetReader<'_, R>,
    part: Part,
    most: u64,
    kept: Option<Part>,
    range: impl Fn(Part) -> RangeInclusive<R> + Copy,
) -> Result<Vec<Part>> {
    // What is put more than once, or deleted and not merged, counts as often. So the parts depend on what was merged.
    let rows = set.puts_and_marks(&range(part))?.0;
    if rows == 0 {
        return Ok(Vec::new());
    }
    let is_small = match kept {
        Some(kept) if part.contains(kept) => part == kept,
        _ => rows <= most,
    };
    let Some(halves) = part.halves().filter(|_| !is_small) else {
        return Ok(vec![part]);
    };
    let mut parts = Vec::new();
    for half in halves {
        parts.extend(cut(set, half, most, kept, range)?);
    }
    Ok(parts)
}

/// Documents with their numbers. A damaged document does not hide the others.
type NumberedDocuments = Vec<(DocumentNumber, Result<Document>)>;

impl StoredSnapshot {
    /// Reads what is committed.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(self)
    }

    /// The documents of one block with numbers from `from` on, in order, and the number to go on from.
    /// `None` after the last document.
    pub(crate) fn documents(
        &self,
        from: DocumentNumber,
    ) -> Result<Option<(NumberedDocuments, DocumentNumber)>> {
        let Some((last, live)) = self.stored_documents(from.0)? else {
            return Ok(None);
        };
        let last = DocumentNumber(last);
        let mut documents = Vec::new();
        match live {
            Ok(live) => {
                for stored in live.iter() {
                    documents.push((DocumentNumber(stored.number), decoded(&stored)));
                }
            }
            // The block as a whole counts as one damaged document.
            Err(error) => documents.push((last, Err(error))),
        }
        Ok(Some((documents, last.after(1))))
    }

    /// What `see` makes of the documents of one block whose fingerprints are wanted and whose numbers are `from` or
    /// greater, in order, and the number to go on from. `None` after the last document. `see` is given what `wanted`
    /// makes of the fingerprint. Documents that are not wanted are not decoded.
    pub(crate) fn seen_of_block<W, T>(
        &self,
        from: DocumentNumber,
        wanted: impl Fn(Option<Fingerprint>) -> Option<W>,
        see: impl Fn(W, DocumentNumber, Document) -> Option<T>,
    ) -> Result<Option<(Vec<T>, DocumentNumber)>> {
        let Some((last, live)) = self.stored_documents(from.0)? else {
            return Ok(None);
        };
        let next = DocumentNumber(last).after(1);
        let live = live?;
        // All are looked up before the first is decoded: then a core waits for several looks at memory at once.
        let wanted: Vec<_> = live
            .iter()
            .map(|stored| wanted(stored.fingerprint))
            .collect();
        let mut seen = Vec::new();
        for (stored, wanted) in live.iter().zip(wanted) {
            let Some(wanted) = wanted else { continue };
            let number = DocumentNumber(stored.number);
            seen.extend(see(wanted, number, decoded(&stored)?));
        }
        Ok(Some((seen, next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sizes::Sizes;
    use crate::store::{Patience, Store};

    /// All snapshots share the numbers of scopes that were looked up.
    #[test]
    fn a_snapshot_does_not_know_a_scope_that_came_later() -> Result<()> {
        let store = Store::for_tests(Sizes::default())?;
        let put = |key: &str, scope: &str| -> Result<()> {
            let mut writer = store
                .begin_write(Patience::Endless)?
                .expect("endless patience ends with a turn");
            let document = Document::new(key, Fingerprint::from_bits(1))
                .with_seen(0)
                .with_scope(scope);
            writer.put(&document, None)?;
            writer.commit()
        };
        put("a", "early")?;
        let before = store.begin_read()?;
        put("b", "late")?;
        let after = store.begin_read()?;
        for _ in 0..2 {
            assert!(
                after.reader().scope_number("late")?.is_some()
                    && after.reader().scope_number("early")?.is_some()
            );
            assert!(
                before.reader().scope_number("late")?.is_none()
                    && before.reader().scope_number("early")?.is_some()
            );
            assert!(after.reader().scope_number("never")?.is_none());
        }
        Ok(())
    }
}
