//! What a database holds, and how large it is.

use crate::error::Result;
use crate::store::{FORMAT_VERSION, Read, Reader, Store, allocated_bytes};
use crate::text::Scheme;

/// The contents and the size of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of documents.
    pub documents: u64,
    /// The number of documents without a fingerprint, because their text was too short to judge.
    pub too_short: u64,
    /// About the number of distinct fingerprints: the stored rows less the marks. It may be some more or
    /// fewer while repetitions and deletions are not merged. [`Database::check`](crate::Database::check)
    /// counts exactly.
    pub fingerprints: u64,
    /// The length of the file, in bytes.
    pub file_bytes: u64,
    /// The bytes that the file system has allocated for the file: less than its length if it is sparse.
    pub allocated_bytes: u64,
    /// The version of the file format.
    pub format_version: u32,
    /// The scheme of the fingerprints.
    pub scheme: Scheme,
    /// The name of the plan: number of tables, `x`, bits of their shortest prefix.
    pub plan: String,
    /// The max distance of queries that name none.
    pub max_distance: u32,
    /// The largest distance that one range read of each table answers. Queries of a larger distance read
    /// more ranges, or compare with every fingerprint if that is cheaper.
    pub probed_distance: u32,
    /// The time at which the database was created, in Unix seconds.
    pub created: i64,
    /// The number of marks in all sorted sets. A mark is a row that says deleted. It stays until merging
    /// brings it to the row that it deletes.
    pub marks: u64,
    /// The memory of the directories, which say where blocks are, and of the filters of keys, in bytes. A
    /// part of a directory is read when it is first needed; all parts are counted. It is part of the memory
    /// given as [`OpenOptions::cache_bytes`](crate::OpenOptions::cache_bytes).
    pub directory_bytes: u64,
    /// The largest number of levels in a sorted set, without its recent rows in memory.
    pub levels: u32,
}

impl Statistics {
    /// The contents of a snapshot, and the size that the file has now.
    pub(super) fn of(reader: &Reader, store: &Store) -> Result<Self> {
        let metadata = store.metadata()?;
        let settings = reader.settings();
        let counters = reader.counters();
        let (levels, marks) = reader.levels_and_marks();
        Ok(Statistics {
            documents: counters.documents,
            too_short: counters.too_short,
            fingerprints: reader.fingerprints(),
            file_bytes: metadata.len(),
            allocated_bytes: allocated_bytes(&metadata),
            format_version: FORMAT_VERSION,
            scheme: settings.scheme,
            plan: settings.plan.to_string(),
            max_distance: settings.max_distance,
            probed_distance: settings.plan.radius(),
            created: settings.created,
            marks,
            directory_bytes: reader.directory_bytes(),
            levels,
        })
    }
}
