//! Import: documents out of Parquet files. A column whose value is in the name of a directory, such
//! as `scope=news/part-0.parquet`, is read too. Spark, Hive and others write them so.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;

use super::inputs::{
    FileRows, Kind, bytes, ensure_types, files_of, fingerprint, names_of, number, open, refused,
    seconds,
};
use super::schema::{
    FINGERPRINT, Header, KEY, PAYLOAD, RANKS, REPEATS, SCOPE, SEEN, SEEN_SECONDS, SHINGLES, SKETCH,
};
use crate::database::CreateOptions;
use crate::document::Document;
use crate::error::Result;
use crate::sketch::{Sketch, SketchSize};
use crate::text::Scheme;

/// The columns that are read, and what is in them.
const COLUMNS: [(&str, Kind); 13] = [
    (KEY, Kind::Bytes),
    (FINGERPRINT, Kind::Bits),
    (SKETCH, Kind::Bytes),
    (SHINGLES, Kind::Number),
    (SEEN, Kind::Time),
    (SEEN_SECONDS, Kind::Number),
    (REPEATS, Kind::Number),
    (SCOPE, Kind::Bytes),
    (RANKS[0], Kind::Number),
    (RANKS[1], Kind::Number),
    (RANKS[2], Kind::Number),
    (RANKS[3], Kind::Number),
    (PAYLOAD, Kind::Bytes),
];

/// The most rows that are read together.
const TOGETHER: usize = 4096;

/// Parquet files with documents: those that [`Export`](super::Export) has written, or files of another program that
/// have the columns `key` and `fp`. The other columns of an export are read if they are there, and all others are
/// passed over. In a directory, the scope may be in the names of directories: `scope=news/part-0.parquet`.
///
/// # Example
///
/// ```
/// use simdb::parquet::Import;
/// # use std::ops::ControlFlow;
/// # use simdb::parquet::Export;
/// # use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
/// # let path = directory.path().join("pages.parquet");
/// # Export::of(&database.snapshot()?).run(&path, |_, _| ControlFlow::Continue(()))?;
///
/// let import = Import::open([&path])?;
/// assert_eq!((import.rows(), import.scheme()), (1, Some(Scheme::External)));
/// let mut txn = database.begin_write()?;
/// for document in import.documents() {
///     let document = document?;
///     assert_eq!(txn.insert(&document)?, Some(document));
/// }
/// txn.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Import {
    files: Vec<ImportFile>,
    rows: u64,
    /// What the first file says that says anything, and its path.
    header: Option<(Header, PathBuf)>,
    /// The first file that says nothing of its fingerprints.
    foreign: Option<PathBuf>,
    has_sketches: bool,
    stored_in: Option<(Scheme, SketchSize)>,
}

/// A file, and what is known of its documents by its place.
#[derive(Clone, Debug)]
struct ImportFile {
    path: PathBuf,
    /// The scope in the name of a directory. Empty for null.
    scope: Option<String>,
}

impl Import {
    /// Looks at Parquet files, and at the files in directories, as Spark writes them: names, types and numbers.
    ///
    /// # Errors
    ///
    /// * [`Error::Io`](crate::Error::Io) if a file cannot be read.
    /// * [`Error::Input`](crate::Error::Input) if a file is no Parquet file, is not whole, lacks a column, or has one
    ///   of another type; if two files were exported from databases of other schemes or sketches; if one was exported
    ///   from a database of another scheme than `external`, and another one was not exported.
    pub fn open(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Self> {
        let mut import = Self {
            files: Vec::new(),
            rows: 0,
            header: None,
            foreign: None,
            has_sketches: false,
            stored_in: None,
        };
        for path in paths {
            let path = path.as_ref();
            let files = files_of(path)?;
            for file in files {
                import.add(&file)?;
                let scope = scope_of(path, &file).map_err(refused(&file))?;
                import.files.push(ImportFile { path: file, scope });
            }
        }
        import.ensure_one_make()?;
        Ok(import)
    }

    /// Refuses files of which some say their scheme and others do not: the others are `external`, unless it is said.
    fn ensure_one_make(&self) -> Result<()> {
        match (&self.header, &self.foreign) {
            (Some((header, exported)), Some(foreign)) if header.scheme != Scheme::External => {
                let exported = exported.display();
                let scheme = header.scheme;
                let reason = format!(
                    "it does not say the scheme of its fingerprints, and {exported} says {scheme}: import it on its own, \
                     with --scheme {scheme} if its fingerprints were made so"
                );
                Err(refused(foreign)(reason))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let builder = open(path)?;
        for name in [KEY, FINGERPRINT] {
            if builder.schema().field_with_name(name).is_err() {
                let names = names_of(builder.schema());
                let reason = format!("it has no column `{name}`; it has {names}");
                return Err(refused(path)(reason));
            }
        }
        ensure_types(builder.schema(), &COLUMNS).map_err(refused(path))?;
        self.has_sketches |= builder.schema().field_with_name(SKETCH).is_ok();
        let metadata = builder.metadata().file_metadata();
        self.rows += u64::try_from(metadata.num_rows()).unwrap_or(0);
        let texts = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let header = Header::read(texts).map_err(refused(path))?;
        match (&self.header, header) {
            (_, None) if self.foreign.is_some() => {}
            (_, None) => self.foreign = Some(path.to_owned()),
            (None, Some(header)) => self.header = Some((header, path.to_owned())),
            (Some((first, place)), Some(other)) => {
                other.ensure_like(first, place).map_err(refused(path))?;
            }
        }
        Ok(())
    }

    /// The documents in all files.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The scheme of the fingerprints. `None` if another program has written the files.
    pub fn scheme(&self) -> Option<Scheme> {
        self.header.as_ref().map(|(header, _)| header.scheme)
    }

    /// The options for a new database: those of the database that was exported. If another program has written the
    /// files, those for fingerprints of the scheme `external` and as many documents as there are, with sketches if the
    /// files have any.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) or [`Error::Io`](crate::Error::Io) if the files have to be asked for the
    /// size of sketches and cannot be read.
    pub fn create_options(&self) -> Result<CreateOptions> {
        if let Some((header, _)) = &self.header {
            return Ok(header.create_options());
        }
        let options = CreateOptions::new()
            .scheme(Scheme::External)
            .expected_documents(self.rows);
        // Who brings fingerprints of another make may bring sketches too. They are all of one size.
        if self.has_sketches {
            for document in self.documents() {
                if let Some(sketch) = document?.sketch() {
                    return Ok(options.sketch_size(sketch.size()));
                }
            }
        }
        // Whatever scheme the caller names, there is none to store.
        Ok(options.sketch_size(SketchSize::None))
    }

    /// Only documents that a database of this scheme and of sketches of this size takes; another one is an error.
    /// Default: those of the database that was exported.
    #[must_use]
    pub fn stored_in(mut self, scheme: Scheme, size: SketchSize) -> Self {
        self.stored_in = Some((scheme, size));
        self
    }

    /// The documents, in the order of the files and of their rows. After an error it ends.
    ///
    /// The errors are [`Error::Input`](crate::Error::Input) with the file and the row, and
    /// [`Error::Io`](crate::Error::Io).
    pub fn documents(&self) -> ImportedDocuments {
        let exported = self
            .header
            .as_ref()
            .map(|(header, _)| (header.scheme, header.sketch_size));
        ImportedDocuments {
            files: self.files.clone().into_iter(),
            stored_in: self.stored_in.or(exported),
            reading: None,
            failed: false,
        }
    }
}

/// The documents of Parquet files, made by [`Import::documents`].
///
/// See the example of [`Import`].
pub struct ImportedDocuments {
    files: std::vec::IntoIter<ImportFile>,
    stored_in: Option<(Scheme, SketchSize)>,
    reading: Option<Reading>,
    failed: bool,
}

impl std::fmt::Debug for ImportedDocuments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportedDocuments")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

struct Reading {
    file: ImportFile,
    rows: FileRows,
}

impl Reading {
    fn open(file: ImportFile) -> Result<Self> {
        let builder = open(&file.path)?;
        let columns =
            ProjectionMask::columns(builder.parquet_schema(), COLUMNS.map(|(name, _)| name));
        let rows = FileRows::new(&file.path, builder, columns, TOGETHER)?;
        Ok(Self { file, rows })
    }

    fn next(&mut self, stored_in: Option<(Scheme, SketchSize)>) -> Option<Result<Document>> {
        let (batch, row, number) = match self.rows.next_row().transpose()? {
            Ok(next) => next,
            Err(error) => return Some(Err(error)),
        };
        let read = document(batch, row, self.file.scope.as_deref(), stored_in);
        let refused = refused(&self.file.path);
        Some(read.map_err(|reason| refused(format!("row {number}: {reason}"))))
    }
}

impl Iterator for ImportedDocuments {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            if let Some(reading) = &mut self.reading
                && let Some(next) = reading.next(self.stored_in)
            {
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

/// The scope of all documents of a file in a directory that was given, by the names of the directories in it. The other
/// columns are refused there: they would be lost.
fn scope_of(root: &Path, file: &Path) -> Result<Option<String>, String> {
    for (name, _) in COLUMNS {
        if name != SCOPE && value_of(name, root, file)?.is_some() {
            return Err(format!(
                "`{name}` is in the name of its directory, where only `scope` is read: write it as a column"
            ));
        }
    }
    value_of(SCOPE, root, file)
}

/// The document of a row, or what is wrong with it. `scope` is that of its file, if it has one.
fn document(
    batch: &RecordBatch,
    row: usize,
    scope: Option<&str>,
    stored_in: Option<(Scheme, SketchSize)>,
) -> Result<Document, String> {
    let key = bytes(batch, KEY, row).ok_or("its key is null; a document needs a key")?;
    let fingerprint = fingerprint(batch, FINGERPRINT, row);
    let scope = match scope {
        Some(scope) => Ok(scope),
        None => std::str::from_utf8(bytes(batch, SCOPE, row).unwrap_or_default()),
    };
    let scope = scope.map_err(|_| "its scope is not UTF-8")?;
    let document = Document::new(key, fingerprint)
        .with_sketch(sketch(batch, row)?)
        .with_repeats(repeats(batch, row)?)
        .with_rank(rank(batch, row)?)
        .with_scope(scope)
        .with_payload(bytes(batch, PAYLOAD, row).unwrap_or_default());
    let seen = match seconds(batch, SEEN, row) {
        None => number(batch, SEEN_SECONDS, row)?,
        seen => seen,
    };
    let document = match seen {
        Some(seen) => document.with_seen(seen),
        None => document,
    };
    document.validate().map_err(|error| error.to_string())?;
    if let Some((scheme, size)) = stored_in {
        let fits = scheme.check_sketch(size, &document);
        fits.map_err(|error| error.to_string())?;
    }
    Ok(document)
}

fn sketch(batch: &RecordBatch, row: usize) -> Result<Option<Sketch>, String> {
    let Some(bytes) = bytes(batch, SKETCH, row) else {
        return Ok(None);
    };
    let shingles =
        number(batch, SHINGLES, row)?.ok_or("it has a sketch, but no number of shingles")?;
    let shingles = u32::try_from(shingles).map_err(|_| format!("{shingles} shingles cannot be"))?;
    Sketch::new(bytes, shingles)
        .map(Some)
        .map_err(|error| error.to_string())
}

/// How often the document was seen again. Null is 0.
fn repeats(batch: &RecordBatch, row: usize) -> Result<u64, String> {
    let repeats = number(batch, REPEATS, row)?.unwrap_or(0);
    u64::try_from(repeats).map_err(|_| format!("{repeats} repeats cannot be"))
}

/// The numbers of a rank: those before the first that is null.
fn rank(batch: &RecordBatch, row: usize) -> Result<Vec<i64>, String> {
    let mut numbers = [None; RANKS.len()];
    for (number_of_rank, column) in numbers.iter_mut().zip(RANKS) {
        *number_of_rank = number(batch, column, row)?;
    }
    let missing = numbers.iter().position(Option::is_none);
    let known = missing.unwrap_or(numbers.len());
    if numbers[known..].iter().any(Option::is_some) {
        return Err(format!(
            "`{}` is null, and a later number of the rank is not",
            RANKS[known]
        ));
    }
    Ok(numbers.into_iter().flatten().collect())
}

/// Stands for null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The value of a column in the names of the directories below `root` in which a file is. The innermost counts.
/// `None` if none names it. It is empty for null.
fn value_of(column: &str, root: &Path, file: &Path) -> Result<Option<String>, String> {
    let Some(directory) = file.strip_prefix(root).ok().and_then(Path::parent) else {
        return Ok(None);
    };
    for part in directory.iter().rev() {
        let part = part.as_encoded_bytes();
        let Some(equals) = part.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        if percent_decoded(&part[..equals]).as_deref() != Some(column.as_bytes()) {
            continue;
        }
        let value = &part[equals + 1..];
        if value == NULL.as_bytes() {
            return Ok(Some(String::new()));
        }
        return match percent_decoded(value).map(String::from_utf8) {
            Some(Ok(text)) => Ok(Some(text)),
            _ => Err(format!(
                "the `{column}` in the name of its directory is not UTF-8"
            )),
        };
    }
    Ok(None)
}

/// Bytes with `%20` for a space. `None` if no two hexadecimal digits follow a `%`.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(*rest.next()?).to_digit(16)?;
        let low = char::from(*rest.next()?).to_digit(16)?;
        decoded.push((high * 16 + low) as u8);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_the_directories_below_the_root_only() {
        let of = |file: &str| value_of("scope", Path::new("/scope=x/in"), Path::new(file));
        let text = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(of("/scope=x/in/a.parquet"), Ok(None));
        assert_eq!(of("/scope=x/in/scope=y.parquet"), Ok(None));
        assert_eq!(
            of("/scope=x/in/scope=a%2Fb%20%C3%A9=/a.parquet"),
            text("a/b é=")
        );
        assert_eq!(
            of("/scope=x/in/scope=1/year=2024/scope=é/a.parquet"),
            text("é")
        );
        assert_eq!(of("/scope=x/in/scope=/a.parquet"), text(""));
        let null = "/scope=x/in/scope=__HIVE_DEFAULT_PARTITION__/a.parquet";
        assert_eq!(of(null), text(""));
        for odd in ["%ff", "%f", "%zz"] {
            let file = format!("/scope=x/in/scope={odd}/a.parquet");
            assert!(
                value_of("scope", Path::new("/scope=x/in"), Path::new(&file)).is_err(),
                "{odd}"
            );
        }
    }
}
