//! Every invariant of the file, as one function.

use std::fmt;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::{DocumentNumber, Read, Reader, ScopeNumber, Store};

/// What [`Database::check`](crate::Database::check) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// How many documents were checked.
    pub documents: u64,
    /// How many distinct fingerprints were checked.
    pub fingerprints: u64,
    /// What is wrong, up to the first [`MAX_PROBLEMS`](Self::MAX_PROBLEMS).
    pub problems: Vec<Problem>,
    /// How many problems there are in all.
    pub total_problems: u64,
}

impl CheckReport {
    /// How many problems are listed at most.
    pub const MAX_PROBLEMS: usize = 100;

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.total_problems == 0
    }

    fn add(&mut self, table: &'static str, key: impl fmt::Display, problem: impl Into<String>) {
        self.total_problems += 1;
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(Problem { table, key: key.to_string(), problem: problem.into() });
        }
    }

    fn add_difference(&mut self, table: &'static str, what: &str, stored: u64, right: u64) {
        if stored != right {
            self.add(table, what, format!("{stored}, where {right} would be right"));
        }
    }
}

/// Something that is wrong with a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The table in which it is.
    pub table: &'static str,
    /// The key of the row, as text.
    pub key: String,
    /// What is wrong there.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}, key {}: {}", self.table, self.key, self.problem)
    }
}

/// Checks the pages, then that documents and the tables that lead to them name each other and nothing else.
pub(super) fn check(store: &Store) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    match store.check_pages() {
        Ok(true) => {}
        Ok(false) => report.add("pages", "-", "checksums were wrong, and the last whole commit was restored"),
        Err(Error::Corrupted(error)) => {
            report.add("pages", "-", error.to_string());
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    let reader = store.begin_read()?;
    // Rows are counted from both sides: if every document has its rows, and there are no more rows than
    // documents, then there is no other row.
    let right = check_documents(&reader, &mut report)?;
    check_totals(&reader, &right, &mut report)?;
    let counts = reader.row_counts()?;
    report.add_difference("keys", "rows", counts.keys, right.documents);
    report.add_difference("postings", "rows", counts.postings, right.documents - right.too_short);
    for (table, &rows) in counts.permuted.iter().enumerate() {
        report.add_difference("permuted", &format!("rows of table {table}"), rows, report.fingerprints);
    }
    let counters = reader.counters()?;
    report.add_difference("meta", "documents", counters.documents, right.documents);
    report.add_difference("meta", "too_short", counters.too_short, right.too_short);
    Ok(report)
}

/// What the documents say there must be.
#[derive(Default)]
struct Right {
    documents: u64,
    too_short: u64,
}

fn check_documents(reader: &Reader, report: &mut CheckReport) -> Result<Right> {
    let mut right = Right::default();
    let mut from = DocumentNumber::MIN;
    loop {
        let page = match reader.documents(from, 256) {
            Ok(page) => page,
            Err(Error::Damaged { table, key, problem }) => {
                // A record that does not decode ends the walk: what it should have had cannot be known.
                report.add(table, key, problem);
                return Ok(right);
            }
            Err(error) => return Err(error),
        };
        let Some(&(last, _)) = page.last() else { break };
        from = last.next();
        for (number, document) in page {
            right.documents += 1;
            right.too_short += u64::from(document.fingerprint().is_none());
            check_document(reader, number, &document, report)?;
        }
    }
    report.documents = right.documents;
    Ok(right)
}

fn check_document(
    reader: &Reader,
    number: DocumentNumber,
    document: &Document,
    report: &mut CheckReport,
) -> Result<()> {
    let key = String::from_utf8_lossy(document.key()).into_owned();
    match reader.find(document.key()) {
        Ok(Some((found, _))) if found == number => {}
        Ok(Some(_)) => report.add("keys", &key, "two documents have this key"),
        Ok(None) => report.add("keys", &key, "the row of the document is missing"),
        Err(Error::Damaged { table, key, problem }) => report.add(table, key, problem),
        Err(error) => return Err(error),
    }
    let Some(fingerprint) = document.fingerprint() else { return Ok(()) };
    match reader.scope_number(document.scope()) {
        Ok(Some(scope)) => {
            if reader.count_postings(fingerprint, scope, number..=number)? != 1 {
                report.add("postings", fingerprint, format!("the row of document {key} is missing"));
            }
        }
        Ok(None) => report.add("scopes", document.scope(), "the row of the scope is missing"),
        Err(Error::Damaged { table, key, problem }) => report.add(table, key, problem),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn check_totals(reader: &Reader, right: &Right, report: &mut CheckReport) -> Result<()> {
    let tables = reader.settings().plan.tables().len();
    let mut previous: Option<Fingerprint> = None;
    let mut sum = 0;
    reader.scan(|fingerprint, scope: ScopeNumber, total| {
        sum += total;
        let all = DocumentNumber::MIN..=DocumentNumber::MAX;
        let postings = reader.count_postings(fingerprint, scope, all)?;
        report.add_difference("totals", &fingerprint.to_string(), total, postings);
        if previous.replace(fingerprint) == Some(fingerprint) {
            return Ok(());
        }
        report.fingerprints += 1;
        for table in 0..tables {
            if !reader.holds(table, fingerprint)? {
                report.add("permuted", fingerprint, format!("the row in table {table} is missing"));
            }
        }
        Ok(())
    })?;
    report.add_difference("totals", "sum", sum, right.documents - right.too_short);
    Ok(())
}
