//! Whole tables and all postings, in parts that fit into memory: for a scan, and for a join of all fingerprints.

use std::ops::RangeInclusive;

use super::read::Reader;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, Part};
use crate::store::blocks::Lists;
use crate::store::file::{POSTINGS, SetRow, all_listed, fingerprint_of, permuted, scope_of};
use crate::store::numbers::ScopeNumber;
use crate::store::sorted_set::SetReader;

impl<'a> Reader<'a> {
    /// All fingerprints, in parts.
    pub(crate) fn scan(self) -> Result<Scan<'a>> {
        Scan::new(self.set(permuted(0)))
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
            &Cut {
                most,
                kept,
                range: |part: Part| part.first..=part.last(),
            },
        )
    }

    /// The rows of a part of a table, in order.
    pub(crate) fn table_rows(self, table: usize, part: Part) -> Result<Vec<u64>> {
        self.set(permuted(table)).rows(&(part.first..=part.last()))
    }

    /// The parts of all fingerprints, in order, each of no more than `most` postings, unless one fingerprint has more.
    /// The part `kept` is one of them, if it has postings.
    pub(crate) fn posted_parts(self, most: u64, kept: Option<Part>) -> Result<Vec<Part>> {
        cut(
            &self.set(POSTINGS),
            Part::ALL,
            &Cut {
                most,
                kept,
                range: postings_of,
            },
        )
    }

    /// The number of different fingerprints of the documents of a part.
    pub(crate) fn posted_fingerprints(self, part: Part) -> Result<u64> {
        if part.bits == 64 {
            // It may be a large group.
            return Ok(u64::from(self.set(POSTINGS).count(&postings_of(part))? > 0));
        }
        let rows = self.set(POSTINGS).rows(&postings_of(part))?;
        Ok(rows
            .chunk_by(|&a, &b| fingerprint_of(a) == fingerprint_of(b))
            .count() as u64)
    }

    /// Those fingerprints of a part that several documents of some scopes have, in order.
    pub(crate) fn posted_often(
        self,
        part: Part,
        scopes: &[ScopeNumber],
    ) -> Result<Vec<Fingerprint>> {
        if part.bits == 64 {
            // It may be a large group.
            let fingerprint = Fingerprint::from_bits(part.first);
            let posted = self.posted(&[(fingerprint, scopes.into())])?;
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

    /// The number of documents of a fingerprint.
    pub(super) fn documents_of(self, fingerprint: Fingerprint) -> Result<u64> {
        let posted = self.posted(&[(fingerprint, ScopeNumber::ALL_DOCUMENTS.into())])?;
        Ok(posted.iter().map(|posted| posted.total).sum())
    }
}

/// All rows of the first permuted table, in parts.
pub(crate) struct Scan<'a> {
    table: SetReader<'a, u64>,
    parts: std::vec::IntoIter<RangeInclusive<u64>>,
    rows: Lists<u64>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(table: SetReader<'a, u64>) -> Result<Self> {
        let parts = table.parts()?.into_iter();
        Ok(Self {
            table,
            parts,
            rows: Lists::default(),
        })
    }

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

/// The postings of the fingerprints of a part.
fn postings_of(part: Part) -> RangeInclusive<u128> {
    let first = all_listed(Fingerprint::from_bits(part.first));
    let last = all_listed(Fingerprint::from_bits(part.last()));
    *first.start()..=*last.end()
}

/// How a set is cut.
struct Cut<F> {
    /// The most rows of a part.
    most: u64,
    /// A part that is cut no further.
    kept: Option<Part>,
    /// The rows of a part.
    range: F,
}

/// Halves a part until each has few enough rows. Parts without rows are left out.
fn cut<R: SetRow>(
    set: &SetReader<'_, R>,
    part: Part,
    how: &Cut<impl Fn(Part) -> RangeInclusive<R>>,
) -> Result<Vec<Part>> {
    // What is put more than once, or deleted and not merged, counts as often. So the parts depend on what was merged.
    let rows = set.puts_and_marks(&(how.range)(part))?.0.unsigned_abs();
    if rows == 0 {
        return Ok(Vec::new());
    }
    let is_small = match how.kept {
        Some(kept) if part.contains(kept) => part == kept,
        _ => rows <= how.most,
    };
    let Some(halves) = part.halves().filter(|_| !is_small) else {
        return Ok(vec![part]);
    };
    let mut parts = Vec::new();
    for half in halves {
        parts.extend(cut(set, half, how)?);
    }
    Ok(parts)
}
