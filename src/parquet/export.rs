//! Export: all documents of a snapshot into a Parquet file.

use std::ops::ControlFlow;
use std::path::Path;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::output::{Output, existing, write_failed};
use super::schema::{
    Columns, FINGERPRINT, Header, ID, KEY, PAYLOAD, SCOPE, SEEN, SHINGLES, SKETCH, Shape,
};
use crate::database::Snapshot;
use crate::error::{Error, Result};
use crate::files::{Existing, are_same_file};
use crate::sketch::SketchSize;

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
/// | `rank_1` to `rank_4` | INT64 | the numbers of the rank; as many columns as the longest rank has numbers |
/// | `payload` | BINARY | only if it is asked for |
///
/// The metadata of the file says what the database is like, so that [`Import`](super::Import) makes the same again.
#[derive(Clone, Debug)]
pub struct Export<'s> {
    snapshot: &'s Snapshot,
    payloads: bool,
    existing: Existing,
}

/// What was exported.
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
            existing: Existing::Refuse,
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
        self.existing = existing(replace);
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
    /// with this column: the first key that is not UTF-8, the first time that does not fit, the first longer rank.
    /// A group of rows is in memory. It has at most 524,288 rows and some 128 MiB, packed.
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
        let mut shape = Shape::new(stats.sketch_size != SketchSize::None, self.payloads);
        loop {
            let written = self.write(path.as_ref(), shape, &header, &mut |done| {
                Error::if_broken(progress(done, stats.documents))
            })?;
            match written {
                Written::Whole(exported) => return Ok(exported),
                Written::Needs(wider) => shape = wider,
            }
        }
    }

    fn write(
        &self,
        path: &Path,
        shape: Shape,
        header: &Header,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Written> {
        let mut output = Output::create(path, self.existing, shape.schema(), properties(header))?;
        let mut columns = Columns::new(shape);
        let mut documents = 0u64;
        let mut left_out = 0;
        for document in self.snapshot.documents() {
            let document = document?;
            let needed = shape.with(&document);
            if needed != shape {
                return Ok(Written::Needs(needed));
            }
            columns.push(documents.cast_signed(), &document);
            documents += 1;
            left_out += u64::from(!self.payloads && !document.payload().is_empty());
            if columns.rows() >= TOGETHER || columns.bytes() >= BYTES_TOGETHER {
                let batch = columns.take();
                output.write(&batch.map_err(write_failed(path))?)?;
                progress(documents)?;
            }
        }
        let batch = columns.take();
        output.write(&batch.map_err(write_failed(path))?)?;
        let bytes = output.keep()?;
        Ok(Written::Whole(Exported {
            documents,
            bytes,
            payloads_left_out: left_out,
        }))
    }
}

/// How the writing of a file ended.
enum Written {
    Whole(Exported),
    /// A document needs columns that the file does not have.
    Needs(Shape),
}

/// How the columns are written.
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
        .set_column_dictionary_enabled(ColumnPath::from(SCOPE), true)
        // Ids and most times grow from row to row.
        .set_column_encoding(ColumnPath::from(ID), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(ColumnPath::from(SEEN), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(ColumnPath::from(SHINGLES), Encoding::DELTA_BINARY_PACKED)
        // Fingerprints and sketches are as random as can be.
        .set_column_compression(ColumnPath::from(FINGERPRINT), Compression::UNCOMPRESSED)
        .set_column_compression(ColumnPath::from(SKETCH), Compression::UNCOMPRESSED)
        // A range of rows is looked up by the id.
        .set_column_statistics_enabled(ColumnPath::from(ID), EnabledStatistics::Page);
    for name in [SKETCH, PAYLOAD] {
        properties = properties
            .set_column_statistics_enabled(ColumnPath::from(name), EnabledStatistics::None);
    }
    // Keys and fingerprints are in no order, so only a filter tells in which groups they are not.
    for name in [KEY, FINGERPRINT] {
        properties =
            properties.set_column_bloom_filter_max_ndv(ColumnPath::from(name), GROUP_ROWS as u64);
    }
    properties.build()
}
