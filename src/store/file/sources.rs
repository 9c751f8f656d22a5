//! The records of sources. The state has the sum of all records, as it has that of the scopes: so a record of an
//! earlier commit is not taken for one of the last.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::meta::Counters;
use super::view::View;
use crate::error::{Error, Result};
use crate::source::{Source, SourceRecord};
use crate::store::blocks::{
    FileSeed, Kind, Problem, decode_short, encode_short, seal, share_of_sum, unseal,
};

/// Changed sources by their names. `None` stands for a source that is forgotten.
pub(crate) type ChangedSources = BTreeMap<Vec<u8>, Option<SourceRecord>>;

/// The rows of changed sources, and what they change in the sum of all.
pub(crate) struct SourceRows {
    pub(crate) rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) sum_change: u64,
}

impl SourceRows {
    /// The rows of sources that change what `view` has, for the file with this seed.
    pub(crate) fn of(changed: ChangedSources, view: &View) -> Result<Self> {
        let file = view.settings().file;
        let (mut rows, mut sum_change) = (Vec::with_capacity(changed.len()), 0u64);
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
        let row = |it: &Source| {
            (
                it.name.clone(),
                Some(encode_source(file, &it.name, &it.record)),
            )
        };
        let rows: Vec<_> = sources.iter().map(row).collect();
        let sum_change = share_of_sum(rows.iter().filter_map(|(_, record)| record.as_deref()));
        Self { rows, sum_change }
    }
}

fn encode_source(file: FileSeed, name: &[u8], record: &SourceRecord) -> Vec<u8> {
    seal(Kind::Source, file, name, |bytes| {
        encode_short(record, bytes)
    })
}

fn decode_source(
    file: FileSeed,
    counters: Counters,
    name: &[u8],
    bytes: &[u8],
) -> Result<SourceRecord> {
    let decode = || -> Result<SourceRecord, Problem> {
        let record: SourceRecord = decode_short(unseal(Kind::Source, file, name, bytes)?)?;
        let end = counters.next_document;
        let valid = record.numbers.are_valid(end) && record.earlier.are_valid(end);
        if valid {
            Ok(record)
        } else {
            Err("it has impossible numbers of documents")
        }
    };
    decode().map_err(|problem| damaged(name, problem))
}

/// What is wrong with the record of a source.
pub(crate) fn damaged(name: &[u8], problem: Problem) -> Error {
    Error::Damaged {
        table: "sources",
        key: String::from_utf8_lossy(name).into_owned(),
        problem,
    }
}

impl View {
    /// The record of a source. `None` if there is none of this name.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<SourceRecord>> {
        self.ensure_whole_sources()?;
        let record = self.tables().source(name)?;
        record
            .map(|it| decode_source(self.settings().file, self.state().counters, name, &it))
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
        if self.state().sources_are_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut sum = 0u64;
        self.tables().sources(|_, record| {
            sum = sum.wrapping_add(share_of_sum([record]));
            Ok(())
        })?;
        if sum != self.state().sources_sum {
            return Err(damaged(
                b"-",
                "the sources that are there are not those of the last commit",
            ));
        }
        self.state()
            .sources_are_whole
            .store(true, Ordering::Relaxed);
        Ok(())
    }
}
