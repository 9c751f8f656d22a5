//! Columns: documents on their way into a file, column by column.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};

use super::schema::{Shape, micros};
use crate::document::Document;
use crate::sketch::Sketch;

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
        self.fingerprint
            .append_option(document.fingerprint().map(|it| it.bits().cast_signed()));
        self.sketch
            .append_option(document.sketch().map(Sketch::as_bytes));
        self.shingles
            .append_option(document.sketch().map(|it| it.shingles().into()));
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
        (self.rows, self.bytes) = (0, 0);
        let key: ArrayRef = match self.shape.binary_keys {
            true => Arc::new(self.binary_key.finish()),
            false => Arc::new(self.text_key.finish()),
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.id.finish()),
            key,
            Arc::new(self.fingerprint.finish()),
        ];
        let (sketch, shingles) = (self.sketch.finish(), self.shingles.finish());
        if self.shape.sketches {
            columns.extend([Arc::new(sketch) as ArrayRef, Arc::new(shingles)]);
        }
        columns.extend([
            Arc::new(self.scope.finish()) as ArrayRef,
            Arc::new(self.seen.finish()),
        ]);
        let seconds = self.seen_seconds.finish();
        if self.shape.far_times {
            columns.push(Arc::new(seconds));
        }
        columns.extend(
            self.ranks
                .iter_mut()
                .map(|it| Arc::new(it.finish()) as ArrayRef),
        );
        if self.shape.payloads {
            columns.push(Arc::new(self.payload.finish()));
        }
        RecordBatch::try_new(self.shape.schema(), columns)
    }
}
