//! Statistics: what a database holds, how large it is, and how much memory it would need.

use super::meta::FORMAT_VERSION;
use super::schema::{POSTINGS, by_row, permuted};
use super::shared::Shared;
use super::state::State;
use super::view::View;
use crate::error::Result;
use crate::files::allocated_bytes;
use crate::sketch::SketchSize;
use crate::store::blocks::{BlockCache, Row};
use crate::store::engine::page_cache_bytes;
use crate::store::sorted_set::{SetLevel, SortedSet};
use crate::text::Scheme;

/// The contents and the size of a database.
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
/// txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// txn.insert(&Document::new("too short", None))?;
/// txn.commit()?;
/// let stats = database.snapshot()?.stats()?;
/// assert_eq!((stats.documents, stats.too_short, stats.fingerprints), (2, 1, 1));
/// assert_eq!((stats.scheme, stats.max_distance), (Scheme::External, 3));
/// for set in &stats.sets {
///     println!("{}: {} recent rows, {} levels", set.name, set.recent_rows, set.levels.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The greatest number of marks in a sorted set: about the number of deletions since rows were merged. A mark is a
    /// row that says deleted. It stays until merging removes it together with the row that it marks.
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
    /// half of the bits of their rows are kept in memory, as far as they fit.
    pub tables_need_bytes: u64,
    /// The least limit of the cache with which half of the bits of all permuted tables fit. With less than the tables
    /// need, but not less than this, a query near nothing reads nothing from the file, and one near a stored
    /// fingerprint reads a few blocks. With still less, all queries read the file, and take some ten times as long.
    pub signatures_need_bytes: u64,
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
///
/// See the example of [`Statistics`].
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
///
/// See the example of [`Statistics`].
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
    pub(crate) fn new(view: &View, shared: &Shared) -> Result<Self> {
        let metadata = shared.metadata()?;
        let settings = view.settings();
        let state = view.state();
        let (levels, marks) = state.sets.levels_and_marks();
        let cache_limit_bytes = shared.limit.bytes() as u64;
        let directory_bytes = state.directory_bytes() as u64;
        let tables_need_bytes = tables_need(state);
        let mut sets = Vec::new();
        for any in state.sets.sets() {
            sets.push(by_row!(any, set => {
                SetStatistics::new(set.table().to_string(), &state.sets[set])
            }));
        }
        Ok(Self {
            documents: state.counters.documents,
            too_short: state.counters.too_short,
            fingerprints: state.sets[permuted(0)].rows_left(),
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
            directory_bytes,
            cache_limit_bytes,
            cache_bytes: directory_bytes + view.blocks().cache.bytes(),
            table_bytes: of_tables(state, row_bytes),
            posting_bytes: row_bytes(&state.sets[POSTINGS]),
            tables_need_bytes,
            signatures_need_bytes: limit_for(state, of_tables(state, SortedSet::signature_bytes)),
            queries_need_bytes: limit_for(
                state,
                of_tables(state, SortedSet::segment_bytes) + state.sets[POSTINGS].segment_bytes(),
            ),
            tables_fit: tables_need_bytes <= cache_limit_bytes,
            levels,
            sets,
        })
    }
}

impl SetStatistics {
    fn new<R: Row>(name: String, set: &SortedSet<R>) -> Self {
        let mut levels = Vec::with_capacity(set.levels.len());
        for SetLevel { level, .. } in &set.levels {
            let (rows, marks) = level.rows();
            levels.push(LevelStatistics {
                blocks: level.blocks() as u64,
                rows,
                marks,
            });
        }
        Self {
            name,
            recent_rows: set.memory_rows(),
            levels,
        }
    }
}

/// The least capacity of the cache of blocks with which the permuted tables fit.
pub(super) fn tables_capacity(state: &State) -> u64 {
    BlockCache::capacity_for(of_tables(state, SortedSet::segment_bytes))
}

/// The least limit of the cache with which the permuted tables fit, in bytes.
pub(super) fn tables_need(state: &State) -> u64 {
    limit_for(state, of_tables(state, SortedSet::segment_bytes))
}

/// What the permuted tables have together.
fn of_tables(state: &State, bytes: impl Fn(&SortedSet<u64>) -> u64) -> u64 {
    let tables = 0..state.sets.tables();
    tables
        .map(|table| bytes(&state.sets[permuted(table)]))
        .sum()
}

fn row_bytes<R: Row>(set: &SortedSet<R>) -> u64 {
    let (puts, marks) = set.rows();
    (puts + marks) * R::BYTES as u64
}

/// The least limit of the cache with which these bytes fit, beside directories and the pages of the engine.
fn limit_for(state: &State, bytes: u64) -> u64 {
    let own = state.directory_bytes() as u64 + BlockCache::capacity_for(bytes);
    // A larger limit gives a larger part to pages, up to its bound.
    own + (page_cache_bytes(usize::MAX) as u64).min(own / 3 + 1)
}
