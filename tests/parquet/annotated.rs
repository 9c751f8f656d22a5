//! Parquet files whose rows are told their groups, and the audit of those that were cleaned.

use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

use crate::inputs::{columns, lines, write};
use crate::making::write_batch;
use crate::support::{Folder, TestResult, assert_has, done, run};

const SPARK: &str = "org.apache.spark.sql.parquet.row.metadata";

/// All rows of a file, and the texts that it has of itself.
fn read(path: &Path) -> TestResult<(Vec<RecordBatch>, Vec<KeyValue>)> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let texts = builder.metadata().file_metadata().key_value_metadata();
    let texts = texts.cloned().unwrap_or_default();
    let batches = builder.with_batch_size(1 << 20).build()?;
    Ok((batches.collect::<Result<_, _>>()?, texts))
}

/// What is said of each row, as an object. `None` if nothing is said.
fn said(batch: &RecordBatch) -> Vec<Option<Value>> {
    let column = |name: &str| batch.column_by_name(name).expect("it has the column");
    let number = |name: &str, row| column(name).as_primitive::<Int64Type>().value(row);
    (0..batch.num_rows())
        .map(|row| {
            if column("dedup_group").is_null(row) {
                for name in [
                    "dedup_size",
                    "dedup_survives",
                    "dedup_survivor",
                    "dedup_distance",
                ] {
                    assert!(column(name).is_null(row), "{name}");
                }
                return None;
            }
            let similarity = column("dedup_similarity");
            let known = similarity.is_valid(row);
            Some(json!({
                "dedup_group": number("dedup_group", row),
                "dedup_size": number("dedup_size", row),
                "dedup_survives": column("dedup_survives").as_boolean().value(row),
                "dedup_survivor": column("dedup_survivor").as_string::<i32>().value(row),
                "dedup_distance": column("dedup_distance").as_primitive::<Int32Type>().value(row),
                "dedup_similarity":
                    known.then(|| similarity.as_primitive::<Float64Type>().value(row)),
            }))
        })
        .collect()
}

#[test]
fn rows_are_told_their_groups_in_columns_of_their_own() -> TestResult {
    let folder = Folder::new()?;
    let [input, output, jsonl, of_lines] =
        ["in.parquet", "out.parquet", "in.jsonl", "out.jsonl"].map(|name| folder.path(name));
    let batch = RecordBatch::try_from_iter(columns(2_000, "text"))?;
    let spark =
        r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}"#;
    let texts = vec![
        KeyValue::new(SPARK.to_owned(), spark.to_owned()),
        KeyValue::new("made.by".to_owned(), "a test".to_owned()),
    ];
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(700))
        .set_key_value_metadata(Some(texts));
    write_batch(&input, &batch, Some(properties.build()))?;
    fs::write(&jsonl, lines(2_000))?;
    done!("dedup", &input, "--output", &output, "--annotate");
    done!("dedup", &jsonl, "--output", &of_lines, "--annotate");

    let (batches, texts) = read(&output)?;
    let [annotated] = &batches[..] else {
        panic!("{} batches", batches.len());
    };
    // The columns that were there are as they were.
    let indexes: Vec<usize> = (0..batch.num_columns()).collect();
    assert_eq!(annotated.project(&indexes)?.columns(), batch.columns());
    assert_eq!(annotated.num_columns(), batch.num_columns() + 6);
    // The same is said as of lines.
    let expected = fs::read_to_string(&of_lines)?;
    let mut some_near = false;
    for (said, line) in said(annotated).into_iter().zip(expected.lines()) {
        let line: Value = serde_json::from_str(line)?;
        match said {
            None => assert_eq!(line.get("dedup_group"), None),
            Some(said) => {
                let fields = said.as_object().ok_or("no object")?;
                some_near |= said["dedup_survives"] == false;
                assert!(
                    fields.iter().all(|(name, value)| line[name] == *value),
                    "{said} {line}"
                );
            }
        }
    }
    assert!(some_near);
    // Spark reads the columns that it has kept, and no others.
    let of_spark = texts
        .iter()
        .find(|text| text.key == SPARK)
        .and_then(|text| text.value.clone());
    let of_spark: Value = serde_json::from_str(&of_spark.ok_or("nothing of Spark")?)?;
    assert_eq!(of_spark["fields"].as_array().map(Vec::len), Some(7));
    assert_eq!(of_spark["fields"][6]["name"], "dedup_similarity");
    assert!(texts.iter().any(|text| text.key == "made.by"));

    // Again, old columns are replaced.
    let again = folder.path("again.parquet");
    done!("dedup", &output, "--output", &again, "--annotate");
    let (twice, texts_of_twice) = read(&again)?;
    assert_eq!(twice[0].columns(), annotated.columns());
    assert_eq!(texts_of_twice.len(), texts.len());
    // Two files in one, of which the second has nothing new. One of them is annotated.
    let both = folder.path("both.parquet");
    done!("dedup", &output, &again, "--output", &both, "--annotate");
    let (both, _) = read(&both)?;
    assert_eq!(both.iter().map(RecordBatch::num_rows).sum::<usize>(), 4_000);
    Ok(())
}

#[test]
fn a_cleaned_parquet_file_is_audited() -> TestResult {
    let folder = Folder::new()?;
    let [input, output, list] = ["in.parquet", "out.parquet", "list"].map(|name| folder.path(name));
    write(&input, columns(2_000, "text"))?;
    done!("dedup", &input, "--output", &output, "--removed", &list);
    let report = done!(
        "audit",
        &output,
        "--removed",
        &list,
        "--input",
        &input,
        "--json"
    )
    .object()?;
    assert_has!(report, {"proven": true, "inputs": {"records": 2_000}});
    let ran = run!(
        "audit",
        &input,
        "--removed",
        &list,
        "--input",
        &input,
        "--json"
    )
    .expect(1)
    .object()?;
    assert!(ran["near_pairs"].as_u64() > Some(1_000), "{ran}");
    assert_eq!(ran["inputs"]["foreign"], ran["removed"]);
    Ok(())
}
