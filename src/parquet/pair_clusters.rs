//! Clusters of the fingerprints in files of pairs.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::builder::{Int32Builder, Int64Builder};
use parquet::arrow::ProjectionMask;

use super::inputs::{FileRows, Kind, ensure_types, files_of, fingerprint, number, open, refused};
use super::output::{Column, Output, column, properties_of_pairs};
use crate::database::GivenPairs;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plural::counted;

const COLUMNS: [(&str, Kind); 3] = [
    ("fp_a", Kind::Bits),
    ("fp_b", Kind::Bits),
    ("distance", Kind::Number),
];
/// The rows that are read or written together.
const TOGETHER: usize = 1 << 14;

/// Clusters of the fingerprints in Parquet files of pairs: those of [`PairFile`](super::PairFile), or those that the
/// jobs in SQL of [`SqlJob`](crate::sql::SqlJob) have written.
///
/// The files say nothing of documents. So the fingerprint with most neighbours is the centre of a cluster, and of equal
/// ones the least. A pair counts once, however often and in whichever order it is given.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::parquet::{KeyColumns, PairClusters, PairFile};
/// use simdb::{Document, Fingerprint, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # for bits in [0b0, 0b1, 0b11] {
/// #     txn.insert(&Document::new(format!("page {bits}"), Fingerprint::from_bits(bits)))?;
/// # }
/// # txn.commit()?;
/// # let path = directory.path().join("pairs.parquet");
///
/// let mut file = PairFile::create(&path, KeyColumns::Text, false)?;
/// for event in database.snapshot()?.pairs(1) {
///     if let PairEvent::Pair(pair) = event? {
///         file.pair(&pair)?;
///     }
/// }
/// file.finish()?;
/// let found = PairClusters::open([&path])?.find(|_, _| ControlFlow::Continue(()))?;
/// let cluster = found.iter().next().ok_or("no cluster")?;
/// // The first one survives, since two are near to it.
/// assert_eq!(cluster.fingerprints[0], Fingerprint::from_bits(0b1));
/// assert_eq!(found.write(directory.path().join("clusters.parquet"), false)?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PairClusters {
    files: Vec<PathBuf>,
    rows: u64,
    max_distance: u32,
    connected: bool,
}

/// Near fingerprints.
///
/// See the example of [`PairClusters`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FingerprintCluster {
    /// Its fingerprints. The first is the one that survives. If it is the only one, several documents have it.
    pub fingerprints: Vec<Fingerprint>,
}

impl PairClusters {
    /// Looks at files of pairs, and at the files in directories, as Spark writes them.
    ///
    /// # Errors
    ///
    /// * [`Error::Io`] if a file cannot be read.
    /// * [`Error::Input`] if a file is no Parquet file, is not whole, lacks a column, or has one of another type.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self> {
        let mut all = Self {
            files: Vec::new(),
            rows: 0,
            max_distance: Fingerprint::BITS,
            connected: false,
        };
        for path in paths {
            let path = path.as_ref();
            let files = files_of(path)?;
            for file in &files {
                let builder = open(file)?;
                for (name, _) in COLUMNS {
                    if builder.schema().field_with_name(name).is_err() {
                        let reason =
                            format!("it has no column `{name}`, so it is no file of pairs");
                        return Err(refused(file)(reason));
                    }
                }
                ensure_types(builder.schema(), &COLUMNS).map_err(refused(file))?;
                all.rows +=
                    u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
            }
            all.files.extend(files);
        }
        Ok(all)
    }

    /// The distance, inclusive, of the pairs that count. Default: all do.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.max_distance = max_distance;
        self
    }

    /// Whether fingerprints are in one cluster that a chain of pairs connects. Default: false, then each is a neighbour
    /// of the centre of its cluster.
    #[must_use]
    pub fn connected(mut self, connected: bool) -> Self {
        self.connected = connected;
        self
    }

    /// Reads all pairs, and finds the clusters. `progress` is told how many rows are read, of how many.
    ///
    /// # Errors
    ///
    /// * [`Error::Io`] if a file cannot be read.
    /// * [`Error::Input`] if a file is damaged, or if a row has no fingerprint or distance, or a distance that is not
    ///   that of its fingerprints.
    /// * [`Error::Interrupted`] if `progress` breaks.
    ///
    /// # Cost
    ///
    /// The reading of three columns. For each pair 16 bytes of memory, for each fingerprint some 60.
    pub fn find(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<FoundClusters> {
        let mut pairs = GivenPairs::default();
        let mut read = 0;
        for path in &self.files {
            let builder = open(path)?;
            let columns =
                ProjectionMask::columns(builder.parquet_schema(), COLUMNS.map(|(name, _)| name));
            let mut rows = FileRows::new(path, builder, columns, TOGETHER)?;
            while let Some((batch, row, number)) = rows.next_row()? {
                let (a, b, distance) = pair_of(batch, row).map_err(|reason| Error::Input {
                    source_name: path.display().to_string(),
                    line: Some(number),
                    reason,
                })?;
                if distance <= self.max_distance {
                    pairs.add(a, b);
                }
                if row + 1 == batch.num_rows() {
                    read += batch.num_rows() as u64;
                    Error::if_broken(progress(read, self.rows))?;
                }
            }
        }
        let members = pairs.into_clusters(self.connected)?;
        Ok(FoundClusters { members })
    }
}

fn pair_of(batch: &RecordBatch, row: usize) -> Result<(Fingerprint, Fingerprint, u32), String> {
    let a = wanted(COLUMNS[0].0, fingerprint(batch, COLUMNS[0].0, row))?;
    let b = wanted(COLUMNS[1].0, fingerprint(batch, COLUMNS[1].0, row))?;
    let given = wanted(COLUMNS[2].0, number(batch, COLUMNS[2].0, row)?)?;
    let distance = a.distance(b);
    if i64::from(distance) != given {
        return Err(format!(
            "its fingerprints {a} and {b} differ in {}, and not in {given}",
            counted(distance, "bit")
        ));
    }
    Ok((a, b, distance))
}

/// What the column of this name must have.
fn wanted<T>(name: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("the row has no `{name}`"))
}

/// The clusters of files of pairs, from [`PairClusters::find`].
///
/// See the example of [`PairClusters`].
#[derive(Debug)]
pub struct FoundClusters {
    /// The fingerprints of each cluster one after the other, and whether each begins one.
    members: Vec<(Fingerprint, bool)>,
}

impl FoundClusters {
    fn clusters(&self) -> impl Iterator<Item = &[(Fingerprint, bool)]> {
        self.members.chunk_by(|_, next| !next.1)
    }

    /// The clusters. The one whose centre has most neighbours comes first.
    pub fn iter(&self) -> impl Iterator<Item = FingerprintCluster> {
        self.clusters().map(|cluster| FingerprintCluster {
            fingerprints: cluster.iter().map(|member| member.0).collect(),
        })
    }

    /// Writes the clusters into a Parquet file, a row for each fingerprint, and returns the number of rows.
    ///
    /// | column | type | |
    /// |---|---|---|
    /// | `cluster` | INT64 | the number of the cluster, from 1 |
    /// | `fp` | INT64 | the bits of a fingerprint |
    /// | `survivor` | INT64 | the bits of the fingerprint that survives of its cluster |
    /// | `distance` | INT32 | the bits in which both differ |
    ///
    /// `replace` says whether the file may take the place of an old one.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`] if there is another file and it may not be replaced, [`Error::Io`] if none can be
    /// written.
    pub fn write(&self, path: impl AsRef<Path>, replace: bool) -> Result<u64> {
        let mut columns = Columns::default();
        let properties = properties_of_pairs();
        let mut output = Output::create(path.as_ref(), replace, columns.take(), properties)?;
        let mut rows = 0;
        for (number, cluster) in (1..).zip(self.clusters()) {
            let (survivor, _) = cluster[0];
            for &(fingerprint, _) in cluster {
                rows += 1;
                if columns.push(number, fingerprint, survivor) == TOGETHER {
                    output.write(columns.take())?;
                }
            }
        }
        output.write(columns.take())?;
        output.keep()?;
        Ok(rows)
    }
}

#[derive(Default)]
struct Columns {
    /// The number, the fingerprint and the survivor.
    numbers: [Int64Builder; 3],
    distance: Int32Builder,
    rows: usize,
}

impl Columns {
    /// Adds a row, and returns their number.
    fn push(&mut self, number: i64, fingerprint: Fingerprint, survivor: Fingerprint) -> usize {
        let values = [
            number,
            fingerprint.bits().cast_signed(),
            survivor.bits().cast_signed(),
        ];
        for (column, value) in self.numbers.iter_mut().zip(values) {
            column.append_value(value);
        }
        self.distance
            .append_value(fingerprint.distance(survivor).cast_signed());
        self.rows += 1;
        self.rows
    }

    /// The columns. No rows are left.
    fn take(&mut self) -> Vec<Column> {
        self.rows = 0;
        let [numbers, fingerprints, survivors] = &mut self.numbers;
        vec![
            column("cluster", false, numbers.finish()),
            column("fp", false, fingerprints.finish()),
            column("survivor", false, survivors.finish()),
            column("distance", false, self.distance.finish()),
        ]
    }
}
