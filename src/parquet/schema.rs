//! A file of documents: the names and types of its columns, documents on their way into them, and the texts that say
//! which database they are from.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::file::metadata::KeyValue;

use crate::database::CreateOptions;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::inspect::Statistics;
use crate::sketch::{Sketch, SketchSize};
use crate::text::Scheme;

/// The place of the document in the order of writing, from 0.
pub(super) const ID: &str = "id";
pub(super) const KEY: &str = "key";
/// The bits of the fingerprint, as a number with a sign. Spark would read one without a sign as a decimal.
pub(super) const FINGERPRINT: &str = "fp";
pub(super) const SKETCH: &str = "sketch";
pub(super) const SHINGLES: &str = "shingles";
pub(super) const SEEN: &str = "seen";
/// The Unix seconds of a time that does not fit into `seen`.
pub(super) const SEEN_SECONDS: &str = "seen_seconds";
pub(super) const SCOPE: &str = "scope";
pub(super) const PAYLOAD: &str = "payload";
/// The numbers of the rank. A number that is missing is null, and so are those behind it.
pub(super) const RANKS: [&str; Document::MAX_RANKS] = ["rank_1", "rank_2", "rank_3", "rank_4"];

/// Which columns a file has. It is found while the documents are written: most databases need the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Whether some key is not UTF-8. Then keys are BINARY, otherwise STRING.
    binary_keys: bool,
    /// The length of the longest rank.
    ranks: usize,
    /// Whether some time does not fit into microseconds.
    far_times: bool,
    sketches: bool,
    payloads: bool,
}

/// The microseconds of a time, if they fit.
fn micros(seconds: i64) -> Option<i64> {
    seconds.checked_mul(1_000_000)
}

impl Shape {
    pub(super) fn new(sketches: bool, payloads: bool) -> Self {
        Self {
            binary_keys: false,
            ranks: 0,
            far_times: false,
            sketches,
            payloads,
        }
    }

    /// The shape that has room for a document too.
    pub(super) fn with(self, document: &Document) -> Self {
        Self {
            binary_keys: self.binary_keys || std::str::from_utf8(document.key()).is_err(),
            ranks: self.ranks.max(document.rank().len()),
            far_times: self.far_times || micros(document.seen()).is_none(),
            ..self
        }
    }

    pub(super) fn schema(self) -> SchemaRef {
        let key = if self.binary_keys {
            DataType::Binary
        } else {
            DataType::Utf8
        };
        let mut fields = vec![
            Field::new(ID, DataType::Int64, false),
            Field::new(KEY, key, false),
            Field::new(FINGERPRINT, DataType::Int64, true),
        ];
        if self.sketches {
            fields.push(Field::new(SKETCH, DataType::Binary, true));
            fields.push(Field::new(SHINGLES, DataType::Int64, true));
        }
        fields.push(Field::new(SCOPE, DataType::Utf8, false));
        fields.push(Field::new(
            SEEN,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            true,
        ));
        if self.far_times {
            fields.push(Field::new(SEEN_SECONDS, DataType::Int64, true));
        }
        for name in &RANKS[..self.ranks] {
            fields.push(Field::new(*name, DataType::Int64, true));
        }
        if self.payloads {
            fields.push(Field::new(PAYLOAD, DataType::Binary, false));
        }
        Arc::new(Schema::new(fields))
    }
}

/// Documents that are written together.
pub(super) struct Columns {
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
    ranks: Vec<Int64Builder>,
    payload: BinaryBuilder,
    rows: usize,
    /// Those of keys and payloads.
    bytes: usize,
}

impl Columns {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            id: Int64Builder::new(),
            text_key: StringBuilder::new(),
            binary_key: BinaryBuilder::new(),
            fingerprint: Int64Builder::new(),
            sketch: BinaryBuilder::new(),
            shingles: Int64Builder::new(),
            scope: StringBuilder::new(),
            seen: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            seen_seconds: Int64Builder::new(),
            ranks: (0..shape.ranks).map(|_| Int64Builder::new()).collect(),
            payload: BinaryBuilder::new(),
            rows: 0,
            bytes: 0,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of the keys and payloads.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a document, for which the shape has room.
    pub(super) fn push(&mut self, id: i64, document: &Document) {
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

    /// The documents as a batch, in the order of the schema. None are left.
    pub(super) fn take(&mut self) -> Result<RecordBatch, arrow_schema::ArrowError> {
        self.rows = 0;
        self.bytes = 0;
        let key: ArrayRef = match self.shape.binary_keys {
            true => Arc::new(self.binary_key.finish()),
            false => Arc::new(self.text_key.finish()),
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.id.finish()),
            key,
            Arc::new(self.fingerprint.finish()),
        ];
        let sketch = self.sketch.finish();
        let shingles = self.shingles.finish();
        if self.shape.sketches {
            columns.push(Arc::new(sketch));
            columns.push(Arc::new(shingles));
        }
        columns.push(Arc::new(self.scope.finish()));
        columns.push(Arc::new(self.seen.finish()));
        let seconds = self.seen_seconds.finish();
        if self.shape.far_times {
            columns.push(Arc::new(seconds));
        }
        for rank in &mut self.ranks {
            columns.push(Arc::new(rank.finish()));
        }
        if self.shape.payloads {
            columns.push(Arc::new(self.payload.finish()));
        }
        RecordBatch::try_new(self.shape.schema(), columns)
    }
}

/// The version of the columns and of these texts.
const VERSION: &str = "1";

/// What is needed to make the same database again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) scheme: Scheme,
    plan: String,
    max_distance: u32,
    pub(super) sketch_size: SketchSize,
    min_similarity: f64,
    created: i64,
}

impl Header {
    pub(super) fn new(stats: &Statistics) -> Self {
        Self {
            scheme: stats.scheme,
            plan: stats.plan.clone(),
            max_distance: stats.max_distance,
            sketch_size: stats.sketch_size,
            min_similarity: stats.min_similarity.unwrap_or_default(),
            created: stats.created,
        }
    }

    /// The texts of the file.
    pub(super) fn key_values(&self) -> Vec<KeyValue> {
        let texts = [
            ("version", VERSION.to_owned()),
            ("scheme", self.scheme.name().to_owned()),
            ("plan", self.plan.clone()),
            ("max_distance", self.max_distance.to_string()),
            ("sketch_bytes", self.sketch_size.bytes().to_string()),
            ("min_similarity", self.min_similarity.to_string()),
            ("created", self.created.to_string()),
        ];
        let mut pairs = Vec::with_capacity(texts.len());
        for (name, text) in texts {
            pairs.push(KeyValue::new(format!("simdb.{name}"), text));
        }
        pairs
    }

    /// Reads the texts of a file. `None` if it has none of simdb, which is the case if another program has written it.
    pub(super) fn read(texts: &[KeyValue]) -> Result<Option<Self>, String> {
        match text_of(texts, "version") {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(other) => {
                return Err(format!(
                    "it was exported as version {other}, and this release reads {VERSION}: use a newer release"
                ));
            }
        }
        let sketch_bytes = parsed(texts, "sketch_bytes")?;
        Ok(Some(Self {
            scheme: parsed(texts, "scheme")?,
            plan: parsed(texts, "plan")?,
            max_distance: parsed(texts, "max_distance")?,
            sketch_size: SketchSize::from_bytes(sketch_bytes).ok_or_else(|| {
                format!("its metadata has a simdb.sketch_bytes that cannot be: {sketch_bytes}")
            })?,
            min_similarity: parsed(texts, "min_similarity")?,
            created: parsed(texts, "created")?,
        }))
    }

    /// The options with which the database was created.
    pub(super) fn create_options(&self) -> CreateOptions {
        CreateOptions::new()
            .scheme(self.scheme)
            .plan(&self.plan)
            .max_distance(self.max_distance)
            .sketch_size(self.sketch_size)
            .min_similarity(self.min_similarity)
            .created(self.created)
    }

    /// Refuses a file of other fingerprints or sketches than those of `first`.
    pub(super) fn ensure_like(&self, first: &Self, path: &Path) -> Result<(), String> {
        let path = path.display();
        let ours = self.scheme;
        let theirs = first.scheme;
        if ours != theirs {
            return Err(format!(
                "its fingerprints are of scheme {ours}, and those of {path} of {theirs}; fingerprints of different schemes \
                 cannot be compared: import one of them into another database"
            ));
        }
        let ours = self.sketch_size.bytes();
        let theirs = first.sketch_size.bytes();
        if ours != theirs {
            return Err(format!(
                "its sketches have {ours} bytes, and those of {path} have {theirs}: import one of them into another \
                 database"
            ));
        }
        Ok(())
    }
}

/// The text of this name, if a file has it.
fn text_of<'t>(texts: &'t [KeyValue], name: &str) -> Option<&'t str> {
    let text = texts
        .iter()
        .find(|text| text.key.strip_prefix("simdb.") == Some(name));
    text?.value.as_deref()
}

fn parsed<T: FromStr>(texts: &[KeyValue], name: &str) -> Result<T, String> {
    let text = text_of(texts, name)
        .ok_or_else(|| format!("its metadata has simdb.version, but no simdb.{name}"))?;
    text.parse()
        .map_err(|_| format!("its metadata has a simdb.{name} that cannot be: {text:?}"))
}
