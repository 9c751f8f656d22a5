//! Arguments that several commands share, and the functions that parse them.

use std::path::PathBuf;

use crate::ingest::{InputFormat, ReadOptions};
use crate::{Fingerprint, Near, Unit};
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::answer::Failure;
use super::times::time;
use super::units::{bytes, count};

/// How near documents have to be.
#[derive(Args)]
pub(super) struct BoundArguments {
    /// Largest distance of near documents [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser, allow_negative_numbers = true)]
    pub(super) max_distance: Option<u32>,

    /// Least similarity of near documents, 0 to 1 [default: that of the database]
    ///
    /// With 0, the distance alone decides
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    pub(super) min_similarity: Option<f64>,
}

/// Which documents are near: how near they have to be, and which count at all.
#[derive(Args)]
pub(super) struct NearArguments {
    #[command(flatten)]
    pub(super) bounds: BoundArguments,

    /// Only documents seen at TIME or later: 2020-01-31, 2d, `2 weeks ago`
    ///
    /// Also Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    pub(super) since: Option<i64>,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(super) scope: Vec<String>,
}

impl BoundArguments {
    pub(super) fn is_given(&self) -> bool {
        self.max_distance.is_some() || self.min_similarity.is_some()
    }

    /// Documents that are near enough, were seen at a time or later, and are of some scopes.
    pub(super) fn near_among(&self, since: Option<i64>, scopes: &[String]) -> Near {
        let mut near = Near::new()
            .given(self.max_distance, Near::max_distance)
            .given(self.min_similarity, Near::min_similarity)
            .given(since, Near::since);
        if !scopes.is_empty() {
            near = near.scopes(scopes);
        }
        near
    }
}

/// Documents that are near enough, of any time and scope.
impl From<&BoundArguments> for Near {
    fn from(bounds: &BoundArguments) -> Self {
        bounds.near_among(None, &[])
    }
}

impl From<&NearArguments> for Near {
    fn from(near: &NearArguments) -> Self {
        near.bounds.near_among(near.since, &near.scope)
    }
}

/// How inputs are read.
#[derive(Args)]
pub(super) struct Reading {
    /// How the inputs are cut into documents
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    input_format: InputFormat,

    /// The JSON field of the key, instead of `key`, `id` or `url`
    ///
    /// A name that begins with `/` leads into other fields: `/meta/url` is the field `url` of the object `meta` (a JSON
    /// Pointer). The same holds for `--text-field` and `--html-field`
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,

    /// Name each record by its file and its number: `a.jsonl:12`
    ///
    /// For records that have no key, and for files whose records all begin with the key 0. The key that a record has is
    /// not read. A file that is one document keeps its path as its key
    #[arg(long, conflicts_with = "key_field")]
    key_by_place: bool,

    /// The JSON field or Parquet column of the text, instead of `text`
    ///
    /// Then `fingerprint`, `features` and `html` are not used: a record without this field has no content
    #[arg(long, value_name = "FIELD")]
    text_field: Option<String>,

    /// The field or column of the page (HTML), instead of `html`
    ///
    /// Then `fingerprint`, `features` and `text` are not used. With `--text-field` too, it is used if the text is
    /// absent or empty
    #[arg(long, value_name = "FIELD")]
    html_field: Option<String>,

    /// Do not read this JSON field; may be given several times
    ///
    /// For example a `time` or a `fingerprint` that means something else
    #[arg(long, value_name = "FIELD")]
    ignore_field: Vec<String>,

    /// What gets a fingerprint of its own
    ///
    /// The key of a paragraph or sentence is that of the document, `#` and its number, as in `URL#12`
    #[arg(long, value_enum, default_value_t, value_name = "UNIT")]
    unit: Unit,

    /// Read only files of such names: `*.gz`; may be repeated
    ///
    /// It applies to the files in directories. By default all files that are not hidden are read
    #[arg(long, value_name = "PATTERN")]
    glob: Vec<String>,

    /// The longest record; longer ones are rejected [default: 64MiB]
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = bytes::<usize>, allow_negative_numbers = true)]
    max_record: Option<usize>,
}

impl Reading {
    /// Whether the files of a folder are read whatever their names are.
    pub(super) fn takes_all_names(&self) -> bool {
        self.glob.is_empty()
    }

    /// Refuses options of reading where nothing is read. They are for what is `wanted`.
    pub(super) fn ensure_unused(&self, wanted: &str) -> Result<(), Failure> {
        if self.unit != Unit::Document {
            return Err(format!("--unit is for {wanted}").into());
        }
        self.ensure_only_unit(wanted)
    }

    /// The same where a text that was given may be cut into units.
    pub(super) fn ensure_only_unit(&self, wanted: &str) -> Result<(), Failure> {
        self.ensure_not_given(wanted, |_| true)
    }

    /// The same where a text was given, of which what is said of records says nothing. `with_texts` says whether there
    /// is a file of texts beside it: how its records are read may be said.
    pub(super) fn ensure_no_record(&self, wanted: &str, with_texts: bool) -> Result<(), Failure> {
        self.ensure_not_given(wanted, |option| match with_texts {
            true => option == "--input-format",
            false => !matches!(option, "--glob" | "--max-record"),
        })
    }

    /// Refuses options, without the unit, that say otherwise than the defaults.
    fn ensure_not_given(
        &self,
        wanted: &str,
        is_refused: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let options = [
            (
                "--input-format",
                self.input_format != InputFormat::default(),
            ),
            ("--key-field", self.key_field.is_some()),
            ("--key-by-place", self.key_by_place),
            ("--text-field", self.text_field.is_some()),
            ("--html-field", self.html_field.is_some()),
            ("--ignore-field", !self.ignore_field.is_empty()),
            ("--glob", !self.glob.is_empty()),
            ("--max-record", self.max_record.is_some()),
        ];
        for (option, is_given) in options {
            if is_given && is_refused(option) {
                return Err(format!("{option} is for {wanted}").into());
            }
        }
        Ok(())
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    /// How a file with texts is read: as the inputs, but its format is its own.
    pub(super) fn options_of_texts(&self) -> ReadOptions {
        self.options().format(InputFormat::Auto).only_content()
    }

    pub(super) fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::new()
            .format(self.input_format)
            .unit(self.unit)
            .key_by_place(self.key_by_place)
            .given(self.max_record, ReadOptions::max_record_bytes)
            .given(self.key_field.as_ref(), ReadOptions::key_field)
            .given(self.text_field.as_ref(), ReadOptions::text_field)
            .given(self.html_field.as_ref(), ReadOptions::html_field);
        options = self
            .ignore_field
            .iter()
            .fold(options, ReadOptions::ignore_field);
        self.glob.iter().fold(options, ReadOptions::glob)
    }
}

/// That a field is read in place of the texts of the records.
pub(super) fn texts_unread(field: &str) -> String {
    format!(
        "the records have a text, and no text is read: the field `{field}` is used in its place; if it means something \
         else, `--ignore-field {field}` reads the texts"
    )
}

/// An option that was given on the command line, or not.
pub(super) trait Given: Sized {
    /// Sets what was given. Otherwise the default stays.
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<O> Given for O {}

/// Refuses arguments that together read standard input more than once: the second of them would read nothing.
pub(super) fn ensure_read_once<'p>(
    paths: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<(), Failure> {
    let paths = paths.into_iter();
    match paths.filter(|path| path.as_os_str() == "-").count() {
        0 | 1 => Ok(()),
        _ => Err("standard input is read once, and `-` is given for several inputs".into()),
    }
}

/// A file that has a name. `-` is standard input or output where that can be used, and nobody wants such a file.
pub(super) fn named_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("a file is wanted here: name one, or say `./-` if that is its name"),
        false => Ok(path),
    })
}

pub(super) fn max_distance_parser(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(distance @ 0..=Fingerprint::BITS) => Ok(distance),
        _ => Err(format!(
            "{text} is not a number of bits from 0 to {}",
            Fingerprint::BITS
        )),
    }
}

/// Parses how many documents there will be: no more than a database can number.
pub(super) fn expected_documents(text: &str) -> Result<u64, String> {
    match count(text)? {
        number if number > 1 << 40 => Err("a database takes at most 1.1e12 documents".to_owned()),
        number => Ok(number),
    }
}

pub(super) fn similarity_parser(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(similarity @ 0.0..=1.0) => Ok(similarity),
        _ => Err("it must be a number from 0 to 1, for example 0.7".to_owned()),
    }
}
