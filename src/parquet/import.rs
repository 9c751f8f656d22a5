//! Import: documents out of Parquet files.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::header::Header;
use super::inputs::{bad_input, files_of, open, read_failed};
use super::schema::{FINGERPRINT, KEY, PAYLOAD, RANKS, SCOPE, SEEN, SEEN_SECONDS, SHINGLES, SKETCH};
use super::typed::{Kind, bytes, ensure_types, number, seconds};
use crate::database::CreateOptions;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::text::Scheme;

/// The columns that are read, and what is in them.
const COLUMNS: [(&str, Kind); 12] = [
    (KEY, Kind::Bytes),
    (FINGERPRINT, Kind::Bits),
    (SKETCH, Kind::Bytes),
    (SHINGLES, Kind::Number),
    (SEEN, Kind::Time),
    (SEEN_SECONDS, Kind::Number),
    (SCOPE, Kind::Bytes),
    (RANKS[0], Kind::Number),
    (RANKS[1], Kind::Number),
    (RANKS[2], Kind::Number),
    (RANKS[3], Kind::Number),
    (PAYLOAD, Kind::Bytes),
];

/// The rows that are read together.
const TOGETHER: usize = 4096;

/// Parquet files with documents: those that [`Export`](super::Export) has written, or files of another program that
/// have the columns `key` and `fp`. The other columns of an export are read if they are there, and all others are
/// passed over.
#[derive(Clone, Debug)]
pub struct Import {
    files: Vec<PathBuf>,
    rows: u64,
    header: Option<Header>,
    has_sketches: bool,
    sketch_size: Option<SketchSize>,
}

impl Import {
    /// Looks at Parquet files, and at the files in directories, as Spark writes them: names, types and numbers.
    ///
    /// # Errors
    ///
    /// * [`Error::Io`] if a file cannot be read.
    /// * [`Error::Input`] if a file is no Parquet file, is not whole, lacks a column, or has one of another type.
    /// * [`Error::SchemeMismatch`] and [`Error::SketchSizes`] if two files were exported from databases that differ
    ///   in that.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self> {
        let mut import =
            Self { files: Vec::new(), rows: 0, header: None, has_sketches: false, sketch_size: None };
        for path in paths {
            let path = path.as_ref();
            let files = files_of(path)?;
            if files.is_empty() {
                return Err(bad_input(path, "no file in it ends in .parquet".to_owned()));
            }
            files.iter().try_for_each(|file| import.add(file))?;
            import.files.extend(files);
        }
        Ok(import)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let builder = open(path)?;
        for name in [KEY, FINGERPRINT] {
            if builder.schema().field_with_name(name).is_err() {
                let names: Vec<&str> =
                    builder.schema().fields().iter().map(|it| it.name().as_str()).collect();
                let reason = format!("it has no column `{name}`; it has {}", names.join(", "));
                return Err(bad_input(path, reason));
            }
        }
        ensure_types(builder.schema(), &COLUMNS).map_err(|reason| bad_input(path, reason))?;
        self.has_sketches |= builder.schema().field_with_name(SKETCH).is_ok();
        let metadata = builder.metadata().file_metadata();
        self.rows += u64::try_from(metadata.num_rows()).unwrap_or(0);
        let texts = metadata.key_value_metadata().map_or(&[][..], |it| it);
        let header = Header::read(texts).map_err(|reason| bad_input(path, reason))?;
        match (&self.header, header) {
            (Some(first), Some(other)) => first.ensure_alike(&other)?,
            (None, header) => self.header = header,
            (Some(_), None) => {}
        }
        Ok(())
    }

    /// The documents in all files.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The scheme of the fingerprints. `None` if another program has written the files.
    pub fn scheme(&self) -> Option<Scheme> {
        self.header.as_ref().map(|it| it.scheme)
    }

    /// The options for a new database: those of the database that was exported. If another program has written the
    /// files, those for fingerprints of the scheme `external` and as many documents as there are.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] or [`Error::Io`] if the files have to be asked for the size of sketches and cannot be read.
    pub fn create_options(&self) -> Result<CreateOptions> {
        if let Some(header) = &self.header {
            return Ok(header.create_options());
        }
        let options = CreateOptions::new().scheme(Scheme::External).expected_documents(self.rows);
        // Who brings fingerprints of another make may bring sketches too. They are all of one size.
        if self.has_sketches {
            for document in self.documents() {
                if let Some(sketch) = document?.sketch() {
                    return Ok(options.sketch_size(sketch.size()));
                }
            }
        }
        Ok(options)
    }

    /// Only documents whose sketches have this size, or that have none; another size is an error. Default: the size
    /// of the database that was exported.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = Some(size);
        self
    }

    /// The documents, in the order of the files and of their rows. After an error it ends.
    ///
    /// The errors are [`Error::Input`] with the file and the row, and [`Error::Io`].
    pub fn documents(&self) -> ImportedDocuments {
        ImportedDocuments {
            files: self.files.clone().into_iter(),
            sketch_size: self.sketch_size.or(self.header.as_ref().map(|it| it.sketch_size)),
            reading: None,
            failed: false,
        }
    }
}

/// The documents of Parquet files, made by [`Import::documents`].
pub struct ImportedDocuments {
    files: std::vec::IntoIter<PathBuf>,
    sketch_size: Option<SketchSize>,
    reading: Option<Reading>,
    failed: bool,
}

impl std::fmt::Debug for ImportedDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportedDocuments").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A file that is being read.
struct Reading {
    path: PathBuf,
    batches: ParquetRecordBatchReader,
    batch: Option<RecordBatch>,
    /// The next row of the batch, and the rows of earlier batches.
    row: usize,
    before: usize,
}

impl Reading {
    fn open(path: PathBuf) -> Result<Self> {
        let builder = open(&path)?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS.iter().map(|it| it.0));
        let built = builder.with_batch_size(TOGETHER).with_projection(mask).build();
        let batches = built.map_err(|error| read_failed(&path, &error))?;
        Ok(Self { path, batches, batch: None, row: 0, before: 0 })
    }

    fn next(&mut self, sketch_size: Option<SketchSize>) -> Option<Result<Document>> {
        loop {
            if let Some(batch) = self.batch.as_ref().filter(|it| self.row < it.num_rows()) {
                let read = document(batch, self.row, sketch_size);
                self.row += 1;
                let place = self.before + self.row;
                return Some(read.map_err(|reason| bad_input(&self.path, format!("row {place}: {reason}"))));
            }
            self.before += self.batch.take().map_or(0, |it| it.num_rows());
            self.row = 0;
            match self.batches.next()? {
                Ok(batch) => self.batch = Some(batch),
                Err(error) => return Some(Err(read_failed(&self.path, &error.into()))),
            }
        }
    }
}

impl Iterator for ImportedDocuments {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            if let Some(next) = self.reading.as_mut().and_then(|it| it.next(self.sketch_size)) {
                self.failed = next.is_err();
                return Some(next);
            }
            self.reading = match Reading::open(self.files.next()?) {
                Ok(reading) => Some(reading),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            };
        }
        None
    }
}

/// The document of a row, or what is wrong with it.
fn document(batch: &RecordBatch, row: usize, sketch_size: Option<SketchSize>) -> Result<Document, String> {
    let key = bytes(batch, KEY, row).ok_or("its key is null; a document needs a key")?;
    let fingerprint =
        number(batch, FINGERPRINT, row).map(|bits| Fingerprint::from_bits(bits.cast_unsigned()));
    let scope = std::str::from_utf8(bytes(batch, SCOPE, row).unwrap_or_default());
    let scope = scope.map_err(|_| "its scope is not UTF-8")?;
    let document = Document::new(key, fingerprint)
        .with_sketch(sketch(batch, row, sketch_size)?)
        .with_rank(rank(batch, row)?)
        .with_scope(scope)
        .with_payload(bytes(batch, PAYLOAD, row).unwrap_or_default());
    let seen = seconds(batch, SEEN, row).or_else(|| number(batch, SEEN_SECONDS, row));
    let document = match seen {
        Some(seen) => document.with_seen(seen),
        None => document,
    };
    document.validate().map_err(|error| error.to_string())?;
    Ok(document)
}

fn sketch(batch: &RecordBatch, row: usize, size: Option<SketchSize>) -> Result<Option<Sketch>, String> {
    let Some(bytes) = bytes(batch, SKETCH, row) else { return Ok(None) };
    let shingles = number(batch, SHINGLES, row).ok_or("it has a sketch, but no number of shingles")?;
    let shingles = u32::try_from(shingles).map_err(|_| format!("{shingles} shingles cannot be"))?;
    let sketch = Sketch::new(bytes, shingles).map_err(|error| error.to_string())?;
    match size {
        Some(size) if size != sketch.size() => {
            let [stored, given] = [size, sketch.size()].map(SketchSize::bytes);
            Err(Error::SketchSizes { stored, given }.to_string())
        }
        _ => Ok(Some(sketch)),
    }
}

/// The numbers of a rank: those before the first that is null.
fn rank(batch: &RecordBatch, row: usize) -> Result<Vec<i64>, String> {
    let numbers = RANKS.map(|name| number(batch, name, row));
    let known = numbers.iter().take_while(|it| it.is_some()).count();
    if numbers[known..].iter().any(Option::is_some) {
        return Err(format!("`{}` is null, and a later number of the rank is not", RANKS[known]));
    }
    Ok(numbers.into_iter().flatten().collect())
}
