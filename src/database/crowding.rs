//! Crowding: which fingerprints have most documents, and which prefixes most fingerprints.

use super::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::Permuted;
use crate::store::{Crowds, DocumentNumber, ScopeNumber};

/// The fingerprints that most documents have.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits) in [("log in", 7), ("an article", 9), ("log in, please", 7)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let largest = database.snapshot()?.largest_groups(10, 1_000_000)?;
/// let group = &largest.groups[0];
/// assert_eq!((group.fingerprint, group.documents), (Fingerprint::from_bits(7), 2));
/// assert_eq!(group.newest_key, b"log in, please");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LargestGroups {
    /// The largest group first, and of equal ones the one with the least fingerprint.
    pub groups: Vec<FingerprintGroup>,
    /// Every group of this many documents or more is listed, unless the list is full of larger ones. 2 if all
    /// postings were read.
    pub complete_from: u64,
}

/// Documents with the same fingerprint.
///
/// See the example of [`LargestGroups`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FingerprintGroup {
    /// Their fingerprint.
    pub fingerprint: Fingerprint,
    /// Their number. It is exact.
    pub documents: u64,
    /// The key of the one that was written last.
    pub newest_key: Vec<u8>,
}

/// The prefixes of the permuted tables that most fingerprints have.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for bits in [0b0001, 0b0010, 0b0011, u64::MAX] {
///     txn.insert(&Document::new(format!("page {bits}"), Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let fullest = database.snapshot()?.fullest_prefixes(1)?;
/// let prefix = &fullest.prefixes[0];
/// assert_eq!((0b0001 & prefix.mask, prefix.rows), (prefix.bits, 3));
/// assert!(prefix.times_expected() > 1_000.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FullestPrefixes {
    /// The one first that has most rows in comparison with what is expected.
    pub prefixes: Vec<FullPrefix>,
    /// Every prefix with this many rows or more is listed, unless the list is full of others. 2 if all rows were read.
    pub complete_from: u64,
}

/// A prefix of a permuted table that many fingerprints have. A probe of this prefix meets all of them.
///
/// See the example of [`FullestPrefixes`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FullPrefix {
    /// The number of the table, from 0.
    pub table: usize,
    /// The length of the prefix for which the table was made, in bits.
    pub prefix_bits: u32,
    /// The bits of a fingerprint that make up the prefix.
    pub mask: u64,
    /// What these bits are. A fingerprint `f` has the prefix if `f & mask == bits`.
    pub bits: u64,
    /// The rows with this prefix. In a database that is not small, repetitions and deletions that are not merged yet
    /// are counted too.
    pub rows: u64,
    /// The rows that a prefix has if fingerprints are evenly spread.
    pub expected: f64,
}

impl FullPrefix {
    /// How many times as many rows it has as expected.
    pub fn times_expected(&self) -> f64 {
        self.rows as f64 / self.expected
    }
}

/// Of a table with no more rows than this, all rows are read.
const MOST_READ: u64 = 1 << 20;

impl Snapshot {
    /// The fingerprints that most documents have, at most `most`.
    ///
    /// Large groups are mostly pages without content of their own: errors, log-ins, empty pages. Every query near them
    /// meets all of them.
    ///
    /// If the database has no more than `most_read` postings, one or two a document, all are read. Then every group of
    /// two or more documents can be listed. Otherwise only the directories of the postings are read, and a few blocks
    /// for each group. They tell of every group that fills more than two blocks of a level, so of those with some
    /// thousand documents. [`LargestGroups::complete_from`] says of which.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    ///
    /// # Cost
    ///
    /// The reading of all postings, or of their directories and some blocks. What is read of directories stays in the
    /// cache: less than a byte a document.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for (key, bits) in [("a", 7), ("b", 9), ("c", 7)] {
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
    /// }
    /// txn.commit()?;
    /// let largest = database.snapshot()?.largest_groups(10, 1_000_000)?;
    /// assert_eq!((largest.groups.len(), largest.complete_from), (1, 2));
    /// assert_eq!((largest.groups[0].documents, &largest.groups[0].newest_key[..]), (2, &b"c"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn largest_groups(&self, most: usize, most_read: u64) -> Result<LargestGroups> {
        let Crowds { list, all_from } = self.reader()?.largest_groups(most, most_read)?;
        let mut groups = Vec::with_capacity(list.len());
        for crowd in list {
            if crowd.rows < 2 {
                continue;
            }
            let fingerprint = Fingerprint::from_bits(crowd.prefix);
            let newest_key = self.newest_key(fingerprint)?;
            groups.push(FingerprintGroup {
                fingerprint,
                documents: crowd.rows,
                newest_key,
            });
        }
        Ok(LargestGroups {
            groups,
            complete_from: all_from.max(2),
        })
    }

    fn newest_key(&self, fingerprint: Fingerprint) -> Result<Vec<u8>> {
        let all = DocumentNumber::MIN..DocumentNumber::MAX;
        let reader = self.reader()?;
        let mut newest = None;
        for &scope in ScopeNumber::ALL_DOCUMENTS {
            let newest_of_scope = reader.newest(fingerprint, scope, all.clone(), 1)?;
            newest = newest.max(newest_of_scope.first().copied());
        }
        match newest {
            Some(number) => reader.linked_key(number),
            // A group has documents, as they were counted in the same snapshot.
            None => Ok(Vec::new()),
        }
    }

    /// The prefixes of the permuted tables that have most rows in comparison with what is expected of fingerprints
    /// that are evenly spread, at most `most`.
    ///
    /// Texts that share much have fingerprints that share bits, so some prefixes always have more rows. If one has very
    /// many, queries near it take long, and another plan may help.
    ///
    /// Of tables with up to a million rows, all rows are read. Of larger ones, only the directories are, and a few
    /// blocks for each prefix. They tell of every prefix that fills more than two blocks of a level.
    /// [`FullestPrefixes::complete_from`] says of which.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    ///
    /// # Cost
    ///
    /// For each table the reading of up to a million rows, or of its directories and some blocks. What is read of
    /// directories stays in the cache: less than a byte a document.
    pub fn fullest_prefixes(&self, most: usize) -> Result<FullestPrefixes> {
        let plan = &self.reader()?.settings().plan;
        let rows = self.reader()?.fingerprints() as f64;
        let mut fullest = FullestPrefixes {
            prefixes: Vec::new(),
            complete_from: 2,
        };
        for (index, table) in plan.tables().iter().enumerate() {
            let Crowds { list, all_from } =
                self.reader()?.fullest_prefixes(index, most, MOST_READ)?;
            fullest.complete_from = fullest.complete_from.max(all_from);
            let prefix_bits = table.prefix_bits;
            let mask = table.prefix_mask(prefix_bits);
            for crowd in list {
                if crowd.rows < 2 {
                    continue;
                }
                let prefix = Permuted::from_bits(crowd.prefix);
                fullest.prefixes.push(FullPrefix {
                    table: index,
                    prefix_bits,
                    mask,
                    bits: table.invert(prefix).bits() & mask,
                    rows: crowd.rows,
                    expected: rows / 2f64.powi(prefix_bits as i32),
                });
            }
        }
        fullest
            .prefixes
            .sort_by(|a, b| b.times_expected().total_cmp(&a.times_expected()));
        fullest.prefixes.truncate(most);
        Ok(fullest)
    }
}
