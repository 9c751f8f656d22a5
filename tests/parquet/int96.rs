//! Parquet files with times of the type INT96, as Spark writes them. Arrow does not write these.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::support::TestResult;

/// Writes rows of the columns `key`, `fp`, `text` and `seen`. The last is INT96, of Unix seconds.
pub(crate) fn write_int96(path: &Path, rows: &[(&str, i64, &str, i64)]) -> TestResult {
    let schema = "message m { REQUIRED BYTE_ARRAY key (UTF8); REQUIRED INT64 fp; REQUIRED BYTE_ARRAY text (UTF8); \
                  REQUIRED INT96 seen; }";
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(
        File::create(path)?,
        Arc::new(parse_message_type(schema)?),
        properties,
    )?;
    let mut group = file.next_row_group()?;
    let texts = |of: fn(&(&str, i64, &str, i64)) -> String| -> Vec<ByteArray> {
        rows.iter()
            .map(|row| ByteArray::from(of(row).into_bytes()))
            .collect()
    };
    for index in 0..4 {
        let mut column = group.next_column()?.ok_or("there are four columns")?;
        match index {
            0 => {
                _ = column.typed::<ByteArrayType>().write_batch(
                    &texts(|it| it.0.to_owned()),
                    None,
                    None,
                )?;
            }
            1 => {
                let bits: Vec<i64> = rows.iter().map(|it| it.1).collect();
                column.typed::<Int64Type>().write_batch(&bits, None, None)?;
            }
            2 => {
                _ = column.typed::<ByteArrayType>().write_batch(
                    &texts(|it| it.2.to_owned()),
                    None,
                    None,
                )?;
            }
            _ => {
                let times: Vec<Int96> = rows.iter().map(|it| int96(it.3)).collect();
                column
                    .typed::<Int96Type>()
                    .write_batch(&times, None, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

/// The nanoseconds of the day, and the Julian day.
fn int96(seconds: i64) -> Int96 {
    let nanos = seconds.rem_euclid(86_400) as u64 * 1_000_000_000;
    let mut time = Int96::new();
    time.set_data(
        nanos as u32,
        (nanos >> 32) as u32,
        (seconds.div_euclid(86_400) + 2_440_588) as u32,
    );
    time
}
