//! The check of a file that is open: everything but the checksums of the engine's pages.
//!
//! The plain algorithm: for every set, collect the rows that it should have and those that it has, and
//! compare them. Where the code departs from it: a first pass collects products of rows instead of rows
//! (`tally.rs`). Only if products differ does another pass collect rows, of the buckets that differ.
//!
//! Walk: one pass over all documents and all sets, in parts, on all cores. It gives a tally the rows that sets should
//! have and those that they do have. Every block that a directory has is read on the way.
//!
//! The rows that a set should have follow from the documents, as `file/operation.rs` says. Rows that belong
//! to one document follow from the document. Rows that all documents of a fingerprint share follow from the
//! postings, where all documents of a fingerprint stand together.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::mem;
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::report::{CheckReport, Findings};
use super::strays::find_strays;
use super::tally::{self, Products, Tally};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::{Permuted, Table};
use crate::plural::counted;
use crate::store::blocks::{Problem, Row, SetBlocks};
use crate::store::file::{
    Change, DEAD, KEYS, LiveDocuments, Operation, POSTINGS, PerSet, RowFamily, RowSink, Set,
    SetRow, View, all_sets, by_row, damaged_document, give_fingerprint_rows, key_row, number_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::{Level, Life, SetLevel};
use crate::sync::Mutex;

/// The most rows that are collected to find those that differ.
const MOST_COLLECTED: u64 = 2 << 20;

/// Checks that documents and the rows of all sets name each other and nothing else. Damage is a finding,
/// any other error is returned. What is found is added to what was found before.
pub(crate) fn check_rows(
    view: &View,
    mut findings: Findings,
    progress: CheckProgress<'_>,
) -> Result<CheckReport> {
    let tables = view.state().sets.tables();
    let before = findings.total();
    read_directories(view, &mut findings)?;
    if findings.total() > before {
        findings.add(
            "directory",
            "-",
            "without it, the rows and the documents cannot be checked",
        );
        let documents = view.state().counters.documents;
        return Ok(findings.report(documents, 0));
    }
    let mut walk = Walk::new(view, progress)?;
    let (mut products, mut found) = walk.run(&Products::new(tables))?;
    mem::swap(&mut walk.hidden, &mut found.hidden);
    if !walk.hidden.is_empty() {
        // Both sides of the comparison leave out what damaged blocks hide.
        products = walk.run(&products)?.0;
    }
    find_strays(view, &mut findings)?;
    check_scopes(view, &mut findings)?;
    findings.add_failure("sources", view.sources().map(drop))?;
    found.check_keys(view, &mut findings)?;
    if let Some(empty) = products.differing(MOST_COLLECTED) {
        let (collected, _) = walk.run(&empty)?;
        tally::add_differences(view, collected, &mut findings);
    }
    if walk.hidden.is_empty() {
        for set in all_sets(tables) {
            by_row!(set, set => check_directory(view, set, &products, &mut findings));
        }
    }
    if walk.hidden.knows_documents() {
        found.check_counters(view, &mut findings);
    }
    Ok(found.report(findings))
}

fn read_directories(view: &View, findings: &mut Findings) -> Result<()> {
    let state = view.state();
    read_directory(&state.documents, view.document_blocks(), findings)?;
    for set in state.sets.sets() {
        by_row!(set, set => {
            for SetLevel { level, .. } in &state.sets[set].levels {
                let blocks = view.blocks().of_table(set.table());
                read_directory(level, blocks, findings)?;
            }
        });
    }
    Ok(())
}

fn read_directory<R: Row>(
    level: &Level<R>,
    blocks: SetBlocks<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let entries = level.entries(level.all(), blocks);
    findings.add_failure("directory", entries.map(drop))
}

/// Checks that every scope has a number of its own that was given.
fn check_scopes(view: &View, findings: &mut Findings) -> Result<()> {
    let counters = view.state().counters;
    let mut seen = vec![false; counters.next_scope as usize];
    // Number 0 is that of documents without a scope.
    seen[0] = true;
    let mut damaged = Vec::new();
    let read = view.each_scope(|name, number| {
        match number {
            Ok(number) if !counters.has_given(number) => {
                findings.add("scopes", name, "its number was never given");
            }
            Ok(number) if mem::replace(&mut seen[number.0 as usize], true) => {
                findings.add("scopes", name, "another scope has its number");
            }
            Ok(_) => {}
            Err(error) if damaged.len() < CheckReport::MAX_PROBLEMS => damaged.push(error),
            Err(_) => findings.count(1),
        }
        Ok(())
    });
    findings.add_failure("scopes", read)?;
    let lost = seen.iter().filter(|seen| !**seen).count();
    if damaged.is_empty() && lost > 0 {
        findings.add(
            "scopes",
            "-",
            format!(
                "{} had a number given and cannot be found",
                counted(lost, "scope")
            ),
        );
    }
    for error in damaged {
        findings.add_failure("scopes", Err(error))?;
    }
    Ok(())
}

/// Compares the rows of a set with the puts and marks that its directories count. Each mark takes away one
/// put, if rows live once.
fn check_directory<R: SetRow>(
    view: &View,
    set: Set<R>,
    products: &Products,
    findings: &mut Findings,
) {
    if set.rules.life == Life::Once {
        let (puts, marks) = view.state().sets[set].rows();
        let counted = puts.saturating_sub(marks);
        findings.add_difference(
            set.table().name,
            "rows as counted by its directories",
            counted,
            products.stored_rows(set),
        );
    }
}

/// The scopes whose numbers a worker remembers.
const REMEMBERED_SCOPES: usize = 1 << 12;

/// One pass over a file.
struct Walk<'a> {
    view: &'a View,
    parts: Parts,
    /// What an earlier pass found hidden.
    hidden: Hidden,
    ticks: Mutex<Ticks<'a>>,
}

impl<'a> Walk<'a> {
    fn new(view: &'a View, progress: CheckProgress<'a>) -> Result<Self> {
        Ok(Self {
            view,
            parts: Parts::new(view)?,
            hidden: Hidden::nothing(view.state().sets.tables()),
            ticks: Mutex::new(Ticks {
                done: 0,
                all: 0,
                progress,
            }),
        })
    }

    /// Goes through the whole file. Each worker has a tally of its own, of the kind of an empty one.
    fn run<T: Tally>(&self, empty: &T) -> Result<(T, Found)> {
        self.ticks.lock().all += self.parts.len() as u64;
        let next = AtomicUsize::new(0);
        let workers = parallel::map(parallel::cores(), |_| {
            let mut worker = Worker::new(self, empty.emptied());
            let worked = worker.work(&next);
            if worked.is_err() {
                next.store(self.parts.len(), Ordering::Relaxed);
            }
            worked?;
            Ok(worker)
        });
        let mut all = Worker::new(self, empty.emptied());
        for worker in workers.into_iter().collect::<Result<Vec<_>>>()? {
            all.tally.merge(worker.tally);
            all.found.merge(worker.found);
        }
        all.join_ends();
        Ok((all.tally, all.found))
    }
}

/// The first and the last hidden row of a part, or the least and the greatest number of its hidden documents. One span
/// for each part takes a bounded memory, whatever is damaged.
struct Span<R>(Option<(R, R)>);

impl<R: Row> Span<R> {
    fn add(&mut self, first: R, last: R) {
        let before = self.0.unwrap_or((first, last));
        self.0 = Some((before.0.min(first), before.1.max(last)));
    }
}

/// What a worker made of the parts that it took.
struct Worker<'w, 'a, T> {
    walk: &'w Walk<'a>,
    tally: T,
    found: Found,
    scopes: HashMap<String, ScopeNumber>,
}

impl<'w, 'a, T: Tally> Worker<'w, 'a, T> {
    fn new(walk: &'w Walk<'a>, tally: T) -> Self {
        let found = Found::new(walk.view.state().sets.tables());
        Self {
            walk,
            tally,
            found,
            scopes: HashMap::new(),
        }
    }

    /// Takes the rows that a document or a fingerprint puts, as rows that sets should have.
    fn expecting(&mut self) -> Expecting<'_, T> {
        Expecting {
            tally: &mut self.tally,
            hidden: &self.walk.hidden,
        }
    }

    /// Takes parts until there are no more.
    fn work(&mut self, next: &AtomicUsize) -> Result<()> {
        while self.part(next.fetch_add(1, Ordering::Relaxed))? {
            self.walk.ticks.lock().tick()?;
        }
        Ok(())
    }

    /// Goes through a part. False if there is no such part.
    fn part(&mut self, part: usize) -> Result<bool> {
        let parts = &self.walk.parts;
        let Some(mut index) = part.checked_sub(parts.documents.len()) else {
            self.documents(part, &parts.documents[part])?;
            return Ok(true);
        };
        for (set, ranges) in parts.sets.sets().zip(parts.sets.iter()) {
            by_row!(set, ranges, (set, ranges) => {
                if let Some(range) = ranges.get(index) {
                    self.rows(part, set, range)?;
                    return Ok(true);
                }
                index -= ranges.len();
            });
        }
        Ok(false)
    }

    fn documents(&mut self, part: usize, numbers: &RangeInclusive<u64>) -> Result<()> {
        let mut next = *numbers.start();
        let mut hidden = Span(None);
        while next <= *numbers.end() {
            let (last, read) = match self.walk.view.stored_documents(next) {
                Ok(Some(stored)) => stored,
                Ok(None) => break,
                // It is not known which documents are dead.
                Err(error) => (*numbers.end(), Err(error)),
            };
            let read = read.and_then(|block| match block.begins_in_range() {
                true => Ok(block),
                // A search would not find its documents.
                false => Err(damaged_block(
                    last,
                    "it begins before the block before it ends",
                )),
            });
            match read {
                Ok(block) => {
                    // A search by time or by scope could be led past it.
                    if !block.has_its_extent() {
                        let problem =
                            "the directory does not have the times and scopes of its documents";
                        let error = damaged_block(last, problem);
                        self.found.findings.add_error(part, "documents", error)?;
                    }
                    self.block(part, &block, &mut hidden)?;
                }
                Err(error) => {
                    self.found.findings.add_error(part, "documents", error)?;
                    hidden.add(next, last);
                }
            }
            next = last + 1;
        }
        if let Some((first, last)) = hidden.0 {
            self.found.hidden.hide_documents(first, last);
        }
        Ok(())
    }

    fn block(&mut self, part: usize, block: &LiveDocuments, hidden: &mut Span<u64>) -> Result<()> {
        for number in block.dead() {
            let Ok(()) = self.expecting().put(DEAD, number);
        }
        for stored in block.iter() {
            let number = DocumentNumber(stored.number);
            let document = stored
                .to_document()
                .and_then(|document| self.of_the_right_size(document));
            let document = document.map_err(damaged_document(number));
            if let Err(error) = document.and_then(|document| self.document(number, &document)) {
                self.found.findings.add_error(part, "documents", error)?;
                hidden.add(number.0, number.0);
            }
        }
        Ok(())
    }

    /// Refuses a sketch that could not be compared with any other of the file.
    fn of_the_right_size(&self, document: Document) -> Result<Document, &'static str> {
        let size = self.walk.view.settings().sketch_size;
        let is_right = document.sketch().is_none_or(|sketch| sketch.size() == size);
        if is_right {
            Ok(document)
        } else {
            Err("its sketch does not have the size of those of the file")
        }
    }

    /// Expects the rows of a document.
    fn document(&mut self, number: DocumentNumber, document: &Document) -> Result<()> {
        self.found.documents += 1;
        self.found.too_short += u64::from(document.fingerprint().is_none());
        self.found.last_document = self.found.last_document.max(number);
        let scope = match document.fingerprint() {
            Some(_) => self.scope_number(document.scope())?,
            None => ScopeNumber::EMPTY,
        };
        let settings = self.walk.view.settings();
        let operation = Operation::new(Change::Put, number, document, scope, settings);
        let Ok(()) = operation.give_own_rows(&mut self.expecting());
        Ok(())
    }

    fn scope_number(&mut self, name: &str) -> Result<ScopeNumber> {
        if name.is_empty() {
            return Ok(ScopeNumber::EMPTY);
        }
        if let Some(&number) = self.scopes.get(name) {
            return Ok(number);
        }
        let Some(number) = self.walk.view.stored_scope_number(name)? else {
            let problem = "the row of the scope is missing";
            return Err(Error::damaged("scopes", name, problem));
        };
        if self.scopes.len() >= REMEMBERED_SCOPES {
            self.scopes.clear();
        }
        self.scopes.insert(name.to_owned(), number);
        Ok(number)
    }

    fn rows<R: SetRow>(
        &mut self,
        part: usize,
        set: Set<R>,
        range: &RangeInclusive<R>,
    ) -> Result<()> {
        let walk = self.walk;
        let mut hidden = Span(None);
        let findings = &mut self.found.findings;
        let reader = walk.view.set(set);
        let mut rows = reader.inspect(range, &mut |first, last, error| {
            hidden.add(first, last);
            findings.add_error(part, set.table().name, error)
        })?;
        if let Some((first, last)) = hidden.0 {
            self.found.hidden.hide_rows(set, first, last);
        }
        if set.is(KEYS) {
            self.hashes(part, &rows);
        } else if set.is(POSTINGS) {
            self.fingerprints(part, &rows);
        }
        if !walk.hidden.is_empty() {
            let tables = walk.view.settings().plan.tables();
            let table = set.permuted_number().map(|number| &tables[number]);
            rows.retain(|&row| !walk.hidden.hides_stored(set, row, table));
        }
        self.tally.store(set, &rows);
        Ok(())
    }

    /// Notes the hashes that more than one row has.
    fn hashes<R: SetRow>(&mut self, part: usize, rows: &[R]) {
        self.found.key_ends.extend(ends(part, rows));
        for pair in rows.windows(2) {
            if pair[0].prefix() == pair[1].prefix() {
                self.found.repeat(pair[0].prefix());
            }
        }
    }

    /// Expects the rows of all fingerprints but the first. The part before may have the first too.
    fn fingerprints<R: SetRow>(&mut self, part: usize, rows: &[R]) {
        self.found.posting_ends.extend(ends(part, rows));
        for pair in rows.windows(2) {
            if pair[0].prefix() != pair[1].prefix() {
                self.fingerprint(pair[1].prefix());
            }
        }
    }

    /// Expects the rows of a fingerprint.
    fn fingerprint(&mut self, bits: u64) {
        let walk = self.walk;
        self.found.fingerprints += 1;
        let fingerprint = Fingerprint::from_bits(bits);
        if walk.hidden.is_empty() || !walk.hidden.hides_fingerprint(fingerprint) {
            let plan = &walk.view.settings().plan;
            let Ok(()) = give_fingerprint_rows(true, fingerprint, plan, &mut self.expecting());
        }
    }

    /// Does what could not be done while the parts before were not known.
    fn join_ends(&mut self) {
        let mut last = None;
        for (_, first, end) in sorted(&mut self.found.posting_ends) {
            if last.replace(end) != Some(first) {
                self.fingerprint(first);
            }
        }
        let mut last = None;
        for (_, first, end) in sorted(&mut self.found.key_ends) {
            if last.replace(end) == Some(first) {
                self.found.repeat(first);
            }
        }
    }
}

/// Passes on the rows that a document or a fingerprint puts, as rows that sets should have.
struct Expecting<'t, T> {
    tally: &'t mut T,
    hidden: &'t Hidden,
}

impl<T: Tally> RowSink for Expecting<'_, T> {
    type Error = Infallible;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error> {
        if self.hidden.is_empty() || !self.hidden.hides_row(set, row) {
            self.tally.expect(set, row);
        }
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, _: Set<R>, _: R) -> Result<(), Self::Error> {
        unreachable!("a document that is there marks nothing")
    }
}

/// The prefixes of the first and the last row of a part, if it has rows.
fn ends<R: SetRow>(part: usize, rows: &[R]) -> Option<PartEnds> {
    Some((part, rows.first()?.prefix(), rows.last()?.prefix()))
}

/// Takes the ends of all parts, in order.
fn sorted(ends: &mut Vec<PartEnds>) -> Vec<PartEnds> {
    let mut ends = mem::take(ends);
    ends.sort_unstable();
    ends
}

fn damaged_block(last: u64, problem: Problem) -> Error {
    Error::damaged("documents", &format!("block up to {last}"), problem)
}

/// The repeated hashes of keys that are remembered. They are rare, since the hash is seeded.
const MOST_REPEATED: usize = 1 << 12;
/// The most documents with the same hash of their keys whose keys are compared.
const MOST_COMPARED: usize = 1 << 12;

/// What a pass found besides the rows.
struct Found {
    documents: u64,
    /// The number of distinct fingerprints of the postings.
    fingerprints: u64,
    findings: Findings,
    /// What damaged blocks hide.
    hidden: Hidden,
    too_short: u64,
    last_document: DocumentNumber,
    /// Hashes that more than one row of the keys has, and whether there are too many to remember.
    repeated: Vec<u64>,
    too_many_repeated: bool,
    /// The first and the last hash or fingerprint of each part of the keys and of the postings.
    key_ends: Vec<PartEnds>,
    posting_ends: Vec<PartEnds>,
}

/// The index of a part, and the prefixes of its first and its last row.
type PartEnds = (usize, u64, u64);

impl Found {
    fn new(tables: usize) -> Self {
        Self {
            documents: 0,
            fingerprints: 0,
            findings: Findings::default(),
            hidden: Hidden::nothing(tables),
            too_short: 0,
            last_document: DocumentNumber::MIN,
            repeated: Vec::new(),
            too_many_repeated: false,
            key_ends: Vec::new(),
            posting_ends: Vec::new(),
        }
    }

    /// Remembers a hash that more than one row of the keys has.
    fn repeat(&mut self, hash: u64) {
        if self.repeated.last() == Some(&hash) {
            return;
        }
        if self.repeated.len() < MOST_REPEATED {
            self.repeated.push(hash);
        } else {
            self.too_many_repeated = true;
        }
    }

    fn merge(&mut self, other: Self) {
        self.findings.merge(other.findings);
        self.documents += other.documents;
        self.fingerprints += other.fingerprints;
        self.hidden.merge(other.hidden);
        self.too_short += other.too_short;
        self.last_document = self.last_document.max(other.last_document);
        for hash in other.repeated {
            self.repeat(hash);
        }
        self.too_many_repeated |= other.too_many_repeated;
        self.key_ends.extend(other.key_ends);
        self.posting_ends.extend(other.posting_ends);
    }

    /// Compares the keys of documents whose hashes are equal.
    fn check_keys(&self, view: &View, findings: &mut Findings) -> Result<()> {
        if self.too_many_repeated {
            findings.add(
                "keys",
                "-",
                "very many hashes occur twice, so not all keys were compared",
            );
        }
        for &hash in &self.repeated {
            let range = key_row(hash, DocumentNumber::MIN)..=key_row(hash, DocumentNumber::MAX);
            let Some(rows) = readable(view.set(KEYS).last(&range, MOST_COMPARED))? else {
                continue;
            };
            if rows.len() == MOST_COMPARED {
                findings.add(
                    "keys",
                    format!("{hash:016x}"),
                    "very many documents have this hash of their keys",
                );
            }
            let mut keys = BTreeSet::new();
            for row in rows {
                let Some(document) = readable(view.document(number_of(row)))? else {
                    continue;
                };
                if !keys.insert(document.key().to_vec()) {
                    findings.add(
                        "keys",
                        String::from_utf8_lossy(document.key()),
                        "two documents have this key",
                    );
                }
            }
        }
        Ok(())
    }

    /// The report with these findings, and those of this pass in their order.
    fn report(self, mut findings: Findings) -> CheckReport {
        findings.merge(self.findings);
        findings.report(self.documents, self.fingerprints)
    }

    /// Compares the counters with what was counted.
    fn check_counters(&self, view: &View, findings: &mut Findings) {
        let counters = view.state().counters;
        findings.add_difference("meta", "documents", counters.documents, self.documents);
        findings.add_difference("meta", "too_short", counters.too_short, self.too_short);
        if self.documents > 0 && self.last_document.0 >= counters.next_document {
            findings.add(
                "meta",
                "next_document",
                "a document has a number that was never given",
            );
        }
    }
}

/// What was read. `None` if damage kept it from being read. That was found before.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Damaged { .. } | Error::Corrupted(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Called with the number of parts of the file that were checked, and the number of all parts. When it breaks,
/// the check ends.
pub(crate) type CheckProgress<'a> = &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send);

/// The blocks of rows, and the blocks of documents, of a part.
const BLOCKS_OF_ROWS: usize = 16;
const BLOCKS_OF_DOCUMENTS: usize = 64;

struct Parts {
    /// Numbers of documents.
    documents: Vec<RangeInclusive<u64>>,
    sets: PerSet<PartsFamily>,
}

struct PartsFamily;

impl RowFamily for PartsFamily {
    type Of<R: SetRow> = Vec<RangeInclusive<R>>;
}

impl Parts {
    fn new(view: &View) -> Result<Self> {
        let directory = &view.state().documents;
        let entries = directory.entries(directory.all(), view.document_blocks())?;
        let entries = entries.skip(BLOCKS_OF_DOCUMENTS - 1);
        let ends = entries.step_by(BLOCKS_OF_DOCUMENTS).map(|entry| entry.high);
        let mut documents = Vec::new();
        let mut first = 0;
        for end in ends.chain(directory.high()) {
            if first <= end {
                documents.push(first..=end);
            }
            first = end + 1;
        }
        let sets = all_sets(view.state().sets.tables())
            .map(|set| Ok(by_row!(set, set => keep view.set(set).even_parts(BLOCKS_OF_ROWS)?)))
            .collect::<Result<_>>()?;
        Ok(Self { documents, sets })
    }

    /// The number of all parts.
    fn len(&self) -> usize {
        let mut parts = self.documents.len();
        for ranges in self.sets.iter() {
            parts += by_row!(ranges, ranges => ranges.len());
        }
        parts
    }
}

/// Reports to a caller how many parts are done.
struct Ticks<'a> {
    done: u64,
    all: u64,
    progress: CheckProgress<'a>,
}

impl Ticks<'_> {
    /// One more part is done. It is an error if the caller wants no more.
    fn tick(&mut self) -> Result<()> {
        self.done += 1;
        Error::if_broken((self.progress)(self.done, self.all))
    }
}

// Hidden: the rows and documents that damaged blocks hide. Both sides of the comparison leave out what
// follows from them. So a damaged block is one finding, and everything else is still compared.

/// The rows and documents that nobody knows.
struct Hidden {
    rows: PerSet<RangesFamily>,
    /// The numbers of documents.
    numbers: Ranges<u64>,
    is_empty: bool,
}

struct RangesFamily;

impl RowFamily for RangesFamily {
    type Of<R: SetRow> = Ranges<R>;
}

/// First and last rows.
struct Ranges<R>(Vec<(R, R)>);

impl<R: Row> Ranges<R> {
    /// Adds others, puts all in order, and joins those that overlap.
    fn merge(&mut self, others: Self) {
        self.0.extend(others.0);
        self.0.sort_unstable();
        self.0.dedup_by(|next, before| {
            let joined = next.0 <= before.1;
            if joined {
                before.1 = before.1.max(next.1);
            }
            joined
        });
    }

    /// Whether a range has one of the rows from `first` to `last`. The ranges must be in order.
    fn touches(&self, first: R, last: R) -> bool {
        let next = self.0.partition_point(|range| range.1 < first);
        self.0.get(next).is_some_and(|range| range.0 <= last)
    }
}

impl Hidden {
    /// Nothing is hidden.
    fn nothing(tables: usize) -> Self {
        let rows = all_sets(tables)
            .map(|set| by_row!(set, _ => keep Ranges(Vec::new())))
            .collect();
        Self {
            rows,
            numbers: Ranges(Vec::new()),
            is_empty: true,
        }
    }

    fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether every document is known.
    fn knows_documents(&self) -> bool {
        self.numbers.0.is_empty()
    }

    fn hide_rows<R: SetRow>(&mut self, set: Set<R>, first: R, last: R) {
        self.rows[set].0.push((first, last));
        self.is_empty = false;
    }

    fn hide_documents(&mut self, first: u64, last: u64) {
        self.numbers.0.push((first, last));
        self.is_empty = false;
    }

    /// Hides also what others hide, and puts all ranges in order, for questions.
    fn merge(&mut self, other: Self) {
        for (rows, others) in self.rows.iter_mut().zip(other.rows) {
            by_row!(rows, others, (rows, others) => rows.merge(others));
        }
        self.numbers.merge(other.numbers);
        self.is_empty &= other.is_empty;
    }

    /// Whether it is not known if a set has a row.
    fn hides_row<R: SetRow>(&self, set: Set<R>, row: R) -> bool {
        self.rows[set].touches(row, row)
    }

    /// Whether it is not known if a fingerprint has documents.
    fn hides_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        let bits = fingerprint.bits();
        let first = [ScopeNumber::EMPTY.0.into(), DocumentNumber::MIN.0];
        let last = [ScopeNumber::ANY.0.into(), DocumentNumber::MAX.0];
        let first = u128::join(bits, first);
        let last = u128::join(bits, last);
        self.rows[POSTINGS].touches(first, last)
    }

    /// Whether it is not known if a row that a set has is right. `table` is given if the set is a
    /// permuted one.
    fn hides_stored<R: SetRow>(&self, set: Set<R>, row: R, table: Option<&Table>) -> bool {
        let number = number_of(row.number()).0;
        self.hides_row(set, row)
            // Rows that live once have the number of a document.
            || set.rules.life == Life::Once && self.numbers.touches(number, number)
            || table.is_some_and(|table| {
                self.hides_fingerprint(table.invert(Permuted::from_bits(row.prefix())))
            })
    }
}
