//! The options to create and open a database with.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use super::database::Database;
#[cfg(feature = "serve")]
use super::listener::Listen;
use super::near::NearBounds;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::memory::{Cache, Memory};
use crate::plan::{self, Plan, PlanEstimate, Prefer};
use crate::sketch::SketchSize;
use crate::store::{CacheLimit, FileSeed, Settings, Sizes};
use crate::text::Scheme;
use crate::unix_seconds::UnixSeconds;

/// The choices that are made when a database is created, and are stored in it.
///
/// [`Database::open_or_create`](crate::Database::open_or_create) refuses a database that has something else than what
/// was set here. What was not set is as the database has it.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Scheme};
///
/// let options = CreateOptions::new().scheme(Scheme::External).max_distance(2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CreateOptions {
    scheme: Option<Scheme>,
    /// Without a distance, that of the scheme and the sketches is taken.
    max_distance: Option<u32>,
    sketch_size: Option<SketchSize>,
    min_similarity: Option<f64>,
    /// The name of a plan. Without a name, a plan is chosen.
    plan: Option<String>,
    expected_documents: u64,
    prefer: Prefer,
    /// Without a time, now.
    created: Option<UnixSeconds>,
    pub(crate) open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            scheme: None,
            max_distance: None,
            sketch_size: None,
            min_similarity: None,
            plan: None,
            expected_documents: 1_000_000,
            prefer: Prefer::default(),
            created: None,
            open: OpenOptions::default(),
        }
    }
}

impl CreateOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The scheme by which fingerprints are made from texts. Default: [`Scheme::Minwise1`].
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// The max distance of queries that name none: inclusive, 0 to 64.
    ///
    /// Default: 8 for texts with sketches, which tell candidates apart, and 10 for [`Scheme::Simhash2`]. Without
    /// sketches 5 for this one, the minwise schemes and [`Scheme::Content1`], and 3 for [`Scheme::Simhash1`] and
    /// for fingerprints made elsewhere.
    ///
    /// Queries of any other distance are answered just as exactly. But the tables are chosen for this
    /// one.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.max_distance = Some(max_distance);
        self
    }

    /// The size of the sketches, which are stored beside the fingerprints. Default: 16 bytes, and none for
    /// fingerprints made elsewhere.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = Some(size);
        self
    }

    /// The least similarity of queries and policies that name none: inclusive, 0 to 1. It counts where there is
    /// a sketch. Default: 0.7 for texts with sketches, otherwise 0.
    ///
    /// See [`Near::min_similarity`](crate::Near::min_similarity).
    #[must_use]
    pub fn min_similarity(mut self, min_similarity: f64) -> Self {
        self.min_similarity = Some(min_similarity);
        self
    }

    /// The number of documents to expect. Default: 1,000,000.
    ///
    /// The tables are chosen for this number. With more documents, queries become slower. With fewer,
    /// space is wasted. The answers are the same. The number is not stored, and it does not count if a
    /// [`plan`](Self::plan) is named.
    #[must_use]
    pub fn expected_documents(mut self, documents: u64) -> Self {
        self.expected_documents = documents;
        self
    }

    /// What the tables are chosen for: space, speed or both. Default: [`Prefer::Balance`]. It is not stored, and it
    /// does not count if a [`plan`](Self::plan) is named.
    #[must_use]
    pub fn prefer(mut self, prefer: Prefer) -> Self {
        self.prefer = prefer;
        self
    }

    /// The tables, by the name of their plan. Default: the best plan for the expected documents and the
    /// max distance.
    ///
    /// For example, `4x16` has four tables that are probed on 16 leading bits. [`plans`](Self::plans)
    /// and the command `simdb plan` list the names.
    #[must_use]
    pub fn plan(mut self, name: impl Into<String>) -> Self {
        self.plan = Some(name.into());
        self
    }

    /// The time of creation (Unix seconds or a [`SystemTime`](std::time::SystemTime)), for a database that is made
    /// from another one. Default: now.
    #[must_use]
    pub fn created(mut self, time: impl Into<UnixSeconds>) -> Self {
        self.created = Some(time.into());
        self
    }

    /// As [`OpenOptions::cache`], for the handle that creation returns. It is not stored.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.open.cache = cache;
        self
    }

    /// As [`OpenOptions::recent_documents`], for the handle that creation returns. It is not stored.
    #[must_use]
    pub fn recent_documents(mut self, recent_documents: usize) -> Self {
        self.open = self.open.recent_documents(recent_documents);
        self
    }

    /// As `OpenOptions::tiny_blocks`, for the handle that creation returns.
    #[doc(hidden)]
    #[must_use]
    pub fn tiny_blocks(mut self) -> Self {
        self.open = self.open.tiny_blocks();
        self
    }
}

/// The space that the number of shingles beside a sketch takes (bytes). It is packed.
const SHINGLES_BYTES: f64 = 1.5;

impl CreateOptions {
    fn chosen_scheme(&self) -> Scheme {
        self.scheme.unwrap_or_default()
    }

    fn chosen_sketch_size(&self) -> SketchSize {
        let of_scheme = match self.chosen_scheme() {
            Scheme::External => SketchSize::None,
            Scheme::Simhash1
            | Scheme::Minwise1
            | Scheme::MinwiseShort1
            | Scheme::Content1
            | Scheme::Simhash2 => SketchSize::default(),
        };
        self.sketch_size.unwrap_or(of_scheme)
    }

    /// Whether documents are compared by their sketches unless something else is asked for.
    fn compares_sketches(&self) -> bool {
        self.chosen_scheme()
            .compares_sketches(self.chosen_sketch_size())
    }

    /// Whether sketches tell the candidates apart unless something else is asked for.
    fn looks_twice(&self) -> bool {
        self.compares_sketches() && self.min_similarity != Some(0.0)
    }

    /// The options of a database whose documents are all compared with each other at once. That costs less than a query
    /// for each. So where sketches tell candidates apart, the default of the max distance is larger.
    #[cfg(feature = "ingest")]
    pub(super) fn compared_at_once(self) -> Self {
        const MAX_DISTANCE: u32 = 10;
        match self.max_distance {
            None if self.looks_twice() => self.max_distance(MAX_DISTANCE),
            _ => self,
        }
    }

    fn chosen_distance(&self) -> u32 {
        let of_scheme = match self.chosen_scheme() {
            Scheme::Simhash2 if self.looks_twice() => 10,
            _ if self.looks_twice() => 8,
            Scheme::Minwise1 | Scheme::MinwiseShort1 | Scheme::Content1 | Scheme::Simhash2 => 5,
            Scheme::Simhash1 | Scheme::External => 3,
        };
        self.max_distance.unwrap_or(of_scheme)
    }

    fn chosen_bounds(&self) -> Result<NearBounds> {
        let of_scheme = if self.compares_sketches() { 0.7 } else { 0.0 };
        let least = self.min_similarity.unwrap_or(of_scheme);
        let bounds = NearBounds::new(self.chosen_distance(), least)?;
        if least > 0.0 && self.chosen_sketch_size() == SketchSize::None {
            return Err(Error::SketchSizes {
                stored: 0,
                given: SketchSize::default().bytes(),
            });
        }
        Ok(bounds)
    }

    fn chosen_plan(&self) -> Result<Plan> {
        match &self.plan {
            Some(name) => name.parse(),
            None => {
                let distance = self.chosen_distance();
                let all =
                    plan::plans_and_estimates(self.expected_documents, distance, self.prefer, &[]);
                let mut plans = all.into_iter();
                let preferred = plans.find(|(_, estimate)| estimate.preferred);
                Ok(preferred.expect("there are plans for every distance").0)
            }
        }
    }

    /// The plans for the expected documents and the max distance, with their sizes and costs.
    ///
    /// The sizes include sketches of the chosen size. The plans come from the fewest tables to the most, and one
    /// of them is preferred. `sample` may have
    /// fingerprints that show how unevenly the documents' fingerprints are spread. Some hundred thousand
    /// are enough. If it is empty, fingerprints are taken to be uniform. A max distance above 64, which creation
    /// refuses, counts as 64.
    pub fn plans(&self, sample: &[Fingerprint]) -> Vec<PlanEstimate> {
        let distance = self.chosen_distance().min(Fingerprint::BITS);
        let all = plan::plans_and_estimates(self.expected_documents, distance, self.prefer, sample);
        let sketch_bytes = match self.chosen_sketch_size() {
            SketchSize::None => 0.0,
            size => size.bytes() as f64 + SHINGLES_BYTES,
        };
        let mut estimates = Vec::with_capacity(all.len());
        for (_, mut estimate) in all {
            estimate.document_bytes += sketch_bytes;
            estimates.push(estimate);
        }
        estimates
    }

    /// Checks that a document can be stored in a database with these options, as
    /// [`Database::validate`](crate::Database::validate) does.
    ///
    /// # Errors
    ///
    /// Those of [`Database::validate`](crate::Database::validate).
    pub fn validate(&self, document: &Document) -> Result<()> {
        document.validate()?;
        self.chosen_scheme()
            .check_sketch(self.chosen_sketch_size(), document)
    }

    /// Checks that a file has what was set here and is stored.
    fn ensure_met(&self, settings: &Settings) -> Result<()> {
        if let Some(given) = self.scheme
            && given != settings.scheme
        {
            return Err(Error::SchemeMismatch {
                stored: settings.scheme.name(),
                given: given.name(),
            });
        }
        let least = settings.min_similarity.unwrap_or(0.0);
        ensure_same("max distance", &settings.max_distance, self.max_distance)?;
        ensure_same(
            "sketch size",
            &settings.sketch_size.bytes(),
            self.sketch_size.map(SketchSize::bytes),
        )?;
        ensure_same("least similarity", &least, self.min_similarity)?;
        ensure_same("plan", &settings.plan.to_string(), self.plan.clone())?;
        ensure_same(
            "time of creation",
            &settings.created,
            self.created.map(UnixSeconds::unchecked),
        )
    }

    pub(super) fn settings(&self) -> Result<Settings> {
        let bounds = self.chosen_bounds()?;
        let now = UnixSeconds::now();
        Ok(Settings {
            file: FileSeed::random(),
            scheme: self.chosen_scheme(),
            plan: self.chosen_plan()?,
            max_distance: bounds.max_distance,
            sketch_size: self.chosen_sketch_size(),
            min_similarity: bounds.min_similarity,
            // The standard library seeds its hash maps from the system's randomness. The hashes of keys
            // are seeded from it too.
            key_seed: RandomState::new().hash_one(now),
            created: self.created.unwrap_or(now).checked()?,
        })
    }
}

impl Database {
    /// Checks that the database has what was set in `options` and is stored: scheme, max distance, sketch size, least
    /// similarity, plan, time of creation.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] for another scheme, [`Error::CreatedOtherwise`] for anything else, and the errors of
    /// [`snapshot`](Self::snapshot).
    pub fn ensure_created_with(&self, options: &CreateOptions) -> Result<()> {
        options.ensure_met(self.store.begin_read()?.reader().settings())
    }
}

/// Refuses what was set and is stored otherwise.
fn ensure_same<T: PartialEq + fmt::Display>(
    option: &'static str,
    stored: &T,
    given: Option<T>,
) -> Result<()> {
    match given {
        Some(given) if given != *stored => Err(Error::CreatedOtherwise {
            option,
            stored: stored.to_string().into(),
            given: given.to_string().into(),
        }),
        _ => Ok(()),
    }
}

/// The most recent documents. Four times as many that wait, and four times as many that are being merged,
/// take 80 GB of memory.
const MOST_RECENT_DOCUMENTS: usize = 100_000_000;

/// The choices that concern only this handle of a database.
///
/// # Example
///
/// ```
/// use simdb::{Cache, OpenOptions};
///
/// let options = OpenOptions::new().cache(Cache::Bytes(1 << 30)).read_only(true);
/// let options = OpenOptions::new().cache(Cache::Share(0.5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenOptions {
    cache: Cache,
    pub(super) read_only: bool,
    recent_documents: Option<usize>,
    sizes: Sizes,
    /// Opened with the database.
    #[cfg(feature = "serve")]
    pub(crate) listener: Option<Listen>,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most memory for data that was read from the file: directories, blocks and pages. Default: a
    /// quarter of the memory that the process may have, [`Cache::Share(0.25)`](Cache::Share).
    ///
    /// It is taken as data is read, so a small database takes little. A quarter of it, at most 64 MiB, is for
    /// pages. Directories take about 2 bytes a document. A query compares without reading the file if there
    /// is also room for 8 bytes a document in each table. It counts its matches without reading the file if
    /// there is room for another 16 bytes a document, or 32 with scopes. That is some 700 MB for ten million
    /// documents in six tables. With less memory, blocks are read from the file, and a query takes some ten
    /// times as long. [`Statistics`](crate::inspect::Statistics) tells what fits.
    ///
    /// The limit is of this database. Two open databases with a share of 0.25 may take half of the memory
    /// together. If the memory that the process may have becomes less, what does not fit any more is let go
    /// at the next commit or snapshot, but the memory is looked at only every two seconds.
    /// [`Database::set_cache`](crate::Database::set_cache) sets another limit.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The number of recent operations whose rows are kept in memory before they are merged into the file.
    /// Default: one for each KiB of the cache, as large as it may be when the database is opened, but at
    /// least 250,000 and at most a million. The least is one, the most 100 million. A number beyond these
    /// counts as the nearest of them.
    ///
    /// A new document is one operation, and so is a removed one; a document that replaces another is two. A
    /// document takes about 100 bytes of memory, a fifth more with a scope. If merging cannot follow, up to four
    /// times the number may wait, and up to four times the number may be in a merge.
    ///
    /// A transaction with more changes than twice this number is written into the sorted parts of the file at
    /// once. Its commit first waits for all merges of recent rows.
    ///
    /// With a larger number writing is faster. So are queries beside it, since there are fewer levels.
    /// But opening is slower.
    #[must_use]
    pub fn recent_documents(mut self, recent_documents: usize) -> Self {
        self.recent_documents = Some(recent_documents.clamp(1, MOST_RECENT_DOCUMENTS));
        self
    }

    /// Refuses a database that is yet to be made, if it is to be served and cannot. Else one would be left behind that
    /// could not be opened.
    pub(super) fn ensure_new_can_be_served(&self, path: &Path) -> Result<()> {
        #[cfg(feature = "serve")]
        if let Some(Listen { ensure_free, .. }) = self.listener {
            ensure_free(path)?;
        }
        #[cfg(not(feature = "serve"))]
        let _ = path;
        Ok(())
    }

    /// The limit of the cache, by the memory that the process may have now, and the sizes with it.
    pub(super) fn limits(&self) -> (CacheLimit, Sizes) {
        /// Ten times the memory that a recent document takes.
        const CACHE_BYTES_EACH: usize = 1024;
        let limit = CacheLimit::new(self.cache, Memory::default());
        let by_cache = (limit.bytes() / CACHE_BYTES_EACH).clamp(250_000, 1_000_000);
        let sizes = Sizes {
            recent_operations: self.recent_documents.unwrap_or(by_cache),
            ..self.sizes
        };
        (limit, sizes)
    }

    /// Makes blocks and merges tiny, so that a test of a few documents takes every path that millions of
    /// documents take.
    #[doc(hidden)]
    #[must_use]
    pub fn tiny_blocks(mut self) -> Self {
        self.sizes = Sizes {
            short_rows: 2,
            block_bytes: 128,
            document_block_bytes: 128,
            chunk_entries: 3,
            step_blocks: 2,
            part_rows: 50,
            compared_per_query: 0,
            spill_bytes: 200,
            ..self.sizes
        };
        self
    }

    /// Whether the file is only read. Default: false.
    ///
    /// Several processes may have the file open at the same time if all of them only read. Reading needs
    /// only the permission to read the file.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_bounds() {
        let options = OpenOptions::new().cache(Cache::Bytes(300_000 << 10));
        assert_eq!(options.limits().1.recent_operations, 300_000);
        let recent = |documents| {
            let options = options.clone().recent_documents(documents);
            options.limits().1.recent_operations
        };
        assert_eq!(
            (recent(0), recent(7), recent(usize::MAX)),
            (1, 7, 100_000_000)
        );
    }
}
