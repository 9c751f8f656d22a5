//! Export: all documents of a snapshot into a Parquet file.

use std::ops::ControlFlow;
use std::path::Path;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::output::{Column, Output, column};
use super::schema::{
    FINGERPRINT, Header, ID, KEY, PAYLOAD, RANKS, REPEATS, SCOPE, SEEN, SEEN_SECONDS, SHINGLES,
    SKETCH,
};
use crate::database::Snapshot;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::are_same_file;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};

/// The most rows of a group, and about the most bytes. Readers take one group at a time, and writers have one in
/// memory.
const GROUP_ROWS: usize = 1 << 19;
const GROUP_BYTES: usize = 128 << 20;
/// The most documents that are handed over together, and about the most bytes of their keys and payloads.
const TOGETHER: usize = 1 << 13;
const BYTES_TOGETHER: usize = 8 << 20;

/// Writes all documents of a snapshot into a Parquet file.
///
/// | column | type | |
/// |---|---|---|
/// | `id` | INT64 | the place of the document in the order of writing, from 0; rows are in this order |
/// | `key` | STRING | BINARY if some key is not UTF-8 |
/// | `fp` | INT64 | the bits of the fingerprint; null if the text was too short |
/// | `sketch`, `shingles` | BINARY, INT64 | only of databases with sketches; null for a document without |
/// | `scope` | STRING | empty if the document has none |
/// | `seen` | TIMESTAMP | microseconds, in UTC; null if the time does not fit |
/// | `seen_seconds` | INT64 | such a time in Unix seconds; only if there is any |
/// | `repeats` | INT64 | how often the document was seen again; only if any was |
/// | `rank_1` to `rank_4` | INT64 | the numbers of the rank; as many columns as the longest rank has numbers |
/// | `payload` | BINARY | only if it is asked for |
///
/// The metadata of the file says what the database is like, so that [`Import`](super::Import) makes the same again.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::parquet::Export;
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let page = Document::new("page", Fingerprint::from_bits(7)).with_payload("a payload");
/// let mut txn = database.begin_write()?;
/// txn.insert(&page)?;
/// txn.commit()?;
/// let snapshot = database.snapshot()?;
/// let path = directory.path().join("pages.parquet");
/// let exported = Export::of(&snapshot).run(&path, |_, _| ControlFlow::Continue(()))?;
/// assert_eq!((exported.documents, exported.payloads_left_out), (1, 1));
/// let all = Export::of(&snapshot).payloads(true).replace(true);
/// assert_eq!(all.run(&path, |_, _| ControlFlow::Continue(()))?.payloads_left_out, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Export<'s> {
    snapshot: &'s Snapshot,
    payloads: bool,
    replace: bool,
}

/// What was exported.
///
/// See the example of [`Export`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The documents.
    pub documents: u64,
    /// The length of the file.
    pub bytes: u64,
    /// The documents that have a payload, if payloads were left out.
    pub payloads_left_out: u64,
}

impl<'s> Export<'s> {
    /// An export of all documents of a snapshot, without their payloads.
    pub fn of(snapshot: &'s Snapshot) -> Self {
        Self {
            snapshot,
            payloads: false,
            replace: false,
        }
    }

    /// Whether to write the payloads too. Default: false.
    #[must_use]
    pub fn payloads(mut self, payloads: bool) -> Self {
        self.payloads = payloads;
        self
    }

    /// Whether the new file may take the place of an old one. Default: false; then an old one is an error.
    #[must_use]
    pub fn replace(mut self, replace: bool) -> Self {
        self.replace = replace;
        self
    }

    /// Writes the file. It gets its name when it is whole and durable. `progress` is called with the documents that
    /// are written and all documents. When it breaks, no file is made.
    ///
    /// # Errors
    ///
    /// * [`Error::AlreadyExists`] if there is another file and it may not be replaced. One of the same bytes is what
    ///   was asked for.
    /// * [`Error::Output`] if the file is the database itself.
    /// * [`Error::Io`] if the file cannot be written.
    /// * [`Error::Interrupted`] if `progress` breaks.
    /// * [`Error::Damaged`], [`Error::Corrupted`] and [`Error::Storage`] if the database cannot be read.
    ///
    /// # Cost
    ///
    /// Reads all documents once. If a document needs a column that none before it has needed, the file is begun anew
    /// with this column: the first key that is not UTF-8, the first time that does not fit, the first document that was
    /// seen again, the first longer rank. A group of rows is in memory. It has at most 524,288 rows and some 128 MiB,
    /// packed.
    pub fn run(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Exported> {
        if are_same_file(path.as_ref(), &self.snapshot.store.path) {
            return Err(Error::output(
                path.as_ref(),
                "it is the database itself; choose another file",
            ));
        }
        let stats = self.snapshot.stats()?;
        let header = Header::new(&stats);
        let mut shape = Shape {
            sketches: stats.sketch_size != SketchSize::None,
            payloads: self.payloads,
            ..Shape::default()
        };
        loop {
            let exported = self.write(path.as_ref(), &mut shape, &header, &mut |done| {
                Error::if_broken(progress(done, stats.documents))
            })?;
            if let Some(exported) = exported {
                return Ok(exported);
            }
        }
    }

    /// Writes a file of a shape. `None` if a document needs columns that it does not have: then the shape has them.
    fn write(
        &self,
        path: &Path,
        shape: &mut Shape,
        header: &Header,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Option<Exported>> {
        let mut columns = Columns::new(*shape);
        let mut output = Output::create(path, self.replace, columns.take(), properties(header))?;
        let mut documents = 0u64;
        let mut left_out = 0;
        for document in self.snapshot.documents() {
            let document = document?;
            let needed = shape.with(&document);
            if needed != *shape {
                *shape = needed;
                return Ok(None);
            }
            columns.push(documents.cast_signed(), &document);
            documents += 1;
            left_out += u64::from(!self.payloads && !document.payload().is_empty());
            if columns.are_full() {
                output.write(columns.take())?;
                progress(documents)?;
            }
        }
        output.write(columns.take())?;
        let bytes = output.keep()?;
        Ok(Some(Exported {
            documents,
            bytes,
            payloads_left_out: left_out,
        }))
    }
}

/// Which columns a file has. It is found while the documents are written: most databases need the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    /// Whether some key is not UTF-8. Then keys are BINARY, otherwise STRING.
    binary_keys: bool,
    /// The length of the longest rank.
    ranks: usize,
    /// Whether some time does not fit into microseconds.
    far_times: bool,
    repeats: bool,
    sketches: bool,
    payloads: bool,
}

fn micros(seconds: i64) -> Option<i64> {
    seconds.checked_mul(1_000_000)
}

impl Shape {
    /// The shape that has room for a document too.
    fn with(self, document: &Document) -> Self {
        Self {
            binary_keys: self.binary_keys || std::str::from_utf8(document.key()).is_err(),
            ranks: self.ranks.max(document.rank().len()),
            far_times: self.far_times || micros(document.seen()).is_none(),
            repeats: self.repeats || document.repeats() > 0,
            ..self
        }
    }
}

#[derive(Default)]
struct Columns {
    shape: Shape,
    id: Int64Builder,
    /// The keys, in the one that the shape asks for.
    text_key: StringBuilder,
    binary_key: BinaryBuilder,
    fingerprint: Int64Builder,
    sketch: BinaryBuilder,
    shingles: Int64Builder,
    scope: StringBuilder,
    seen: TimestampMicrosecondBuilder,
    seen_seconds: Int64Builder,
    repeats: Int64Builder,
    ranks: Vec<Int64Builder>,
    payload: BinaryBuilder,
    rows: usize,
    /// Those of keys and payloads.
    bytes: usize,
}

impl Columns {
    fn new(shape: Shape) -> Self {
        Self {
            shape,
            seen: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            ranks: (0..shape.ranks).map(|_| Int64Builder::new()).collect(),
            ..Self::default()
        }
    }

    /// Whether so many documents are there as are handed over together.
    fn are_full(&self) -> bool {
        self.rows >= TOGETHER || self.bytes >= BYTES_TOGETHER
    }

    fn push(&mut self, id: i64, document: &Document) {
        self.id.append_value(id);
        match std::str::from_utf8(document.key()) {
            Ok(key) if !self.shape.binary_keys => self.text_key.append_value(key),
            _ => self.binary_key.append_value(document.key()),
        }
        let fingerprint = document.fingerprint().map(Fingerprint::bits);
        self.fingerprint
            .append_option(fingerprint.map(u64::cast_signed));
        let sketch = document.sketch();
        self.sketch.append_option(sketch.map(Sketch::as_bytes));
        let shingles = sketch.map(Sketch::shingles);
        self.shingles.append_option(shingles.map(i64::from));
        self.scope.append_value(document.scope());
        let micros = micros(document.seen());
        self.seen.append_option(micros);
        self.seen_seconds
            .append_option(micros.is_none().then_some(document.seen()));
        self.repeats.append_value(document.repeats().cast_signed());
        for (index, column) in self.ranks.iter_mut().enumerate() {
            column.append_option(document.rank().get(index).copied());
        }
        if self.shape.payloads {
            self.payload.append_value(document.payload());
            self.bytes += document.payload().len();
        }
        self.bytes += document.key().len();
        self.rows += 1;
    }

    /// The columns in their order. No documents are left.
    fn take(&mut self) -> Vec<Column> {
        self.rows = 0;
        self.bytes = 0;
        let key = match self.shape.binary_keys {
            true => column(KEY, false, self.binary_key.finish()),
            false => column(KEY, false, self.text_key.finish()),
        };
        let mut columns = vec![
            column(ID, false, self.id.finish()),
            key,
            column(FINGERPRINT, true, self.fingerprint.finish()),
        ];
        let sketch = self.sketch.finish();
        let shingles = self.shingles.finish();
        if self.shape.sketches {
            columns.push(column(SKETCH, true, sketch));
            columns.push(column(SHINGLES, true, shingles));
        }
        columns.push(column(SCOPE, false, self.scope.finish()));
        columns.push(column(SEEN, true, self.seen.finish()));
        let seconds = self.seen_seconds.finish();
        if self.shape.far_times {
            columns.push(column(SEEN_SECONDS, true, seconds));
        }
        let repeats = self.repeats.finish();
        if self.shape.repeats {
            columns.push(column(REPEATS, false, repeats));
        }
        for (name, rank) in RANKS.into_iter().zip(&mut self.ranks) {
            columns.push(column(name, true, rank.finish()));
        }
        if self.shape.payloads {
            columns.push(column(PAYLOAD, false, self.payload.finish()));
        }
        columns
    }
}

fn properties(header: &Header) -> WriterProperties {
    let by_id = SortingColumn {
        column_idx: 0,
        descending: false,
        nulls_first: false,
    };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("simdb ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(header.key_values()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_sorting_columns(Some(vec![by_id]))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled(SCOPE.into(), true)
        // Ids and most times grow from row to row.
        .set_column_encoding(ID.into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(SEEN.into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(SHINGLES.into(), Encoding::DELTA_BINARY_PACKED)
        // Fingerprints and sketches are as random as can be.
        .set_column_compression(FINGERPRINT.into(), Compression::UNCOMPRESSED)
        .set_column_compression(SKETCH.into(), Compression::UNCOMPRESSED)
        // A range of rows is looked up by the id.
        .set_column_statistics_enabled(ID.into(), EnabledStatistics::Page);
    for column in [SKETCH, PAYLOAD] {
        properties =
            properties.set_column_statistics_enabled(column.into(), EnabledStatistics::None);
    }
    // Keys and fingerprints are in no order, so only a filter tells in which groups they are not.
    for column in [KEY, FINGERPRINT] {
        properties = properties.set_column_bloom_filter_max_ndv(column.into(), GROUP_ROWS as u64);
    }
    properties.build()
}
