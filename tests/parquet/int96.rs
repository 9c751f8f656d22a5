//! Parquet files with times of the type INT96, as Spark writes them. Arrow does not write these.

use std::path::Path;

use parquet::data_type::{ByteArray, ByteArrayType, Int64Type, Int96, Int96Type};
use parquet::file::properties::WriterProperties;

use crate::making::{column, write_groups};
use crate::support::TestResult;

/// Writes rows of the columns `key`, `fp`, `text` and `seen`. The last is INT96, of Unix seconds.
pub(crate) fn write_int96(path: &Path, rows: &[(&str, i64, &str, i64)]) -> TestResult {
    let schema = "message m { REQUIRED BYTE_ARRAY key (UTF8); REQUIRED INT64 fp; REQUIRED BYTE_ARRAY text (UTF8); \
                  REQUIRED INT96 seen; }";
    write_groups(
        path,
        schema,
        WriterProperties::default(),
        [rows],
        |group, rows| {
            let texts = |of: fn(&(&str, i64, &str, i64)) -> String| -> Vec<ByteArray> {
                let texts = rows.iter().map(|row| ByteArray::from(of(row).into_bytes()));
                texts.collect()
            };
            column::<ByteArrayType>(group, &texts(|it| it.0.to_owned()), None)?;
            let bits: Vec<i64> = rows.iter().map(|it| it.1).collect();
            column::<Int64Type>(group, &bits, None)?;
            column::<ByteArrayType>(group, &texts(|it| it.2.to_owned()), None)?;
            let times: Vec<Int96> = rows.iter().map(|it| int96(it.3)).collect();
            column::<Int96Type>(group, &times, None)
        },
    )?;
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
