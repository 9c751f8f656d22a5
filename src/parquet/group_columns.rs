//! Columns of groups: what is said of each row of a file whose rows were all kept, beside its own columns.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{SchemaDescriptor, Type};
use serde_json::{Value, json};

/// What is said of a row.
pub(crate) struct GroupRow {
    /// The number of its group.
    pub(crate) group: u64,
    /// The rows of that.
    pub(crate) size: u64,
    /// Whether it is the one that survives of its group.
    pub(crate) survives: bool,
    /// The name of that one.
    pub(crate) survivor: String,
    pub(crate) distance: u32,
    pub(crate) similarity: Option<f64>,
}

/// The text in which the writer keeps the types of Arrow.
const ARROW_SCHEMA: &str = "ARROW:schema";
/// The text in which Spark keeps the columns. It reads no others than these.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The columns, with their types here and in Spark.
fn columns() -> [(Field, &'static str); 6] {
    [
        ("dedup_group", DataType::Int64, "long"),
        ("dedup_size", DataType::Int64, "long"),
        ("dedup_survives", DataType::Boolean, "boolean"),
        ("dedup_survivor", DataType::Utf8, "string"),
        ("dedup_distance", DataType::Int32, "integer"),
        ("dedup_similarity", DataType::Float64, "double"),
    ]
    .map(|(name, kind, of_spark)| (Field::new(name, kind, true), of_spark))
}

fn is_of_groups(name: &str) -> bool {
    columns().iter().any(|(field, _)| field.name() == name)
}

/// The columns of a file without older ones of groups, and those of groups behind them.
pub(super) fn with_columns(schema: &Schema) -> SchemaRef {
    let mut fields = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        if !is_of_groups(field.name()) {
            fields.push(field.clone());
        }
    }
    for (field, _) in columns() {
        fields.push(Arc::new(field));
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The same of the columns as Parquet has them.
pub(super) fn with_parquet_columns(
    schema: &SchemaDescriptor,
) -> Result<SchemaDescriptor, ParquetError> {
    let root = schema.root_schema();
    let mut fields = Vec::with_capacity(root.get_fields().len());
    for field in root.get_fields() {
        if !is_of_groups(field.name()) {
            fields.push(field.clone());
        }
    }
    let added = Schema::new(columns().map(|(field, _)| field).to_vec());
    let added = ArrowSchemaConverter::new().convert(&added)?;
    fields.extend(added.root_schema().get_fields().iter().cloned());
    let root = Type::group_type_builder(root.name())
        .with_fields(fields)
        .build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// The texts of a file that has these columns too. Whether the writer has to add the types of Arrow, which are others
/// now.
pub(super) fn with_column_texts(texts: Vec<KeyValue>) -> (Vec<KeyValue>, bool) {
    let mut has_arrow = false;
    let mut kept = Vec::with_capacity(texts.len());
    for mut text in texts {
        if text.key == ARROW_SCHEMA {
            has_arrow = true;
            continue;
        }
        if text.key == SPARK_SCHEMA {
            let columns = text.value.as_deref().and_then(with_spark_columns);
            // Without it, Spark takes the columns of the file.
            let Some(columns) = columns else { continue };
            text.value = Some(columns);
        }
        kept.push(text);
    }
    (kept, has_arrow)
}

/// The columns as Spark keeps them.
fn with_spark_columns(text: &str) -> Option<String> {
    let mut schema: Value = serde_json::from_str(text).ok()?;
    let fields = schema.get_mut("fields")?.as_array_mut()?;
    fields.retain(|field| !field["name"].as_str().is_some_and(is_of_groups));
    for (field, of_spark) in columns() {
        fields.push(json!({
            "name": field.name(),
            "type": of_spark,
            "nullable": true,
            "metadata": {},
        }));
    }
    Some(schema.to_string())
}

/// Some rows with the columns of groups, which are null where nothing is said.
pub(super) fn with_values(
    rows: &RecordBatch,
    said: &[Option<GroupRow>],
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let mut groups = Int64Builder::new();
    let mut sizes = Int64Builder::new();
    let mut survive = BooleanBuilder::new();
    let mut survivors = StringBuilder::new();
    let mut distances = Int32Builder::new();
    let mut similarities = Float64Builder::new();
    for row in said {
        let row = row.as_ref();
        groups.append_option(row.map(|row| row.group.cast_signed()));
        sizes.append_option(row.map(|row| row.size.cast_signed()));
        survive.append_option(row.map(|row| row.survives));
        survivors.append_option(row.map(|row| row.survivor.as_str()));
        distances.append_option(row.map(|row| row.distance.cast_signed()));
        similarities.append_option(row.and_then(|row| row.similarity));
    }
    let mut values: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        if !is_of_groups(field.name()) {
            values.push(column.clone());
        }
    }
    values.push(Arc::new(groups.finish()));
    values.push(Arc::new(sizes.finish()));
    values.push(Arc::new(survive.finish()));
    values.push(Arc::new(survivors.finish()));
    values.push(Arc::new(distances.finish()));
    values.push(Arc::new(similarities.finish()));
    RecordBatch::try_new(schema.clone(), values)
}
