//! Crowding: the fingerprints that most documents have, and the prefixes that most fingerprints of a table have.

use std::ops::RangeInclusive;

use super::read::Read;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::file::{POSTINGS, permuted, scope_of};
use crate::store::numbers::ScopeNumber;
use crate::store::sorted_set::{Crowds, CrowdsWanted, crowds};

/// The fingerprints that most documents have: at most `most`. With no more postings than `most_read`, all are read.
pub(crate) fn largest_groups(reader: &impl Read, most: usize, most_read: u64) -> Result<Crowds> {
    // Every document is counted once.
    let counts = |row: u128| ScopeNumber::ALL_DOCUMENTS.contains(&scope_of(row));
    let documents = |fingerprint: RangeInclusive<u64>| {
        let fingerprint = Fingerprint::from_bits(*fingerprint.start());
        let posted = reader.posted(&[(fingerprint, ScopeNumber::ALL_DOCUMENTS.into())])?;
        Ok(posted.iter().map(|posted| posted.total).sum())
    };
    crowds(
        &reader.set(POSTINGS),
        CrowdsWanted {
            bits: 64,
            most,
            most_read,
        },
        counts,
        documents,
    )
}

/// The prefixes of a table, of the length that it was made for, that most rows have: at most `most`. A table with no
/// more rows than `most_read` is read as a whole.
pub(crate) fn fullest_prefixes(
    reader: &impl Read,
    table: usize,
    most: usize,
    most_read: u64,
) -> Result<Crowds> {
    let bits = reader.settings().plan.tables()[table].prefix_bits;
    let set = reader.set(permuted(table));
    let rows = |range: RangeInclusive<u64>| Ok(set.puts_and_marks(&range)?.0.unsigned_abs());
    crowds(
        &set,
        CrowdsWanted {
            bits,
            most,
            most_read,
        },
        |_| true,
        rows,
    )
}
