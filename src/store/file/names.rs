//! Names: the scopes and the sources of a commit, which are found by their names. The state has the sum of all
//! records, so that lost and old ones are noticed. Before a name is said not to be there, all records are compared with
//! the sum, each with its name, and each is found by its name.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::fast::RandomState;

use super::meta::Counters;
use super::state::Edit;
use super::view::View;
use crate::error::{Error, Result};
use crate::planted::planted;
use crate::source::{Source, SourceRecord};
use crate::store::blocks::{
    Fields, FileSeed, Kind, Problem, decode_short, encode_short, seal, share_of_sum, unseal,
};
use crate::store::numbers::ScopeNumber;
use crate::sync::RwLock;

/// What is wrong with a name that a walk comes by, and a search does not find.
const NOT_FOUND: &str = "it is there, but is not found by its name";

/// The most scopes that are remembered. With names of 30 bytes they take 6 MB.
const MOST: usize = 1 << 16;

/// What was found of scopes and sources since the file was opened. All views of a file share it.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    /// The numbers of committed scopes. A scope never gets another number.
    scopes: RwLock<HashMap<Box<str>, ScopeNumber, RandomState>>,
    /// Whether the scopes were compared with their sum.
    scopes_are_whole: AtomicBool,
    /// Whether the sources were compared with their sum.
    sources_are_whole: AtomicBool,
}

impl KnownNames {
    fn get(&self, name: &str) -> Option<ScopeNumber> {
        self.scopes.read().get(name).copied()
    }

    /// Remembers a scope of a commit, if there is room.
    fn add(&self, name: &str, number: ScopeNumber) {
        let mut scopes = self.scopes.write();
        if scopes.len() < MOST {
            scopes.insert(name.into(), number);
        }
    }
}

impl View {
    /// The number of a scope. `None` if no document ever had it.
    pub(crate) fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        if let Some(number) = self.state().known.get(name) {
            // A later commit may have looked it up.
            let is_given = self.state().counters.has_given(number)
                || planted("a snapshot knows a scope of a later commit");
            return Ok(Some(number).filter(|_| is_given));
        }
        let number = self.stored_scope_number(name)?;
        if let Some(number) = number {
            self.state().known.add(name, number);
        }
        Ok(number)
    }

    /// As [`scope_number`](Self::scope_number), but the file is read.
    pub(crate) fn stored_scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        match self.tables().scope(name)? {
            Some(record) => decode_scope(self.settings().file, name, &record).map(Some),
            None => {
                self.ensure_whole_scopes(name)?;
                Ok(None)
            }
        }
    }

    /// Refuses to say that a scope is not there, if not all scopes are there. A page of an earlier commit
    /// would not have the newest. After the first time, this does nothing.
    fn ensure_whole_scopes(&self, name: &str) -> Result<()> {
        if self.state().known.scopes_are_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut sum = 0u64;
        self.tables().scopes(|name, record| {
            decode_scope(self.settings().file, name, record)?;
            if self.tables().scope(name)?.as_deref() != Some(record) {
                return Err(Error::damaged("scopes", name, NOT_FOUND));
            }
            sum = sum.wrapping_add(share_of_sum([record]));
            Ok(())
        })?;
        if sum != self.state().scopes_sum {
            let problem = "the scopes that are there are not those of the last commit";
            return Err(Error::damaged("scopes", name, problem));
        }
        self.state()
            .known
            .scopes_are_whole
            .store(true, Ordering::Relaxed);
        Ok(())
    }

    /// All scopes that have a name, with their numbers.
    pub(crate) fn all_scopes(&self) -> Result<BTreeMap<String, ScopeNumber>> {
        self.ensure_whole_scopes("-")?;
        let mut scopes = BTreeMap::new();
        self.each_scope(|name, number| {
            scopes.insert(name.to_owned(), number?);
            Ok(())
        })?;
        Ok(scopes)
    }

    /// Calls `each` with the name and the number of every scope, as far as its record can be read.
    pub(crate) fn each_scope(
        &self,
        mut each: impl FnMut(&str, Result<ScopeNumber>) -> Result<()>,
    ) -> Result<()> {
        let file = self.settings().file;
        self.tables()
            .scopes(|name, record| each(name, decode_scope(file, name, record)))
    }
}

impl Edit {
    pub(crate) fn add_scopes(&mut self, scopes: BTreeMap<String, ScopeNumber>) {
        for (name, number) in scopes {
            let record = seal(Kind::Scope, self.file(), name.as_bytes(), |bytes| {
                bytes.extend(number.0.to_le_bytes());
            });
            let share = share_of_sum([record.as_slice()]);
            self.state.scopes_sum = self.state.scopes_sum.wrapping_add(share);
            self.changes.scopes.push((name, record));
        }
    }

    pub(crate) fn put_sources(&mut self, SourceRows { rows, sum_change }: SourceRows) {
        if !rows.is_empty() {
            self.state.sources_sum = self.state.sources_sum.wrapping_add(sum_change);
            self.state.source_commits += 1;
            self.changes.sources.extend(rows);
        }
    }
}

/// The number in the record of a scope.
pub(super) fn decode_scope(file: FileSeed, name: &str, bytes: &[u8]) -> Result<ScopeNumber> {
    let number = unseal(Kind::Scope, file, name.as_bytes(), bytes).and_then(|body| {
        let mut fields = Fields(body);
        let number = ScopeNumber(u32::from_le_bytes(fields.take()?));
        fields.finish()?;
        Ok(number)
    });
    number.map_err(|problem| Error::damaged("scopes", name, problem))
}

/// Changed sources by their names. `None` stands for a source that is forgotten.
type ChangedSources = BTreeMap<Vec<u8>, Option<SourceRecord>>;

/// The rows of changed sources, and what they change in the sum of all.
pub(crate) struct SourceRows {
    rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    sum_change: u64,
}

impl SourceRows {
    /// The rows of sources that change what `view` has, for the file with this seed.
    pub(crate) fn new(changed: ChangedSources, view: &View) -> Result<Self> {
        let file = view.settings().file;
        let mut rows = Vec::with_capacity(changed.len());
        let mut sum_change = 0u64;
        for (name, record) in changed {
            let old = view.tables().source(&name)?;
            sum_change = sum_change.wrapping_sub(share_of_sum(old.as_deref()));
            let new = record.map(|record| encode_source(file, &name, &record));
            sum_change = sum_change.wrapping_add(share_of_sum(new.as_deref()));
            rows.push((name, new));
        }
        Ok(Self { rows, sum_change })
    }

    /// The rows of all sources, for another file, which has none.
    pub(crate) fn copied(sources: &[Source], file: FileSeed) -> Self {
        let mut rows = Vec::with_capacity(sources.len());
        let mut sum_change = 0u64;
        for Source { name, record } in sources {
            let record = encode_source(file, name, record);
            sum_change = sum_change.wrapping_add(share_of_sum([record.as_slice()]));
            rows.push((name.clone(), Some(record)));
        }
        Self { rows, sum_change }
    }
}

pub(super) fn encode_source(file: FileSeed, name: &[u8], record: &SourceRecord) -> Vec<u8> {
    seal(Kind::Source, file, name, |bytes| {
        encode_short(record, bytes);
    })
}

pub(crate) fn decode_source(
    file: FileSeed,
    counters: Counters,
    name: &[u8],
    bytes: &[u8],
) -> Result<SourceRecord> {
    let record: SourceRecord = unseal(Kind::Source, file, name, bytes)
        .and_then(decode_short)
        .map_err(|problem| damaged_source(name, problem))?;
    let end = counters.next_document;
    if record.numbers.are_valid(end) && record.earlier.are_valid(end) {
        Ok(record)
    } else {
        Err(damaged_source(
            name,
            "it has impossible numbers of documents",
        ))
    }
}

/// What is wrong with the record of a source.
fn damaged_source(name: &[u8], problem: Problem) -> Error {
    Error::damaged("sources", &String::from_utf8_lossy(name), problem)
}

impl View {
    /// The record of a source. `None` if there is none of this name.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<SourceRecord>> {
        self.ensure_whole_sources()?;
        let record = self.tables().source(name)?;
        record
            .map(|bytes| decode_source(self.settings().file, self.state().counters, name, &bytes))
            .transpose()
    }

    /// All sources, in the order of their names.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.ensure_whole_sources()?;
        let mut sources = Vec::new();
        self.tables().sources(|name, bytes| {
            let record = decode_source(self.settings().file, self.state().counters, name, bytes)?;
            sources.push(Source {
                name: name.to_vec(),
                record,
            });
            Ok(())
        })?;
        Ok(sources)
    }

    /// Refuses sources that are not those of the last commit. After the first time, this does nothing.
    fn ensure_whole_sources(&self) -> Result<()> {
        if self.state().known.sources_are_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut sum = 0u64;
        self.tables().sources(|name, record| {
            decode_source(self.settings().file, self.state().counters, name, record)?;
            if self.tables().source(name)?.as_deref() != Some(record) {
                return Err(damaged_source(name, NOT_FOUND));
            }
            sum = sum.wrapping_add(share_of_sum([record]));
            Ok(())
        })?;
        if sum != self.state().sources_sum {
            return Err(damaged_source(
                b"-",
                "the sources that are there are not those of the last commit",
            ));
        }
        self.state()
            .known
            .sources_are_whole
            .store(true, Ordering::Relaxed);
        Ok(())
    }
}
