//! Every invariant of the file, as one function.

use std::collections::BTreeSet;
use std::fmt;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::{DocumentNumber, Read, Reader, Store};

/// The report of [`Database::check`](crate::Database::check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of documents that were checked. 0 if damage kept them from being counted.
    pub documents: u64,
    /// The number of distinct fingerprints that were checked. 0 if damage kept them from being counted.
    pub fingerprints: u64,
    /// The problems that were found, up to the first [`MAX_PROBLEMS`](Self::MAX_PROBLEMS).
    pub problems: Vec<Problem>,
    /// The number of all problems, listed or not.
    pub total_problems: u64,
}

impl CheckReport {
    /// The most problems that are listed.
    pub const MAX_PROBLEMS: usize = 100;

    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.total_problems == 0
    }

    fn add(&mut self, table: &'static str, key: impl fmt::Display, problem: impl Into<String>) {
        self.total_problems += 1;
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(Problem { table, key: key.to_string(), problem: problem.into() });
        }
    }

    fn add_difference(&mut self, table: &'static str, what: &str, stored: u64, expected: u64) {
        if stored != expected {
            self.add(table, what, format!("{stored}, where {expected} would be right"));
        }
    }
}

/// Something that is wrong with a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The part of the file in which it is, such as `documents` or `pages`.
    pub table: &'static str,
    /// The key of the row as text, or the name of the count that is wrong, or `-`.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}, key {}: {}", self.table, self.key, self.problem)
    }
}

/// Checks the pages. Then checks that documents and the rows of all sets name each other and nothing
/// else.
pub(super) fn check(store: &Store) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    match store.check_pages() {
        Ok(true) => {}
        Ok(false) => report.add(
            "pages",
            "-",
            "checksums were wrong, or commits were lost, and the last whole commit was restored",
        ),
        Err(error) => _ = report.part("pages", Err::<(), _>(error))?,
    }
    // Damaged pages say nothing of the rows that were on them. Other rows may still be readable.
    let begun = store.begin_read();
    let Some(reader) = report.part("pages", begun)? else { return Ok(report) };
    // Rows are checked from both sides: if every document has its rows, and there are no more rows than
    // documents need, then there is no other row.
    let documents = check_documents(&reader, &mut report);
    let expected = report.part("documents", documents)?.flatten();
    let scopes = check_scopes(&reader, &mut report);
    report.part("scopes", scopes)?;
    check_counts(&reader, expected.as_ref(), &mut report)?;
    Ok(report)
}

impl CheckReport {
    /// What a part of the check found. `None` if damage ended it. The damage is then a problem.
    fn part<T>(&mut self, table: &'static str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Error::Damaged { table, key, problem }) => {
                self.add(table, key, problem);
                Ok(None)
            }
            Err(Error::Corrupted(cause)) => {
                self.add(table, "-", cause.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The counts that follow from the documents.
#[derive(Default)]
struct Expected {
    documents: u64,
    too_short: u64,
    postings: u64,
    last: DocumentNumber,
}

/// Checks the rows of each document. `None` if some documents cannot be read: then the counts are not
/// known.
fn check_documents(reader: &Reader, report: &mut CheckReport) -> Result<Option<Expected>> {
    let mut expected = Expected::default();
    let mut all_read = true;
    let mut from = DocumentNumber::MIN;
    while let Some((block, next)) = reader.documents(from)? {
        from = next;
        for (number, document) in block {
            let Some(document) = report.part("documents", document)? else {
                all_read = false;
                continue;
            };
            expected.documents += 1;
            expected.last = number;
            check_document(reader, number, &document, &mut expected, report)?;
        }
    }
    report.documents = expected.documents;
    Ok(all_read.then_some(expected))
}

fn check_document(
    reader: &Reader,
    number: DocumentNumber,
    document: &Document,
    expected: &mut Expected,
    report: &mut CheckReport,
) -> Result<()> {
    let key = String::from_utf8_lossy(document.key());
    match report.part("keys", reader.find(document.key()))? {
        Some(Some((found, _))) if found != number => report.add("keys", &key, "two documents have this key"),
        Some(None) => report.add("keys", &key, "the row of the document is missing"),
        _ => {}
    }
    let Some(fingerprint) = document.fingerprint() else {
        expected.too_short += 1;
        return Ok(());
    };
    for table in 0..reader.settings().plan.tables().len() {
        let holds = reader.holds(table, fingerprint);
        if report.part("permuted", holds)? == Some(false) {
            report.add("permuted", fingerprint, format!("the row in table {table} is missing"));
        }
    }
    match report.part("scopes", reader.scope_number(document.scope()))? {
        Some(Some(scope)) => {
            for listing in scope.listing() {
                expected.postings += 1;
                let lists = reader.lists(fingerprint, listing, number);
                if report.part("postings", lists)? == Some(false) {
                    report.add("postings", fingerprint, format!("the row of document {key} is missing"));
                }
            }
        }
        Some(None) => report.add("scopes", document.scope(), "the row of the scope is missing"),
        None => {}
    }
    Ok(())
}

fn check_scopes(reader: &Reader, report: &mut CheckReport) -> Result<()> {
    let counters = reader.counters();
    let mut seen = BTreeSet::new();
    let mut damaged = Vec::new();
    reader.scopes(|name, number| match number {
        Ok(number) if !counters.has_given(number) => report.add("scopes", name, "its number was never given"),
        Ok(number) if !seen.insert(number) => report.add("scopes", name, "another scope has its number"),
        Ok(_) => {}
        Err(error) => damaged.push(error),
    })?;
    for error in damaged {
        report.part::<()>("scopes", Err(error))?;
    }
    Ok(())
}

/// Reads all rows of all sets, and compares their numbers with those that follow from the documents.
fn check_counts(reader: &Reader, expected: Option<&Expected>, report: &mut CheckReport) -> Result<()> {
    let keys = reader.count_keys();
    let keys = report.part("keys", keys)?;
    let postings = reader.count_postings();
    let postings = report.part("postings", postings)?;
    let dead = reader.count_dead();
    let dead = report.part("dead", dead)?;
    let fingerprints = postings.as_ref().map(|postings| postings.prefixes);
    report.fingerprints = fingerprints.unwrap_or(0);
    for table in 0..reader.settings().plan.tables().len() {
        let rows = reader.count_permuted(table);
        if let (Some(counts), Some(fingerprints)) = (report.part("permuted", rows)?, fingerprints) {
            report.add_difference("permuted", &format!("rows of table {table}"), counts.rows, fingerprints);
        }
    }
    let Some(expected) = expected else { return Ok(()) };
    let counters = reader.counters();
    for (table, counts, wanted) in
        [("keys", keys, expected.documents), ("postings", postings, expected.postings)]
    {
        let Some(counts) = counts else { continue };
        report.add_difference(table, "rows", counts.rows, wanted);
        report.add_difference(table, "rows as counted by its directories", counts.counted, wanted);
    }
    if let Some((dead, live)) = dead {
        report.add_difference("dead", "rows as counted by its directories", dead.counted, dead.rows);
        report.add_difference("documents", "documents that are not dead", live, expected.documents);
    }
    report.add_difference("meta", "documents", counters.documents, expected.documents);
    report.add_difference("meta", "too_short", counters.too_short, expected.too_short);
    if expected.documents > 0 && !reader.has_numbered(expected.last) {
        report.add("meta", "next_document", "a document has a number that was never given");
    }
    Ok(())
}
