//! Columns of groups: what is said of each row of a file whose rows were all kept, beside its own columns.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, parquet_to_arrow_schema};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedRowGroupWriter;
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
fn with_columns(schema: &Schema) -> SchemaRef {
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

/// The same of the columns as Arrow has them, if a file tells of these among its texts.
pub(super) fn with_arrow_columns(
    schema: &SchemaDescriptor,
    texts: Option<&Vec<KeyValue>>,
) -> Option<SchemaRef> {
    let has_arrow = texts?.iter().any(|text| text.key == ARROW_SCHEMA_META_KEY);
    let arrow = has_arrow.then(|| parquet_to_arrow_schema(schema, texts))?;
    // Types that do not fit the columns are no loss.
    Some(with_columns(&arrow.ok()?))
}

/// The texts of a file that has these columns too, without the types of Arrow, which are others now.
pub(super) fn with_column_texts(texts: Vec<KeyValue>) -> Vec<KeyValue> {
    let mut kept = Vec::with_capacity(texts.len());
    for mut text in texts {
        if text.key == ARROW_SCHEMA_META_KEY {
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
    kept
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

/// Whether a column of a file is one of groups, or within one.
pub(super) fn has_columns_of_groups(schema: &SchemaDescriptor, column: usize) -> bool {
    is_of_groups(schema.get_column_root(column).name())
}

/// The values of the columns of groups for some rows, which are null where nothing is said.
#[derive(Default)]
pub(super) struct GroupColumns {
    groups: Vec<i64>,
    sizes: Vec<i64>,
    survive: Vec<bool>,
    survivors: Vec<ByteArray>,
    distances: Vec<i32>,
    similarities: Vec<f64>,
    /// 1 for each row of which something is said, else 0.
    is_said: Vec<i16>,
    /// 1 for each row that has a similarity, else 0.
    has_similarity: Vec<i16>,
}

impl GroupColumns {
    pub(super) fn push(&mut self, row: Option<GroupRow>) {
        self.is_said.push(row.is_some().into());
        let similarity = row.as_ref().and_then(|row| row.similarity);
        self.has_similarity.push(similarity.is_some().into());
        self.similarities.extend(similarity);
        if let Some(row) = row {
            self.groups.push(row.group.cast_signed());
            self.sizes.push(row.size.cast_signed());
            self.survive.push(row.survives);
            self.survivors.push(row.survivor.into_bytes().into());
            self.distances.push(row.distance.cast_signed());
        }
    }

    /// Writes those of some parts of a row group, in order, behind its other columns.
    pub(super) fn write(
        parts: &[&Self],
        group: &mut SerializedRowGroupWriter<'_, File>,
    ) -> Result<(), ParquetError> {
        write::<Int64Type>(group, parts, |of| (&of.groups, &of.is_said))?;
        write::<Int64Type>(group, parts, |of| (&of.sizes, &of.is_said))?;
        write::<BoolType>(group, parts, |of| (&of.survive, &of.is_said))?;
        write::<ByteArrayType>(group, parts, |of| (&of.survivors, &of.is_said))?;
        write::<Int32Type>(group, parts, |of| (&of.distances, &of.is_said))?;
        write::<DoubleType>(group, parts, |of| (&of.similarities, &of.has_similarity))
    }
}

/// Writes the next column of a row group, of which each part gives the values and whether a row has one.
fn write<T: parquet::data_type::DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    parts: &[&GroupColumns],
    values_of: impl Fn(&GroupColumns) -> (&[T::T], &[i16]),
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.expect("the file has the columns of groups");
    for part in parts {
        let (values, is_there) = values_of(part);
        column
            .typed::<T>()
            .write_batch(values, Some(is_there), None)?;
    }
    column.close()
}
