//! Pair file: pairs of near documents in a Parquet file, with the columns that the SQL of `simdb plan --emit` writes.

use std::path::Path;

use arrow_array::builder::{BinaryBuilder, Float64Builder, Int32Builder, Int64Builder};
use arrow_array::{BinaryArray, StringArray};

use super::inputs::refused;
use super::output::{Column, Output, column, properties_of_pairs};
use crate::database::{FingerprintGroup, Pair};
use crate::error::Result;

/// The pairs that are handed over together.
const TOGETHER: usize = 1 << 13;

/// How keys are written.
///
/// # Example
///
/// ```
/// use simdb::parquet::{KeyColumns, PairFile};
/// use simdb::{Document, ErrorKind, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for key in [[0xfe], [0xff]] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(7)))?;
/// }
/// txn.commit()?;
/// let largest = database.snapshot()?.largest_groups(1, 1_000_000)?;
/// let mut texts = PairFile::create(directory.path().join("texts.parquet"), KeyColumns::Text, false)?;
/// let refused = texts.group(&largest.groups[0]).map_err(|error| error.kind());
/// assert_eq!(refused, Err(ErrorKind::Input));
/// let mut bytes = PairFile::create(directory.path().join("bytes.parquet"), KeyColumns::Binary, false)?;
/// bytes.group(&largest.groups[0])?;
/// assert_eq!(bytes.finish()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyColumns {
    /// As STRING. A key that is not UTF-8 is an error.
    #[default]
    Text,
    /// As BINARY.
    Binary,
}

/// A Parquet file of pairs that is being written.
///
/// | column | type | |
/// |---|---|---|
/// | `fp_a`, `fp_b` | INT64 | the bits of the fingerprints; they are the same in the row of a group |
/// | `distance` | INT32 | the bits in which they differ |
/// | `documents_a`, `documents_b` | INT64 | the documents of each side |
/// | `key_a`, `key_b` | STRING or BINARY | the key of each side that was written last |
/// | `similarity` | DOUBLE | the estimated similarity; null if it was not asked for |
///
/// Documents of one fingerprint are a *group*, which has one row: both of its sides are the group.
///
/// # Example
///
/// ```
/// use simdb::parquet::{KeyColumns, PairFile};
/// use simdb::{Document, Fingerprint, PairEvent};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # for (key, bits) in [("a", 7), ("b", 6), ("c", 7)] {
/// #     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// # }
/// # txn.commit()?;
///
/// let mut file = PairFile::create(directory.path().join("pairs.parquet"), KeyColumns::Text, false)?;
/// for event in database.snapshot()?.pairs(3) {
///     match event? {
///         PairEvent::Group(group) => file.group(&group)?,
///         PairEvent::Pair(pair) => file.pair(&pair)?,
///         _ => {}
///     }
/// }
/// assert_eq!(file.finish()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PairFile {
    output: Output,
    path: std::path::PathBuf,
    /// Whether the side of the lesser INT64 comes first, as in SQL. Otherwise they are of different databases.
    is_ordered: bool,
    columns: Columns,
    rows: u64,
}

#[derive(Default)]
struct Columns {
    /// The fingerprints of both sides, and their documents.
    numbers: [Int64Builder; 4],
    distance: Int32Builder,
    keys: [BinaryBuilder; 2],
    key_columns: KeyColumns,
    similarity: Float64Builder,
}

impl std::fmt::Debug for PairFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairFile")
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl PairFile {
    /// Begins a file. It gets its name when it is [finished](Self::finish). `replace` says whether it may take the
    /// place of an old file.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists) if there is a file that is no Parquet and may not be
    /// replaced, [`Error::Io`](crate::Error::Io) if none can be written there.
    pub fn create(path: impl AsRef<Path>, keys: KeyColumns, replace: bool) -> Result<Self> {
        let path = path.as_ref();
        let mut columns = Columns {
            key_columns: keys,
            ..Columns::default()
        };
        Ok(Self {
            output: Output::create(path, replace, columns.take(), properties_of_pairs())?,
            path: path.to_owned(),
            is_ordered: true,
            columns,
            rows: 0,
        })
    }

    /// Keeps the sides of each pair as they are given: they are of different databases. Otherwise the side comes first
    /// whose fingerprint is less, as an INT64.
    #[must_use]
    pub fn of_two_databases(mut self) -> Self {
        self.is_ordered = false;
        self
    }

    /// Writes a pair.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) for a key that is not UTF-8 if keys are text;
    /// [`Error::Io`](crate::Error::Io) if the file cannot be written.
    pub fn pair(&mut self, pair: &Pair) -> Result<()> {
        self.row([&pair.a, &pair.b], pair.distance, pair.similarity)
    }

    /// Writes a group of documents of one fingerprint.
    ///
    /// # Errors
    ///
    /// Those of [`pair`](Self::pair).
    pub fn group(&mut self, group: &FingerprintGroup) -> Result<()> {
        self.row([group, group], 0, None)
    }

    fn row(
        &mut self,
        mut sides: [&FingerprintGroup; 2],
        distance: u32,
        similarity: Option<f64>,
    ) -> Result<()> {
        if self.is_ordered && bits_of(sides[0]) > bits_of(sides[1]) {
            sides.reverse();
        }
        let columns = &mut self.columns;
        for (column, side) in columns.keys.iter_mut().zip(sides) {
            let key = &side.newest_key;
            if columns.key_columns == KeyColumns::Text && std::str::from_utf8(key).is_err() {
                let key = String::from_utf8_lossy(key);
                return Err(refused(&self.path)(format!("the key {key:?} is not UTF-8")));
            }
            column.append_value(key);
        }
        for (index, side) in sides.into_iter().enumerate() {
            let documents = i64::try_from(side.documents).unwrap_or(i64::MAX);
            columns.numbers[index].append_value(bits_of(side));
            columns.numbers[2 + index].append_value(documents);
        }
        columns.distance.append_value(distance.cast_signed());
        columns.similarity.append_option(similarity);
        self.rows += 1;
        if self.rows.is_multiple_of(TOGETHER as u64) {
            self.output.write(self.columns.take())?;
        }
        Ok(())
    }

    /// Ends the file, makes it durable and gives it its name. Returns the number of rows. If a file of the same bytes
    /// stands there, there is nothing to do.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the file cannot be written,
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists) if there is another file.
    pub fn finish(mut self) -> Result<u64> {
        self.output.write(self.columns.take())?;
        self.output.keep()?;
        Ok(self.rows)
    }
}

impl Columns {
    /// The columns. No pairs are left.
    fn take(&mut self) -> Vec<Column> {
        let [fp_a, fp_b, documents_a, documents_b] = &mut self.numbers;
        let [key_a, key_b] = self.keys.each_mut().map(BinaryBuilder::finish);
        let of_keys = |name: &str, keys: BinaryArray| match self.key_columns {
            KeyColumns::Text => {
                let texts = StringArray::try_from_binary(keys);
                column(name, false, texts.expect("keys are UTF-8"))
            }
            KeyColumns::Binary => column(name, false, keys),
        };
        vec![
            column("fp_a", false, fp_a.finish()),
            column("fp_b", false, fp_b.finish()),
            column("distance", false, self.distance.finish()),
            column("documents_a", false, documents_a.finish()),
            column("documents_b", false, documents_b.finish()),
            of_keys("key_a", key_a),
            of_keys("key_b", key_b),
            column("similarity", true, self.similarity.finish()),
        ]
    }
}

fn bits_of(group: &FingerprintGroup) -> i64 {
    group.fingerprint.bits().cast_signed()
}
