//! Statistics: what a database holds, and how large it is, as plain data.

use super::read::Reader;
use crate::error::Result;
use crate::files::allocated_bytes;
use crate::sketch::SketchSize;
use crate::store::file::{FORMAT_VERSION, Set, SetRow, Shared, State, View, by_row};
use crate::store::sorted_set::SetLevel;
use crate::text::Scheme;

/// The contents and the size of a database.
#[derive(Clone, Debug, PartialEq)]
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
    /// The size of the sketches.
    pub sketch_size: SketchSize,
    /// The least similarity of queries and policies that name none. `None` if there is none.
    pub min_similarity: Option<f64>,
    /// The largest distance that one range read of each table answers. Queries of a larger distance read
    /// more ranges, or compare with every fingerprint if that is cheaper.
    pub probed_distance: u32,
    /// The time at which the database was created, in Unix seconds.
    pub created: i64,
    /// The number of marks in all sorted sets. A mark is a row that says deleted. It stays until merging
    /// brings it to the row that it deletes.
    pub marks: u64,
    /// The memory of the directories, which say where blocks are, and of the filters of keys, in bytes. A
    /// part of a directory is read when it is first needed; all parts are counted. It is part of the cache.
    pub directory_bytes: u64,
    /// The bytes that the cache of this handle may take now, by [`OpenOptions::cache`](crate::OpenOptions::cache).
    pub cache_limit_bytes: u64,
    /// The bytes that directories and blocks take in the cache. Pages of the engine are not counted; they take
    /// up to a quarter of the limit, at most 64 MiB.
    pub cache_bytes: u64,
    /// The bytes of all rows of the permuted tables in memory: 8 for each.
    pub table_bytes: u64,
    /// The bytes of all postings in memory: 16 for each. They lead from a fingerprint to its documents.
    pub posting_bytes: u64,
    /// The least limit of the cache with which all permuted tables fit, beside directories and pages. With less,
    /// queries read the file, and take some ten times as long.
    pub tables_need_bytes: u64,
    /// The least limit of the cache with which the postings fit too. Then a query that only counts its matches
    /// reads nothing from the file.
    pub queries_need_bytes: u64,
    /// Whether all permuted tables fit.
    pub tables_fit: bool,
    /// The largest number of levels in a sorted set, without its recent rows in memory.
    pub levels: u32,
    /// The sorted sets of the file: the keys, the postings, the numbers of dead documents, and the permuted tables.
    pub sets: Vec<SetStatistics>,
}

/// What a sorted set holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetStatistics {
    /// Its name, as in the report of a check: `keys`, `postings`, `dead`, or `permuted-0` and so on.
    pub name: String,
    /// Its rows in memory, with marks. They are not in a level of the file yet.
    pub recent_rows: u64,
    /// Its levels, the newest first, which is mostly the smallest. Queries read each of them.
    pub levels: Vec<LevelStatistics>,
}

/// What a level of a sorted set holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStatistics {
    /// The number of its blocks.
    pub blocks: u64,
    /// The rows that it puts.
    pub rows: u64,
    /// The rows that it marks as deleted.
    pub marks: u64,
}

impl Statistics {
    /// The contents of a commit, and the size that the file has now.
    pub(super) fn new(view: &View, shared: &Shared) -> Result<Self> {
        let metadata = shared.metadata()?;
        let state = view.state();
        let settings = view.settings();
        let (levels, marks) = state.sets.levels_and_marks();
        let cache = shared.cache_use(state);
        let sets = state.sets.sets();
        let sets = sets.map(|any| by_row!(any, set => set_statistics(state, set)));
        Ok(Self {
            documents: state.counters.documents,
            too_short: state.counters.too_short,
            fingerprints: Reader::new(view).fingerprints(),
            file_bytes: metadata.len(),
            allocated_bytes: allocated_bytes(&metadata),
            format_version: FORMAT_VERSION,
            scheme: settings.scheme,
            plan: settings.plan.to_string(),
            max_distance: settings.max_distance,
            sketch_size: settings.sketch_size,
            min_similarity: settings.min_similarity,
            probed_distance: settings.plan.radius(),
            created: settings.created,
            marks,
            directory_bytes: state.directory_bytes() as u64,
            cache_limit_bytes: cache.limit,
            cache_bytes: cache.used,
            table_bytes: cache.table_rows,
            posting_bytes: cache.posting_rows,
            tables_need_bytes: cache.tables_need,
            queries_need_bytes: cache.queries_need,
            tables_fit: cache.tables_fit(),
            levels,
            sets: sets.collect(),
        })
    }
}

fn set_statistics<R: SetRow>(state: &State, set: Set<R>) -> SetStatistics {
    let of_set = &state.sets[set];
    let mut levels = Vec::with_capacity(of_set.levels.len());
    for SetLevel { level, .. } in &of_set.levels {
        let (rows, marks) = level.rows();
        levels.push(LevelStatistics {
            blocks: level.blocks() as u64,
            rows,
            marks,
        });
    }
    SetStatistics {
        name: set.table().to_string(),
        recent_rows: of_set.memory_rows(),
        levels,
    }
}
