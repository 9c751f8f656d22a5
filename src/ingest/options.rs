//! The options for reading inputs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::format::InputFormat;
#[cfg(feature = "cli")]
use super::rejected::CAN_BE_IGNORED;
use super::stored_bytes::Stop;
use crate::text::Unit;

/// The longest record that can be asked for. No memory holds more, and lengths can be added to it.
const MOST_RECORD_BYTES: usize = usize::MAX / 4;

/// How inputs are read.
///
/// # Example
///
/// ```
/// use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.jsonl");
///
/// std::fs::write(&path, r#"{"address": "a.example", "body": "the text of a page"}"#)?;
/// let options = ReadOptions::new().key_field("address").text_field("body").max_record_bytes(1 << 20);
/// let mut records = Records::open([&path], options)?;
/// let mut chunk = records.next_chunk(|record| {
///     let key = record.key().map(<[u8]>::to_vec);
///     Ok::<_, simdb::Error>((key, record.into_text()?))
/// })?;
/// let read = chunk.remove(0)?;
/// assert_eq!(read, (Some(b"a.example".to_vec()), "the text of a page".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    pub(super) format: InputFormat,
    pub(super) max_record_bytes: usize,
    pub(super) key_field: Option<String>,
    pub(super) html_field: Option<String>,
    pub(super) text_field: Option<String>,
    /// Whether the key of a record is the path of its file and its number there.
    pub(super) key_by_place: bool,
    pub(crate) unit: Unit,
    pub(super) globs: Vec<String>,
    /// Whether documents are named by the places of their records. So none takes the place of another of its key.
    pub(crate) numbered: bool,
    /// Whether the key of such a document has the hash of its text in any case, and no key that is only the path of a
    /// file. So a record is known again where it was copied to.
    pub(crate) hashes_texts: bool,
    /// The fields of JSON records that are not read.
    ignored: Vec<String>,
    /// The name of the only input.
    pub(super) source_name: Option<Vec<u8>>,
    /// Whether a rank that is no list of whole numbers counts as none. Fields of this name may mean something else to
    /// others.
    pub(crate) odd_ranks_are_none: bool,
    /// When records were seen that have no time (Unix seconds). `None` for the time when each of them is read.
    pub(super) undated: Option<i64>,
    directory: Option<PathBuf>,
    pub(super) left_out: Option<PathBuf>,
    /// Says whether nobody wants the rest.
    pub(super) stop: Stop,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: InputFormat::Auto,
            max_record_bytes: 64 << 20,
            key_field: None,
            html_field: None,
            text_field: None,
            key_by_place: false,
            unit: Unit::Document,
            globs: Vec::new(),
            numbered: false,
            hashes_texts: false,
            ignored: Vec::new(),
            source_name: None,
            odd_ranks_are_none: false,
            undated: None,
            directory: None,
            left_out: None,
            stop: Stop::default(),
        }
    }
}

impl ReadOptions {
    /// Whether the format of each input is found out.
    pub(crate) fn detects_format(&self) -> bool {
        self.format == InputFormat::Auto
    }

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The format of all inputs. Default: [`InputFormat::Auto`].
    #[must_use]
    pub fn format(mut self, format: InputFormat) -> Self {
        self.format = format;
        self
    }

    /// The longest record, in bytes. A longer one is rejected, and is not kept in memory. Default: 64 MiB.
    #[must_use]
    pub fn max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes.min(MOST_RECORD_BYTES);
        self
    }

    /// The JSON field that names a document, instead of `key`, `id` and `url`. Default: none.
    ///
    /// A name that begins with `/` is a JSON Pointer (RFC 6901) to a field within others: `/meta/url` is the field
    /// `url` of the object `meta`. The same holds for [`text_field`](Self::text_field) and
    /// [`html_field`](Self::html_field).
    #[must_use]
    pub fn key_field(mut self, name: impl Into<String>) -> Self {
        self.key_field = Some(name.into());
        self
    }

    /// Whether the place of a record is its key: the path of its file, or the [name](Self::source_name) that it was
    /// given, a colon, and its number there, as in `part-1.jsonl:12`. Default: false.
    ///
    /// So records that have no key can be stored, and files whose records all begin with the key `0` do not replace
    /// those of one another. The number is that of the line, or of the record where the file is not cut into lines. The
    /// key that the record has is then not read. A file that is one document has its path as its key in any case.
    #[must_use]
    pub fn key_by_place(mut self, is_place: bool) -> Self {
        self.key_by_place = is_place;
        self
    }

    /// The JSON field, or the column of a Parquet file, that holds the page (HTML), whatever its name. Default: none.
    ///
    /// As with [`text_field`](Self::text_field), no other field is then taken for the content. If both are named, the
    /// page is used where the text is absent or empty.
    #[must_use]
    pub fn html_field(mut self, name: impl Into<String>) -> Self {
        self.html_field = Some(name.into());
        self
    }

    /// The JSON field, or the column of a Parquet file, that holds the text, instead of `text`. Default: none.
    ///
    /// `fingerprint`, `features`, `html` and a `text` of another meaning are then not used: a record without this field
    /// has no content.
    #[must_use]
    pub fn text_field(mut self, name: impl Into<String>) -> Self {
        self.text_field = Some(name.into());
        self
    }

    /// A field of JSON records, or a column of a Parquet file, that is not read; may be called several times. Default:
    /// none.
    ///
    /// It is for fields whose names simdb knows, such as `time`, `rank` or `fingerprint`, and that mean something else
    /// to others. A field that is named as key, text or HTML is read in any case.
    #[must_use]
    pub fn ignore_field(mut self, name: impl Into<String>) -> Self {
        self.ignored.push(name.into());
        self
    }

    /// The name by which a later ingestion knows the only input. Default: for a file its absolute path. The place in
    /// other inputs, such as standard input, is kept only if they have a name.
    ///
    /// Under a name that was read before, standard input has to bring the same bytes again. Those that were read are
    /// passed over.
    #[must_use]
    pub fn source_name(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.source_name = Some(name.into());
        self
    }

    /// What of a record gets a fingerprint of its own. Default: [`Unit::Document`], the whole record.
    ///
    /// The key of a paragraph or a sentence is that of the record, `#`, and its number in the record, from 1.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Which files of directories are read; may be called several times. Default: all, but none that is hidden or
    /// whose name ends in `.simdb`, `.cdx` or `.cdxj`, the last two also packed.
    ///
    /// `*`, `?`, `[a-z]` and `**` have the meaning they have in a shell. A pattern with a `/` names paths below the
    /// directory, another one names files in it and in all directories in it. Files that are named themselves are read
    /// in any case.
    #[must_use]
    pub fn glob(mut self, pattern: impl Into<String>) -> Self {
        self.globs.push(pattern.into());
        self
    }

    /// Only the fields that name and make a document are read, so no record is rejected for another one.
    #[cfg(feature = "cli")]
    pub(crate) fn only_content(self) -> Self {
        CAN_BE_IGNORED.into_iter().fold(self, Self::ignore_field)
    }

    /// The directory in which relative paths begin. Default: the current directory of the process.
    ///
    /// Messages and keys name inputs as they were given.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// A file that is not read where it is found in a directory: the database, say, that is made from what is there.
    pub fn leave_out(mut self, path: impl Into<PathBuf>) -> Self {
        self.left_out = Some(path.into());
        self
    }

    /// A function that is asked several times a second whether to end the reading. If it says so, reading fails with
    /// [`Error::Interrupted`](crate::Error::Interrupted). On systems of the Unix family that is so also while a pipe
    /// brings nothing. Default: never.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Stop::when(stop);
        self
    }

    /// The options that a caller sets, as a list whose order stays as it is. A new one comes at its end.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let directory = self.directory.as_ref();
        serde_json::json!([
            self.format.name(),
            self.max_record_bytes,
            self.key_field,
            self.html_field,
            self.text_field,
            self.unit.to_string(),
            self.globs,
            self.ignored,
            directory.map(|directory| directory.as_os_str().as_encoded_bytes()),
            self.key_by_place,
        ])
    }

    /// The fields that the caller has named for the content. If there are any, no other is the content.
    pub(super) fn named_content(&self) -> impl Iterator<Item = &str> {
        let named = [&self.text_field, &self.html_field];
        named.into_iter().filter_map(|field| field.as_deref())
    }

    /// Whether a field of this name is not read.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == name)
    }

    /// Where the file of an input is.
    pub(crate) fn place_of<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
        match &self.directory {
            Some(directory) => Cow::Owned(directory.join(path)),
            None => Cow::Borrowed(path),
        }
    }
}
