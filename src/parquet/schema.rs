//! The columns of documents: their names and types, and which of them a file has.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::document::Document;

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
    pub(super) binary_keys: bool,
    /// The length of the longest rank.
    pub(super) ranks: usize,
    /// Whether some time does not fit into microseconds.
    pub(super) far_times: bool,
    pub(super) sketches: bool,
    pub(super) payloads: bool,
}

/// The microseconds of a time, if they fit.
pub(super) fn micros(seconds: i64) -> Option<i64> {
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
        fields.extend(
            RANKS[..self.ranks]
                .iter()
                .map(|name| Field::new(*name, DataType::Int64, true)),
        );
        if self.payloads {
            fields.push(Field::new(PAYLOAD, DataType::Binary, false));
        }
        Arc::new(Schema::new(fields))
    }
}
